package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// hooked writes through a function of the test, which can see, change or stop what is sent.
type hooked struct {
	nats.InProcessConnProvider
	write func(c net.Conn, b []byte) (int, error)
}

func (h hooked) InProcessConn() (net.Conn, error) {
	c, err := h.InProcessConnProvider.InProcessConn()
	return &hookedConn{c, h.write}, err
}

type hookedConn struct {
	net.Conn
	write func(c net.Conn, b []byte) (int, error)
}

func (c *hookedConn) Write(b []byte) (int, error) { return c.write(c.Conn, b) }

// openThrough opens the journal over a hooked connection.
func (a *archiving) openThrough(write func(c net.Conn, b []byte) (int, error)) *journal.Journal {
	a.t.Helper()
	nc, err := bus.ConnectInProcess(a.t.Context(), hooked{a.Server, write}, bus.ConnectOptions{Principal: "engine"})
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(nc.Close)
	j, err := journal.Open(a.t.Context(), nc, "test", a.Keys(), journal.Options{Room: a.Room, Archives: a.store})
	if err != nil {
		a.t.Fatal(err)
	}
	return j
}

// runningEngine is an engine that is not the archiver, and what it watches.
func (a *archiving) runningEngine() (*journal.Journal, *bustest.Sink) {
	a.t.Helper()
	j := a.JournalWith("test", journal.Options{Archives: a.store})
	seen := bustest.Watch(a.t, j, 0)
	seen.Wait(a.t, "the watch", func(_ []toolcall.JournalEntry, caught int) bool { return caught >= 0 })
	return j, seen
}

// begin tries to begin a call.
func begin(t *testing.T, j *journal.Journal, id string, key toolcall.Key) error {
	_, err := j.Append(t.Context(), bustest.CallRecord(id, key, message.ToolCallPending, "propose"), 0)
	return err
}

// An archive is written while an engine runs, and while another one starts: both refuse
// its ids before it is announced, and take other calls.
func TestArchiveWhileEnginesRun(t *testing.T) {
	w := newArchiving(t)
	other, seen := w.runningEngine()
	var late *journal.Journal
	w.l.SetLearnTime(50 * time.Millisecond)
	done, err := w.l.Archive(t.Context(), journal.Retention{By: "ann", Progress: func(what string, n, all uint64) {
		if !strings.HasPrefix(what, "wait until") || n > 0 || late != nil {
			return
		}
		if late, _ = w.runningEngine(); w.stream(journal.LedgerName("test")).CachedInfo().State.Msgs != 1 {
			t.Error("the archive was announced before the warning")
		}
		other.ForgetLook() // as after learnTime
		for i, j := range []*journal.Journal{other, late} {
			if err := begin(t, j, "again", inReply("r1", "a")); !errors.Is(err, message.ErrArchived) {
				t.Errorf("engine %d begins an archived call again: %v", i, err)
			}
			if err := begin(t, j, "more", inReply("r1", "more")); !errors.Is(err, message.ErrArchived) {
				t.Errorf("engine %d begins a call in an archived reply: %v", i, err)
			}
			if err := begin(t, j, fmt.Sprint("free", i), inReply(fmt.Sprint("free", i), "a")); err != nil {
				t.Errorf("engine %d begins another call: %v", i, err)
			}
		}
	}})
	if err != nil || done.Records != 20 {
		t.Fatalf("%+v, %v", done, err)
	}
	if text := w.stream(bus.StreamName("test")).CachedInfo().Config.Metadata[journal.MetaArchiving]; text != "" {
		t.Errorf("the warning is still there: %s", text)
	}
	for i, j := range []*journal.Journal{other, late} {
		if err := begin(t, j, "again", inReply("r1", "a")); !errors.Is(err, message.ErrArchived) {
			t.Errorf("engine %d begins an archived call again, after the archive: %v", i, err)
		}
		w.refused(j)
	}
	end := bustest.MustAppend(t, other, bustest.CallRecord("end", inReply("end", "a"), message.ToolCallPending, "propose"), 0)
	seen.Wait(t, "a record after the archive", func(all []toolcall.JournalEntry, _ int) bool { return all[len(all)-1].Seq == end })
	if r, err := w.verify(); err != nil || !r.OK || r.Archived != 20 {
		t.Errorf("%+v, %v", r, err)
	}
}

// warn replaces the warning of an archive in the journal's metadata.
func (a *archiving) warn(text string) {
	a.t.Helper()
	cfg := a.stream(bus.StreamName("test")).CachedInfo().Config
	if delete(cfg.Metadata, journal.MetaArchiving); text != "" {
		cfg.Metadata[journal.MetaArchiving] = text
	}
	if _, err := must(jetstream.New(a.Conn("engine"))).UpdateStream(a.t.Context(), cfg); err != nil {
		a.t.Fatal(err)
	}
}

