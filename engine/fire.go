package engine

import (
	"context"
	"errors"
	"time"

	"github.com/askance-dev/askance/engine/internal/schedule"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// fire looks at an entity whose time has come. It runs on the timers' goroutine
// and only hands over.
func (e *Engine) fire(d schedule.Due) {
	if d.Key.Call == "" {
		e.mu.Lock()
		delete(e.looking, d.Key)
		e.mu.Unlock()
		e.background(func(ctx context.Context) { e.lookAtReply(ctx, d.Key) })
		return
	}
	c := e.view.Call(d.Key)
	if c == nil || c.Seq != d.Seq || !c.Open() {
		return // it moved on; its newer event record set its own timers
	}
	if c.Phase() == message.PhaseRunning && e.alive(c) {
		return
	}
	e.background(func(ctx context.Context) { e.look(ctx, c) })
}

// alive handles a timer of a running attempt: it reports whether the owner was
// heard of within the lease, and then sets the next look.
func (e *Engine) alive(c *message.Call) bool {
	now := time.Now()
	if d := c.Attempt.Deadline; !d.IsZero() && !now.Before(d) {
		e.cancelOwner(c, ErrDeadline.Error())
	}
	if e.runsHere(c) { // and needs no sign of life
		e.liveness.Hear(c.Key, c.Attempt.Number, now)
	}
	silent := e.liveness.LastHeard(c.Key, c.Attempt.Number, now).Add(claimTime(c))
	if !now.Before(silent) {
		return false
	}
	e.timers.Set(silent, c.Key, c.Seq)
	return true
}

// cancelOwner asks whoever runs the attempt to stop.
func (e *Engine) cancelOwner(c *message.Call, reason string) {
	if c.Attempt.Worker == e.cfg.id {
		cause := ErrFinishedElsewhere
		if c.Open() {
			cause = ErrDeadline
		}
		e.cancelLocal(c, cause)
		return
	}
	e.cfg.signals.Cancel(c.Queue(), c.Attempt.Worker, message.HeartbeatRequest{Key: c.Key, Attempt: c.Attempt.Number, Claim: c.Attempt.Claim}, reason)
}

// later sets another look at a call after the grace.
func (e *Engine) later(key message.Key) {
	if c := e.view.Call(key); c != nil {
		e.timers.Set(time.Now().Add(e.cfg.grace), key, c.Seq)
	}
}

// look takes the step that is due for an open call.
func (e *Engine) look(ctx context.Context, c *message.Call) {
	var err error
	switch c.Phase() {
	case message.PhaseAsking:
		err = e.waits(ctx, c)
	case message.PhaseRetrying:
		err = e.retry(ctx, c.Key)
	case message.PhaseRunning:
		if !e.alive(c) { // the owner may have been heard of while this look waited for its turn
			err = e.lose(ctx, c)
		}
	case message.PhaseReady:
		_, err = e.beginAllowed(ctx, c.Key)
	case message.PhaseQueued:
		if c.Placement == message.PlaceRemote {
			err = e.reoffer(ctx, c.Key)
		}
	case message.PhaseWaiting, message.PhaseBlocked, message.PhaseFinished: // nothing is due by a timer of the call
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, message.ErrFinished) && !errors.Is(err, message.ErrSuperseded) {
		e.log.Warn("a due step could not be taken; it is tried again", "call", c.Key.String(), "phase", string(c.Phase()), "error", err)
		e.later(c.Key)
	}
}

// lose declares the owner of an attempt dead. An idempotent tool is tried
// again with the same key; any other has an unknown outcome and waits for a
// person: running it again would be a guess.
func (e *Engine) lose(ctx context.Context, seen *message.Call) error {
	_, err := e.update(ctx, "lose", seen.Key, e.self(), func(_ context.Context, m *toolcall.Machine) error {
		c := m.Call()
		if c.Phase() != message.PhaseRunning || c.Attempt.Number != seen.Attempt.Number || c.Attempt.Claim != seen.Attempt.Claim {
			return errNoChange
		}
		t, base := e.tool(c.Tool), stamp()
		switch {
		case !t.Idempotent:
			return m.Step(toolcall.Suspended{Base: base, Attempt: c.Attempt.Number, Blocked: message.BlockedUnknown})
		case c.Begun >= t.MaxAttempts:
			return m.Step(toolcall.Suspended{Base: base, Attempt: c.Attempt.Number, Blocked: message.BlockedDeadLetter})
		}
		return m.Step(toolcall.Lost{Base: base, Attempt: c.Attempt.Number, RetryAt: base.At.Add(t.backoff(c.Attempt.Number))})
	})
	return err
}

// retry makes the next attempt of an idempotent call.
func (e *Engine) retry(ctx context.Context, key message.Key) error {
	_, err := e.update(ctx, "retry", key, e.self(), func(ctx context.Context, m *toolcall.Machine) error {
		c := m.Call()
		if c.Phase() != message.PhaseRetrying || time.Now().Before(c.RetryAt) {
			return errNoChange
		}
		if stop, err := e.mustNotBegin(ctx, m); stop || err != nil {
			return err
		}
		return e.again(m)
	})
	return err
}

// again offers a call as a new attempt, and starts it at once if it runs here.
func (e *Engine) again(m *toolcall.Machine) error {
	c := m.Call()
	t, base, number := e.tool(c.Tool), stamp(), c.Attempt.Number+1
	a := message.Attempt{Number: number, OfferedAt: base.At}
	if c.Placement == message.PlaceRemote {
		var err error
		if a, err = e.offer(c, t, number, 0, base.At); err != nil {
			return err
		}
	}
	if err := m.Step(toolcall.Offered{Base: base, Attempt: a}); err != nil {
		return err
	}
	if c.Placement == message.PlaceLocal && len(c.Decision.StandingApprovals()) == 0 && e.canRun(c.Tool) { // else see begin
		return m.Step(e.localStart(c, t, base, number))
	}
	return nil
}

// reoffer puts an item that nobody started before the workers again, with a
// fresh grant, or hands the call to a person when the queue deadline passed.
func (e *Engine) reoffer(ctx context.Context, key message.Key) error {
	_, err := e.update(ctx, "offer", key, e.self(), func(ctx context.Context, m *toolcall.Machine) error {
		c, now := m.Call(), stamp()
		if c.Phase() != message.PhaseQueued {
			return errNoChange
		}
		t := e.tool(c.Tool)
		if t.QueueTimeout > 0 && !now.At.Before(c.Attempt.OfferedAt.Add(t.QueueTimeout)) {
			return m.Step(toolcall.Suspended{Base: now, Attempt: c.Attempt.Number, Blocked: message.BlockedNoWorker})
		}
		if now.At.Before(c.Attempt.OfferUntil) && !e.stale(c) {
			return errNoChange
		}
		if stop, err := e.mustNotBegin(ctx, m); stop || err != nil {
			return err
		}
		a, err := e.offer(c, t, c.Attempt.Number, c.Attempt.Offers, now.At)
		if err != nil {
			return err
		}
		return m.Step(toolcall.Offered{Base: now, Attempt: a})
	})
	return err
}

// recover resumes every open call after a start. What this process owes is
// done now; what a living replica may still do gets the grace.
func (e *Engine) recover() {
	queues := map[message.Queue]bool{}
	for _, c := range e.view.OpenCalls() {
		e.schedule(c, e.cfg.grace)
		if c.Placement == message.PlaceRemote && c.State == message.ToolCallSubmitted { // whatever its phase, it may be offered again
			queues[c.Queue()] = true
		}
	}
	for queue := range queues { // takes as long as a slow server likes: requests need not wait for it
		e.background(func(ctx context.Context) {
			if err := e.journal.EnsureQueue(ctx, queue); err != nil {
				e.log.Warn("workers of a tool cannot be served yet", "queue", queue.String(), "error", err)
			}
		})
	}
	for _, key := range e.view.InterruptedReplies() {
		e.replyLater(key)
	}
}
