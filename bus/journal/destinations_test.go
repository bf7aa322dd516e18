package journal_test

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A destination that no settings name any more holds replies back until it is forgotten, and is not
// forgotten while a process serves it.
func TestForgetDestination(t *testing.T) {
	w := newArchiving(t)
	o := openOutbox(t, w.j)
	got, end := follow(t, o, "hook")
	begun(t, w.Bus, "hook")
	w.finish(inReply("due", "a"))
	w.finish(inReply("end", "a"))
	handed(t, got) // its receiver never answers
	nc := w.Conn("engine")
	if err := journal.ForgetDestination(t.Context(), nc, "test", "hook"); !errors.Is(err, message.ErrState) {
		t.Errorf("a destination that is served: %v", err)
	}
	if err := journal.ForgetDestination(t.Context(), nc, "test", "other"); !errors.Is(err, message.ErrNotFound) || !strings.Contains(message.AsError("", err).Hint, "hook") {
		t.Errorf("an unknown destination: %v, which does not name the known one", err)
	}
	if all, err := w.j.ListWaiting(t.Context()); err != nil || len(all) != 1 || all[0].Destination != "hook" || all[0].Records != 4 || time.Since(all[0].Oldest).Abs() > bustest.Patience {
		t.Errorf("waiting: %+v, %v", all, err)
	}
	end()
	// A process whose deliveries all wait for their receivers does not ask for more.
	if err := journal.ForgetDestination(t.Context(), nc, "test", "hook"); !errors.Is(err, message.ErrState) {
		t.Errorf("a destination to which something was delivered just now: %v", err)
	}
	w.Restart() // after which the server has delivered nothing
	w.open()
	nc = w.Conn("engine")
	if done, err := w.l.Archive(t.Context(), journal.Retention{Keep: 100, DryRun: true}); err != nil || done.HeldBack != nil {
		t.Errorf("replies that stay anyway are held back by %+v, %v", done.HeldBack, err)
	}
	if h := w.archive().HeldBack; len(h) != 1 || h[0].Replies != 1 {
		t.Errorf("replies are held back by %+v", h)
	}
	d, err := journal.FindDestination(t.Context(), nc, "test", "hook")
	if err != nil || d.Served || d.Waiting != 4 {
		t.Errorf("the destination is %+v, %v", d, err)
	}
	if err := journal.ForgetDestination(t.Context(), nc, "test", "hook"); err != nil {
		t.Fatal(err)
	}
	if done := w.archive(); w.records() != 5 || done.HeldBack != nil {
		t.Errorf("%d records stay afterwards, want 5; held back: %+v", w.records(), done.HeldBack)
	}
	if err := journal.ForgetDestination(t.Context(), nc, "test", "hook"); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("a forgotten destination: %v", err)
	}
}

// A destination whose consumer was deleted is forgotten too: it then begins with new records.
func TestForgetDestinationWithoutItsConsumer(t *testing.T) {
	b := bustest.New(t)
	j := b.Journal("test")
	add := func(id string) uint64 {
		return bustest.MustAppend(t, j, bustest.CallRecord(id, bustest.CallKey(id), message.ToolCallPending, "propose"), 0)
	}
	before := add("before")
	_, end := follow(t, openOutbox(t, j), "hook")
	noted(t, b, before)
	end()
	if err := bustest.Stream(t, b).DeleteConsumer(t.Context(), "h_hook"); err != nil {
		t.Fatal(err)
	}
	add("between")
	nc := b.Conn("engine")
	if d, err := journal.FindDestination(t.Context(), nc, "test", "hook"); err != nil || !d.PlaceOnly {
		t.Errorf("the destination is %+v, %v", d, err)
	}
	if err := journal.ForgetDestination(t.Context(), nc, "test", "hook"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"hook", "no name"} {
		if err := journal.ForgetDestination(t.Context(), nc, "test", name); !errors.Is(err, message.ErrNotFound) {
			t.Errorf("forget %q: %v", name, err)
		}
	}
	got, _ := follow(t, openOutbox(t, j), "hook")
	begun(t, b, "hook")
	after := add("after")
	if d := handed(t, got); d.Record.Seq != after {
		t.Errorf("delivered %d, want %d", d.Record.Seq, after)
	}
}

// Only destinations are forgotten: other consumers of the stream stay, whatever their names are.
func TestForgetOnlyDestinations(t *testing.T) {
	w := newArchiving(t)
	st := w.stream(bus.StreamName("test"))
	if _, err := st.CreateOrUpdateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "h_foreign"}); err != nil {
		t.Fatal(err)
	}
	nc := w.Conn("engine")
	if err := journal.ForgetDestination(t.Context(), nc, "test", "foreign"); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("a consumer that is no destination: %v", err)
	}
}

// A server of a cluster leaves a destination out whose leader does not answer. Nothing is archived then.
func TestArchiveWithoutADestination(t *testing.T) {
	w := newArchiving(t)
	_, end := follow(t, openOutbox(t, w.j), "hook")
	begun(t, w.Bus, "hook")
	end()
	sub, err := w.Conn("engine").Subscribe("$JS.APX.CONSUMER.LIST.>", func(m *nats.Msg) {
		_ = m.Respond([]byte(`{"type":"io.nats.jetstream.api.v1.consumer_list_response","total":0,"offset":0,"limit":256,"consumers":[],"missing":["h_hook"]}`))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // the end of the connection does so too
	j := w.openThrough(func(c net.Conn, b []byte) (int, error) {
		return c.Write(bytes.ReplaceAll(b, []byte("$JS.API.CONSUMER.LIST."), []byte("$JS.APX.CONSUMER.LIST.")))
	})
	l, err := journal.OpenLedger(t.Context(), j, journal.LedgerOptions{Engine: "e2", Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	if done, err := l.Archive(t.Context(), journal.Retention{By: "ann"}); !errors.Is(err, message.ErrUnavailable) || done.Records > 0 {
		t.Errorf("archived %+v, %v", done, err)
	}
}

// Unsigned counts what is after the last checkpoint, also of one that another engine signed.
func TestUnsigned(t *testing.T) {
	w := newArchiving(t)
	want := func(records uint64) {
		t.Helper()
		n, oldest, err := w.l.Unsigned(t.Context())
		if err != nil || n != records || oldest.IsZero() != (records == 0) || records > 0 && time.Since(oldest).Abs() > bustest.Patience {
			t.Errorf("%d records are not signed, the first of %s, %v; want %d", n, oldest, err, records)
		}
	}
	want(25)
	if _, err := bustest.LedgerOf(t, w.JournalWith("test", journal.Options{Archives: w.store})).Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(0)
	w.finish(inReply("new", "a"))
	want(2)
}
