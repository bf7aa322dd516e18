package journal_test

import (
	"errors"
	"testing"

	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/google/go-cmp/cmp"
)

func TestJournalKeepsRecords(t *testing.T) {
	b := bustest.New(t)
	j := b.Journal("test")
	key := bustest.CallKey("c1")
	first := bustest.CallRecord("f1", key, message.ToolCallPending, "propose")
	second := bustest.WorkRecord("f2", key, "web.search")
	third := bustest.CallRecord("f3", key, message.ToolCallFinished, "result")
	s1 := bustest.MustAppend(t, j, first, 0)
	s2 := bustest.MustAppend(t, j, second, s1)
	s3 := bustest.MustAppend(t, j, third, s2)
	if s1 != 1 || s2 != 2 || s3 != 3 {
		t.Errorf("sequences %d %d %d", s1, s2, s3)
	}
	last, err := j.Last(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if last.Seq != s3 || last.Key != key || last.Invalid != nil || last.Time.IsZero() {
		t.Errorf("Last = %+v", last)
	}
	if d := cmp.Diff(third, last.Record); d != "" {
		t.Errorf("the event record changed in the journal (-want +got):\n%s", d)
	}
	history, err := j.History(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if len(history) != 3 || history[0].Record.ID != "f1" || history[1].Record.ID != "f2" || history[2].Record.ID != "f3" {
		t.Errorf("History = %+v", history)
	}
}

func TestJournalUnknownKey(t *testing.T) {
	j := bustest.New(t).Journal("test")
	if _, err := j.Last(t.Context(), bustest.CallKey("none")); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("Last: %v, want not found", err)
	}
	if h, err := j.History(t.Context(), bustest.CallKey("none")); err != nil || len(h) != 0 {
		t.Errorf("History = %v, %v", h, err)
	}
	other := bustest.CallKey("c")
	other.Space = "elsewhere"
	if _, err := j.Last(t.Context(), other); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("Last in another space: %v, want not found", err)
	}
}

// Entities are independent: a call, its reply and its session each have their own compare-and-swap.
func TestJournalEntitiesAreIndependent(t *testing.T) {
	j := bustest.New(t).Journal("test")
	call := bustest.CallKey("c1")
	bustest.MustAppend(t, j, bustest.CallRecord("f1", call, message.ToolCallPending, "propose"), 0)
	bustest.MustAppend(t, j, bustest.CallRecord("f2", bustest.CallKey("c2"), message.ToolCallPending, "propose"), 0)
	reply := &toolcall.EventRecord{V: toolcall.RecordVersion, ID: "f3", At: bustest.At, Engine: "e", Reply: &toolcall.ReplyState{Key: call.ReplyKey(), Phase: toolcall.ReplyInterrupted}}
	session := &toolcall.EventRecord{V: toolcall.RecordVersion, ID: "f4", At: bustest.At, Engine: "e", Session: &toolcall.SessionState{Key: call.SessionKey(), Runtime: "rt"}}
	bustest.MustAppend(t, j, reply, 0)
	bustest.MustAppend(t, j, session, 0)
	for _, want := range []*toolcall.EventRecord{reply, session} {
		r, err := j.Last(t.Context(), want.Key())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, r.Record); d != "" {
			t.Errorf("Last(%s) (-want +got):\n%s", want.Key(), d)
		}
	}
	if h, err := j.History(t.Context(), call.ReplyKey()); err != nil || len(h) != 1 {
		t.Errorf("History of the reply has %d event records, %v; want its own one", len(h), err)
	}
}
