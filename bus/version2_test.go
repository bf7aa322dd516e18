package bus_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go/jetstream"
)

// recorded2 is a backup made by the last release with complete event records. In the reply r1 the
// call done is finished, asked and hidden ask, queued waits for a worker, and the worker wk has
// started the call started.
const recorded2 = "testdata/version2"

// restoreRecorded restores a recorded journal.
func restoreRecorded(t *testing.T, folder string) *world {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "keys.json") // key files must be private
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := keyfile.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.UseKeys(keys)
	if _, err := journal.Restore(t.Context(), w.Conn("restore"), "test", filepath.Join(folder, "backup"), nil); err != nil {
		t.Fatal(err)
	}
	// The journal must continue as that release left it, not as a restored backup.
	config := bustest.Stream(t, w.Bus).CachedInfo().Config
	delete(config.Metadata, "askance.restored")
	js, err := jetstream.New(w.Conn("admin"))
	if err == nil {
		_, err = js.UpdateStream(t.Context(), config)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// versions returns the versions of the call's stored records, in their order.
func versions(t *testing.T, l *journal.Ledger, id message.CallID) string {
	t.Helper()
	records, err := journal.CallRecords(t.Context(), l, bustest.CallKey(string(id)))
	if err != nil {
		t.Fatal(err)
	}
	out := ""
	for i := range records {
		switch body := records[i].Body(); {
		case bytes.HasPrefix(body, []byte(ofVersionPrefix(toolcall.RecordVersion))):
			out += "2"
		case bytes.HasPrefix(body, []byte(ofVersionPrefix(toolcall.StoredVersion))):
			out += "3"
		default:
			t.Fatalf("record %d begins with neither version: %.40s", records[i].Seq, body)
		}
	}
	return out
}

func ofVersionPrefix(v int) string { return "{" + ofVersion(v) + "," }

// receiptOf makes the receipt of a call and checks it like an auditor with only the public key.
func receiptOf(t *testing.T, w *world, l *journal.Ledger, id message.CallID) *proof.Checked {
	t.Helper()
	records, err := journal.CallRecords(t.Context(), l, bustest.CallKey(string(id)))
	if err != nil {
		t.Fatal(err)
	}
	var seqs []uint64
	for i := range records {
		bus.RedactRecord(&records[i])
		seqs = append(seqs, records[i].Seq)
	}
	sealed, err := journal.Covering(t.Context(), l, seqs)
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := proof.MakeReceipt(bustest.CallKey(string(id)), records, sealed, time.Now())
	if err != nil {
		t.Fatalf("the receipt of %s: %v", id, err)
	}
	b, err := receipt.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(b, []byte("4711-0815")) {
		t.Errorf("the receipt of %s shows what rules hide", id)
	}
	checked, err := proof.CheckReceipt(b, toolcall.NewKeySet(w.Keys().Public()), nil)
	if err != nil {
		t.Fatalf("the receipt of %s: %v", id, err)
	}
	return checked
}

// The engine continues a journal of complete records, and everything in it stays proved.
func TestJournalOfVersion2IsContinued(t *testing.T) {
	w := restoreRecorded(t, recorded2)
	l := bustest.LedgerOf(t, w.Journal("test"))
	verify := func(when string) {
		t.Helper()
		if _, err := l.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := bustest.VerifyWith(t, l, toolcall.NewKeySet(w.Keys().Public())); !r.OK {
			t.Errorf("%s: %v", when, r.Findings)
		}
	}
	verify("as it was restored")
	for id, want := range map[message.CallID]string{"done": "2222", "asked": "2", "hidden": "2", "started": "222", "queued": "22"} {
		if got := versions(t, l, id); got != want {
			t.Errorf("the restored records of %s have the versions %s, want %s", id, got, want)
		}
		receiptOf(t, w, l, id)
	}
	w.engineOf(storedSpace(), bus.ServiceOptions{})
	bot, ann, ops := w.client(toolcall.RoleRuntime, "bot"), w.client(toolcall.RoleApprover, "ann"), w.client(toolcall.RoleOperator, "ops")
	show := func(id message.CallID) *toolcall.Call {
		t.Helper()
		rep, err := ops.Show(t.Context(), toolcall.ShowRequest{Key: bustest.CallKey(string(id))})
		if err != nil {
			t.Fatal(err)
		}
		return rep.Call
	}
	for _, id := range []message.CallID{"asked", "hidden"} {
		if _, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: bustest.CallKey(string(id)), Digest: show(id).Digest, Kind: toolcall.ResponseApprove}); err != nil {
			t.Fatalf("approve %s: %v", id, err)
		}
	}
	if _, err := w.worker(askedJob, "wk").Result(t.Context(), toolcall.ResultRequest{Key: bustest.CallKey("started"), Attempt: 1, Claim: "claim-started", Result: success("started", askedJob, "done")}); err != nil {
		t.Fatalf("the result of started: %v", err)
	}
	work := func(tool string, ids ...message.CallID) {
		t.Helper()
		wk := w.worker(tool, "wk")
		for begun := 0; begun < len(ids); {
			task := next(t, wk)
			c := task.Record.Call
			start := toolcall.StartRequest{Key: c.Key, Attempt: c.Attempt.Number, Claim: "claim-" + string(c.Call), Nonce: c.Attempt.Grant.Nonce}
			_, err := wk.Start(t.Context(), start)
			if ackErr := task.Ack(t.Context()); ackErr != nil {
				t.Fatal(ackErr)
			}
			if errors.Is(err, message.ErrSuperseded) {
				continue // its offer ended long ago, and the engine made another
			}
			if err != nil {
				t.Fatalf("start %s: %v", c.Call, err)
			}
			begun++
			if _, err := wk.Result(t.Context(), toolcall.ResultRequest{Key: c.Key, Attempt: start.Attempt, Claim: start.Claim, Result: success(string(c.Call), tool, "done")}); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range finished(t, bot, ids...) {
			if c.Result.Output.Text != "done" {
				t.Errorf("%s ended with %+v", c.Call, c.Result)
			}
		}
	}
	work(askedJob, "asked", "queued")
	work(hiddenJob, "hidden")
	finished(t, bot, "done", "started")
	for id, want := range map[message.CallID]string{"done": "2222", "asked": "2333", "hidden": "2333", "started": "2223"} {
		if got := versions(t, l, id); got != want {
			t.Errorf("the records of %s have the versions %s, want %s", id, got, want)
		}
	}
	if got := bustest.Stream(t, w.Bus).CachedInfo().Config.Metadata["askance.records"]; got != fmt.Sprint(toolcall.StoredVersion) {
		t.Errorf("the journal has records of version %s for engines of the release before, which would start on it", got)
	}
	rep, err := l.Records(t.Context(), bus.RecordsRequest{V: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rep.Records { // such an engine, still running, takes others for forged and writes over them
		if strings.HasPrefix(r.Text, ofVersionPrefix(toolcall.RecordVersion)) && (len(r.Header[journal.HeaderKind]) != 1 || len(r.Header[journal.HeaderShown]) != 1) {
			t.Errorf("the record %d on %s has version 2 and the headers %v", r.Seq, r.Subject, r.Header)
		}
	}
	verify("with records of both versions")
	want := map[message.CallID]*toolcall.Call{}
	for _, id := range []message.CallID{"done", "asked", "hidden", "started", "queued"} {
		if checked := receiptOf(t, w, l, id); checked == nil {
			t.Errorf("no receipt of %s", id)
		}
		want[id] = show(id)
	}
	w.engineOf(storedSpace(), bus.ServiceOptions{}) // reads the journal from its beginning
	fresh := w.Journal("test")
	for id, c := range want {
		r, err := fresh.Last(t.Context(), bustest.CallKey(string(id)))
		if err != nil || r.Record.Call.State != c.State || r.Record.Call.Digest != c.Digest || r.Record.Call.Records != c.Records {
			t.Errorf("Last of %s = %+v, %v", id, r.Record, err)
		}
	}
}
