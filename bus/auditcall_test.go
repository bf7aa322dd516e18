package bus_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// A call's event records and the checkpoints over them are found among many others, and among
// messages that are not checkpoints.
func TestCallRecordsAndCovering(t *testing.T) {
	w := newLedgered(t)
	nc := w.Conn("forger")
	rubbish := func() {
		store(t, nc, &nats.Msg{Subject: "askance.v1.test.proof.checkpoint", Data: []byte("rubbish")})
	}
	w.sign()
	var prev uint64
	var want []uint64
	for i := range 12 {
		prev = mustAppend(t, w.j, callRecord(fmt.Sprintf("late-%d", i), callKey("late"), message.ToolCallPending, "hide"), prev)
		want = append(want, prev)
		if i%3 != 0 {
			w.sign()
		}
		if i%4 == 0 {
			rubbish()
		}
	}
	records, err := bus.CallRecords(t.Context(), w.l, callKey("late"))
	if err != nil || len(records) != 12 {
		t.Fatalf("CallRecords = %d records, %v", len(records), err)
	}
	for i, r := range records {
		if r.Seq != want[i] {
			t.Errorf("record %d is at %d, want %d", i, r.Seq, want[i])
		}
	}
	for _, seq := range append([]uint64{1, 5, 9}, want...) {
		sealed, err := bus.Covering(t.Context(), w.l, []uint64{seq})
		if err != nil || len(sealed) != 1 || !sealed[0].Checkpoint.Covers(seq) {
			t.Errorf("Covering(%d) = %d checkpoints, %v", seq, len(sealed), err)
		}
	}
	sealed, err := bus.Covering(t.Context(), w.l, append(want, 3))
	if err != nil || len(sealed) != 9 {
		t.Errorf("Covering all = %d checkpoints, %v", len(sealed), err)
	}
	if sealed, err = bus.Covering(t.Context(), w.l, []uint64{500}); err != nil || len(sealed) != 0 {
		t.Errorf("Covering an unsigned record = %d, %v", len(sealed), err)
	}
	if _, err := bus.CallRecords(t.Context(), w.l, callKey("unknown")); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("CallRecords of no call: %v", err)
	}
}

// Values that rules hide do not leave the engine on the auditors' subject, but are still proved.
func TestAuditIsRedacted(t *testing.T) {
	w := newWorld(t)
	j := w.Journal("test")
	l := ledgerOf(t, j)
	rec := callRecord("f1", callKey("c1"), message.ToolCallPending, "propose")
	rec.Call.Input, rec.Call.Redact = `{"pin":"4711-0815"}`, []string{"args.pin"}
	mustAppend(t, j, rec, 0)
	if _, err := j.AppendEvent(t.Context(), "rt", callKey("").ReplyKey(), []message.RawJSON{message.RawJSON(`{"type":"TOOL_CALL_DELTA","tool_call_id":"c1","delta":"4711-0815"}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.engine(bus.ServiceOptions{Ledger: l})
	eve := w.client(toolcall.RoleAuditor, "eve")
	rep, err := eve.Records(t.Context(), bus.RecordsRequest{})
	if err != nil || len(rep.Records) != 2 {
		t.Fatalf("Records = %+v, %v", rep, err)
	}
	for _, r := range rep.Records {
		if r.BodyHash.IsZero() || len(r.Redacted) == 0 || string(r.Body()) == "" || strings.Contains(r.Text, "4711-0815") {
			t.Errorf("the record is %+v", r)
		}
	}
	if r := verifyWith(t, eve, toolcall.NewKeySet(w.Keys().Public())); !r.OK || r.Redacted != 2 {
		t.Errorf("verify = %+v", r)
	}
}

// If rules hide only a path that a call's arguments do not have, all of its records may be shown,
// and a receipt that an auditor makes over the network shows them.
func TestReceiptOfWholeRecordsOverTheNetwork(t *testing.T) {
	w := newWorld(t)
	sp := testSpace()
	sp.rules = []permission.Rule{{Name: "money", Tools: []string{pay}, Behavior: message.BehaviorAsk, Quorum: 2, Redact: []string{"args.pin"}}}
	j := w.Journal("test")
	w.engineOf(sp, bus.ServiceOptions{Ledger: ledgerOf(t, j)}, func(s api.Caller) api.Caller { return s })
	bot, ann, eve := w.client(toolcall.RoleRuntime, "bot"), w.client(toolcall.RoleApprover, "ann"), w.client(toolcall.RoleAuditor, "eve")
	c := propose(t, bot, toolCall("c1", pay, `{"n":1}`))[0]
	if _, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: c.Key, Digest: c.Digest, Kind: toolcall.ResponseApprove}); err != nil {
		t.Fatal(err)
	}
	r, err := bus.MakeReceipt(t.Context(), eve, c.Key)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Records) != 2 || !strings.Contains(r.Records[1].Text, `"change"`) || r.Records[1].Redacted != nil {
		t.Errorf("the receipt has the records %+v", r.Records)
	}
}
