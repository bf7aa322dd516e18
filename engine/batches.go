package engine

import (
	"context"
	"errors"

	"github.com/askance-dev/askance/engine/internal/decide"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// decider decides pending calls: it asks the policy and the standing approvals, and
// takes the call as far as it goes.
type decider struct {
	*core
	attempts *attempts
}

// decideCall decides a pending call within the machine. decide.ErrUndecided: it
// waits for earlier calls whose approval request may also cover it.
func (d *decider) decideCall(ctx context.Context, m *toolcall.Machine, earlier []*toolcall.Call) error {
	c := m.Call()
	if text := d.judge.WhyUnfit(d.snapshotWith(ctx, c, nil)); text != "" {
		d.noteRedaction(ctx, c)
		return m.Step(toolcall.Refused{Base: baseNow(), Text: decide.ForModel(text)})
	}
	v := d.standing.Consult(ctx, c, d.budgets.TakeClaim)
	if by, standing := d.standing.ResponseFor(ctx, c, v.Decision, d.standing.Spend); standing != "" {
		v.Decision, v.StandingApprovals = by, []toolcall.StandingID{standing}
	}
	others := d.presentCalls(earlier, v)
	s := d.snapshotOf(ctx, c) // after the look at the others: an answer that ended an approval request left its rules
	if v.NeedsApproval() && len(s.Rules) != v.Known {
		return d.decideCall(ctx, m, earlier)
	}
	s.Earlier = others
	ev, err := d.judge.Event(ctx, s, v)
	if errors.Is(err, decide.ErrNoNews) {
		return errNoChange
	}
	if err != nil {
		return err
	}
	if _, hidden := ev.(toolcall.Hidden); hidden {
		c.Redact = v.Decision.Redact
	}
	if err := m.Step(ev); err != nil {
		return err
	}
	if m.Call().State != message.ToolCallAllowed {
		return nil
	}
	return d.attempts.beginAllowed(m)
}

// presentCalls are calls as they stand, where the verdict needs them.
func (d *decider) presentCalls(calls []*toolcall.Call, v decide.Verdict) []*toolcall.Call {
	if !v.NeedsApproval() {
		return nil
	}
	out := make([]*toolcall.Call, len(calls))
	for i, c := range calls {
		if out[i] = d.view.Call(c.Key); out[i] == nil {
			out[i] = c
		}
	}
	return out
}

// batches orders the calls of a reply: exclusive tools, and calls that hide behind
// the approval request of another one.
type batches struct {
	*core
	decider *decider
}

// gate says what stands before a pending call.
type gate int

const (
	gateOpen   gate = iota // nothing: it can be decided
	gateWaits              // another call; the engine that sees it end looks again
	gateUnsure             // the view has not reached it, or an earlier one may ask first: look again after a while
)

// gateOf says what stands before a pending call. Invariant: a view that has reached the
// first record of a call has every call that it waits for, and what is finished there
// stays finished. A view that lags only waits longer.
func (b *batches) gateOf(c *toolcall.Call) gate {
	if c.Turn() == toolcall.OrderNone {
		return gateOpen
	}
	if c.First == 0 || c.First > b.view.Sequence() {
		return gateUnsure
	}
	for _, s := range b.view.CallsOf(c.Key) {
		if s.Open() && c.WaitsFor(s) {
			return gateWaits
		}
	}
	return gateOpen
}

// isStuck reports whether a pending call can only move after another party did
// something: it is gated, or hidden behind an approval request that is still open.
func (b *batches) isStuck(c *toolcall.Call) bool { return b.isHidden(c) || b.gateOf(c) != gateOpen }

// isHidden reports whether a call is hidden behind an approval request that is still open.
func (b *batches) isHidden(c *toolcall.Call) bool {
	if c.Behind == "" {
		return false
	}
	key := c.Key
	key.Call = c.Behind
	o := b.view.Call(key)
	return o != nil && o.State == message.ToolCallAsking
}

// advanceReply takes the pending calls of a reply onwards that can go, one
// after the other in the order in which they were proposed. Any number of
// replicas may do this at once; one wins each step.
func (b *batches) advanceReply(ctx context.Context, reply toolcall.Key) {
	seen := b.catchUp(ctx, reply) // before the look at the calls
	for _, c := range b.view.CallsOf(reply) {
		if c.State != message.ToolCallPending {
			continue
		}
		g, err := gateUnsure, error(nil)
		if c.First <= seen { // else what it waits for, or hides behind, may not be known here
			_, g, err = b.advanceCall(ctx, c, b.replyIsOpen)
		}
		if g == gateUnsure {
			b.lookLater(reply)
		}
		if err != nil && !errors.Is(err, message.ErrFinished) {
			if ctx.Err() == nil {
				b.log.Warn("a pending call could not be decided; it is tried again", "call", c.Key.String(), "error", err)
				b.lookLater(reply)
			}
			return
		}
	}
}

// catchUp gives the watch a moment to bring what came before the pending calls of
// a reply. It returns the sequence up to which the view then has the reply.
func (b *batches) catchUp(ctx context.Context, reply toolcall.Key) (seen uint64) {
	var first uint64
	for _, c := range b.view.CallsOf(reply) {
		if c.State == message.ToolCallPending {
			first = max(first, c.First)
		}
	}
	wait, cancel := context.WithTimeout(ctx, lagLimit)
	defer cancel()
	if come := b.view.WaitFor(first); come != nil {
		select {
		case <-come:
		case <-wait.Done():
		}
	}
	return b.view.Sequence()
}

// advanceNew takes a call that was just recorded in an open reply as far as it goes. It
// returns nil if the call stays pending.
func (b *batches) advanceNew(ctx context.Context, c *toolcall.Call) *toolcall.Call {
	open := func(context.Context, toolcall.Key) (bool, error) { return true, nil }
	next, _, err := b.advanceCall(ctx, c, open)
	if err != nil || next.State == message.ToolCallPending {
		return nil
	}
	return next
}

// replyIsOpen reports whether the calls of a reply may begin, by the journal.
func (b *batches) replyIsOpen(ctx context.Context, reply toolcall.Key) (bool, error) {
	state, _, err := b.store.LastReply(ctx, reply)
	return state.Phase == toolcall.ReplyOpen, err
}

// advanceCall decides a pending call if it can go, and tells whether it can. isOpen
// looks at the call's reply.
func (b *batches) advanceCall(ctx context.Context, c *toolcall.Call, isOpen func(context.Context, toolcall.Key) (bool, error)) (*toolcall.Call, gate, error) {
	g := b.gateOf(c)
	if g != gateOpen {
		return c, g, nil
	}
	next, err := b.update(ctx, "advance", c.Key, b.selfPrincipal(), func(ctx context.Context, m *toolcall.Machine) error {
		c := m.Call()
		if g = gateOpen; c.State != message.ToolCallPending {
			return errNoChange
		}
		if g = b.gateOf(c); g != gateOpen {
			return errNoChange
		}
		if open, err := isOpen(ctx, c.ReplyKey()); err != nil {
			return err
		} else if !open {
			return m.Step(toolcall.Interrupted{Base: baseNow()})
		}
		err := b.decider.decideCall(ctx, m, b.callsBefore(c))
		if errors.Is(err, decide.ErrUndecided) {
			g, err = gateUnsure, errNoChange
		}
		return err
	})
	return next, g, err
}

// callsBefore gives the calls of the reply that were proposed before c.
func (b *batches) callsBefore(c *toolcall.Call) []*toolcall.Call {
	var out []*toolcall.Call
	for _, s := range b.view.CallsOf(c.Key) {
		if s.Key == c.Key {
			break
		}
		out = append(out, s)
	}
	return out
}
