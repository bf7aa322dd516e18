package bustest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Patience bounds every wait for something that must happen. Only a defect uses it up, so it is long
// enough for an overloaded machine.
const Patience = 2 * time.Minute

// At is when everything in these tests happens.
var At = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// CallKey is the key of a call.
func CallKey(call string) toolcall.Key {
	return toolcall.Key{Space: "test", Session: "s1", Reply: "r1", Call: message.CallID(call)}
}

// CallRecord is an event record of a call in some state.
func CallRecord(id string, key toolcall.Key, state message.ToolCallState, cause string) *toolcall.EventRecord {
	return &toolcall.EventRecord{
		V: toolcall.RecordVersion, ID: id, At: At, Engine: "e1",
		Path: []toolcall.Step{{Cause: cause, To: state}},
		By:   toolcall.Principal{Role: toolcall.RoleEngine, Name: "e1", Auth: "in-process"},
		Call: &toolcall.Call{Key: key, Runtime: "rt", Tool: "echo", Input: `{"n":1}`, State: state, Cause: cause, Proposal: "sha256:x", ProposedAt: At, UpdatedAt: At, Records: 1},
	}
}

// WorkRecord is a submitted event record of a remote attempt: a task.
func WorkRecord(id string, key toolcall.Key, tool string) *toolcall.EventRecord {
	rec := CallRecord(id, key, message.ToolCallSubmitted, "submit")
	rec.Call.Tool, rec.Call.Placement, rec.Call.Attempt = tool, toolcall.PlaceRemote, toolcall.Attempt{Number: 1}
	return rec
}

// MustAppend appends and returns the sequence.
func MustAppend(t testing.TB, j *journal.Journal, rec *toolcall.EventRecord, prev uint64) uint64 {
	t.Helper()
	seq, err := j.Append(t.Context(), rec, prev)
	if err != nil {
		t.Fatalf("Append(%s, %d): %v", rec.ID, prev, err)
	}
	return seq
}

// Sink collects what Watch delivers.
type Sink struct {
	End     func()     // ends Watch
	mu      sync.Mutex // guards records and caught
	records []toolcall.JournalEntry
	caught  int // records that were there at CaughtUp; -1: not yet
	times   int
	More    chan struct{} // gets a value after news
}

// NewSink returns a sink for a Watch of its own.
func NewSink() *Sink { return &Sink{caught: -1, More: make(chan struct{}, 1)} }

// Record implements engine.Sink.
func (s *Sink) Record(r toolcall.JournalEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = append(s.records, r)
	s.poke()
}

// CaughtUp implements engine.Sink.
func (s *Sink) CaughtUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caught = len(s.records)
	s.times++
	s.poke()
}

func (s *Sink) poke() {
	select {
	case s.More <- struct{}{}:
	default:
	}
}

// Counts returns how many records arrived, how many of them before CaughtUp (-1: there was
// none yet), and how often CaughtUp was called.
func (s *Sink) Counts() (records, caught, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.records), s.caught, s.times
}

// Wait waits until ok returns true for the delivered records.
func (s *Sink) Wait(t testing.TB, what string, ok func(records []toolcall.JournalEntry, caught int) bool) []toolcall.JournalEntry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	for {
		s.mu.Lock()
		done := ok(s.records, s.caught)
		out := append([]toolcall.JournalEntry(nil), s.records...)
		s.mu.Unlock()
		if done {
			return out
		}
		select {
		case <-s.More:
		case <-ctx.Done():
			t.Fatalf("%s: not after %s; %d records", what, Patience, len(out))
		}
	}
}

// Watch runs Watch until the end of the test, or until End is called.
func Watch(t testing.TB, j *journal.Journal, after uint64) *Sink {
	t.Helper()
	s := NewSink()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = j.Watch(ctx, after, s) // ends with ctx
	}()
	s.End = func() { cancel(); <-done }
	t.Cleanup(s.End)
	return s
}

// ID is the id of the nth record.
func ID(n int) string { return fmt.Sprintf("record-%d", n) }

// LedgerOf opens the ledger of the only engine.
func LedgerOf(t testing.TB, j *journal.Journal) *journal.Ledger {
	t.Helper()
	l, err := journal.OpenLedger(t.Context(), j, journal.LedgerOptions{Engine: "e1", Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// VerifyWith verifies the whole journal with these keys.
func VerifyWith(t *testing.T, a journal.Auditing, keys toolcall.KeySet) *proof.Report {
	t.Helper()
	return VerifyAgainst(t, a, proof.Options{Keys: keys})
}

// VerifyAgainst verifies the whole journal.
func VerifyAgainst(t *testing.T, a journal.Auditing, o proof.Options) *proof.Report {
	t.Helper()
	end := func(of bus.AuditOf) bus.RecordsReply {
		rep, err := a.Records(t.Context(), bus.RecordsRequest{Of: of, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	signed, written := end(bus.AuditCheckpoints), end(bus.AuditJournal)
	o.Space, o.First, o.Last, o.Name = "test", written.First, written.Last, bus.NameOf
	r, err := proof.Verify(journal.Bodies(journal.Walk(t.Context(), a, bus.AuditCheckpoints, 0, signed.Last)), journal.Walk(t.Context(), a, bus.AuditJournal, 0, written.Last), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Genuine reads a stored message with its headers, as any reader of the stream could.
func Genuine(t *testing.T, nc *nats.Conn, stream string, seq uint64) *nats.Msg {
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

// Store publishes a message with the right to publish event records but without the engine key.
func Store(t *testing.T, nc *nats.Conn, m *nats.Msg) uint64 {
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

// Headers with which the server compares a record's predecessor.
const (
	HeaderPrev   = "Nats-Expected-Last-Subject-Sequence"
	HeaderFilter = "Nats-Expected-Last-Subject-Sequence-Subject"
)

// Stream is the journal of the space test.
func Stream(t testing.TB, b *Bus) jetstream.Stream {
	t.Helper()
	js, err := jetstream.New(b.Conn("admin"))
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(t.Context(), "ASKANCE_test")
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// LongID is an id of which subjects have only a hash.
var LongID = fmt.Sprintf("%0300d", 7)

// JetStream returns a JetStream of an administrator.
func JetStream(t testing.TB, b *Bus) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(b.Conn("admin"))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// WaitUntil repeats try until it succeeds.
func WaitUntil(t *testing.T, what string, try func() error) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}
