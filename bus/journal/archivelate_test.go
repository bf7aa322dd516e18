package journal_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// An engine reads older records in the background while they are archived: this is no damage.
func TestArchiveDuringTheCheckOfOlderRecords(t *testing.T) {
	w := newArchiving(t)
	var armed, archived atomic.Bool
	j := w.openThrough(func(c net.Conn, b []byte) (int, error) {
		if armed.Load() && bytes.Contains(b, []byte("$JS.API.DIRECT.GET.ASKANCE_test")) && !archived.Swap(true) {
			w.archive()
		}
		return c.Write(b)
	})
	l, err := journal.OpenLedger(t.Context(), j, journal.LedgerOptions{Engine: "e2", Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	armed.Store(true)
	if err := journal.NewSnapshots(l, filepath.Join(t.TempDir(), "s")).Check(t.Context(), 24); err != nil || !archived.Load() {
		t.Errorf("the check of older records, of which some were archived (%t): %v", archived.Load(), err)
	}
	if err := begin(t, j, "later", inReply("later", "a")); err != nil {
		t.Error(err)
	}
}

// The same check still finds a record that is gone for another reason.
func TestRecordThatIsGoneAfterAnArchive(t *testing.T) {
	w := newArchiving(t)
	var armed, archived atomic.Bool
	j := w.openThrough(func(c net.Conn, b []byte) (int, error) {
		if armed.Load() && bytes.Contains(b, []byte("$JS.API.DIRECT.GET.ASKANCE_test")) && !archived.Swap(true) {
			w.archive()
			if err := w.stream(bus.StreamName("test")).DeleteMsg(t.Context(), 22); err != nil {
				t.Error(err)
			}
		}
		return c.Write(b)
	})
	l, err := journal.OpenLedger(t.Context(), j, journal.LedgerOptions{Engine: "e2", Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	armed.Store(true)
	if err := journal.NewSnapshots(l, filepath.Join(t.TempDir(), "s")).Check(t.Context(), 24); !errors.Is(err, message.ErrDamaged) {
		t.Errorf("the check of a journal that lost a record: %v", err)
	}
}

// An engine that did not run for a while begins an archived call again, and the ledger does not answer
// when it looks for archives. The engine must not take its record for valid when it reads it.
func TestArchiveThatCannotBeLearned(t *testing.T) {
	w := newArchiving(t)
	key := inReply("r1", "a")
	subject := must(bus.RecordSubject(key, toolcall.Queue{})).String()
	var archived, deaf atomic.Bool
	var paused *journal.Journal
	paused = w.openThrough(func(c net.Conn, b []byte) (int, error) {
		if bytes.Contains(b, []byte("PUB "+subject)) && !archived.Swap(true) {
			w.archive()
			paused.ForgetLook() // as after learnTime
			deaf.Store(true)
		}
		if deaf.Load() {
			for _, ask := range []string{"INFO", "MSG.GET"} {
				b = bytes.ReplaceAll(b, []byte("$JS.API.STREAM."+ask+".ASKANCE_PROOF_test"), []byte("$JS.APX.STREAM."+ask+".ASKANCE_PROOF_test"))
			}
		}
		return c.Write(b)
	})
	paused.SetPauseAfter(1)
	if seq, err := paused.Append(t.Context(), bustest.CallRecord("again", key, message.ToolCallPending, "propose"), 0); !errors.Is(err, message.ErrUnknownOutcome) || !archived.Load() {
		t.Fatalf("an archived call was begun again: %d, %v", seq, err)
	}
	read := func(when string) {
		if r, err := paused.Last(t.Context(), key); err == nil && r.Record.ID == "again" {
			t.Errorf("%s: a record that begins an archived call again counts as valid", when)
		}
	}
	read("while the ledger does not answer")
	deaf.Store(false)
	read("after that")
	if r, err := paused.Last(t.Context(), key); err != nil || r.Record.ID != "r1a2" {
		t.Errorf("the last record of the archived call: %+v, %v", r, err)
	}
}

// The same, but the first of two attempts arrives late, and the second is found to be its repetition.
func TestArchiveAndALateAttempt(t *testing.T) {
	w := newArchiving(t)
	key := inReply("r1", "a")
	subject := must(bus.RecordSubject(key, toolcall.Queue{})).String()
	var held []byte // both attempts are written by the same goroutine
	var paused *journal.Journal
	var archived atomic.Bool
	paused = w.openThrough(func(c net.Conn, b []byte) (int, error) {
		switch {
		case !bytes.Contains(b, []byte("PUB "+subject)):
		case held == nil:
			held = bytes.Clone(b)
			return len(b), nil
		case !archived.Swap(true):
			w.archive()
			paused.ForgetLook()
			if _, err := c.Write(held); err != nil {
				return 0, err
			}
		}
		return c.Write(b)
	})
	paused.SetPauseAfter(1)
	seq, err := paused.Append(t.Context(), bustest.CallRecord("again", key, message.ToolCallPending, "propose"), 0)
	if err == nil || !archived.Load() {
		t.Errorf("an archived call was begun again: %d, %v", seq, err)
	}
	if r, err := paused.Last(t.Context(), key); err != nil || r.Record.ID != "r1a2" {
		t.Errorf("the last record of the archived call: %+v, %v", r, err)
	}
}

// An announcement gets no answer, and arrives late. The archiver sends it again, and no call can begin
// in a reply that it names.
func TestAnnouncementWithoutAnAnswer(t *testing.T) {
	w := newArchiving(t)
	other, _ := w.runningEngine()
	var mu sync.Mutex // guards held, conn and armed
	var held []byte
	var conn net.Conn
	armed := false
	j := w.openThrough(func(c net.Conn, b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		if armed && held == nil && bytes.Contains(b, []byte("PUB askance.v1.test.proof.checkpoint")) {
			held, conn = bytes.Clone(b), c
			return len(b), nil
		}
		return c.Write(b)
	})
	l, err := journal.OpenLedger(t.Context(), j, journal.LedgerOptions{Engine: "e2"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetLearnTime(time.Millisecond)
	if _, err := w.l.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	armed = true
	mu.Unlock()
	done, err := l.Archive(t.Context(), journal.Retention{By: "ann"})
	if err != nil || done.Records != 20 || held == nil {
		t.Fatalf("%+v, %v", done, err)
	}
	other.ForgetLook()
	if err := begin(t, other, "new", inReply("r1", "new")); !errors.Is(err, message.ErrArchived) {
		t.Errorf("a new call in an archived reply: %v", err)
	}
	if _, err := conn.Write(held); err != nil {
		t.Fatal(err)
	}
	if err := begin(t, j, "after", inReply("after", "a")); err != nil { // over the same connection: the server has both
		t.Error(err)
	}
	if r, err := w.verify(); err != nil || !r.OK || r.Archived != 20 {
		t.Errorf("%+v, %v", r, err)
	}
}

// An archiver stops while its announcement has no answer: the announcement may still arrive, so its
// warning stays.
func TestAnnouncementThatMayStillArrive(t *testing.T) {
	w := newArchiving(t)
	other, _ := w.runningEngine()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var armed atomic.Bool
	j := w.openThrough(func(c net.Conn, b []byte) (int, error) {
		if armed.Load() && bytes.Contains(b, []byte("PUB askance.v1.test.proof.checkpoint")) {
			stop()
			return len(b), nil
		}
		return c.Write(b)
	})
	l, err := journal.OpenLedger(ctx, j, journal.LedgerOptions{Engine: "e2"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetLearnTime(time.Millisecond)
	if _, err := w.l.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	armed.Store(true)
	if done, err := l.Archive(ctx, journal.Retention{By: "ann"}); err == nil {
		t.Fatalf("%+v", done)
	}
	for range 2 {
		other.ForgetLook()
		if err := begin(t, other, "new", inReply("r1", "new")); !errors.Is(err, message.ErrArchived) {
			t.Errorf("a call in a reply whose archive may still be announced: %v", err)
		}
	}
}

// An archiver that runs alone ends the warning of one that was killed, whose files it removes.
func TestArchiveAloneAfterAKilledArchiver(t *testing.T) {
	w := newArchiving(t)
	w.warn(`{"name":"test-000001-00000000","index":{"bytes":1,"hash":"sha256:` + strings.Repeat("0", 64) + `"}}`)
	w.open()
	if done := w.archive(); done.Records != 20 {
		t.Fatalf("%+v", done)
	}
	other, _ := w.runningEngine()
	if err := begin(t, other, "new", inReply("new", "a")); err != nil {
		t.Errorf("a new call after the archive: %v", err)
	}
}

// A call begins in an old reply, and is signed, after an archiver has read where the journal ends and
// before it reads how far it is signed.
func TestArchiveOfAReplyThatIsSignedMeanwhile(t *testing.T) {
	w := newArchiving(t)
	if _, err := w.l.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := w.JournalWith("test", journal.Options{Archives: w.store})
	signer := bustest.LedgerOf(t, other)
	key := inReply("r1", "new")
	var armed, endRead, begun atomic.Bool
	var times atomic.Int32
	j := w.openThrough(func(c net.Conn, b []byte) (int, error) {
		switch {
		case !armed.Load():
		case bytes.Contains(b, []byte("$JS.API.STREAM.INFO.ASKANCE_test")):
			endRead.Store(true)
		case bytes.Contains(b, []byte("$JS.API.STREAM.MSG.GET.ASKANCE_PROOF_test")):
			// The first time is that of a checkpoint, the second that of the scan.
			if endRead.Swap(false) && times.Add(1) == 2 && !begun.Swap(true) {
				bustest.MustAppend(t, other, bustest.CallRecord("new1", key, message.ToolCallPending, "propose"), 0)
				if _, err := signer.Checkpoint(t.Context()); err != nil {
					t.Error(err)
				}
			}
		case bytes.Contains(b, []byte("PUB ")):
			endRead.Store(false)
		}
		return c.Write(b)
	})
	l, err := journal.OpenLedger(t.Context(), j, journal.LedgerOptions{Engine: "e2", Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	armed.Store(true)
	done, err := l.Archive(t.Context(), journal.Retention{By: "ann"})
	if !begun.Load() {
		t.Fatalf("the call did not begin meanwhile: %+v, %v", done, err)
	}
	if r, err := w.JournalWith("test", journal.Options{Archives: w.store}).Last(t.Context(), key); err != nil || r.Record == nil {
		t.Errorf("the open call after the archive: %+v, %v", r, err)
	}
}

// A call begins in an old reply when the archiver has looked at the journal for the last time, and an
// engine reads it before the announcement is stored. It waits for the announcement.
func TestCallThatBeginsDuringTheAnnouncement(t *testing.T) {
	w := newArchiving(t)
	if _, err := w.l.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	late := w.JournalWith("test", journal.Options{Archives: w.store}) // without a watch, which looks for archives
	var reads atomic.Bool
	var asked atomic.Int32
	examined := make(chan struct{})
	reader := w.openThrough(func(c net.Conn, b []byte) (int, error) {
		// An examination reads the state of the journal before the checkpoints and after them.
		if reads.Load() && bytes.Contains(b, []byte("$JS.API.STREAM.INFO.ASKANCE_test")) && asked.Add(1) == 2 {
			close(examined)
		}
		return c.Write(b)
	})
	type answer struct {
		r   toolcall.JournalEntry
		err error
	}
	read := make(chan answer, 1)
	key := inReply("r1", "new")
	var announced atomic.Bool
	j := w.openThrough(func(c net.Conn, b []byte) (int, error) {
		if bytes.Contains(b, []byte("PUB askance.v1.test.proof.checkpoint")) && !announced.Swap(true) {
			bustest.MustAppend(t, late, bustest.CallRecord("new1", key, message.ToolCallPending, "propose"), 0)
			reader.ForgetLook()
			reads.Store(true)
			go func() {
				r, err := reader.Last(t.Context(), key)
				read <- answer{r, err}
			}()
			select {
			case <-examined:
			case <-time.After(bustest.Patience):
				t.Error("the reader does not look for archives")
			}
		}
		return c.Write(b)
	})
	l, err := journal.OpenLedger(t.Context(), j, journal.LedgerOptions{Engine: "e2"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetLearnTime(time.Millisecond)
	if done, err := l.Archive(t.Context(), journal.Retention{By: "ann"}); err != nil || done.Records != 20 {
		t.Fatalf("%+v, %v", done, err)
	}
	if a := <-read; a.err == nil {
		t.Errorf("a call that began while its reply was archived counts as valid: %+v", a.r)
	}
}

// A reply whose records a destination of webhooks has not got yet stays in the journal. Records of
// failed deliveries are read from the archive.
func TestArchiveWaitsForWebhooks(t *testing.T) {
	w := newArchiving(t)
	o := openOutbox(t, w.j)
	got, end := follow(t, o, "hook")
	begun(t, w.Bus, "hook")
	w.finish(inReply("due", "a"))
	w.finish(inReply("end", "a"))
	all := []toolcall.Delivery{handed(t, got), handed(t, got), handed(t, got), handed(t, got)} // in any order
	slices.SortFunc(all, func(a, b toolcall.Delivery) int { return cmp.Compare(a.Record.Seq, b.Record.Seq) })
	first := all[0] // its receiver does not answer
	for _, d := range all[1:] {
		if err := d.Done(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	done := w.archive()
	if n := w.records(); n != 7 { // 3 of half, 2 of due, 2 of end
		t.Errorf("%d records stay while a delivery is due, want 7", n)
	}
	if h := done.HeldBack; len(h) != 1 || h[0].Name != "hook" || h[0].Waiting != 1 || h[0].Replies != 1 {
		t.Errorf("the archive says that %+v hold replies back, want one reply for one record of hook", h)
	}
	if err := first.Done(t.Context()); err != nil {
		t.Fatal(err)
	}
	end()
	if done := w.archive(); w.records() != 5 || done.HeldBack != nil {
		t.Errorf("%d records stay after the delivery, want 5; held back: %+v", w.records(), done.HeldBack)
	}
	if r, err := o.Record(t.Context(), first.Record.Seq); err != nil || r.Record == nil || r.Record.ID != first.Record.Record.ID {
		t.Errorf("the archived record is %+v, %v, want %s", r, err, first.Record.Record.ID)
	}
}
