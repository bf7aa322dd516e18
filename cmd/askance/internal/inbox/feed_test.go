package inbox

import (
	"context"
	"slices"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// changingEngine lists what changed since a sequence, as engines do.
type changingEngine struct {
	fakeEngine
	asked []toolcall.ListRequest
}

func (e *changingEngine) List(_ context.Context, r toolcall.ListRequest) (toolcall.ListReply, error) {
	e.asked = append(e.asked, r)
	out := toolcall.ListReply{Counts: map[toolcall.Phase]int{}}
	for _, c := range e.calls {
		if c.Open() || r.All {
			if out.Counts[c.Phase()]++; c.Seq > r.After {
				out.Calls = append(out.Calls, c)
			}
		}
	}
	slices.SortFunc(out.Calls, func(a, b *toolcall.Call) int { return int(a.Seq) - int(b.Seq) })
	return out, nil
}

// After the first list the feed requests only changes. It requests the whole list again only if
// the engine's count of calls differs twice.
func TestFeedReadsWhatChanged(t *testing.T) {
	e := &changingEngine{fakeEngine: fakeEngine{calls: map[toolcall.Key]*toolcall.Call{}}}
	for i, id := range []message.CallID{"a", "b", "c"} {
		c := asking(t, string(id), nil)
		c.Seq = uint64(i + 1)
		e.calls[c.Key] = c
	}
	var got []listedMsg
	f := newFeed(Config{Engine: e}, func(m tea.Msg) { got = append(got, m.(listedMsg)) })
	list := func(want int, all bool) {
		t.Helper()
		if err := f.list(t.Context()); err != nil {
			t.Fatal(err)
		}
		if last := got[len(got)-1]; len(last.calls) != want || (last.listed != nil) != all {
			t.Errorf("got %d calls, the whole list %v; want %d, %v", len(last.calls), last.listed != nil, want, all)
		}
	}
	change := func(id message.CallID, seq uint64, state message.ToolCallState) {
		for key, c := range e.calls {
			if key.Call == id {
				d := c.Clone()
				d.Seq, d.State = seq, state
				e.calls[key] = d
			}
		}
	}
	list(3, true)
	list(0, false)
	change("b", 9, message.ToolCallAllowed)
	list(1, false)
	change("a", 10, message.ToolCallFinished)
	list(1, false)
	if last := e.asked[len(e.asked)-1]; last.After != 9 || last.Sort != toolcall.SortChanged || !last.All {
		t.Errorf("the feed requested %+v", last)
	}
	list(0, false)
	for key := range e.calls {
		if key.Call == "c" { // as if it had finished and been removed
			delete(e.calls, key)
		}
	}
	list(0, false)
	list(0, false)
	list(1, true)
	list(1, false) // the finished call, which the whole list lacks
	list(0, false)
}
