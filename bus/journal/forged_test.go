package journal_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// forgeries are messages that a reader must not take for event records, made from the
// bustest.Genuine second event record of a call. Those that keep a compare-and-swap are given
// the one that lets the server store them: sequence 2.
var forgeries = []struct {
	name string
	make func(h nats.Header, m *nats.Msg)
	why  string
}{
	{"no MAC", func(h nats.Header, _ *nats.Msg) { h.Del(journal.HeaderMAC) }, "no MAC"},
	{"no headers at all", func(_ nats.Header, m *nats.Msg) { m.Header = nil }, "no MAC"},
	{"bad MAC", func(h nats.Header, _ *nats.Msg) { h.Set(journal.HeaderMAC, keyOf(h)+" "+strings.Repeat("A", 43)) }, "MAC is wrong"},
	{"MAC that is no base64", func(h nats.Header, _ *nats.Msg) { h.Set(journal.HeaderMAC, keyOf(h)+" ?") }, "not base64url"},
	{"two MACs", func(h nats.Header, _ *nats.Msg) { h.Add(journal.HeaderMAC, h.Get(journal.HeaderMAC)) }, "no MAC"},
	{"MAC of another key", func(h nats.Header, _ *nats.Msg) {
		h.Set(journal.HeaderMAC, "0123456789abcdef "+strings.Fields(h.Get(journal.HeaderMAC))[1])
	}, "unknown key"},
	{"MAC of another predecessor", func(nats.Header, *nats.Msg) {}, "MAC is wrong"},
	{"body that is no JSON", func(_ nats.Header, m *nats.Msg) { m.Data = []byte("rm -rf /") }, "MAC is wrong"},
	{"replayed without compare-and-swap", func(h nats.Header, _ *nats.Msg) { h.Del(bustest.HeaderPrev); h.Del(bustest.HeaderFilter) }, "without the compare-and-swap of its entity"},
	{"replayed under another filter", func(h nats.Header, _ *nats.Msg) {
		// The very event record again, guarded by a subject that still ends at sequence 1.
		h.Set(bustest.HeaderPrev, "1")
		h.Set(bustest.HeaderFilter, "askance.v1.test.record.s1.r1.-.>")
	}, "without the compare-and-swap of its entity"},
}

func keyOf(h nats.Header) string { return strings.Fields(h.Get(journal.HeaderMAC))[0] }