// While a warning or its index cannot be read, every new call could be one of the archive. The next
// archiver ends a warning that a killed one left.
func TestWarningThatCannotBeRead(t *testing.T) {
	for _, text := range []string{"{", `{"name":"test-000001-00000000","index":{"bytes":1,"hash":"sha256:` + strings.Repeat("0", 64) + `"}}`} {
		w := newArchiving(t)
		w.warn(text)
		other, _ := w.runningEngine()
		if err := begin(t, other, "new", inReply("new", "a")); !errors.Is(err, message.ErrUnavailable) {
			t.Errorf("a new call while it is unknown what %s warns of: %v", text, err)
		}
		w.l.SetLearnTime(time.Millisecond)
		if done, err := w.l.Archive(t.Context(), journal.Retention{By: "ann", OlderThan: time.Hour}); err != nil || done.Calls > 0 {
			t.Fatalf("%+v, %v", done, err)
		}
		for range 2 { // it learns that the warning is over, then that nothing was announced
			other.ForgetLook()
			_ = begin(t, other, "other", inReply("r1", "a"))
		}
		if err := begin(t, other, "new", inReply("new", "a")); err != nil {
			t.Errorf("a new call after the warning: %v", err)
		}
	}
}

// An archive that is given up refuses its ids no longer.
func TestArchiveThatIsGivenUp(t *testing.T) {
	for name, giveUp := range map[string]func(w *archiving, stop func()){
		"cancelled":                    func(_ *archiving, stop func()) { stop() },
		"while another archiver works": func(w *archiving, _ func()) { w.warn("") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newArchiving(t)
			other, _ := w.runningEngine()
			ctx, cancel := context.WithCancel(t.Context())
			w.l.SetLearnTime(time.Millisecond)
			before := w.records()
			done, err := w.l.Archive(ctx, journal.Retention{By: "ann", Progress: func(what string, n, _ uint64) {
				if strings.HasPrefix(what, "wait until") && n == 0 {
					other.ForgetLook()
					if err := begin(t, other, "more", inReply("r1", "more")); !errors.Is(err, message.ErrArchived) {
						t.Errorf("a call in an archive that was warned of: %v", err)
					}
					giveUp(w, cancel)
				}
			}})
			if err == nil || w.records() != before {
				t.Fatalf("%+v, %v; %d records of %d", done, err, w.records(), before)
			}
			for range 2 { // learn that it is over, then that nothing was announced
				other.ForgetLook()
				_ = begin(t, other, "other", inReply("r1", "a"))
			}
			if err := begin(t, other, "more", inReply("r1", "more")); err != nil {
				t.Errorf("a call in a reply that was not archived: %v", err)
			}
		})
	}
}

// An engine does not run between its check and its write, while the call's reply is archived. It
// does not begin the call again, and neither does another one.
func TestArchiveWhileAWriteIsOnItsWay(t *testing.T) {
	for _, call := range []string{"a", "new"} {
		t.Run(call, func(t *testing.T) { archiveMeanwhile(t, inReply("r1", call)) })
	}
}

func archiveMeanwhile(t *testing.T, key toolcall.Key) {
	w := newArchiving(t)
	other, seen := w.runningEngine()
	var on atomic.Bool
	subject := must(bus.RecordSubject(key, toolcall.Queue{})).String()
	var paused *journal.Journal
	paused = w.openThrough(func(c net.Conn, b []byte) (int, error) {
		if bytes.Contains(b, []byte("PUB "+subject)) && !on.Swap(true) {
			w.archive()
			other.ForgetLook() // as after learnTime
			paused.ForgetLook()
		}
		return c.Write(b)
	})
	paused.SetPauseAfter(1)
	own := bustest.Watch(t, paused, 0)
	own.Wait(t, "the watch", func(_ []toolcall.JournalEntry, caught int) bool { return caught >= 0 })
	seq, err := paused.Append(t.Context(), bustest.CallRecord("again", key, message.ToolCallPending, "propose"), 0)
	if !on.Load() || !errors.Is(err, message.ErrUnknownOutcome) {
		t.Fatalf("an archived call was stored as new: %d, %v", seq, err)
	}
	for _, s := range []*bustest.Sink{seen, own} {
		s.Wait(t, "a void record", func(all []toolcall.JournalEntry, _ int) bool { return len(all) > 25 && all[25].Invalid != nil })
	}
	for i, j := range []*journal.Journal{paused, other, w.j} {
		if r, err := j.Last(t.Context(), key); err == nil && (r.Record == nil || r.Record.ID != "r1a2") {
			t.Errorf("engine %d: the last record of the call is %+v, %v", i, r, err)
		}
	}
	if r, err := w.verify(); err != nil || !r.OK {
		t.Errorf("%+v, %v", r, err)
	}
}

