package journal_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/nats-io/nats.go"
)

// A call's event records and the checkpoints over them are found among many others, and among
// messages that are not checkpoints, or copies of earlier ones.
func TestCallRecordsAndCovering(t *testing.T) {
	w := newLedgered(t)
	nc := w.Conn("forger")
	rubbish := func() {
		bustest.Store(t, nc, &nats.Msg{Subject: "askance.v1.test.proof.checkpoint", Data: []byte("rubbish")})
	}
	forge := func(at uint64) {
		t.Helper()
		s, err := proof.Seal(proof.Checkpoint{Space: "test", Number: 1, From: at, To: at, At: bustest.At, Engine: "e1"}, []proof.Entry{{Subject: "x"}}, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
		if err != nil {
			t.Fatal(err)
		}
		s.Checkpoint.KeyID = w.Keys().SigningID()
		b, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		bustest.Store(t, nc, &nats.Msg{Subject: "askance.v1.test.proof.checkpoint", Data: b})
	}
	w.sign()
	var prev uint64
	var want []uint64
	for i := range 12 {
		prev = bustest.MustAppend(t, w.j, bustest.CallRecord(fmt.Sprintf("late-%d", i), bustest.CallKey("late"), message.ToolCallPending, "hide"), prev)
		want = append(want, prev)
		if i%3 != 0 {
			w.sign()
		}
		switch i % 4 {
		case 0:
			rubbish()
		case 1:
			forge(1) // as if all later checkpoints were needed
		case 2:
			forge(1000)
		case 3:
			m := bustest.Genuine(t, nc, "ASKANCE_PROOF_test", 1)
			m.Header = nil
			bustest.Store(t, nc, m)
		}
	}
	records, err := journal.CallRecords(t.Context(), w.l, bustest.CallKey("late"))
	if err != nil || len(records) != 12 {
		t.Fatalf("CallRecords = %d records, %v", len(records), err)
	}
	for i, r := range records {
		if r.Seq != want[i] {
			t.Errorf("record %d is at %d, want %d", i, r.Seq, want[i])
		}
	}
	for _, seq := range append([]uint64{1, 5, 9}, want...) {
		sealed, err := journal.Covering(t.Context(), w.l, []uint64{seq})
		if err != nil || len(sealed) != 1 || !sealed[0].Checkpoint.Covers(seq) {
			t.Errorf("Covering(%d) = %d checkpoints, %v", seq, len(sealed), err)
		}
	}
	sealed, err := journal.Covering(t.Context(), w.l, append(want, 3))
	if err != nil || len(sealed) != 9 {
		t.Errorf("Covering all = %d checkpoints, %v", len(sealed), err)
	}
	if sealed, err = journal.Covering(t.Context(), w.l, []uint64{500}); err != nil || len(sealed) != 0 {
		t.Errorf("Covering an unsigned record = %d, %v", len(sealed), err)
	}
	if _, err := journal.CallRecords(t.Context(), w.l, bustest.CallKey("unknown")); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("CallRecords of no call: %v", err)
	}
}

