package journal_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// largeCall is the first event record of a call with an input of 32 KiB.
func largeCall(n int) *toolcall.EventRecord {
	rec := bustest.CallRecord(bustest.ID(n), bustest.CallKey(bustest.ID(n)), message.ToolCallPending, "propose")
	rec.Call.Input = `"` + strings.Repeat("x", 32<<10) + `"`
	return rec
}

// fillStore stores large calls until the journal accepts no new one, and returns how many it
// accepted.
func fillStore(t *testing.T, j *journal.Journal, most int) (taken int) {
	t.Helper()
	for ; taken < most; taken++ {
		_, err := j.Append(t.Context(), largeCall(taken), 0)
		if errors.Is(err, message.ErrFull) {
			return taken
		}
		if err != nil {
			t.Fatalf("call %d: %v, want full", taken, err)
		}
	}
	t.Fatalf("the store takes more than %d calls", most)
	return 0
}

// A store with a limit keeps head-room for open calls, although no stream has its own bound.
func TestStoreKeepsHeadRoomByDefault(t *testing.T) {
	b := bustest.New(t, bustest.With(func(o *embed.Options) { o.MaxStore = 4 << 20 }))
	j := b.Journal("test")
	open := bustest.CallKey("open")
	prev := bustest.MustAppend(t, j, bustest.CallRecord("open", open, message.ToolCallAsking, "ask"), 0)
	taken := fillStore(t, j, 200)
	if free := b.Room().Free; free < 256<<10 || free > 600<<10 {
		t.Errorf("%d calls leave %d bytes, want a tenth of 4 MiB", taken, free)
	}
	if _, err := j.AppendEvent(t.Context(), "rt", open.ReplyKey(), events(1)); !errors.Is(err, message.ErrFull) {
		t.Errorf("an event in the head-room: %v, want full", err)
	}
	for n := range 8 {
		rec := bustest.CallRecord("more"+bustest.ID(n), open, message.ToolCallAllowed, "allow")
		rec.Call.Input = `"` + strings.Repeat("x", 32<<10) + `"`
		prev = bustest.MustAppend(t, j, rec, prev)
	}
	bustest.MustAppend(t, j, bustest.CallRecord("done", open, message.ToolCallFinished, "result"), prev)
}

// The space that open calls still need is also kept free.
func TestStoreKeepsWhatOpenCallsNeed(t *testing.T) {
	b := bustest.New(t, bustest.With(func(o *embed.Options) { o.MaxStore = 8 << 20 }))
	j := b.Journal("test")
	taken := int64(0)
	j.Reserve(func() int64 { return taken * 3 * (36 << 10) })
	for ; taken < 250; taken++ {
		if _, err := j.Append(t.Context(), largeCall(int(taken)), 0); err != nil {
			if !errors.Is(err, message.ErrFull) {
				t.Fatal(err)
			}
			break
		}
	}
	for n := range int(taken) { // every one of them can be approved, started and finished
		prev := uint64(n + 1)
		for _, step := range []string{"approve", "start", "result"} {
			rec := largeCall(n)
			rec.ID, rec.Call.Records = step+rec.ID, rec.Call.Records+1
			prev = bustest.MustAppend(t, j, rec, prev)
		}
	}
	if taken < 20 {
		t.Errorf("only %d calls were taken", taken)
	}
}
