package journal_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// forked is a journal in which the records 3 and 4 of a call follow the record 2.
type forked struct {
	*ledgered
	won, lost error // of the writers
}

// newForked begins the call with the given number of records before the fork.
func newForked(t *testing.T, before int) *forked {
	w := &forked{ledgered: &ledgered{Bus: bustest.New(t), t: t}}
	f := bustest.NewForker(w.Conn("forker"))
	one, two := w.JournalWith("test", journal.Options{Publisher: f}), w.JournalWith("test", journal.Options{Publisher: f})
	w.j = one
	w.l = bustest.LedgerOf(t, one)
	bustest.MustAppend(t, one, bustest.CallRecord("other", bustest.CallKey("other"), message.ToolCallPending, "propose"), 0)
	prev := uint64(0)
	for i := range before {
		prev = bustest.MustAppend(t, one, bustest.CallRecord(bustest.ID(i), bustest.CallKey("c1"), message.ToolCallPending, "propose"), prev)
	}
	w.won, w.lost = fork(t, f, one, two, prev)
	return w
}

// fork writes two records of c1 after the same one.
func fork(t *testing.T, f *bustest.Forker, one, two *journal.Journal, prev uint64) (won, lost error) {
	f.Arm()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, won = one.Append(t.Context(), bustest.CallRecord("reject", bustest.CallKey("c1"), message.ToolCallFinished, "reject"), prev)
	})
	select {
	case <-f.Holds:
	case <-t.Context().Done():
	}
	wg.Go(func() {
		_, lost = two.Append(t.Context(), bustest.CallRecord("approve", bustest.CallKey("c1"), message.ToolCallAllowed, "approve"), prev)
	})
	wg.Wait()
	return won, lost
}

// checkEntries compares the entries with the records that count.
func checkEntries(t *testing.T, what string, got []toolcall.JournalEntry, want ...string) {
	t.Helper()
	var text []string
	for _, r := range got {
		switch {
		case r.Record != nil:
			text = append(text, fmt.Sprintf("%d %s", r.Seq, r.Record.ID))
		case r.Invalid != nil:
			text = append(text, fmt.Sprintf("%d void", r.Seq))
		}
	}
	if !slices.Equal(text, want) {
		t.Errorf("%s: %q, want %q", what, text, want)
	}
}

