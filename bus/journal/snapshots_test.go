package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
)

// A snapshot is loaded as it was stored, even after more records, and is refused in any doubt: if it
// was changed or cut off, or belongs to another journal or to one that lost its end.
func TestSnapshotsFitTheirJournal(t *testing.T) {
	w := newLedgered(t)
	path := filepath.Join(t.TempDir(), "snapshots", "test")
	s := journal.NewSnapshots(w.l, path)
	if b, err := s.Load(t.Context()); b != nil || err != nil {
		t.Fatalf("without a file: %q, %v", b, err)
	}
	body := []byte("{\"v\":1}\nand bytes \x00\xff")
	if err := s.Save(t.Context(), 7, body); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bustest.MustAppend(t, w.j, bustest.CallRecord("later", bustest.CallKey("later"), message.ToolCallPending, "propose"), 0)
	w.sign()
	if b, err := s.Load(t.Context()); err != nil || !bytes.Equal(b, body) {
		t.Errorf("behind further records: %q, %v", b, err)
	}
	other := newLedgered(t)
	other.sign()
	for name, row := range map[string]struct {
		file []byte
		of   *journal.Ledger
	}{
		"empty":              {nil, w.l},
		"cut off":            {good[:len(good)-1], w.l},
		"changed":            {bytes.Replace(good, []byte("and"), []byte("ant"), 1), w.l},
		"another end":        {bytes.Replace(good, []byte(`"seq":7`), []byte(`"seq":8`), 1), w.l},
		"a later version":    {bytes.Replace(good, []byte(`{"v":1,`), []byte(`{"v":2,`), 1), w.l},
		"of another journal": {good, other.l},
	} {
		if err := os.WriteFile(path, row.file, 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := journal.NewSnapshots(row.of, path).Load(t.Context()); err == nil || b != nil {
			t.Errorf("%s: %q, %v; want an error", name, b, err)
		}
	}
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.stream(bus.StreamName("test")).SecureDeleteMsg(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	if b, err := s.Load(t.Context()); err == nil || b != nil {
		t.Errorf("after a loss: %q, %v; want an error", b, err)
	}
	if _, err := s.ReadRecords(t.Context(), []uint64{1, 7}); err == nil {
		t.Error("a lost record was read")
	}
	found, err := s.ReadRecords(t.Context(), []uint64{1, 9})
	if err != nil || found[0].Seq != 1 || found[1].Seq != 9 || found[1].Record == nil {
		t.Errorf("records: %+v, %v", found, err)
	}
}

// A copy of an earlier checkpoint at the end of the ledger does not hide the one that covers the snapshot.
func TestSnapshotBehindACopiedCheckpoint(t *testing.T) {
	w := newLedgered(t)
	w.sign()
	last := bustest.MustAppend(t, w.j, bustest.CallRecord("later", bustest.CallKey("later"), message.ToolCallPending, "propose"), 0)
	w.sign()
	nc := w.Conn("forger")
	copied := bustest.Genuine(t, nc, journal.LedgerName("test"), 1)
	copied.Header = nil
	bustest.Store(t, nc, copied)
	if err := journal.NewSnapshots(w.l, filepath.Join(t.TempDir(), "snapshot")).Save(t.Context(), last, []byte("{}")); err != nil {
		t.Error(err)
	}
}

// An unreadable record that a start from a snapshot does not read is found later, and the journal
// then refuses to continue.
func TestUnreadableRecordsBeforeASnapshot(t *testing.T) {
	t.Parallel()
	for _, damaged := range []bool{false, true} {
		s := filled(t, false)
		if damaged {
			change(t, s.block(), flip(0.5))
		}
		o := s.mustOpen(t)
		l, err := journal.OpenLedger(t.Context(), o.journal, journal.LedgerOptions{Engine: "e1"})
		if err != nil {
			t.Fatal(err)
		}
		err = journal.NewSnapshots(l, filepath.Join(s.dir, "snapshot")).Check(t.Context(), allCalls)
		_, later := o.journal.Append(t.Context(), bustest.CallRecord("later", bustest.CallKey("later"), message.ToolCallPending, "propose"), 0)
		if got := errors.Is(err, message.ErrDamaged) && errors.Is(later, message.ErrDamaged); got != damaged || !damaged && (err != nil || later != nil) {
			t.Errorf("damaged %t: the check says %v, the next write %v", damaged, err, later)
		}
	}
}

// A start reads many records in few requests: neighbours together, and what they build on
// with them. What was decided of their order when they were stored is not asked again.
func TestSnapshotReadsNeighboursTogether(t *testing.T) {
	b := bustest.New(t)
	j := b.JournalWith("test", journal.Options{Health: func() error { return nil }})
	const calls = 200
	var seqs []uint64
	for n := range calls {
		key := bustest.CallKey(fmt.Sprint("c", n))
		seq := bustest.MustAppend(t, j, bustest.CallRecord(fmt.Sprint("p", n), key, message.ToolCallPending, "propose"), 0)
		if n%2 == 0 {
			seq = bustest.MustAppend(t, j, bustest.CallRecord(fmt.Sprint("r", n), key, message.ToolCallFinished, "result"), seq)
		}
		seqs = append(seqs, seq)
	}
	nc := b.Conn("engine")
	again, err := journal.Open(t.Context(), nc, "test", b.Keys(), journal.Options{Health: func() error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	before := nc.Stats().OutMsgs
	found, err := journal.NewSnapshots(bustest.LedgerOf(t, again), filepath.Join(t.TempDir(), "test")).ReadRecords(t.Context(), seqs)
	if err != nil {
		t.Fatal(err)
	}
	sent := nc.Stats().OutMsgs - before
	for i, r := range found {
		if r.Invalid != nil || r.Seq != seqs[i] || r.Record.Call.Key != bustest.CallKey(fmt.Sprint("c", i)) || r.Record.Call.Open() != (i%2 == 1) {
			t.Fatalf("record %d is %+v, %v", seqs[i], r.Record, r.Invalid)
		}
	}
	if sent > calls/5 {
		t.Errorf("%d records took %d messages to the server", calls, sent)
	}
}
