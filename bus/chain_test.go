package bus_test

import (
	"errors"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// storedRecords reads the records of a journal as an auditor does.
func storedRecords(t *testing.T, j *bus.Journal) []proof.Record {
	t.Helper()
	rep, err := ledgerOf(t, j).Records(t.Context(), bus.RecordsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return rep.Records
}

func ledgerOf(t testing.TB, j *bus.Journal) *bus.Ledger {
	t.Helper()
	l, err := bus.OpenLedger(t.Context(), j, bus.LedgerOptions{Engine: "e1", Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Each event record contains the leaf of the previous one in its entity, from any engine.
func TestRecordsAreChained(t *testing.T) {
	b := bustest.New(t)
	one, two := b.Journal("test"), b.Journal("test")
	s1 := mustAppend(t, one, callRecord("f1", callKey("c1"), message.ToolCallPending, "propose"), 0)
	mustAppend(t, one, callRecord("x1", callKey("c2"), message.ToolCallPending, "propose"), 0)
	s2 := mustAppend(t, two, workRecord("f2", callKey("c1"), "web.search"), s1)
	s3 := mustAppend(t, two, callRecord("f3", callKey("c1"), message.ToolCallFinished, "result"), s2)
	records := storedRecords(t, one)
	history, err := one.History(t.Context(), callKey("c1"))
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
		if _, err := two.Append(t.Context(), callRecord("f4", callKey("c1"), message.ToolCallFinished, "result"), prev); !errors.Is(err, message.ErrConflict) {
			t.Errorf("Append after %d: %v, want a conflict", prev, err)
		}
	}
}
