package agui

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
)

// park ends the run because people or the client are to answer, if all that has
// happened was shown by now. calls are those without a result, as they stand.
func (r *run) park(ctx context.Context, calls []*message.Call) error {
	rec := &park{V: 1, Run: r.in.RunID, Reply: r.reply, Through: r.seq}
	someone := slices.ContainsFunc(calls, r.needsSomeone)
	held := map[string]string{}
	for _, c := range calls {
		switch {
		case !c.Open():
			return nil // its result is on the way
		case c.State == message.ToolCallAsking:
			q := r.asked[c.Call]
			if q == nil {
				return nil // the approval request is on the way
			}
			a, same := q.fill(c, r.interruptID(q, c), r.mayRespond(c))
			if !same {
				return nil
			}
			rec.Asked = append(rec.Asked, a)
		case r.clients(c):
			if !r.handed(c.Call) {
				return nil // the client has not been told yet
			}
		case c.State == message.ToolCallSubmitted && (!someone || c.Phase() == message.PhaseBlocked):
			rec.Asked = append(rec.Asked, asked{ID: r.busyID(c.Call), Call: c.Call})
			if c.Phase() == message.PhaseBlocked {
				held[r.busyID(c.Call)] = "The call of " + c.Tool + " waits for an operator to say what became of it. Look again?"
			}
		}
	}
	rec.Tools = slices.Sorted(maps.Keys(r.mapper.Pending()))
	if len(rec.Asked) == 0 && len(rec.Tools) == 0 {
		return nil
	}
	return r.end(ctx, rec, held)
}

// handed reports whether a call of the client's tools was handed to it.
func (r *run) handed(id message.CallID) bool {
	for _, b := range r.mapper.Pending() {
		if b.ID == id {
			return true
		}
	}
	return false
}

// end records what is asked, then ends the run with it: an interrupt that nobody
// remembers could not be answered. While no engine answers it waits. held are
// the words for interrupts about calls that make no progress.
func (r *run) end(ctx context.Context, rec *park, held map[string]string) error {
	if !rec.same(r.parked) {
		raw, err := rec.event()
		if err != nil {
			return message.Errorf(message.CodeInternal, "run", "record the interrupts: %w", err)
		}
		_, err = r.owner.Emit(ctx, message.EmitRequest{Session: r.session, Reply: r.reply, Events: []message.RawJSON{raw}})
		if errors.Is(err, message.ErrUnavailable) || errors.Is(err, message.ErrUnknownOutcome) {
			return nil // the lookout comes again
		}
		if err != nil {
			return err
		}
		r.parked = rec
	}
	events := r.mapper.Park(r.restated()...)
	if f, ok := events[len(events)-1].(*wire.RunFinished); ok && f.Outcome != nil && f.Outcome.Type == wire.OutcomeInterrupt {
		if f.Outcome.Interrupts = shown(f.Outcome.Interrupts, rec, held); len(f.Outcome.Interrupts) == 0 {
			f.Outcome = pendingTools(rec.Tools, r.of.Peer)
		}
	}
	return r.out.send(events...)
}

// pendingTools is the end of a run whose client has tools to run.
func pendingTools(ids []string, peer wire.Peer) *wire.Outcome {
	out := &wire.Outcome{Type: wire.OutcomeSuccess}
	if peer == wire.Peer10 {
		out.PendingToolCallIDs = ids
	}
	return out
}

// shown keeps the interrupts that are on record.
func shown(all []wire.Interrupt, rec *park, held map[string]string) []wire.Interrupt {
	all = slices.DeleteFunc(all, func(i wire.Interrupt) bool {
		_, ok := rec.find(i.ID)
		return !ok
	})
	for i := range all {
		if text, ok := held[all[i].ID]; ok {
			all[i].Message = &text
		}
	}
	return all
}

// restated are the snapshots that clients before 1.0 want before an interrupt.
// The state is the client's own: agents here have none.
func (r *run) restated() []wire.Event {
	state := r.in.State
	if state == nil {
		state = message.RawJSON("{}")
	}
	return []wire.Event{&wire.StateSnapshot{Snapshot: state}, r.out.history.Snapshot()}
}

// interruptID names an approval request within the thread. The same approval request keeps its
// id however often it is shown, until an answer to it was taken: if it is open
// even then, because others must agree, it is put anew.
func (r *run) interruptID(q *request, c *message.Call) string {
	if r.parked == nil {
		return q.id
	}
	for _, a := range r.parked.Asked {
		switch {
		case a.Call != c.Call || a.Digest != c.Digest:
		case r.answered[a.ID]:
			return q.id + "/" + r.in.RunID
		default:
			return a.ID
		}
	}
	return q.id
}

// busyID is the id that the mapper gives to a call that a worker is running.
func (r *run) busyID(id message.CallID) string {
	return r.in.RunID + "/" + string(id) + "/running"
}

// mayRespond reports whether the peer could answer the approval request: it has the
// role, and has not said yes already.
func (r *run) mayRespond(c *message.Call) bool {
	voted := slices.ContainsFunc(c.Votes, func(v message.Vote) bool { return v.By.Name == r.peer.Name && v.On(c.Digest) })
	return r.peer.Has(message.RoleApprover) && !voted
}
