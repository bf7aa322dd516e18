package store

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/askance-dev/askance/engine/internal/schedule"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// maxRaces bounds how often a step is retried because another writer was first. Every
// race has a winner, so the bound is reached only if hundreds write to one entity at once.
const maxRaces = 100

// ErrNoChange ends an update that has nothing to change. Update returns it with the
// current state.
var ErrNoChange = errors.New("no change")

// Entity is what one compare-and-swap protects, with the ways to read it.
type Entity[T any] struct {
	Key toolcall.Key
	// Known returns a state that may be outdated, with its sequence, to avoid a read. If it
	// is nil, the journal is read first.
	Known func() (state T, seq uint64, ok bool)
	// Read reads the last state from the journal.
	Read func(ctx context.Context) (state T, seq uint64, err error)
}

// Update changes an entity. step makes the next event record from a state. If the state was
// not read from the journal, an error from step does not count until the journal was read.
// Update returns the state from which the last step was made and the sequence of the new
// event record or, with ErrNoChange, of that state.
func Update[T any](ctx context.Context, s *Store, e Entity[T], step func(ctx context.Context, state T) (*toolcall.EventRecord, error)) (T, uint64, error) {
	var state T
	var at uint64
	var known bool
	if e.Known != nil {
		state, at, known = e.Known()
	}
	fresh := false
	for range maxRaces {
		if !known {
			var err error
			if state, at, err = e.Read(ctx); err != nil {
				return state, 0, err
			}
			fresh = true
		}
		rec, err := step(ctx, state)
		if err == nil {
			var seq uint64
			if seq, err = s.Append(ctx, rec, at); err == nil {
				return state, seq, nil
			}
			if !errors.Is(err, message.ErrConflict) {
				return state, 0, err
			}
		} else if fresh { // else the known state may have been outdated
			return state, at, err
		}
		known = false
	}
	return state, 0, &message.Error{Code: message.CodeConflict, What: "too many engines write to " + e.Key.String(), Hint: "try again"}
}

// Change changes a call: it takes steps on the machine, or takes none and returns
// ErrNoChange.
type Change func(ctx context.Context, m *toolcall.Machine) error

// UpdateCall is Update for a call, and performs the effects of what it wrote. A change
// that has nothing to do is not an error.
func (s *Store) UpdateCall(ctx context.Context, op string, key toolcall.Key, by toolcall.Principal, change Change) (*toolcall.Call, error) {
	var m *toolcall.Machine
	var sent time.Time
	cur, _, err := Update(ctx, s, s.callEntity(key), func(ctx context.Context, cur *toolcall.Call) (*toolcall.EventRecord, error) {
		m = toolcall.Load(cur)
		if err := change(ctx, m); err != nil {
			return nil, err
		}
		if next := m.Call(); next.Records > toolcall.MaxRecordsPerCall && next.Open() { // ending it is still possible
			return nil, &message.Error{Code: message.CodeTooLarge, Op: op, Call: toolcall.ErrorCall(cur), What: "the call has reached its limit of event records", Hint: "interrupt its reply"}
		}
		rec, err := s.callRecord(ctx, m, by)
		sent = time.Now()
		return rec, err
	})
	switch {
	case errors.Is(err, ErrNoChange):
		return cur, nil
	case err != nil:
		return cur, OpError(op, err)
	}
	c := m.Call()
	s.hooks.Written(c, m.Effects(), sent)
	return c, nil
}

// AppendFirst stores the first event record of a call. sent is a time before it was sent.
func (s *Store) AppendFirst(ctx context.Context, m *toolcall.Machine, by toolcall.Principal) (seq uint64, sent time.Time, err error) {
	rec, err := s.callRecord(ctx, m, by)
	if err != nil {
		return 0, sent, err
	}
	sent = time.Now()
	seq, err = s.Append(ctx, rec, 0)
	return seq, sent, err
}

// callRecord makes the event record of the machine's steps, and ensures that the queue of
// its task exists.
func (s *Store) callRecord(ctx context.Context, m *toolcall.Machine, by toolcall.Principal) (*toolcall.EventRecord, error) {
	c := m.Call()
	c.Seq = 0
	rec := s.NewRecord(by, c.UpdatedAt)
	rec.Call, rec.Path, rec.Explanation = c, m.Path(), m.Explanation()
	if queue := rec.WorkQueue(); queue != (toolcall.Queue{}) {
		if err := s.journal.EnsureQueue(ctx, queue); err != nil {
			return nil, err
		}
	}
	return rec, nil
}

func (s *Store) callEntity(key toolcall.Key) Entity[*toolcall.Call] {
	return Entity[*toolcall.Call]{
		Key: key,
		Known: func() (*toolcall.Call, uint64, bool) {
			c := s.view.Call(key)
			if c == nil {
				return nil, 0, false
			}
			return c, c.Seq, true
		},
		Read: func(ctx context.Context) (*toolcall.Call, uint64, error) {
			c, err := s.LastCall(ctx, key)
			if err != nil {
				return nil, 0, err
			}
			return c, c.Seq, nil
		},
	}
}

// Reply is a reply's own entity.
func (s *Store) Reply(key toolcall.Key) Entity[toolcall.ReplyState] {
	return Entity[toolcall.ReplyState]{Key: key, Read: func(ctx context.Context) (toolcall.ReplyState, uint64, error) { return s.LastReply(ctx, key) }}
}