// An engine loses its connection while it records a call. When it tries again, the call may have
// been archived.
func TestArchiveBetweenTwoAttempts(t *testing.T) {
	w := newArchiving(t)
	var cut atomic.Bool
	subject := must(bus.RecordSubject(inReply("r1", "a"), toolcall.Queue{})).String()
	j := w.openThrough(func(c net.Conn, b []byte) (int, error) {
		if !bytes.Contains(b, []byte("PUB "+subject)) || cut.Swap(true) {
			return c.Write(b)
		}
		w.archive()
		return 0, errors.Join(net.ErrClosed, c.Close())
	})
	seq, err := j.Append(t.Context(), bustest.CallRecord("again", inReply("r1", "a"), message.ToolCallPending, "propose"), 0)
	t.Logf("%d, %v", seq, err)
	if err == nil || !cut.Load() {
		t.Errorf("an archived call was stored as new, after a lost connection (%t): %d", cut.Load(), seq)
	}
	if n := w.records(); n != 5 {
		t.Errorf("%d records, want 5 as after the archive", n)
	}
}

// A reply that gets a record while its archive is written stays in the journal.
func TestArchiveOfAReplyThatContinues(t *testing.T) {
	w := newArchiving(t)
	late, stored := inReply("r1", "late"), false
	done, err := w.l.Archive(t.Context(), journal.Retention{By: "ann", Progress: func(what string, n, all uint64) {
		if strings.HasPrefix(what, "check archive") && n == all && !stored {
			bustest.MustAppend(t, w.j, bustest.CallRecord("late", late, message.ToolCallPending, "propose"), 0)
			stored = true
		}
	}})
	if err != nil || !stored || done.Replies == 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	for _, key := range []toolcall.Key{late, inReply("r1", "a")} {
		if r, err := w.j.Last(t.Context(), key); err != nil || r.Record == nil {
			t.Errorf("the last record of %s: %+v, %v", key, r, err)
		}
	}
}

// Two operators archive at once on one NATS server: neither may remove the file that the
// other is about to announce, and whose records it then deletes.
func TestTwoArchivers(t *testing.T) {
	w := newArchiving(t)
	w.store = journal.NewArchiveBucket(w.Conn("engine"), "test", nil)
	w.open()
	other := w.JournalWith("test", journal.Options{Room: w.Room, Archives: journal.NewArchiveBucket(w.Conn("engine"), "test", nil)})
	l := bustest.LedgerOf(t, other)
	ran := false
	done, err := w.l.Archive(t.Context(), journal.Retention{By: "ann", Progress: func(what string, n, all uint64) {
		if strings.HasPrefix(what, "check archive") && n == all && !ran {
			ran = true
			second, err := l.Archive(t.Context(), journal.Retention{By: "bob", OlderThan: time.Hour}) // nothing is that old
			t.Logf("the second archiver: %+v, %v", second, err)
		}
	}})
	t.Logf("the first archiver: %+v, %v; %d records are left", done, err, w.records())
	if !ran {
		t.Fatal("the second archiver did not run")
	}
	if w.records() == 25 {
		return // refused, and nothing is lost
	}
	w.open()
	w.proved(true)
	if h, err := w.j.History(t.Context(), inReply("r1", "b")); err != nil || len(h) != 2 {
		t.Errorf("the history of an archived call: %d records, %v", len(h), err)
	}
}

// killing is a store whose archiver does not get beyond its announcement.
type killing struct{ journal.ArchiveStore }

func (killing) Files(context.Context) ([]journal.StoredFile, error) { return nil, errKilled }

var errKilled = errors.New("killed")

// What another archiver has announced, but not deleted when it was killed, is not archived twice.
func TestArchiveAnnouncedByAKilledArchiver(t *testing.T) {
	for _, phase := range []string{"read the journal", "write archive 1"} {
		w := newArchiving(t)
		l := bustest.LedgerOf(t, w.JournalWith("test", journal.Options{Room: w.Room, Archives: killing{w.store}}))
		ran := false
		done, err := w.l.Archive(t.Context(), journal.Retention{By: "ann", Progress: func(what string, n, all uint64) {
			if what != phase || n < all || ran {
				return
			}
			ran = true
			if _, err := l.Archive(t.Context(), journal.Retention{By: "bob"}); !errors.Is(err, errKilled) {
				t.Errorf("the killed archiver: %v", err)
			}
		}})
		if err != nil || !ran || done.Resumed != 20 {
			t.Errorf("%s: %+v, %v", phase, done, err)
		}
		w.proved(true)
	}
}

// removing is a folder from which another archiver removes the first index.
type removing struct {
	journal.ArchiveFolder
	removed string
}

func (r *removing) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	err := r.ArchiveFolder.Put(ctx, name, write)
	if err == nil && r.removed == "" && strings.HasSuffix(name, ".index") {
		r.removed = name
		return r.Remove(ctx, name)
	}
	return err
}

// If another archiver takes a file for one of an interrupted archive, it is written again.
func TestFileRemovedByAnotherArchiver(t *testing.T) {
	w := newArchiving(t)
	files := &removing{ArchiveFolder: journal.ArchiveFolder(w.folder)}
	w.store = files
	w.open()
	if done := w.archive(); len(done.Archives) != 1 || files.removed == "" || files.removed == done.Archives[0]+".index" {
		t.Errorf("archives %v after %s was removed", done.Archives, files.removed)
	}
	w.proved(true)
}
