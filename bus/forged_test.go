package bus_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// genuine reads a stored message with its headers, as any reader of the stream could.
func genuine(t *testing.T, nc *nats.Conn, stream string, seq uint64) *nats.Msg {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := st.GetMsg(t.Context(), seq)
	if err != nil {
		t.Fatal(err)
	}
	return &nats.Msg{Subject: raw.Subject, Header: raw.Header, Data: raw.Data}
}

// store publishes a message with the right to publish event records but without the engine key.
func store(t *testing.T, nc *nats.Conn, m *nats.Msg) uint64 {
	t.Helper()
	reply, err := nc.RequestMsgWithContext(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(reply.Data), `"error"`) {
		t.Fatalf("the server refused the forgery: %s", reply.Data)
	}
	_, after, _ := strings.Cut(string(reply.Data), `"seq":`)
	n, err := strconv.ParseUint(strings.TrimRight(strings.SplitN(after, ",", 2)[0], "}"), 10, 64)
	if err != nil {
		t.Fatalf("acknowledgement %s", reply.Data)
	}
	return n
}

// forgeries are messages that a reader must not take for event records, made from the
// genuine second event record of a call. Those that keep a compare-and-swap are given
// the one that lets the server store them: sequence 2.
var forgeries = []struct {
	name string
	make func(h nats.Header, m *nats.Msg)
	why  string
}{
	{"no MAC", func(h nats.Header, _ *nats.Msg) { h.Del(bus.HeaderMAC) }, "no MAC"},
	{"no headers at all", func(_ nats.Header, m *nats.Msg) { m.Header = nil }, "no MAC"},
	{"bad MAC", func(h nats.Header, _ *nats.Msg) { h.Set(bus.HeaderMAC, keyOf(h)+" "+strings.Repeat("A", 43)) }, "MAC is wrong"},
	{"MAC that is no base64", func(h nats.Header, _ *nats.Msg) { h.Set(bus.HeaderMAC, keyOf(h)+" ?") }, "not base64url"},
	{"two MACs", func(h nats.Header, _ *nats.Msg) { h.Add(bus.HeaderMAC, h.Get(bus.HeaderMAC)) }, "no MAC"},
	{"MAC of another key", func(h nats.Header, _ *nats.Msg) {
		h.Set(bus.HeaderMAC, "0123456789abcdef "+strings.Fields(h.Get(bus.HeaderMAC))[1])
	}, "unknown key"},
	{"MAC of another predecessor", func(nats.Header, *nats.Msg) {}, "MAC is wrong"},
	{"body that is no JSON", func(_ nats.Header, m *nats.Msg) { m.Data = []byte("rm -rf /") }, "MAC is wrong"},
	{"replayed without compare-and-swap", func(h nats.Header, _ *nats.Msg) { h.Del(headerPrev); h.Del(headerFilter) }, "without the compare-and-swap of its entity"},
	{"replayed under another filter", func(h nats.Header, _ *nats.Msg) {
		// The very event record again, guarded by a subject that still ends at sequence 1.
		h.Set(headerPrev, "1")
		h.Set(headerFilter, "askance.v1.test.record.s1.r1.-.>")
	}, "without the compare-and-swap of its entity"},
}

const (
	headerPrev   = "Nats-Expected-Last-Subject-Sequence"
	headerFilter = "Nats-Expected-Last-Subject-Sequence-Subject"
)

func keyOf(h nats.Header) string { return strings.Fields(h.Get(bus.HeaderMAC))[0] }

// forgedBus has a reply with one event record and a call with two, and returns the second
// record of the call.
func forgedBus(t *testing.T) (*bustest.Bus, *bus.Journal, *nats.Msg) {
	b := bustest.New(t)
	j := b.Journal("test")
	reply := &toolcall.EventRecord{V: toolcall.RecordVersion, ID: "r1", At: at, Engine: "e", Reply: &toolcall.ReplyState{Key: callKey("").ReplyKey(), Phase: toolcall.ReplyOpen}}
	mustAppend(t, j, reply, 0)
	prev := mustAppend(t, j, callRecord("f1", callKey("c1"), message.ToolCallPending, "propose"), 0)
	seq := mustAppend(t, j, callRecord("f2", callKey("c1"), message.ToolCallAllowed, "allow"), prev)
	return b, j, genuine(t, b.Conn("reader"), "ASKANCE_test", seq)
}

