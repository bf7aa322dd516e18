package journal_test

import (
	"errors"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// storedRecords reads the records of a journal as an auditor does.
func storedRecords(t *testing.T, j *journal.Journal) []proof.Record {
	t.Helper()
	rep, err := bustest.LedgerOf(t, j).Records(t.Context(), bus.RecordsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return rep.Records
}

// Each event record contains the leaf of the previous one in its entity, from any engine.
func TestRecordsAreChained(t *testing.T) {
	b := bustest.New(t)
	one, two := b.Journal("test"), b.Journal("test")
	s1 := bustest.MustAppend(t, one, bustest.CallRecord("f1", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0)
	bustest.MustAppend(t, one, bustest.CallRecord("x1", bustest.CallKey("c2"), message.ToolCallPending, "propose"), 0)
	s2 := bustest.MustAppend(t, two, bustest.WorkRecord("f2", bustest.CallKey("c1"), "web.search"), s1)
	s3 := bustest.MustAppend(t, two, bustest.CallRecord("f3", bustest.CallKey("c1"), message.ToolCallFinished, "result"), s2)
	records := storedRecords(t, one)
	history, err := one.History(t.Context(), bustest.CallKey("c1"))
	if err != nil || len(history) != 3 {
		t.Fatalf("History = %v, %v", history, err)
	}
	want := []toolcall.Link{{}, *proof.LinkTo(s1, records[s1-1].Leaf()), *proof.LinkTo(s2, records[s2-1].Leaf())}
	for i, r := range history {
		if r.Record.Prev == nil || *r.Record.Prev != want[i] {
			t.Errorf("event record %d follows %+v, want %+v", i+1, r.Record.Prev, want[i])
		}
	}
	if first := records[1]; first.Entity == "" || first.Invalid != "" {
		t.Errorf("the first record of c2 is %+v", first)
	}
	// Wrong predecessors: of another call, or one that does not exist.
	for _, prev := range []uint64{2, s3 + 7} {
		if _, err := two.Append(t.Context(), bustest.CallRecord("f4", bustest.CallKey("c1"), message.ToolCallFinished, "result"), prev); !errors.Is(err, message.ErrConflict) {
			t.Errorf("Append after %d: %v, want a conflict", prev, err)
		}
	}
}
