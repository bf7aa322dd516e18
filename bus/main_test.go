package bus_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// The interfaces that the engine and the executor require.
var (
	_ engine.Journal     = (*bus.Journal)(nil)
	_ engine.Client      = (*bus.Client)(nil)
	_ engine.Signals     = (*bus.Signals)(nil)
	_ api.Caller         = (*engine.Port)(nil)
	_ bus.Observer       = (*engine.Engine)(nil)
	_ executor.Transport = (*bus.Worker)(nil)
)

func TestMain(m *testing.M) { bustest.Main(m) }

// patience bounds every wait for something that must happen. Only a defect uses it up, so it is long
// enough for an overloaded machine.
const patience = 2 * time.Minute

// at is when everything in these tests happens.
var at = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func callKey(call string) toolcall.Key {
	return toolcall.Key{Space: "test", Session: "s1", Reply: "r1", Call: message.CallID(call)}
}

// callRecord is an event record of a call in some state.
func callRecord(id string, key toolcall.Key, state message.ToolCallState, cause string) *toolcall.EventRecord {
	return &toolcall.EventRecord{
		V: toolcall.RecordVersion, ID: id, At: at, Engine: "e1",
		Path: []toolcall.Step{{Cause: cause, To: state}},
		By:   toolcall.Principal{Role: toolcall.RoleEngine, Name: "e1", Auth: "in-process"},
		Call: &toolcall.Call{Key: key, Runtime: "rt", Tool: "echo", Input: `{"n":1}`, State: state, Cause: cause, Proposal: "sha256:x", ProposedAt: at, UpdatedAt: at, Records: 1},
	}
}

// workRecord is a submitted event record of a remote attempt: a task.
func workRecord(id string, key toolcall.Key, tool string) *toolcall.EventRecord {
	rec := callRecord(id, key, message.ToolCallSubmitted, "submit")
	rec.Call.Tool, rec.Call.Placement, rec.Call.Attempt = tool, toolcall.PlaceRemote, toolcall.Attempt{Number: 1}
	return rec
}

// mustAppend appends and returns the sequence.
func mustAppend(t testing.TB, j *bus.Journal, rec *toolcall.EventRecord, prev uint64) uint64 {
	t.Helper()
	seq, err := j.Append(t.Context(), rec, prev)
	if err != nil {
		t.Fatalf("Append(%s, %d): %v", rec.ID, prev, err)
	}
	return seq
}

// sink collects what Watch delivers.
type sink struct {
	end     func()     // of watch
	mu      sync.Mutex // guards records and caught
	records []toolcall.JournalEntry
	caught  int // records that were there at CaughtUp; -1: not yet
	times   int
	more    chan struct{}
}

func newSink() *sink { return &sink{caught: -1, more: make(chan struct{}, 1)} }

func (s *sink) Record(r toolcall.JournalEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = append(s.records, r)
	s.poke()
}

func (s *sink) CaughtUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caught = len(s.records)
	s.times++
	s.poke()
}

func (s *sink) poke() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// wait waits until ok returns true for the delivered records.
func (s *sink) wait(t testing.TB, what string, ok func(records []toolcall.JournalEntry, caught int) bool) []toolcall.JournalEntry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
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
		case <-s.more:
		case <-ctx.Done():
			t.Fatalf("%s: not after %s; %d records", what, patience, len(out))
		}
	}
}

// watch runs Watch until the end of the test, or until end is called.
func watch(t testing.TB, j *bus.Journal, after uint64) *sink {
	t.Helper()
	s := newSink()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = j.Watch(ctx, after, s) // ends with ctx
	}()
	s.end = func() { cancel(); <-done }
	t.Cleanup(s.end)
	return s
}

func id(n int) string { return fmt.Sprintf("record-%d", n) }
