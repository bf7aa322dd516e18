package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/askance-dev/askance/engine/internal/schedule"
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
	Watch(ctx context.Context, after uint64, sink toolcall.Sink) error
	EnsureQueue(ctx context.Context, queue toolcall.Queue) error
}

// Hooks are what a store calls. None may block.
type Hooks struct {
	// News is called with each event record of another replica, or of this one from before
	// a restart, once the view has it.
	News func(*toolcall.EventRecord)
	// Compare is called with the time at which this engine made an event record and the time
	// at which the journal stored it.
	Compare func(at, stored time.Time)
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

	following context.Context //nolint:containedctx // ends when the journal is not followed any more
	lost      context.CancelCauseFunc
	caughtUp  chan struct{}
}

// New makes a store that follows the journal until ctx ends, once Follow is
// called.
func New(ctx context.Context, space toolcall.SpaceID, engine string, j Journal, v *view.View, log *slog.Logger, hooks Hooks) *Store {
	s := &Store{space: space, engine: engine, journal: j, view: v, log: log, hooks: hooks, caughtUp: make(chan struct{})}
	s.following, s.lost = context.WithCancelCause(ctx)
	return s
}

// Follow takes the journal into the view until ctx ends or the journal cannot go
// on, and returns why.
func (s *Store) Follow(ctx context.Context) error {
	err := s.journal.Watch(ctx, 0, watcher{s})
	s.own.end()
	s.lost(err)
	return err
}

// CaughtUp is closed when the view has what the journal had when Follow began.
func (s *Store) CaughtUp() <-chan struct{} { return s.caughtUp }

// Following ends, with the reason, when the journal is not followed any more:
// what waits for news would wait for ever.
func (s *Store) Following() context.Context { return s.following }

// NewRecord makes an event record of this engine, without content.
func (s *Store) NewRecord(by toolcall.Principal, at time.Time) *toolcall.EventRecord {
	return &toolcall.EventRecord{V: toolcall.RecordVersion, ID: RandomHex(16), By: by, At: at, Engine: s.engine}
}

// Append stores one event record and takes it into the view. An event record whose write failed or
// may still arrive is left to the watch, which reads it like any other.
func (s *Store) Append(ctx context.Context, f *toolcall.EventRecord, prev uint64) (uint64, error) {
	s.own.put(f)
	seq, err := s.write(ctx, f, prev)
	if err != nil {
		s.own.take(f.ID)
		return 0, err
	}
	s.view.Apply(f, seq)
	return seq, nil
}

// write stores one record. When the outcome is unknown it asks the journal whether
// the event record is there, for as long as the caller has patience.
func (s *Store) write(ctx context.Context, f *toolcall.EventRecord, prev uint64) (uint64, error) {
	var unsure error // an earlier sending may have arrived, or may still arrive
	for pauses := (schedule.Pauses{Next: 10 * time.Millisecond, Most: time.Second}); ; {
		seq, err := s.journal.Append(ctx, f, prev)
		if errors.Is(err, message.ErrUnknownOutcome) {
			unsure = err
		}
		if unsure == nil || err == nil {
			return seq, err
		}
		moved, at, lerr := s.find(ctx, f, prev)
		switch {
		case lerr == nil && at > 0:
			return at, nil
		case lerr == nil && moved:
			return 0, &message.Error{Code: message.CodeConflict, Op: "append", What: fmt.Sprintf("%s has moved on", f.Key()), Hint: "read its last event record and decide again"}
		case !errors.Is(err, message.ErrUnknownOutcome) && !errors.Is(err, message.ErrConflict):
			return 0, unsure // this sending was refused; that says nothing about the one before
		}
		if !pauses.Wait(ctx) { // it is not there yet, or cannot be read: the same event record again is harmless
			return 0, unsure
		}
	}
}

// find looks whether an entity has moved on from prev, and where f stands if f moved
// it: others may have written after it.
func (s *Store) find(ctx context.Context, f *toolcall.EventRecord, prev uint64) (moved bool, at uint64, err error) {
	r, err := s.journal.Last(ctx, f.Key())
	switch {
	case errors.Is(err, message.ErrNotFound):
		return false, 0, nil
	case err != nil || r.Seq == prev:
		return false, 0, err
	case r.Record != nil && r.Record.ID == f.ID:
		return true, r.Seq, nil
	}
	history, err := s.journal.History(ctx, f.Key())
	for _, r := range history {
		if r.Record != nil && r.Record.ID == f.ID {
			return true, r.Seq, nil
		}
	}
	return true, 0, err
}

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
	f := w.s.own.take(id)
	if f == nil {
		return true
	}
	w.s.hooks.Compare(f.At, stored)
	w.s.apply(f, seq)
	w.s.view.ReachSequence(seq)
	return false
}

// Record implements toolcall.Sink.
func (w watcher) Record(r toolcall.JournalEntry) {
	s := w.s
	switch {
	case r.Invalid != nil:
		s.log.Error("a journal entry cannot be used and was skipped", "seq", r.Seq, "why", r.Invalid)
	case r.Record != nil:
		if r.Record.Engine == s.engine {
			s.hooks.Compare(r.Record.At, r.Time)
		}
		s.own.take(r.Record.ID) // for journals that do not ask whether it is wanted
		s.apply(r.Record, r.Seq)
	default:
		s.view.NoteEvent(r.Key)
	}
	s.view.ReachSequence(r.Seq)
}

// CaughtUp implements toolcall.Sink.
func (w watcher) CaughtUp() { close(w.s.caughtUp) }

// RandomHex gives n random bytes in hexadecimal.
func RandomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}
