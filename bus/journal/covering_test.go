package journal_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"testing"
	"time"

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
			j, err := journal.Open(t.Context(), w.Conn("engine"), "test", stolen, journal.Options{Keys: func() *keyfile.Keys { return retired }, Archives: w.store})
			if err != nil {
				t.Fatal(err)
			}
			l, err := journal.OpenLedger(t.Context(), j, journal.LedgerOptions{Engine: "e1", Alone: true})
			if err != nil {
				t.Fatal(err)
			}
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
