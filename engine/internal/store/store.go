// Package store is the engine's hand on the journal: [Store] follows it into the
// view, reads what the view may lack, and writes.
//
// [Update] is the one way in which an entity moves: decide from its last event
// record, append the next one by compare-and-swap, and decide again if another
// writer was first. A write whose outcome is unknown is looked up, so that a lost
// acknowledgement never becomes a second decision.
package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/engine/internal/view"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Journal is what a store needs of the engine's journal.
type Journal interface {
	Append(ctx context.Context, f *toolcall.EventRecord, prev uint64) (uint64, error)
	Last(ctx context.Context, key toolcall.Key) (toolcall.JournalEntry, error)
	History(ctx context.Context, key toolcall.Key) ([]toolcall.JournalEntry, error)
	Read(ctx context.Context, session toolcall.Key, after uint64, limit int) (records []toolcall.JournalEntry, last uint64, err error)
	CountCalls(ctx context.Context, reply toolcall.Key) (calls int, through uint64, err error)
	Watch(ctx context.Context, after uint64, sink toolcall.Sink) error
	EnsureQueue(ctx context.Context, queue toolcall.Queue) error
}

// Hooks are what a store calls. None may block.
type Hooks struct {
	// News is called with each event record of another replica, or of this one from before
	// a restart, once the view has it.
	News func(*toolcall.EventRecord)
	// Delivered is called with each event record, once and in the order of the journal.
	Delivered func(*toolcall.EventRecord)
	// Compare is called with the time at which this engine made an event record and the time
	// at which the journal stored it.
	Compare func(at, stored time.Time)
	// Writing is called before an event record is written, and what it returns after that.
	Writing func(*toolcall.EventRecord) (written func())
	// Written is called when UpdateCall has written: c is the call's new state, and
	// sent a time before the event record was sent.
	Written func(c *toolcall.Call, effects []toolcall.Effect, sent time.Time)
}

// Store reads and writes the journal of one space for one engine.
type Store struct {
	space   toolcall.SpaceID
	engine  string
	journal Journal
	view    *view.View
	own     inFlight
	log     *slog.Logger
	hooks   Hooks

	delivering sync.Mutex // held while the watch delivers a record

	following context.Context //nolint:containedctx // ends when the journal is not followed any more
	lost      context.CancelCauseFunc
	caughtUp  chan struct{}
	skipped   atomic.Bool // the watch passed over a genuine record of another version
}

// HasSkipped reports whether the watch passed over a record that an engine of another
// version wrote: what the view knows then lacks it.
func (s *Store) HasSkipped() bool { return s.skipped.Load() }

// New makes a store that follows the journal until ctx ends, once Follow is
// called.
func New(ctx context.Context, space toolcall.SpaceID, engine string, j Journal, v *view.View, log *slog.Logger, hooks Hooks) *Store {
	s := &Store{space: space, engine: engine, journal: j, view: v, log: log, hooks: hooks, caughtUp: make(chan struct{})}
	s.following, s.lost = context.WithCancelCause(ctx)
	return s
}

// Follow takes the journal behind what the view has into it, until ctx ends or the
// journal cannot go on, and returns why.
func (s *Store) Follow(ctx context.Context) error {
	err := s.journal.Watch(ctx, s.view.Sequence(), watcher{s})
	s.own.dropAll()
	s.lost(err)
	return err
}

// CaughtUp is closed when the view has what the journal had when Follow began.
func (s *Store) CaughtUp() <-chan struct{} { return s.caughtUp }

// Pause calls f while the watch delivers nothing: the view and everything else that is
// fed with records is as of one sequence.
func (s *Store) Pause(f func()) {
	s.delivering.Lock()
	defer s.delivering.Unlock()
	f()
}

// Following ends, with the reason, when the journal is not followed any more:
// what waits for news would wait for ever.
func (s *Store) Following() context.Context { return s.following }

// apply takes an event record that was read into the view, and tells if it was news.
func (s *Store) apply(f *toolcall.EventRecord, seq uint64) {
	if s.view.Apply(f, seq) {
		s.hooks.News(f)
	}
}

// watcher is the store as a Sink.
type watcher struct{ s *Store }

// Wants spares this engine the reading of its own event records: it has them in memory.
func (w watcher) Wants(seq uint64, id string, stored time.Time) bool {
	f := w.s.own.takeRecord(id)
	if f == nil {
		return true
	}
	w.s.hooks.Compare(f.At, stored)
	w.deliverRecord(f, seq)
	return false
}

// Record implements toolcall.Sink.
func (w watcher) Record(r toolcall.JournalEntry) {
	s := w.s
	switch {
	case r.Invalid != nil:
		if errors.Is(r.Invalid, message.ErrUnavailable) { // genuine, by an engine of another version
			s.skipped.Store(true)
		}
		s.log.Error("a journal entry cannot be used and was skipped", "seq", r.Seq, "why", r.Invalid)
	case r.Record != nil:
		if r.Record.Engine == s.engine {
			s.hooks.Compare(r.Record.At, r.Time)
		}
		s.own.takeRecord(r.Record.ID) // for journals that do not ask whether it is wanted
	default:
		s.view.NoteEvent(r.Key)
	}
	w.deliverRecord(r.Record, r.Seq)
}

// deliverRecord takes in an entry; f is nil if it is no usable event record.
func (w watcher) deliverRecord(f *toolcall.EventRecord, seq uint64) {
	w.s.delivering.Lock()
	defer w.s.delivering.Unlock()
	if f != nil {
		w.s.apply(f, seq)
		if seq > w.s.view.Sequence() {
			w.s.hooks.Delivered(f)
		}
	}
	w.s.view.ReachSequence(seq)
}

// CaughtUp implements toolcall.Sink.
func (w watcher) CaughtUp() { close(w.s.caughtUp) }

// RandomHex gives n random bytes in hexadecimal.
func RandomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}
