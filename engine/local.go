package engine

import (
	"context"
	"errors"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Causes with which a running local call is cancelled.
var (
	ErrFinishedElsewhere = errors.New("the call was finished by somebody else")
	ErrDeadline          = errors.New("the attempt ran into its deadline")
)

// run executes a local attempt that this engine has just started. The start is
// durable; the effect may happen now, once.
func (e *Engine) run(c *message.Call) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil || e.running[c.Key] != nil {
		return // not run: the lease passes, and the attempt counts as lost
	}
	ctx, cancel := context.WithCancelCause(e.ctx)
	e.running[c.Key] = cancel
	e.wg.Go(func() {
		defer e.done(c.Key)
		e.runAttempt(ctx, c)
	})
}

func (e *Engine) done(key message.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running[key](context.Canceled)
	delete(e.running, key)
}

func (e *Engine) cancelLocal(key message.Key, cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if cancel := e.running[key]; cancel != nil {
		cancel(cause)
	}
}

func (e *Engine) runAttempt(ctx context.Context, c *message.Call) {
	beat := message.HeartbeatRequest{Key: c.Key, Attempt: c.Attempt.Number, Claim: c.Attempt.Claim}
	stopBeats := make(chan struct{})
	e.wg.Go(func() { e.beats(c.Tool, beat, lease(c), stopBeats) })
	defer close(stopBeats)
	if d := c.Attempt.Deadline; !d.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, d, ErrDeadline)
		defer cancel()
	}
	inv := message.Invocation{Call: c, Input: []byte(c.Input), IdempotencyKey: c.IdempotencyKey()}
	n := 0
	res := e.cfg.executor.Run(ctx, inv, func(text string) {
		n++
		e.cfg.signals.Progress(c, message.ProgressRequest{Key: c.Key, Attempt: c.Attempt.Number, Claim: c.Attempt.Claim, N: n, Text: clip(text)})
	})
	if errors.Is(context.Cause(ctx), ErrStopping) && res.State == message.ToolResultInterrupted {
		return // cut off by our own stop: what happened is not known, and the lease will say so
	}
	e.deliver(message.ResultRequest{Key: c.Key, Attempt: c.Attempt.Number, Claim: c.Attempt.Claim, Result: res})
}

// beats says that a local attempt lives, until stop.
func (e *Engine) beats(tool string, r message.HeartbeatRequest, lease time.Duration, stop <-chan struct{}) {
	tick := time.NewTicker(heartbeat(lease))
	defer tick.Stop()
	for {
		e.leases.hear(r.Key, r.Attempt, time.Now())
		e.cfg.signals.Beat(tool, e.cfg.id, r)
		select {
		case <-tick.C:
		case <-stop:
			return
		}
	}
}

// deliver stores a local result, again and again while the journal cannot be
// reached, like a worker would.
func (e *Engine) deliver(r message.ResultRequest) {
	ctx := context.WithoutCancel(e.ctx)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		step, cancel := context.WithTimeout(ctx, 30*time.Second)
		_, err := e.result(step, e.self(), r)
		cancel()
		if err == nil {
			return
		}
		if !errors.Is(err, message.ErrUnavailable) && !errors.Is(err, message.ErrUnknownOutcome) && !errors.Is(err, message.ErrFull) {
			e.log.Warn("the result of a local call was not taken", "call", r.Key.String(), "error", err)
			return
		}
		select {
		case <-time.After(pause):
		case <-e.ctx.Done():
			return
		}
	}
}

// startLocal starts a local call that is allowed and has no owner, for
// instance because the replica that allowed it could not run it.
func (e *Engine) startLocal(ctx context.Context, key message.Key) (*message.Call, error) {
	return e.update(ctx, "start", key, e.self(), func(ctx context.Context, m *toolcall.Machine) error {
		c := m.Call()
		if c.State != message.ToolCallAllowed || c.Placement != message.PlaceLocal || c.Started() || c.Hold != message.HoldNone || !c.RetryAt.IsZero() || !e.cfg.executor.Has(c.Tool) {
			return errNoChange
		}
		if stop, err := e.mustNotBegin(ctx, m); stop || err != nil {
			return err
		}
		return m.Step(e.localStart(e.tools[c.Tool], stamp(), max(c.Attempt.Number, 1)))
	})
}

// mustNotBegin is asked right before an attempt begins: a reply that was
// interrupted or a deny rule that came into force since the decision ends the
// call instead.
func (e *Engine) mustNotBegin(ctx context.Context, m *toolcall.Machine) (bool, error) {
	c := m.Call()
	state, _, err := e.lastReply(ctx, c.ReplyKey())
	if err != nil {
		return true, err
	}
	if state.Phase != message.ReplyOpen {
		return true, m.Step(toolcall.Interrupted{Base: stamp()})
	}
	if d, denied := e.deniedNow(ctx, c); denied {
		return true, m.Step(toolcall.Revoked{Base: stamp(), Reason: d.Reason})
	}
	return false, nil
}

func clip(text string) string {
	if len(text) > message.MaxTextBytes {
		return text[:message.MaxTextBytes]
	}
	return text
}