// forgedBus has a reply with one event record and a call with two, and returns the second
// record of the call.
func forgedBus(t *testing.T) (*bustest.Bus, *journal.Journal, *nats.Msg) {
	b := bustest.New(t)
	j := b.Journal("test")
	reply := &toolcall.EventRecord{V: toolcall.RecordVersion, ID: "r1", At: bustest.At, Engine: "e", Reply: &toolcall.ReplyState{Key: bustest.CallKey("").ReplyKey(), Phase: toolcall.ReplyOpen}}
	bustest.MustAppend(t, j, reply, 0)
	prev := bustest.MustAppend(t, j, bustest.CallRecord("f1", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0)
	seq := bustest.MustAppend(t, j, bustest.CallRecord("f2", bustest.CallKey("c1"), message.ToolCallAllowed, "allow"), prev)
	return b, j, bustest.Genuine(t, b.Conn("reader"), "ASKANCE_test", seq)
}

func TestForgedRecordsAreSkippedAndReported(t *testing.T) {
	for _, tc := range forgeries {
		t.Run(tc.name, func(t *testing.T) {
			b, j, m := forgedBus(t)
			w := bustest.Watch(t, j, 0)
			m.Header.Del("Nats-Msg-Id") // else the server takes it for a duplicate
			m.Header.Set(bustest.HeaderPrev, "3")
			tc.make(m.Header, m)
			seq := bustest.Store(t, b.Conn("forger"), m)

			records := w.Wait(t, "watch", func(r []toolcall.JournalEntry, _ int) bool { return len(r) == 4 })
			if got := records[3]; got.Seq != seq || got.Record != nil || got.Invalid == nil || !strings.Contains(got.Invalid.Error(), tc.why) {
				t.Errorf("Watch delivered %+v, want it invalid: %s", got, tc.why)
			}
			last, err := j.Last(t.Context(), bustest.CallKey("c1"))
			if err != nil || last.Seq != 3 || last.Record.ID != "f2" {
				t.Errorf("Last = %+v, %v; want the bustest.Genuine second event record", last, err)
			}
			history, err := j.History(t.Context(), bustest.CallKey("c1"))
			if err != nil || len(history) != 3 || history[2].Invalid == nil || history[2].Record != nil {
				t.Errorf("History = %+v, %v", history, err)
			}
			// The forgery does not block the call, and the next event record is bustest.Genuine.
			next, err := j.Append(t.Context(), bustest.CallRecord("f3", bustest.CallKey("c1"), message.ToolCallFinished, "result"), 3)
			if err != nil {
				t.Fatalf("the call is blocked: %v", err)
			}
			if last, err = j.Last(t.Context(), bustest.CallKey("c1")); err != nil || last.Seq != next || last.Record.ID != "f3" {
				t.Errorf("Last after the next event record = %+v, %v", last, err)
			}
			if _, err := j.Append(t.Context(), bustest.CallRecord("f4", bustest.CallKey("c1"), message.ToolCallFinished, "deny"), 3); !errors.Is(err, message.ErrConflict) {
				t.Errorf("a second event record after the same one: %v, want a conflict", err)
			}
		})
	}
}

// A bustest.Genuine event record is bustest.Genuine only in its own place.
func TestMovedRecordIsNotBelieved(t *testing.T) {
	b := bustest.New(t)
	j := b.Journal("test")
	bustest.MustAppend(t, j, bustest.CallRecord("f1", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0)
	m := bustest.Genuine(t, b.Conn("reader"), "ASKANCE_test", 1)
	m.Subject = strings.Replace(m.Subject, ".c1.", ".c2.", 1)
	m.Header.Set(bustest.HeaderFilter, strings.Replace(m.Header.Get(bustest.HeaderFilter), ".c1.", ".c2.", 1))
	m.Header.Set("Nats-Msg-Id", "moved")
	bustest.Store(t, b.Conn("forger"), m)
	if r, err := j.Last(t.Context(), bustest.CallKey("c2")); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("Last = %+v, %v; want not found", r, err)
	}
	// The call can still be proposed for the first time.
	bustest.MustAppend(t, j, bustest.CallRecord("g1", bustest.CallKey("c2"), message.ToolCallPending, "propose"), 0)
}

// A message with the id of an event record does not make the engine believe that the record is
// stored.
func TestSquattedMessageID(t *testing.T) {
	b := bustest.New(t)
	j := b.Journal("test")
	m := nats.NewMsg("askance.v1.test.record.s1.r1.elsewhere.f")
	m.Header.Set("Nats-Msg-Id", "f1")
	bustest.Store(t, b.Conn("forger"), m)
	if seq, err := j.Append(t.Context(), bustest.CallRecord("f1", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0); err == nil {
		t.Errorf("Append = %d: a foreign message was accepted as the event record", seq)
	}
	bustest.MustAppend(t, j, bustest.CallRecord("f2", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0)
}

// Messages that look like the server's own status do not stop readers.
func TestStatusLookalikes(t *testing.T) {
	b := bustest.New(t)
	j := b.Journal("test")
	bustest.MustAppend(t, j, bustest.CallRecord("f1", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0)
	for _, status := range []string{"100", "404", "408", "409", "503"} {
		m := nats.NewMsg("askance.v1.test.record.s1.r1.c1.f")
		m.Header.Set("Status", status)
		m.Header.Set("Description", "Consumer Deleted")
		m.Header.Set("Nats-Sequence", "7")
		bustest.Store(t, b.Conn("forger"), m)
	}
	bustest.MustAppend(t, j, bustest.CallRecord("f2", bustest.CallKey("c1"), message.ToolCallAllowed, "allow"), 1)
	w := bustest.Watch(t, j, 0)
	records := w.Wait(t, "watch", func(r []toolcall.JournalEntry, caught int) bool { return len(r) == 7 && caught >= 0 })
	for i, r := range records {
		if isGenuine := i == 0 || i == 6; r.Seq != uint64(i+1) || isGenuine != (r.Invalid == nil) {
			t.Errorf("record %d: %+v", i, r)
		}
	}
	got, last, err := j.Read(t.Context(), bustest.CallKey("").SessionKey(), 0, 100)
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
	if _, err := journal.Open(t.Context(), b.Conn("engine"), "test", keys, journal.Options{}); !errors.Is(err, message.ErrForeignStream) {
		t.Errorf("OpenJournal with other keys: %v, want foreign stream", err)
	}
}