// If two records follow the same one, the first counts for their writers and for every reader, and
// the next record is written after both.
func TestForkHasOneWinner(t *testing.T) {
	for _, before := range []int{0, 1} {
		t.Run(fmt.Sprintf("after %d records", before), func(t *testing.T) {
			w := newForked(t, before)
			won := uint64(before + 2)
			if w.won != nil || !errors.Is(w.lost, message.ErrConflict) {
				t.Errorf("the writers got %v and %v, want success and a conflict", w.won, w.lost)
			}
			key, n := bustest.CallKey("c1"), strconv.FormatUint
			fork := []string{n(won, 10) + " reject", n(won+1, 10) + " void"}
			all := append([]string{"1 other", "2 record-0"}[:before+1], fork...)
			readers := map[string]*journal.Journal{"the winner's": w.j, "a new journal": w.Journal("test")}
			for name, j := range readers {
				if last, err := j.Last(t.Context(), key); err != nil || last.Seq != won {
					t.Errorf("%s: Last = %+v, %v", name, last, err)
				}
				history, err := j.History(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				checkEntries(t, name+": History", history, all[1:]...)
				for after := range won + 1 {
					j := w.Journal("test") // remembers nothing
					records, _, err := j.Read(t.Context(), key.SessionKey(), after, 100)
					if err != nil {
						t.Fatal(err)
					}
					checkEntries(t, fmt.Sprintf("Read after %d", after), records, all[after:]...)
					watched := bustest.Watch(t, j, after).Wait(t, "the fork", func(r []toolcall.JournalEntry, _ int) bool { return len(r) == len(all)-int(after) })
					checkEntries(t, fmt.Sprintf("Watch after %d", after), watched, all[after:]...)
				}
			}
			if _, err := w.Journal("test").Append(t.Context(), bustest.CallRecord("start", key, message.ToolCallAllowed, "start"), won+1); !errors.Is(err, message.ErrConflict) {
				t.Errorf("a record that follows the void one: %v, want a conflict", err)
			}
			next := bustest.MustAppend(t, w.Journal("test"), bustest.CallRecord("note", key, message.ToolCallFinished, "note"), won)
			for _, j := range readers {
				if last, err := j.Last(t.Context(), key); err != nil || last.Seq != next || last.Record.Prev.Seq != won {
					t.Errorf("Last after the next record = %+v, %v", last, err)
				}
			}
		})
	}
}

// Both records of a fork are bustest.Genuine, so verification reports a fork rather than tampering, and the
// receipt of its call proves the record that counts.
func TestForkIsNoTampering(t *testing.T) {
	w := newForked(t, 1)
	bustest.MustAppend(t, w.j, bustest.CallRecord("note", bustest.CallKey("c1"), message.ToolCallFinished, "note"), 3)
	for _, signed := range []bool{false, true} {
		if signed {
			w.sign()
		}
		r := bustest.VerifyAgainst(t, w.l, proof.Options{Keys: toolcall.NewKeySet(w.Keys().Public()), Name: bus.NameOf})
		if r.Found != 0 && signed || r.Void != 1 || len(r.Voids) != 1 || r.Voids[0].Seq != 4 || r.Voids[0].Call != "s1/r1/c1" {
			t.Errorf("signed %v: %+v", signed, r)
		}
		for _, f := range r.Findings {
			if f.Kind != proof.NoCheckpoint {
				t.Errorf("signed %v: %s", signed, f)
			}
		}
	}
	records, err := journal.CallRecords(t.Context(), w.l, bustest.CallKey("c1"))
	if err != nil {
		t.Fatal(err)
	}
	var seqs []uint64
	for _, r := range records {
		seqs = append(seqs, r.Seq)
	}
	if !slices.Equal(seqs, []uint64{2, 3, 5}) {
		t.Errorf("the receipt would have %d", seqs)
	}
}

// follow stores a record of c1 after a void one, like an engine of a release that did not know void
// records.
func (w *forked) follow(id string, prev uint64) {
	w.t.Helper()
	before := bustest.Genuine(w.t, w.Conn("old"), bus.StreamName("test"), prev)
	header := map[string][]string{}
	for _, name := range []string{"Nats-Msg-Id", bustest.HeaderPrev, bustest.HeaderFilter, journal.HeaderMAC} {
		header[name] = before.Header[name]
	}
	r := bustest.CallRecord(id, bustest.CallKey("c1"), message.ToolCallAllowed, "start")
	r.Prev = proof.LinkTo(prev, proof.Leaf(before.Subject, proof.Content(header, before.Data)))
	body, err := toolcall.EncodeStored(r, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	mac := w.Keys().RecordMAC(before.Subject, prev, body)
	m := &nats.Msg{Subject: before.Subject, Data: body, Header: nats.Header{}}
	m.Header.Set("Nats-Msg-Id", id)
	m.Header.Set(bustest.HeaderPrev, strconv.FormatUint(prev, 10))
	m.Header.Set(bustest.HeaderFilter, before.Header.Get(bustest.HeaderFilter))
	m.Header.Set(journal.HeaderMAC, w.Keys().ID()+" "+base64.RawURLEncoding.EncodeToString(mac[:]))
	bustest.Store(w.t, w.Conn("old"), m)
}

// If an old engine continues from the second of two records, none of its records counts, and the
// call continues from the first.
func TestRecordsBehindAVoidOne(t *testing.T) {
	w := newForked(t, 1)
	w.follow("old-1", 4)
	w.follow("old-2", 5)
	key, all := bustest.CallKey("c1"), []string{"1 other", "2 record-0", "3 reject", "4 void", "5 void", "6 void"}
	for name, read := range map[string]func(*journal.Journal) error{
		"nothing":   func(*journal.Journal) error { return nil },
		"History":   func(j *journal.Journal) error { _, err := j.History(t.Context(), key); return err },
		"the first": func(j *journal.Journal) error { _, _, err := j.Read(t.Context(), key.SessionKey(), 0, 4); return err },
	} {
		j := w.Journal("test")
		if err := read(j); err != nil {
			t.Fatal(err)
		}
		if last, err := j.Last(t.Context(), key); err != nil || last.Seq != 3 {
			t.Errorf("%s read: Last = %+v, %v", name, last, err)
		}
	}
	for after := range uint64(6) {
		records, _, err := w.Journal("test").Read(t.Context(), key.SessionKey(), after, 100)
		if err != nil {
			t.Fatal(err)
		}
		checkEntries(t, fmt.Sprintf("Read after %d", after), records, all[after:]...)
		watched := bustest.Watch(t, w.Journal("test"), after).Wait(t, "all", func(r []toolcall.JournalEntry, _ int) bool { return len(r) == 6-int(after) })
		checkEntries(t, fmt.Sprintf("Watch after %d", after), watched, all[after:]...)
	}
	for prev := uint64(4); prev <= 6; prev++ {
		if _, err := w.Journal("test").Append(t.Context(), bustest.CallRecord("start", key, message.ToolCallAllowed, "start"), prev); !errors.Is(err, message.ErrConflict) {
			t.Errorf("a record that follows %d: %v, want a conflict", prev, err)
		}
	}
	next := bustest.MustAppend(t, w.Journal("test"), bustest.CallRecord("note", key, message.ToolCallFinished, "note"), 3)
	if last, err := w.Journal("test").Last(t.Context(), key); err != nil || last.Seq != next {
		t.Errorf("Last after the next record = %+v, %v", last, err)
	}
	w.sign()
	r := bustest.VerifyAgainst(t, w.l, proof.Options{Keys: toolcall.NewKeySet(w.Keys().Public()), Name: bus.NameOf})
	if r.Found != 0 || r.Void != 3 {
		t.Errorf("verify: %+v", r)
	}
	records, err := journal.CallRecords(t.Context(), w.l, key)
	if err != nil || len(records) != 3 || records[2].Seq != next {
		t.Errorf("the receipt would have %+v, %v", records, err)
	}
}

// unnamed is a journal whose records lack what they follow.
type unnamed struct{ journal.Auditing }

func (u unnamed) Records(ctx context.Context, r bus.RecordsRequest) (bus.RecordsReply, error) {
	rep, err := u.Auditing.Records(ctx, r)
	for i := range rep.Records {
		rep.Records[i].Header = maps.Clone(rep.Records[i].Header)
		rep.Records[i].Header[bustest.HeaderPrev] = []string{"x"}
	}
	return rep, err
}

// A receipt contains every record that its verification must judge, even wrong ones.
func TestCallRecordsDropNothingInSilence(t *testing.T) {
	w := newForked(t, 1)
	records, err := journal.CallRecords(t.Context(), unnamed{w.l}, bustest.CallKey("c1"))
	if err != nil || len(records) != 3 {
		t.Errorf("%d records, %v; want 3", len(records), err)
	}
}

// A snapshot that names a void record is not restored.
func TestForkInASnapshot(t *testing.T) {
	w := newForked(t, 1)
	// As on an existing server: the embedded one compares every record that it stores.
	s := journal.NewSnapshots(bustest.LedgerOf(t, w.JournalWith("test", journal.Options{})), filepath.Join(t.TempDir(), "test"))
	found, err := s.ReadRecords(t.Context(), []uint64{1, 2, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	checkEntries(t, "ReadRecords", found, "1 other", "2 record-0", "3 reject", "4 void")
}

// A reply with a void record stays in the journal, because an interrupted archive run must not delete
// only the record that counts.
func TestForkIsNotArchived(t *testing.T) {
	w := newForked(t, 1)
	bustest.MustAppend(t, w.j, bustest.CallRecord("note", bustest.CallKey("c1"), message.ToolCallFinished, "note"), 3)
	bustest.MustAppend(t, w.j, bustest.CallRecord("end", bustest.CallKey("other"), message.ToolCallFinished, "result"), 1)
	bustest.MustAppend(t, w.j, bustest.CallRecord("last", inReply("last", "a"), message.ToolCallPending, "propose"), 0)
	l := bustest.LedgerOf(t, w.JournalWith("test", journal.Options{Archives: journal.ArchiveFolder(t.TempDir())}))
	if done, err := l.Archive(t.Context(), journal.Retention{By: "ann", Reason: "test"}); err != nil || done.Replies != 0 {
		t.Errorf("archived %+v, %v", done, err)
	}
}

// A fork on three servers, which give the writers their own answers.
func TestForkOnACluster(t *testing.T) {
	t.Parallel()
	c := bustest.NewCluster(t, 3)
	f := bustest.NewForker(c.Conn("forker"))
	keys, o := newClusterKeys(t), journal.Options{Publisher: f}
	one, err := onCluster(t, c.Conn("engine"), keys, o)
	if err != nil {
		t.Fatal(err)
	}
	two, err := onCluster(t, c.Conn("engine"), keys, o)
	if err != nil {
		t.Fatal(err)
	}
	prev := bustest.MustAppend(t, one, bustest.CallRecord("first", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0)
	f.Own = true
	if won, lost := fork(t, f, one, two, prev); won != nil || !errors.Is(lost, message.ErrConflict) {
		t.Errorf("the writers got %v and %v, want success and a conflict", won, lost)
	}
	history, err := one.History(t.Context(), bustest.CallKey("c1"))
	if err != nil {
		t.Fatal(err)
	}
	checkEntries(t, "History", history, "1 first", "2 reject", "3 void")
	bustest.MustAppend(t, two, bustest.CallRecord("note", bustest.CallKey("c1"), message.ToolCallFinished, "note"), 2)
}

// A leader whose disk is full forgets records that another server has. The lack of a record after the
// previous one proves nothing.
func TestForgetfulLeaderProvesNothing(t *testing.T) {
	for _, forgotten := range [][]uint64{{3, 4}, {4}} {
		t.Run(fmt.Sprint(forgotten), func(t *testing.T) {
			w := newForked(t, 1)
			js, err := jetstream.New(w.Conn("leader"))
			if err != nil {
				t.Fatal(err)
			}
			stream, err := js.Stream(t.Context(), bus.StreamName("test"))
			if err != nil {
				t.Fatal(err)
			}
			void, err := w.Journal("test").IsVoidAfter(t.Context(), 4, func() {
				for _, seq := range forgotten {
					if err := stream.DeleteMsg(t.Context(), seq); err != nil {
						t.Fatal(err)
					}
				}
			})
			if void || !errors.Is(err, message.ErrUnavailable) {
				t.Errorf("void %v, error %v, want an error that tells to try again", void, err)
			}
		})
	}
}
