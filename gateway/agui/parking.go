package agui

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
	"github.com/askance-dev/askance/toolcall"
)

// park ends the run because people or the client are to answer, if all that has
// happened was shown by now. calls are those without a result, as they stand.
func (f *follower) park(ctx context.Context, calls []*toolcall.Call) error {
	rec := &park{V: 1, Run: f.in.RunID, Reply: f.reply, Through: f.seq}
	someone := slices.ContainsFunc(calls, f.needsPerson)
	held := map[string]string{}
	for _, c := range calls {
		switch {
		case !c.Open():
			return nil // its result is on the way
		case c.State == message.ToolCallAsking:
			q := f.asked[c.Call]
			if q == nil {
				return nil // the approval request is on the way
			}
			a, same := q.fill(c, f.interruptID(q, c), f.mayRespond(c))
			if !same {
				return nil
			}
			rec.Asked = append(rec.Asked, a)
		case f.isClientCall(c):
			if !f.isHandedOver(c.Call) {
				return nil // the client has not been told yet
			}
		case c.State == message.ToolCallSubmitted && (!someone || c.Phase() == toolcall.PhaseBlocked):
			rec.Asked = append(rec.Asked, asked{ID: f.busyID(c.Call), Call: c.Call})
			if c.Phase() == toolcall.PhaseBlocked {
				held[f.busyID(c.Call)] = "The call of " + c.Tool + " waits for an operator to say what became of it. Look again?"
			}
		}
	}
	rec.Tools = slices.Sorted(maps.Keys(f.mapper.Pending()))
	if len(rec.Asked) == 0 && len(rec.Tools) == 0 {
		return nil
	}
	return f.recordAndEnd(ctx, rec, held)
}

// isHandedOver reports whether a call of the client's tools was handed to it.
func (f *follower) isHandedOver(id message.CallID) bool {
	for _, b := range f.mapper.Pending() {
		if b.ID == id {
			return true
		}
	}
	return false
}

// recordAndEnd records what is asked, then ends the run: a response to an
// interrupt without a record would be refused. While no engine answers it waits.
// held are the texts of interrupts about blocked calls.
func (f *follower) recordAndEnd(ctx context.Context, rec *park, held map[string]string) error {
	if !rec.equals(f.parked) {
		raw, err := rec.event()
		if err != nil {
			return message.Errorf(message.CodeInternal, "run", "record the interrupts: %w", err)
		}
		_, err = f.owner.Emit(ctx, toolcall.EmitRequest{Session: f.session, Reply: f.reply, Events: []message.RawJSON{raw}})
		if errors.Is(err, message.ErrUnavailable) || errors.Is(err, message.ErrUnknownOutcome) {
			return nil // the parkWatcher comes again
		}
		if err != nil {
			return err
		}
		f.parked = rec
	}
	events := f.mapper.Park(f.restate()...)
	if end, ok := events[len(events)-1].(*wire.RunFinished); ok && end.Outcome != nil && end.Outcome.Type == wire.OutcomeInterrupt {
		if end.Outcome.Interrupts = dropUnrecorded(end.Outcome.Interrupts, rec, held); len(end.Outcome.Interrupts) == 0 {
			end.Outcome = pendingTools(rec.Tools, f.of.Peer)
		}
	}
	return f.out.send(events...)
}

// pendingTools is the end of a run whose client has tools to run.
func pendingTools(ids []string, peer wire.Peer) *wire.Outcome {
	out := &wire.Outcome{Type: wire.OutcomeSuccess}
	if peer == wire.Peer10 {
		out.PendingToolCallIDs = ids
	}
	return out
}

// dropUnrecorded keeps the interrupts that are on record.
func dropUnrecorded(all []wire.Interrupt, rec *park, held map[string]string) []wire.Interrupt {
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

// restate are the snapshots that clients before 1.0 want before an interrupt.
// The state is the client's own: agents here have none.
func (f *follower) restate() []wire.Event {
	state := f.in.State
	if state == nil {
		state = message.RawJSON("{}")
	}
	return []wire.Event{&wire.StateSnapshot{Snapshot: state}, f.out.history.Snapshot()}
}

// interruptID names an approval request within the thread. A request keeps its id
// until a response to it was accepted; one that still needs others gets a new id.
func (r *run) interruptID(q *request, c *toolcall.Call) string {
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
func (r *run) mayRespond(c *toolcall.Call) bool {
	voted := slices.ContainsFunc(c.Votes, func(v toolcall.Vote) bool { return v.By.Name == r.peer.Name && v.On(c.Digest) })
	return r.peer.Has(toolcall.RoleApprover) && !voted
}