// OpError sets the operation of an error that has none.
func OpError(op string, err error) error {
	me := *message.AsError(op, err)
	if me.Op == "" || me.Op == "append" || me.Op == "last" {
		me.Op = op
	}
	return &me
}

// unreadableError is the error when an entity's last event record exists, but this engine
// cannot read it.
func unreadableError(key toolcall.Key, why error) error {
	return &message.Error{Code: message.CodeInternal, Op: "last", What: fmt.Sprintf("the last event record of %s cannot be read", key), Hint: "give all engines of the space the same keys and version", Err: why}
}

// newID returns 95 random bits in a short form, because each record contains the id twice.
func newID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	b[0] &= 0x7f           // so it begins with a letter
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// NewRecord makes an event record of this engine, without content.
func (s *Store) NewRecord(by toolcall.Principal, at time.Time) *toolcall.EventRecord {
	return &toolcall.EventRecord{V: toolcall.RecordVersion, ID: newID(), By: by, At: at, Engine: s.engine}
}

// Append stores one event record and applies it to the view. If the write failed or may still
// arrive, the watch reads the record like any other.
func (s *Store) Append(ctx context.Context, rec *toolcall.EventRecord, prev uint64) (uint64, error) {
	askedAt, began := s.hooks.AskedAt(rec), time.Now()
	s.own.put(rec)
	seq, err := s.write(ctx, rec, prev)
	if err != nil {
		s.own.takeRecord(rec.ID)
		return 0, err
	}
	s.view.Apply(rec, seq)
	s.hooks.Wrote(rec, askedAt, time.Since(began))
	return seq, nil
}

// write stores one record. If the outcome is unknown, it asks the journal whether the event
// record is there, until ctx ends.
func (s *Store) write(ctx context.Context, rec *toolcall.EventRecord, prev uint64) (uint64, error) {
	var unsure error // an earlier attempt may have arrived, or may still arrive
	for pauses := (schedule.Pauses{Next: 10 * time.Millisecond, Most: time.Second}); ; {
		seq, err := s.journal.Append(ctx, rec, prev)
		if errors.Is(err, message.ErrUnknownOutcome) {
			unsure = err
		}
		if unsure == nil || err == nil || errors.Is(err, toolcall.ErrUnsynced) {
			return seq, err
		}
		moved, at, lerr := s.find(ctx, rec, prev)
		switch {
		case lerr == nil && at > 0:
			return at, nil
		case lerr == nil && moved:
			return 0, &message.Error{Code: message.CodeConflict, Op: "append", What: fmt.Sprintf("%s has changed", rec.Key()), Hint: "read its last event record and decide again"}
		case !errors.Is(err, message.ErrUnknownOutcome) && !errors.Is(err, message.ErrConflict):
			return 0, unsure // this attempt was refused; that says nothing about the one before
		}
		if !pauses.Wait(ctx) { // not there yet, or unreadable: sending the same event record again is harmless
			return 0, unsure
		}
	}
}

// find reports whether an entity has changed since prev, and the sequence of rec if it was
// stored: others may have written after it.
func (s *Store) find(ctx context.Context, rec *toolcall.EventRecord, prev uint64) (moved bool, at uint64, err error) {
	r, err := s.journal.Last(ctx, rec.Key())
	switch {
	case errors.Is(err, message.ErrNotFound):
		return false, 0, nil
	case err != nil || r.Seq == prev:
		return false, 0, err
	case r.Record != nil && r.Record.ID == rec.ID:
		return true, r.Seq, nil
	}
	history, err := s.journal.History(ctx, rec.Key())
	for _, r := range history {
		if r.Record != nil && r.Record.ID == rec.ID {
			return true, r.Seq, nil
		}
	}
	return true, 0, err
}

// inFlight holds the event records that this engine is writing, by id. When the watch
// reaches them, it applies them from memory, in journal order, instead of decoding what
// the journal sends back.
//
// Invariant: an entry is a write whose outcome is open, or a stored event record that
// the watch has not reached. After the watch has ended there are none.
type inFlight struct {
	mu      sync.Mutex // guards all below
	records map[string]*toolcall.EventRecord
	ended   bool
}

// put stores a copy: the writer may be sending the event record again while the watch
// sets the call's sequence.
func (i *inFlight) put(rec *toolcall.EventRecord) {
	copied := *rec
	if rec.Call != nil {
		copied.Call = rec.Call.Clone()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		return
	}
	if i.records == nil {
		i.records = map[string]*toolcall.EventRecord{}
	}
	i.records[rec.ID] = &copied
}

// takeRecord removes and returns the event record with this id, or nil.
func (i *inFlight) takeRecord(id string) *toolcall.EventRecord {
	i.mu.Lock()
	defer i.mu.Unlock()
	rec := i.records[id]
	delete(i.records, id)
	return rec
}

// dropAll removes everything, because the watch has ended.
func (i *inFlight) dropAll() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.records, i.ended = nil, true
}

// JournalTime is the current time as the journal stores it: without a monotonic reading,
// so that it compares equal after it was read back.
func JournalTime() time.Time { return time.Now().UTC().Round(0) }
