package bus_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// For calls that several people edit in any order, with and without hidden arguments, each record
// shows only what may be shown, and each receipt is valid.
func TestRandomEdits(t *testing.T) {
	w := newWorld(t)
	w.engineOf(editedSpace(), bus.ServiceOptions{})
	s := &storedWorld{world: w, t: t, bot: w.client(toolcall.RoleRuntime, "bot"), ann: w.client(toolcall.RoleApprover, "ann")}
	people := []*bus.Client{s.ann, w.client(toolcall.RoleApprover, "bob"), w.client(toolcall.RoleApprover, "cyd")}
	rnd := rand.New(rand.NewPCG(1, 2))
	tools := []string{secretJob, "two.job", "twohidden.job", againJob, "remember.job", askedJob, hiddenJob}
	input := func() string {
		switch rnd.IntN(3) {
		case 0:
			return fmt.Sprintf(`{"n":%d}`, rnd.IntN(3))
		case 1:
			return fmt.Sprintf(`{"pin":"4711-%04d","n":%d}`, rnd.IntN(2), rnd.IntN(3))
		}
		return fmt.Sprintf(`{"n":%d, "x":"ü<>"}`, rnd.IntN(3))
	}
	var ids []message.CallID
	edits := 0
	for i := range 70 {
		id, job := fmt.Sprint("c", i), tools[i%len(tools)]
		ids = append(ids, message.CallID(id))
		r, err := s.bot.Propose(t.Context(), toolcall.ProposeRequest{Session: "s1", Reply: "r1", Calls: []message.ToolCallBlock{toolCall(id, job, input())}})
		if err != nil {
			t.Fatal(err)
		}
		c := r.Calls[0]
		for range 14 {
			if c.State != message.ToolCallAsking {
				break
			}
			resp := toolcall.Response{Key: c.Key, Digest: c.Digest, Kind: toolcall.ResponseApprove}
			switch rnd.IntN(10) {
			case 0:
				resp.Kind = toolcall.ResponseSkip
			case 1:
				resp.Kind, resp.To = toolcall.ResponseDelegate, "bob"
			case 2:
			default:
				resp.Input = new(input())
				if job == "remember.job" && rnd.IntN(2) == 0 {
					resp.Remember = &toolcall.StandingTerms{}
				}
			}
			// Some may not approve, or approve twice.
			if next, err := people[rnd.IntN(len(people))].SubmitResponse(t.Context(), resp); err == nil {
				if c = next; resp.Input != nil {
					edits++
				}
			}
		}
		if c.State == message.ToolCallSubmitted {
			s.work(path{tool: job, result: "done 4711"}, id)
		}
	}
	if edits < 70 {
		t.Errorf("only %d edits", edits)
	}
	l := bustest.LedgerOf(t, w.Journal("test"))
	if _, err := l.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := bustest.VerifyWith(t, l, toolcall.NewKeySet(w.Keys().Public())); !r.OK {
		t.Errorf("the journal is not proved: %v", r.Findings)
	}
	compareShown(t, l)
	for _, id := range ids {
		t.Run(string(id), func(t *testing.T) { receiptOf(t, w, l, id) })
	}
}

// compareShown compares what readers get from each shown record with what may be shown of it.
func compareShown(t *testing.T, l *journal.Ledger) {
	t.Helper()
	rep, err := l.Records(t.Context(), bus.RecordsRequest{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var auditor, reader proof.Expander
	for _, r := range rep.Records {
		r.Base = nil
		whole, err := auditor.Expand(&r)
		if err != nil {
			t.Fatalf("record %d: %v", r.Seq, err)
		}
		if whole.Call == nil {
			continue
		}
		if r.Redact(); whole.Call.Hides() && bytes.Contains(r.Body(), []byte("4711-")) {
			t.Errorf("record %d shows a secret: %s", r.Seq, r.Body())
		}
		shown, err := reader.Expand(&r)
		if err != nil {
			t.Errorf("record %d as it is shown: %v", r.Seq, err)
			continue
		}
		got, err := strictjson.Marshal(shown)
		if err != nil {
			t.Fatal(err)
		}
		want, err := strictjson.Marshal(whole.Redacted())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("record %d of %s as it is shown (-want +got):\n%s", r.Seq, whole.Call.Tool, diff)
		}
	}
}
