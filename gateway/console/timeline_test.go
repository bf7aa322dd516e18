package console

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// longSession is a client with one session of many events. Between two of its records are gap
// records of other sessions.
type longSession struct {
	engine.Client
	t      *testing.T
	events uint64
	gap    uint64
	call   *toolcall.Call
	reads  int
}

func (l *longSession) Events(_ context.Context, r toolcall.EventsRequest) (toolcall.EventsReply, error) {
	l.reads++
	out := toolcall.EventsReply{Next: r.After}
	for n := r.After/l.gap + 1; n <= l.events && len(out.Events) < r.Limit; n++ {
		at := message.EventHeader{ID: "e", Reply: "r1", CreatedAt: "2026-03-01T12:00:00Z"}
		var ev message.Event = &message.TextBlockDelta{EventHeader: at, BlockID: fmt.Sprint("b", n), Delta: fmt.Sprint("event ", n)}
		switch n * l.gap {
		case l.call.First - 2*l.gap:
			ev = &message.ToolCallStart{EventHeader: at, ToolCallID: l.call.Call, ToolCallName: "pay"}
		case l.call.First - l.gap:
			ev = &message.ToolCallDelta{EventHeader: at, ToolCallID: l.call.Call, Delta: `{"cents":1}`}
		}
		raw, err := json.Marshal(ev)
		if err != nil {
			l.t.Fatal(err)
		}
		out.Events = append(out.Events, toolcall.SequencedEvent{Seq: n * l.gap, Event: raw})
		out.Next = n * l.gap
	}
	return out, nil
}

func (l *longSession) List(context.Context, toolcall.ListRequest) (toolcall.ListReply, error) {
	c := l.call.Clone()
	c.Summary = "pay cents 1"
	return toolcall.ListReply{Calls: []*toolcall.Call{c}}, nil
}

// The page of a call in a long session shows what happened around the call, no matter where the
// call is in the session and how many records other sessions have.
func TestTimelineOfALongSession(t *testing.T) {
	const events = 60_000
	for _, gap := range []uint64{1, 50} {
		for _, at := range []uint64{10, 30_000, events - 10} {
			t.Run(fmt.Sprintf("call %d of %d, every %d records", at, events, gap), func(t *testing.T) {
				call := &toolcall.Call{Key: toolcall.Key{Space: "s", Session: "s1", Reply: "r1", Call: "c1"}, Tool: "pay", First: at * gap}
				l := &longSession{t: t, events: events, gap: gap, call: call}
				got, err := readTimeline(t.Context(), l, call)
				if err != nil {
					t.Fatal(err)
				}
				this := slices.IndexFunc(got.Items, func(i item) bool { return i.This })
				if this < 0 || got.Proposed != `{"cents":1}` {
					t.Fatalf("the call is not among %d items, proposed %q", len(got.Items), got.Proposed)
				}
				if about := got.Items[this].About; about != "cents 1" {
					t.Errorf("the item of the call says %q", about)
				}
				if len(got.Items) != shownItems || got.Earlier != (at > 100) || got.Later != (at+100 < events) {
					t.Errorf("%d items, earlier %v, later %v", len(got.Items), got.Earlier, got.Later)
				}
				if l.reads > 120 {
					t.Errorf("%d pages were read", l.reads)
				}
			})
		}
	}
}

// manyCalls is a client that has a session with many calls.
type manyCalls struct {
	engine.Client
	n int
}

func (m manyCalls) List(_ context.Context, r toolcall.ListRequest) (toolcall.ListReply, error) {
	var out toolcall.ListReply
	from := 0
	if r.Cursor != "" {
		_, _ = fmt.Sscan(r.Cursor, &from)
	}
	for i := from; i < min(from+500, m.n); i++ {
		at := i
		if r.Sort == "-"+toolcall.SortProposed {
			at = m.n - 1 - i
		}
		out.Calls = append(out.Calls, &toolcall.Call{Key: toolcall.Key{Space: "s", Session: "s1", Reply: "r1", Call: message.CallID(fmt.Sprint("c", at))}, Tool: "pay", Runtime: "bot"})
	}
	if from+500 < m.n {
		out.Cursor = fmt.Sprint(from + 500)
	}
	return out, nil
}

func (m manyCalls) Show(_ context.Context, r toolcall.ShowRequest) (toolcall.ShowReply, error) {
	s := historyOf(r.Call, "0s runtime bot propose ask")
	s.Call.Key = r.Key
	return s, nil
}

// If a session has more calls than a page reads, its timeline shows the last calls.
func TestTimelineOfManyCalls(t *testing.T) {
	v := timelineView{Session: "s1"}
	v.Now = began
	if err := v.read(t.Context(), manyCalls{n: 5600}, "s", nil); err != nil {
		t.Fatal(err)
	}
	if got := v.Chart.Rows[len(v.Chart.Rows)-1].ID; got != domID(toolcall.Key{Space: "s", Session: "s1", Reply: "r1", Call: "c5599"}) || v.Calls != "the last 5,000" {
		t.Errorf("the last row is %s, and the page describes the calls as %s", got, v.Calls)
	}
}
