package engine

import (
	"context"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// perform does what an event record of this replica calls for. Nothing here may fail
// the request that wrote the event record: what is lost here is derived again from the
// journal. sent is a time before the event record was sent.
func (e *Engine) perform(c *message.Call, effects []toolcall.Effect, sent time.Time) {
	if c.Open() {
		e.cancelLocal(c, ErrFinishedElsewhere) // attempts before the present one
	}
	for _, eff := range effects {
		switch eff {
		case toolcall.EffectAsk, toolcall.EffectClosed:
			e.cfg.signals.Hint(c)
		case toolcall.EffectRun:
			e.run(c, sent)
		case toolcall.EffectCancel:
			e.cancelOwner(c, "the call is finished: "+c.Cause)
		case toolcall.EffectFinished:
			e.liveness.Forget(c.Key)
			e.cfg.signals.Hint(c)
		}
	}
	e.schedule(c, 0)
	// A call that waits for nothing (any more): what it waited for ended while
	// this event record was being written, and whoever ended it did not see the call yet.
	missed := false
	if c.State == message.ToolCallPending {
		missed = !e.stuck(c)
		e.replyLater(c.ReplyKey()) // what it waits for may never come
	}
	if ended(effects) || missed {
		e.background(func(ctx context.Context) { e.advanceReply(ctx, c.ReplyKey()) })
	}
}

// ended reports whether calls that waited for this one may go on now.
func ended(effects []toolcall.Effect) bool {
	for _, eff := range effects {
		if eff == toolcall.EffectClosed || eff == toolcall.EffectFinished {
			return true
		}
	}
	return false
}

// follow takes note of an event record that another replica (or this one, before a
// restart) wrote. Its writer performs the effects; this replica only sets its
// timers, so that it can step in if the writer does not live to do so.
func (e *Engine) follow(f *message.EventRecord) {
	c := f.Call
	switch {
	case c == nil && f.Reply != nil && f.Reply.Phase == message.ReplyInterrupted:
		e.replyLater(f.Reply.Key)
	case c == nil:
	case !c.Open() && f.Note != nil:
	case !c.Open():
		e.liveness.Forget(c.Key)
		e.cancelLocal(c, ErrFinishedElsewhere)
		e.wakeSiblings(c)
	default:
		e.cancelLocal(c, ErrFinishedElsewhere)
		e.schedule(c, e.cfg.grace)
		e.wakeSiblings(c) // they may hide behind an approval request that ended here, or was replaced
		if state, _ := e.view.ReplyState(c.Key); state != nil && state.Phase != message.ReplyOpen {
			e.replyLater(c.ReplyKey()) // its writer may have died before it saw the interrupt
		}
	}
}

// replyLater sets a look at a reply after the grace: to close its calls if it
// was interrupted, else to take its pending calls onwards. One look at a time
// waits for its moment.
func (e *Engine) replyLater(reply message.Key) {
	e.mu.Lock()
	waits := e.looking[reply]
	e.looking[reply] = true
	e.mu.Unlock()
	if !waits {
		e.timers.Set(time.Now().Add(e.cfg.grace), reply, 0)
	}
}

// lookAtReply is what replyLater asked for.
func (e *Engine) lookAtReply(ctx context.Context, reply message.Key) {
	if state, seq := e.view.ReplyState(reply); state != nil && state.Phase != message.ReplyOpen {
		e.closeReply(ctx, reply, seq)
		return
	}
	e.advanceReply(ctx, reply)
}

// wakeSiblings sets a look at the pending calls of a reply in which something
// has ended, or one of them is new here.
func (e *Engine) wakeSiblings(c *message.Call) {
	for _, s := range e.view.CallsOf(c.Key) {
		if s.State == message.ToolCallPending {
			e.replyLater(c.ReplyKey())
			return
		}
	}
}

// schedule sets the timer that c's phase calls for. late is added where a step
// is owed by the replica that wrote the record.
func (e *Engine) schedule(c *message.Call, late time.Duration) {
	now := time.Now()
	at := func(t time.Time) { e.timers.Set(t, c.Key, c.Seq) }
	switch c.Phase() {
	case message.PhaseWaiting:
		if late > 0 {
			e.replyLater(c.ReplyKey())
		}
	case message.PhaseAsking:
		if next := e.nextLook(c, now); !next.IsZero() {
			at(next)
		}
	case message.PhaseRetrying:
		at(c.RetryAt.Add(late))
	case message.PhaseRunning:
		e.watchStandingApproval(c, now)
	case message.PhaseReady:
		at(now.Add(late))
	case message.PhaseQueued:
		if c.Placement != message.PlaceRemote {
			break // its result comes from outside, whenever it comes
		}
		at(c.Attempt.OfferUntil.Add(late))
		if e.stale(c) {
			at(now.Add(late))
		}
		if q := e.tool(c.Tool).QueueTimeout; q > 0 {
			at(c.Attempt.OfferedAt.Add(q))
		}
	case message.PhaseBlocked, message.PhaseFinished:
	}
}

// watchStandingApproval begins to listen for the owner of a started attempt.
func (e *Engine) watchStandingApproval(c *message.Call, now time.Time) {
	e.liveness.LastHeard(c.Key, c.Attempt.Number, now)
	e.timers.Set(now.Add(claimTime(c)), c.Key, c.Seq)
	if d := c.Attempt.Deadline; !d.IsZero() {
		e.timers.Set(d, c.Key, c.Seq)
	}
}

// claimTime is the silence after which the owner of the attempt counts as dead.
func claimTime(c *message.Call) time.Duration {
	return time.Duration(c.Attempt.LeaseMS) * time.Millisecond
}
