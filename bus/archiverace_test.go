package bus_test

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/askance-dev/askance/bus"
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
func (w *archiving) openThrough(write func(c net.Conn, b []byte) (int, error)) *bus.Journal {
	w.t.Helper()
	nc, err := bus.ConnectInProcess(w.t.Context(), hooked{w.Server, write}, bus.ConnectOptions{Principal: "engine"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(nc.Close)
	j, err := bus.OpenJournal(w.t.Context(), nc, "test", w.Keys(), bus.JournalOptions{Room: w.Room, Archives: w.store})
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// An engine starts after the archiver looked for engines and before it announces: the
// engine must not take an archived id for new.
func TestArchiveWhileAnEngineStarts(t *testing.T) {
	w := newArchiving(t)
	var other *bus.Journal
	var looks atomic.Int32
	l := ledgerOf(t, w.openThrough(func(c net.Conn, b []byte) (int, error) {
		n, err := c.Write(b)
		if bytes.Contains(b, []byte("CONSUMER.LIST.")) && looks.Add(1) == 2 {
			other = w.JournalWith("test", bus.JournalOptions{Archives: bus.ArchiveFolder(w.folder)})
			watch(t, other, 0).wait(t, "the watch", func(_ []toolcall.JournalEntry, caught int) bool { return caught >= 0 })
		}
		return n, err
	}))
	done, err := l.Archive(t.Context(), bus.Retention{By: "ann"})
	t.Logf("archive: %+v, %v", done, err)
	if other == nil {
		t.Fatal("the engine did not start")
	}
	seq, err := other.Append(t.Context(), callRecord("again", inReply("r1", "a"), message.ToolCallPending, "propose"), 0)
	if !errors.Is(err, message.ErrArchived) && !errors.Is(err, message.ErrConflict) {
		t.Errorf("an archived call was stored as new: %d, %v", seq, err)
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
	seq, err := j.Append(t.Context(), callRecord("again", inReply("r1", "a"), message.ToolCallPending, "propose"), 0)
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
	done, err := w.l.Archive(t.Context(), bus.Retention{By: "ann", Progress: func(what string, n, all uint64) {
		if strings.HasPrefix(what, "check archive") && n == all && !stored {
			mustAppend(t, w.j, callRecord("late", late, message.ToolCallPending, "propose"), 0)
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
	w.store = bus.NewArchiveBucket(w.Conn("engine"), "test", nil)
	w.open()
	other := w.JournalWith("test", bus.JournalOptions{Room: w.Room, Archives: bus.NewArchiveBucket(w.Conn("engine"), "test", nil)})
	l := ledgerOf(t, other)
	ran := false
	done, err := w.l.Archive(t.Context(), bus.Retention{By: "ann", Progress: func(what string, n, all uint64) {
		if strings.HasPrefix(what, "check archive") && n == all && !ran {
			ran = true
			second, err := l.Archive(t.Context(), bus.Retention{By: "bob", OlderThan: time.Hour}) // nothing is that old
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