func TestForgedRecordsAreSkippedAndReported(t *testing.T) {
	for _, tc := range forgeries {
		t.Run(tc.name, func(t *testing.T) {
			b, j, m := forgedBus(t)
			w := watch(t, j, 0)
			m.Header.Del("Nats-Msg-Id") // else the server takes it for a duplicate
			m.Header.Set(headerPrev, "3")
			tc.make(m.Header, m)
			seq := store(t, b.Conn("forger"), m)

			records := w.wait(t, "watch", func(r []toolcall.JournalEntry, _ int) bool { return len(r) == 4 })
			if got := records[3]; got.Seq != seq || got.Record != nil || got.Invalid == nil || !strings.Contains(got.Invalid.Error(), tc.why) {
				t.Errorf("Watch delivered %+v, want it invalid: %s", got, tc.why)
			}
			last, err := j.Last(t.Context(), callKey("c1"))
			if err != nil || last.Seq != 3 || last.Record.ID != "f2" {
				t.Errorf("Last = %+v, %v; want the genuine second event record", last, err)
			}
			history, err := j.History(t.Context(), callKey("c1"))
			if err != nil || len(history) != 3 || history[2].Invalid == nil || history[2].Record != nil {
				t.Errorf("History = %+v, %v", history, err)
			}
			// The forgery does not block the call, and the next event record is genuine.
			next, err := j.Append(t.Context(), callRecord("f3", callKey("c1"), message.ToolCallFinished, "result"), 3)
			if err != nil {
				t.Fatalf("the call is blocked: %v", err)
			}
			if last, err = j.Last(t.Context(), callKey("c1")); err != nil || last.Seq != next || last.Record.ID != "f3" {
				t.Errorf("Last after the next event record = %+v, %v", last, err)
			}
			if _, err := j.Append(t.Context(), callRecord("f4", callKey("c1"), message.ToolCallFinished, "deny"), 3); !errors.Is(err, message.ErrConflict) {
				t.Errorf("a second event record after the same one: %v, want a conflict", err)
			}
		})
	}
}

// A genuine event record is genuine only in its own place.
func TestMovedRecordIsNotBelieved(t *testing.T) {
	b := bustest.New(t)
	j := b.Journal("test")
	mustAppend(t, j, callRecord("f1", callKey("c1"), message.ToolCallPending, "propose"), 0)
	m := genuine(t, b.Conn("reader"), "ASKANCE_test", 1)
	m.Subject = strings.Replace(m.Subject, ".c1.", ".c2.", 1)
	m.Header.Set(headerFilter, strings.Replace(m.Header.Get(headerFilter), ".c1.", ".c2.", 1))
	m.Header.Set("Nats-Msg-Id", "moved")
	store(t, b.Conn("forger"), m)
	if r, err := j.Last(t.Context(), callKey("c2")); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("Last = %+v, %v; want not found", r, err)
	}
	// The call can still be proposed for the first time.
	mustAppend(t, j, callRecord("g1", callKey("c2"), message.ToolCallPending, "propose"), 0)
}

// A message with the id of an event record does not make the engine believe that the record is
// stored.
func TestSquattedMessageID(t *testing.T) {
	b := bustest.New(t)
	j := b.Journal("test")
	m := nats.NewMsg("askance.v1.test.record.s1.r1.elsewhere.f")
	m.Header.Set("Nats-Msg-Id", "f1")
	store(t, b.Conn("forger"), m)
	if seq, err := j.Append(t.Context(), callRecord("f1", callKey("c1"), message.ToolCallPending, "propose"), 0); err == nil {
		t.Errorf("Append = %d: a foreign message was accepted as the event record", seq)
	}
	mustAppend(t, j, callRecord("f2", callKey("c1"), message.ToolCallPending, "propose"), 0)
}

// Messages that look like the server's own status do not stop readers.
func TestStatusLookalikes(t *testing.T) {
	b := bustest.New(t)
	j := b.Journal("test")
	mustAppend(t, j, callRecord("f1", callKey("c1"), message.ToolCallPending, "propose"), 0)
	for _, status := range []string{"100", "404", "408", "409", "503"} {
		m := nats.NewMsg("askance.v1.test.record.s1.r1.c1.f")
		m.Header.Set("Status", status)
		m.Header.Set("Description", "Consumer Deleted")
		m.Header.Set("Nats-Sequence", "7")
		store(t, b.Conn("forger"), m)
	}
	mustAppend(t, j, callRecord("f2", callKey("c1"), message.ToolCallAllowed, "allow"), 1)
	w := watch(t, j, 0)
	records := w.wait(t, "watch", func(r []toolcall.JournalEntry, caught int) bool { return len(r) == 7 && caught >= 0 })
	for i, r := range records {
		if genuine := i == 0 || i == 6; r.Seq != uint64(i+1) || genuine != (r.Invalid == nil) {
			t.Errorf("record %d: %+v", i, r)
		}
	}
	got, last, err := j.Read(t.Context(), callKey("").SessionKey(), 0, 100)
	if err != nil || len(got) != 7 || last != 7 {
		t.Errorf("Read: %d records up to %d, %v", len(got), last, err)
	}
}

// An engine with other keys can neither read the event records nor write any.
func TestOtherKeysAreForeign(t *testing.T) {
	b, _, _ := forgedBus(t)
	keys, err := keyfile.New()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bus.OpenJournal(t.Context(), b.Conn("engine"), "test", keys, bus.JournalOptions{}); !errors.Is(err, message.ErrForeignStream) {
		t.Errorf("OpenJournal with other keys: %v, want foreign stream", err)
	}
}