// A checkpoint that the holder of a retired key stored later does not hide the one that engines signed:
// receipts are made, and archives.
func TestCoveringWithARetiredKey(t *testing.T) {
	for name, at := range map[string]func(end time.Time) time.Time{
		"backdated": func(end time.Time) time.Time { return end.Add(-time.Minute) },
		"late":      func(end time.Time) time.Time { return end.Add(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newArchiving(t)
			stolen := w.Keys()
			first, err := w.l.Checkpoint(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			end := first.At.Add(time.Millisecond)
			_, retired := w.retireKey(end)
			l := w.ledgerThrough(retired, net.Conn.Write)
			w.finish(inReply("later", "a"))
			hash, err := first.Hash()
			if err != nil {
				t.Fatal(err)
			}
			second := w.putCheckpoint(l, proof.Checkpoint{Number: 2, From: first.To + 1, To: first.To + 1, Prev: hash, At: end.Add(time.Hour)}, retired.Signer())
			for n := range uint64(4) { // so that a search from the middle meets one
				w.putCheckpoint(l, proof.Checkpoint{Number: 3 + n, From: 1, To: 1000, Prev: first.Root, At: at(end)}, stolen.Signer())
			}
			sealed, err := journal.Covering(t.Context(), l, []uint64{2, second.To})
			if err != nil || len(sealed) != 2 || sealed[0].Checkpoint.Number != 1 || sealed[1].Checkpoint.Number != 2 {
				t.Fatalf("covering: %d checkpoints, %v; want 1 and 2", len(sealed), err)
			}
			b, err := journal.NewProofs(l).MakeReceipt(t.Context(), inReply("r0", "a"))
			if err != nil {
				t.Fatal(err)
			}
			r, err := proof.DecodeReceipt(b)
			if err == nil {
				_, err = r.Check(retired.VerificationKeys(), retired.RetirementTimes())
			}
			if err != nil {
				t.Errorf("the receipt: %v", err)
			}
			if _, err := l.Archive(t.Context(), journal.Retention{By: "ann"}); err != nil {
				t.Errorf("archive: %v", err)
			}
		})
	}
}

// An engine searches once for the end of a retired key, also while no other key has signed since, and
// not because of checkpoints from long before.
func TestSearchForTheEndOfARetiredKey(t *testing.T) {
	for name, tt := range map[string]struct {
		after    time.Duration // from the checkpoints to the retirement
		searches bool
	}{"now": {0, true}, "a day later": {24 * time.Hour, false}} {
		t.Run(name, func(t *testing.T) {
			w := newArchiving(t)
			first, err := w.l.Checkpoint(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			end := first.At.Add(tt.after)
			stolen, retired := w.retireKey(end)
			var requests atomic.Int64
			l := w.ledgerThrough(retired, func(c net.Conn, b []byte) (int, error) {
				requests.Add(int64(bytes.Count(b, []byte("$JS.API.STREAM.MSG.GET."))))
				return c.Write(b)
			})
			read := func() (records []proof.Record, sent int64) {
				t.Helper()
				before := requests.Load()
				rep, err := l.Records(t.Context(), bus.RecordsRequest{V: 1, Of: bus.AuditCheckpoints})
				if err != nil {
					t.Fatal(err)
				}
				return rep.Records, requests.Load() - before
			}
			put := func(number uint64, at time.Time, keys *keyfile.Keys) {
				t.Helper()
				w.putCheckpoint(l, proof.Checkpoint{Number: number, From: 1, To: 9, Prev: first.Root, At: at}, keys.Signer())
			}
			for range 4 {
				put(2, first.At, stolen)
			}
			_, searching := read()
			_, after := read()
			if after > 2 || searching > after != tt.searches { // a page needs 2
				t.Errorf("%d requests, and then %d", searching, after)
			}
			put(3, end.Add(time.Hour), retired)
			put(4, first.At, stolen)
			records, _ := read()
			for i, r := range records {
				if late := i == 6 && tt.searches; late != (r.Invalid != "") {
					t.Errorf("checkpoint %d is invalid because %q, want late: %t", i, r.Invalid, late)
				}
			}
		})
	}
}

// ledgerThrough opens the ledger with other keys over a hooked connection.
func (a *archiving) ledgerThrough(keys *keyfile.Keys, write func(c net.Conn, b []byte) (int, error)) *journal.Ledger {
	a.t.Helper()
	nc, err := bus.ConnectInProcess(a.t.Context(), hooked{a.Server, write}, bus.ConnectOptions{Principal: "engine"})
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(nc.Close)
	j, err := journal.Open(a.t.Context(), nc, "test", a.Keys(), journal.Options{Keys: func() *keyfile.Keys { return keys }, Archives: a.store})
	if err != nil {
		a.t.Fatal(err)
	}
	l, err := journal.OpenLedger(a.t.Context(), j, journal.LedgerOptions{Engine: "e1", Alone: true})
	if err != nil {
		a.t.Fatal(err)
	}
	return l
}
