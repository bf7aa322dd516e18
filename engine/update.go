package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/askance-dev/askance/engine/internal/schedule"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// maxRaces bounds how often a step is tried again because somebody else wrote
// first. Every race has a winner, so the bound is only met when hundreds write
// to one call at once.
const maxRaces = 100

// change says how a call moves on: it takes steps on the machine, or none and
// returns errNoChange.
type change func(ctx context.Context, m *toolcall.Machine) error

// errNoChange ends an update that found nothing to do; the present call is
// returned without an error.
var errNoChange = errors.New("no change")

// update is the one way in which a call moves: decide from its last fact,
// write the next by compare-and-swap, then perform the effects. The view's
// copy may be tried first: if the write succeeds, it was the last fact. Before
// an error is believed, the journal itself is asked.
func (e *Engine) update(ctx context.Context, op string, key message.Key, by message.Principal, f change) (*message.Call, error) {
	defer e.enter()()
	cur, fresh := e.view.Call(key), false
	for range maxRaces {
		if cur == nil {
			var err error
			if cur, err = e.last(ctx, key); err != nil {
				return nil, opError(op, err)
			}
			fresh = true
		}
		m := toolcall.Load(cur)
		err := f(ctx, m)
		if errors.Is(err, errNoChange) && fresh {
			return cur, nil
		}
		if err != nil && fresh {
			return cur, opError(op, err)
		}
		if err != nil { // perhaps only the view was old
			cur = nil
			continue
		}
		if next := m.Call(); next.Facts > message.MaxFactsPerCall && next.Open() { // it may still be ended
			return cur, &message.Error{Code: message.CodeTooLarge, Op: op, Call: cur.Clone(), What: "the call has reached its limit of facts", Hint: "interrupt its reply"}
		}
		next, err := e.write(ctx, m, by, cur.Seq)
		if err == nil {
			return next, nil
		}
		if !errors.Is(err, message.ErrConflict) {
			return cur, opError(op, err)
		}
		cur = nil
	}
	return nil, crowded(op, key)
}

// opError puts the operation into an Error that has none.
func opError(op string, err error) error {
	me := *message.AsError(op, err)
	if me.Op == "" || me.Op == "append" || me.Op == "last" {
		me.Op = op
	}
	return &me
}

// crowded gives up a step that lost too many races.
func crowded(op string, key message.Key) error {
	return &message.Error{Code: message.CodeConflict, Op: op, What: "too many others are writing to " + key.String(), Hint: "try again"}
}

// unreadable: the last fact of a tree is there and is none that this engine can
// go on from.
func unreadable(key message.Key, why error) error {
	return &message.Error{Code: message.CodeInternal, Op: "last", What: "the last fact of " + key.String() + " is not readable", Hint: "see that all engines of the space have its keys and one version", Err: why}
}

// last reads a call's last fact from the journal and brings the view up to it.
func (e *Engine) last(ctx context.Context, key message.Key) (*message.Call, error) {
	r, err := e.journal.Last(ctx, key)
	if err != nil {
		return nil, err
	}
	if r.Fact == nil || r.Fact.Call == nil {
		return nil, unreadable(key, r.Invalid)
	}
	r.Fact.Call.At(r.Seq) // before anybody else can see it
	if e.view.Apply(r.Fact, r.Seq) {
		e.follow(r.Fact)
	}
	return r.Fact.Call, nil
}

// write stores the machine's steps as the call's next fact and performs its
// effects.
func (e *Engine) write(ctx context.Context, m *toolcall.Machine, by message.Principal, prev uint64) (*message.Call, error) {
	c := m.Call()
	c.Seq = 0
	f := e.fact(by, c.UpdatedAt)
	f.Call, f.Path, f.Explanation = c, m.Path(), m.Explanation()
	if lane := f.WorkLane(); lane != (message.Lane{}) {
		if err := e.journal.EnsureLane(ctx, lane); err != nil {
			return nil, err
		}
	}
	sent := time.Now()
	if _, err := e.append(ctx, f, prev); err != nil {
		return nil, err
	}
	e.perform(c, m.Effects(), sent)
	return c, nil
}

func (e *Engine) fact(by message.Principal, at time.Time) *message.Fact {
	return &message.Fact{V: message.FactVersion, ID: randomHex(16), By: by, At: at, Engine: e.cfg.id}
}

// append stores one fact and takes it into the view. A fact whose write failed
// or may still arrive is left to the watch, which reads it like any other.
func (e *Engine) append(ctx context.Context, f *message.Fact, prev uint64) (uint64, error) {
	e.own.put(f)
	seq, err := e.store(ctx, f, prev)
	if err != nil {
		e.own.take(f.ID)
		return 0, err
	}
	e.view.Apply(f, seq)
	return seq, nil
}

// store writes one fact. When the outcome is unknown it asks the journal
// whether the fact is there, for as long as the caller has patience, so that a
// lost acknowledgement never turns into a second decision.
func (e *Engine) store(ctx context.Context, f *message.Fact, prev uint64) (uint64, error) {
	var unsure error // an earlier sending may have arrived, or may still arrive
	for pauses := (schedule.Pauses{Next: 10 * time.Millisecond, Most: time.Second}); ; {
		seq, err := e.journal.Append(ctx, f, prev)
		if errors.Is(err, message.ErrUnknownOutcome) {
			unsure = err
		}
		if unsure == nil || err == nil {
			return seq, err
		}
		moved, at, lerr := e.stored(ctx, f, prev)
		switch {
		case lerr == nil && at > 0:
			return at, nil
		case lerr == nil && moved:
			return 0, &message.Error{Code: message.CodeConflict, Op: "append", What: fmt.Sprintf("%s has moved on", f.Key()), Hint: "read its last fact and decide again"}
		case !errors.Is(err, message.ErrUnknownOutcome) && !errors.Is(err, message.ErrConflict):
			return 0, unsure // this sending was refused; that says nothing about the one before
		}
		if !pauses.Wait(ctx) { // not there (yet), or cannot be read: the same fact again is harmless
			return 0, unsure
		}
	}
}

// stored looks whether a tree has moved on from prev, and where f stands if it
// was f that moved it: others may have written after it.
func (e *Engine) stored(ctx context.Context, f *message.Fact, prev uint64) (moved bool, at uint64, err error) {
	r, err := e.journal.Last(ctx, f.Key())
	switch {
	case errors.Is(err, message.ErrNotFound):
		return false, 0, nil
	case err != nil || r.Seq == prev:
		return false, 0, err
	case r.Fact != nil && r.Fact.ID == f.ID:
		return true, r.Seq, nil
	}
	history, err := e.journal.History(ctx, f.Key())
	for _, r := range history {
		if r.Fact != nil && r.Fact.ID == f.ID {
			return true, r.Seq, nil
		}
	}
	return true, 0, err
}

// stamp is the engine's clock. Without the monotonic reading: a time must mean
// the same here as to those who read it from the journal.
func stamp() toolcall.Base { return toolcall.Base{At: time.Now().UTC().Round(0)} }

// self is the engine as a principal, for what timers and policy do.
func (e *Engine) self() message.Principal {
	return message.Principal{Role: message.RoleEngine, Name: e.cfg.id, Auth: "in-process"}
}
