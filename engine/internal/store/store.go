// Package store connects the engine to the journal: [Store] follows the journal into the
// view, reads what the view may lack, and writes.
//
// [Update] is the only way to change an entity: decide from its last event record,
// append the next one by compare-and-swap, and decide again if another writer was first.
// A write whose outcome is unknown is looked up, so a lost acknowledgement never becomes
// a second decision.
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

// Journal is the part of the engine's journal that a store needs.
type Journal interface {
	Append(ctx context.Context, rec *toolcall.EventRecord, prev uint64) (uint64, error)
	Last(ctx context.Context, key toolcall.Key) (toolcall.JournalEntry, error)
	History(ctx context.Context, key toolcall.Key) ([]toolcall.JournalEntry, error)
	Read(ctx context.Context, session toolcall.Key, after uint64, limit int) (records []toolcall.JournalEntry, last uint64, err error)
	CountCalls(ctx context.Context, reply toolcall.Key) (calls int, through uint64, err error)
	Watch(ctx context.Context, after uint64, sink toolcall.Sink) error
	EnsureQueue(ctx context.Context, queue toolcall.Queue) error
}

// Hooks are called by a store. None may block.
type Hooks struct {
	// News is called with each event record of another replica, or from before a restart,
	// once the view has it.
	News func(*toolcall.EventRecord)
	// Delivered is called with each event record, once and in journal order.
	Delivered func(*toolcall.EventRecord)
	// Compare is called with the times at which this engine made an event record and the
	// journal stored it.
	Compare func(at, stored time.Time)
	// AskedAt is called before an event record is written. Wrote is called afterwards, with what
	// AskedAt returned and how long the write took.
	AskedAt func(*toolcall.EventRecord) time.Time
	Wrote   func(rec *toolcall.EventRecord, askedAt time.Time, took time.Duration)
	// Written is called when UpdateCall has written: c is the call's new state, and
	// sent is a time before the event record was sent.
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

	following context.Context //nolint:containedctx // ends when the journal is no longer followed
	lost      context.CancelCauseFunc
	caughtUp  chan struct{}
	skipped   atomic.Bool // the watch skipped a genuine record of another version
}

// HasSkipped reports whether the watch skipped a record that an engine of another
// version wrote, so the view lacks it.
func (s *Store) HasSkipped() bool { return s.skipped.Load() }

// New returns a store. Once Follow is called, it follows the journal until ctx ends.
func New(ctx context.Context, space toolcall.SpaceID, engine string, j Journal, v *view.View, log *slog.Logger, hooks Hooks) *Store {
	s := &Store{space: space, engine: engine, journal: j, view: v, log: log, hooks: hooks, caughtUp: make(chan struct{})}
	s.following, s.lost = context.WithCancelCause(ctx)
	return s
}

// Follow reads what follows the view's sequence from the journal into the view, until ctx
// ends or the journal fails, and returns why it ended.
func (s *Store) Follow(ctx context.Context) error {
	err := s.journal.Watch(ctx, s.view.Sequence(), watcher{s})
	s.own.dropAll()
	s.lost(err)
	return err
}

// CaughtUp is closed when the view has everything that was in the journal when Follow began.
func (s *Store) CaughtUp() <-chan struct{} { return s.caughtUp }

// Pause calls f while the watch delivers nothing: the view and everything else that
// receives records is then at the same sequence.
func (s *Store) Pause(f func()) {
	s.delivering.Lock()
	defer s.delivering.Unlock()
	f()
}

// Following ends, with the reason, when the journal is no longer followed. Without it,
// waiting for news would never end.
func (s *Store) Following() context.Context { return s.following }

// apply adds an event record that was read to the view, and announces it if it is new.
func (s *Store) apply(rec *toolcall.EventRecord, seq uint64) {
	if s.view.Apply(rec, seq) {
		s.hooks.News(rec)
	}
}

// watcher is the store as a Sink.
type watcher struct{ s *Store }

// Wants declines this engine's own event records, which it has in memory.
func (w watcher) Wants(seq uint64, id string, stored time.Time) bool {
	rec := w.s.own.takeRecord(id)
	if rec == nil {
		return true
	}
	w.s.hooks.Compare(rec.At, stored)
	w.deliverRecord(rec, seq)
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
		s.log.Error("skipped an unusable journal entry", "seq", r.Seq, "why", r.Invalid)
	case r.Record != nil:
		if r.Record.Engine == s.engine {
			s.hooks.Compare(r.Record.At, r.Time)
		}
		s.own.takeRecord(r.Record.ID) // for journals that do not call Wants
	default:
		s.view.NoteEvent(r.Key)
	}
	w.deliverRecord(r.Record, r.Seq)
}

// deliverRecord adds an entry to the view; rec is nil if it is not a usable event record.
func (w watcher) deliverRecord(rec *toolcall.EventRecord, seq uint64) {
	w.s.delivering.Lock()
	defer w.s.delivering.Unlock()
	if rec != nil {
		w.s.apply(rec, seq)
		if seq > w.s.view.Sequence() {
			w.s.hooks.Delivered(rec)
		}
	}
	w.s.view.ReachSequence(seq)
}

// CaughtUp implements toolcall.Sink.
func (w watcher) CaughtUp() { close(w.s.caughtUp) }

// RandomHex returns n random bytes in hexadecimal.
func RandomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}
