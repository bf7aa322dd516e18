package e2e_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/toolcall"
)

// observer follows the journal over a plain connection, with the engine's keys and without writing,
// and lets a test wait for what it sees there. It is the test's only clock: event records, not
// time, decide what happens next.
type observer struct {
	t     testing.TB
	leave context.CancelFunc // ends the observation

	mu           sync.Mutex // guards the fields below
	calls        map[toolcall.Key]*toolcall.Call
	order        []toolcall.Key // in the order of first event records
	eventRecords map[toolcall.Key][]toolcall.JournalEntry
	records      int
	seq          uint64 // of the last record
	caughtUp     bool
	mayVoid      bool // see allowVoid
	watchers     map[*watcher]struct{}
	changed      chan struct{} // closed and replaced with every record
}

// watcher waits for one record.
type watcher struct {
	match func(toolcall.JournalEntry) bool
	seen  chan struct{}
}

// observe follows j until the test ends.
func observe(t testing.TB, j *journal.Journal) *observer {
	t.Helper()
	o := &observer{
		t: t, calls: map[toolcall.Key]*toolcall.Call{}, eventRecords: map[toolcall.Key][]toolcall.JournalEntry{},
		watchers: map[*watcher]struct{}{}, changed: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(context.Background())
	o.leave = cancel
	done := make(chan error, 1)
	go func() { done <- j.Watch(ctx, 0, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && ctx.Err() == nil {
			t.Errorf("the observer lost the journal: %v", err)
		}
	})
	return o
}

// Record implements toolcall.Sink.
func (o *observer) Record(r toolcall.JournalEntry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.records++
	o.seq = r.Seq
	if o.isForged(r) {
		o.t.Errorf("record %d is not authentic: %v", r.Seq, r.Invalid)
	}
	if r.Record != nil && r.Record.Call != nil {
		c := r.Record.Call
		c.At(r.Seq)
		if o.calls[c.Key] == nil {
			o.order = append(o.order, c.Key)
		}
		o.calls[c.Key] = c
		o.eventRecords[c.Key] = append(o.eventRecords[c.Key], r)
	}
	for w := range o.watchers {
		if w.match(r) {
			close(w.seen)
			delete(o.watchers, w)
		}
	}
	o.wake()
}

// isForged reports whether no engine wrote the record, or it is void although none may be.
func (o *observer) isForged(r toolcall.JournalEntry) bool {
	return r.Invalid != nil && !(o.mayVoid && strings.Contains(r.Invalid.Error(), "the record is void"))
}

// allowVoid says whether void records may occur: servers whose disk is full can store them.
func (o *observer) allowVoid(may bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mayVoid = may
}

// CaughtUp implements toolcall.Sink.
func (o *observer) CaughtUp() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.caughtUp = true
	o.wake()
}

func (o *observer) wake() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// when returns a channel that is closed at the next record that matches.
func (o *observer) when(match func(toolcall.JournalEntry) bool) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := &watcher{match: match, seen: make(chan struct{})}
	o.watchers[w] = struct{}{}
	return w.seen
}

// step matches an event record of the call that has a step with the cause.
func step(key toolcall.Key, cause toolcall.Cause) func(toolcall.JournalEntry) bool {
	return func(r toolcall.JournalEntry) bool {
		return r.Record != nil && r.Record.Call != nil && r.Record.Call.Key == key && took(r.Record, cause)
	}
}

// call returns the last state seen of a call, nil if there was none.
func (o *observer) call(key toolcall.Key) *toolcall.Call {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls[key]
}

// history returns the records seen of a call.
func (o *observer) history(key toolcall.Key) []toolcall.JournalEntry {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.eventRecords[key])
}

// all returns the last state seen of every call, in the order of proposal.
func (o *observer) all() []*toolcall.Call {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]*toolcall.Call, 0, len(o.order))
	for _, k := range o.order {
		out = append(out, o.calls[k])
	}
	return out
}

// count returns the number of records seen.
func (o *observer) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.records
}

// reached reports whether the record at seq was seen.
func (o *observer) reached(seq uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seq >= seq
}

// await is like until, but ends the test instead of giving up. While it waits, mind may also end
// the test. Only the test's own goroutine may call it.
func (o *observer) await(what string, mind func(), ok func() bool) {
	o.t.Helper()
	if !o.until(func() bool { mind(); return ok() }) {
		o.t.Fatalf("%s: not within %s\n%s", what, patience, o.open())
	}
}

// until waits until ok returns true. It calls ok after every record and also now and then, because
// ok may check other things than the journal. It reports false when patience is used up.
func (o *observer) until(ok func() bool) bool {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		o.mu.Lock()
		changed := o.changed
		o.mu.Unlock()
		if ok() {
			return true
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-deadline.C:
			return false
		}
	}
}

// open describes the calls that have not ended.
func (o *observer) open() string {
	s := ""
	for _, c := range o.all() {
		if c.Open() {
			s += describe(c) + "\n"
		}
	}
	return s
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
