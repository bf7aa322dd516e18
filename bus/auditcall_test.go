package bus_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// Values that rules hide do not leave the engine on the auditors' subject, but are still proved.
func TestAuditIsRedacted(t *testing.T) {
	w := newWorld(t)
	j := w.Journal("test")
	l := bustest.LedgerOf(t, j)
	rec := bustest.CallRecord("f1", bustest.CallKey("c1"), message.ToolCallPending, "propose")
	rec.Call.Input, rec.Call.Redact = `{"pin":"4711-0815"}`, []string{"args.pin"}
	bustest.MustAppend(t, j, rec, 0)
	if _, err := j.AppendEvent(t.Context(), "rt", bustest.CallKey("").ReplyKey(), []message.RawJSON{message.RawJSON(`{"type":"TOOL_CALL_DELTA","tool_call_id":"c1","delta":"4711-0815"}`)}); err != nil {
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
	if r := bustest.VerifyWith(t, eve, toolcall.NewKeySet(w.Keys().Public())); !r.OK || r.Redacted != 2 {
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
	w.engineOf(sp, bus.ServiceOptions{Ledger: bustest.LedgerOf(t, j)}, func(s api.Caller) api.Caller { return s })
	bot, ann, eve := w.client(toolcall.RoleRuntime, "bot"), w.client(toolcall.RoleApprover, "ann"), w.client(toolcall.RoleAuditor, "eve")
	c := propose(t, bot, toolCall("c1", pay, `{"n":1}`))[0]
	if _, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: c.Key, Digest: c.Digest, Kind: toolcall.ResponseApprove}); err != nil {
		t.Fatal(err)
	}
	r, err := journal.MakeReceipt(t.Context(), eve, c.Key)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Records) != 2 || !strings.Contains(r.Records[1].Text, `"change"`) || r.Records[1].Redacted != nil {
		t.Errorf("the receipt has the records %+v", r.Records)
	}
}

// An auditor with only an auditor's rights reads and verifies over NATS; no other
// role can.
func TestAuditOverNATS(t *testing.T) {
	w := withPeople(t)
	j := w.Journal("test")
	l := bustest.LedgerOf(t, j)
	w.engine(bus.ServiceOptions{Ledger: l})
	rt := w.clientOn(as(t, w, people[0]), toolcall.RoleRuntime, "rt")
	propose(t, rt, toolCall("c1", echo, `{"n":1}`))
	finished(t, rt, "c1")
	eve := w.clientOn(as(t, w, people[3]), toolcall.RoleAuditor, "eve")
	c, err := eve.Checkpoint(t.Context())
	if err != nil || c == nil || c.To < 3 {
		t.Fatalf("Checkpoint = %+v, %v", c, err)
	}
	if r := bustest.VerifyWith(t, eve, toolcall.NewKeySet(w.Keys().Public())); !r.OK || r.EventRecords != 3 || r.Uncovered != 0 {
		t.Errorf("verify = %+v", r)
	}
	for _, role := range []toolcall.Role{toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleRuntime} {
		if _, err := w.client(role, "x").Records(t.Context(), bus.RecordsRequest{}); err == nil || !strings.Contains(err.Error(), "cannot do this") {
			t.Errorf("a %s reads records: %v", role, err)
		}
	}
}

// A login of an engine without its keys can store records that no engine wrote, and a checkpoint
// covers everything that is stored. Nevertheless, no receipt or export proves them.
func TestForgedCallIsNotProved(t *testing.T) {
	forger := newWorld(t)
	theirs := bustest.LedgerOf(t, forger.Journal("test"))
	forger.engine(bus.ServiceOptions{Ledger: theirs})
	bot, ann := forger.client(toolcall.RoleRuntime, "bot"), forger.client(toolcall.RoleApprover, "ann")
	c := propose(t, bot, toolCall("c1", pay, `{"n":1}`))[0]
	if _, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: c.Key, Digest: c.Digest, Kind: toolcall.ResponseReject}); err != nil {
		t.Fatal(err)
	}
	forged, err := journal.CallRecords(t.Context(), theirs, c.Key)
	if err != nil {
		t.Fatal(err)
	}

	w := newWorld(t)
	l := bustest.LedgerOf(t, w.Journal("test"))
	for seq := range forged[len(forged)-1].Seq { // the session, and the call
		bustest.Store(t, w.Conn("forger"), bustest.Genuine(t, forger.Conn("forger"), "ASKANCE_test", seq+1))
	}
	if _, err := l.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	sealed, err := journal.Covering(t.Context(), l, []uint64{forged[0].Seq, forged[len(forged)-1].Seq})
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := proof.MakeReceipt(c.Key, forged, sealed, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b, err := receipt.Encode()
	if err != nil {
		t.Fatal(err)
	}
	keys := toolcall.NewKeySet(w.Keys().Public())
	if checked, err := proof.CheckReceipt(b, keys, nil); err == nil {
		t.Errorf("a receipt proves that %s responded %s", checked.Story.Votes[0].By, checked.Story.Votes[0].Kind)
	}
	for name, marked := range map[string]bool{"the journal": true, "an export without the marks of its reader": false} {
		if r := bustest.VerifyWith(t, reader{l, marked}, keys); len(r.Findings) != int(r.Records) || slices.ContainsFunc(r.Findings, func(f proof.Finding) bool { return f.Kind != proof.Inserted }) {
			t.Errorf("%s has %d records that no engine wrote, and the findings %v", name, r.Records, r.Findings)
		}
	}
}

// reader reads a journal, and removes the marks of records that no engine wrote unless marked is set.
type reader struct {
	journal.Auditing
	marked bool
}

func (r reader) Records(ctx context.Context, q bus.RecordsRequest) (bus.RecordsReply, error) {
	rep, err := r.Auditing.Records(ctx, q)
	for i := range rep.Records {
		if !r.marked {
			rep.Records[i].Invalid, rep.Records[i].Altered = "", false
		}
	}
	return rep, err
}
