package engine

import (
	"context"
	"errors"

	"github.com/askance-dev/askance/engine/internal/decide"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// decider decides pending calls: it consults the policy and the standing approvals, and
// moves the call as far as it can.
type decider struct {
	*core
	attempts *attempts
}

// decideCall decides a pending call within the machine. It returns decide.ErrUndecided if
// the call waits for earlier calls whose approval request may cover it.
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
	s := d.snapshotOf(ctx, c) // after the look at the others: a response that closed a request may have added rules
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

// presentCalls returns the current state of calls, if the verdict needs them.
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

// batches orders the calls of a reply: those of exclusive tools, and those hidden behind
// the approval request of another call.
type batches struct {
	*core
	decider *decider
}

// gate is what keeps a pending call from being decided.
type gate int

const (
	gateOpen   gate = iota // nothing
	gateWaits              // another call; the engine that sees that call finish looks again
	gateUnsure             // unknown: the view has not reached the call, or an earlier call may ask first; look again later
)

// gateOf returns the gate of a pending call. Invariant: a view that has reached the first
// record of a call has every call that it waits for, and a call that is finished there
// stays finished. A view that lags only makes calls wait longer.
func (b *batches) gateOf(c *toolcall.Call) gate {
	if !b.isPlaced(c) {
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

// isPlaced reports whether a call is decided only once the journal has its place among the calls
// of its reply: to wait for its turn, or because rules count the calls before it.
func (c *core) isPlaced(call *toolcall.Call) bool {
	return call.Turn() != toolcall.OrderNone || c.policy.ReadsCallsThisRun()
}

// isStuck reports whether a pending call needs another party to act before it can move:
// it waits for another call, or is hidden behind an approval request that is still open.
func (b *batches) isStuck(c *toolcall.Call) bool { return b.isHidden(c) || b.gateOf(c) == gateWaits }

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

// advanceReply advances the pending calls of a reply that can move, in the order in
// which they were proposed. Any number of replicas may do this at once; one wins each step.
func (b *batches) advanceReply(ctx context.Context, reply toolcall.Key) {
	seen := b.catchUp(ctx, reply) // before the look at the calls
	for _, c := range b.view.CallsOf(reply) {
		if c.State != message.ToolCallPending {
			continue
		}
		g, err := gateUnsure, error(nil)
		if c.First <= seen { // else the calls that it waits for or hides behind may be missing here
			_, g, err = b.advanceCall(ctx, c, b.replyIsOpen)
		}
		if g == gateUnsure {
			b.lookLater(reply)
		}
		if err != nil && !errors.Is(err, message.ErrFinished) {
			if ctx.Err() == nil {
				b.log.Warn("cannot decide a pending call; will try again", "call", c.Key.String(), "error", err)
				b.lookLater(reply)
			}
			return
		}
	}
}

// catchUp waits a moment for the watch to deliver what precedes the pending calls of a
// reply. It returns the sequence that the view has reached.
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

// advanceNew advances a call that was just recorded in an open reply as far as it can go.
// It returns nil if the call stays pending.
func (b *batches) advanceNew(ctx context.Context, c *toolcall.Call) *toolcall.Call {
	open := func(context.Context, toolcall.Key) (bool, error) { return true, nil }
	next, _, err := b.advanceCall(ctx, c, open)
	if err != nil || next.State == message.ToolCallPending {
		return nil
	}
	return next
}

// replyIsOpen reports whether calls of a reply may begin, according to the journal.
func (b *batches) replyIsOpen(ctx context.Context, reply toolcall.Key) (bool, error) {
	state, _, err := b.store.LastReply(ctx, reply)
	return state.Phase == toolcall.ReplyOpen, err
}

// advanceCall decides a pending call if it can be decided, and returns its gate. isOpen
// reports whether the call's reply is open.
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

// callsBefore returns the calls of the reply that were proposed before c.
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
