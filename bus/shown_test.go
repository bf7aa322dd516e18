package bus_test

import (
	"bytes"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message/proof"
)

// The writer's mark over the shown part of a record equals what an auditor computes from the stored
// records. A reader with only the shown parts reads the redacted calls.
func TestShownIsWhatAuditorsCompute(t *testing.T) {
	s := newStoredWorld(t)
	s.run(path{name: "hidden", tool: hiddenJob, input: `{"pin":"4711-0815","n":1}`, result: "paid with 4711-0815"})
	s.run(path{name: "edited", tool: hiddenJob, input: `{"pin":"4711-0815","n":1}`, edit: `{"pin":"4711-0815","n":2}`, result: "done"})
	rep, err := bustest.LedgerOf(t, s.Journal("test")).Records(t.Context(), bus.RecordsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var auditor, reader proof.Expander
	marked, compact := 0, 0
	for _, r := range rep.Records {
		r.Base = nil
		rec, err := auditor.Expand(&r)
		if err != nil {
			t.Fatalf("record %d: %v", r.Seq, err)
		}
		if r.Base != nil {
			compact++
		}
		shown, what := proof.Shown(r.Body(), true, r.Base)
		if mark := r.Header[proof.HeaderShown]; what != nil {
			marked++
			if len(mark) != 1 || mark[0] != proof.MarkOf(shown, what) {
				t.Errorf("record %d is marked %v, an auditor computes %s", r.Seq, mark, proof.MarkOf(shown, what))
			}
		} else if mark != nil && rec.Call != nil {
			t.Errorf("record %d hides nothing and is marked %v", r.Seq, mark)
		}
		r.Redact()
		if bytes.Contains(r.Body(), []byte("4711-0815")) || string(r.Body()) == proof.RedactedWhole {
			t.Errorf("what is shown of record %d: %s", r.Seq, r.Body())
		}
		g, err := reader.Expand(&r)
		if err != nil {
			t.Fatalf("record %d as it is shown: %v", r.Seq, err)
		}
		have, err1 := strictjson.Marshal(g)
		want, err2 := strictjson.Marshal(rec.Redacted())
		if err1 != nil || err2 != nil || !bytes.Equal(have, want) {
			t.Errorf("record %d as it is shown reads as\n%s, want\n%s, %v, %v", r.Seq, have, want, err1, err2)
		}
	}
	if marked < 5 || compact < 7 {
		t.Errorf("%d records are marked and %d build on others: the test checks too little", marked, compact)
	}
}
