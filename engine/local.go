package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/askance-dev/askance/engine/internal/schedule"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Causes with which a running local call is cancelled.
var (
	ErrFinishedElsewhere = errors.New("the call was finished by somebody else")
	ErrDeadline          = errors.New("the attempt ran into its deadline")
)

// localRun is one attempt that runs here. An attempt that others took for dead
// may still be running when the next one begins.
type localRun struct {
	call    message.Key
	attempt int
}

// run executes a local attempt that this engine has just started. The start is
// durable; the effect may happen now, once. sent is a time before the start was
// sent to the journal: no engine began to count the lease earlier.
func (e *Engine) run(c *message.Call, sent time.Time) {
	id := localRun{c.Key, c.Attempt.Number}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil || e.running[id] != nil {
		return // not run: the lease passes, and the attempt counts as lost
	}
	// Whoever ends a call takes that into the view first and cancels the run
	// then; if the run is not entered yet, it must see it here.
	now := e.view.Call(c.Key)
	if now == nil || !owns(now, e.self(), c.Attempt.Number, c.Attempt.Claim) || !now.Open() {
		return
	}
	if past := message.Elapsed(sent, time.Now()); past > message.BeginWithin(claimTime(c)) || now.Phase() != message.PhaseRunning {
		why := fmt.Sprintf("%s of the lease of %s had passed", past.Round(time.Millisecond), claimTime(c))
		e.wg.Go(func() {
			e.deliver(message.ResultRequest{Key: c.Key, Attempt: c.Attempt.Number, Claim: c.Attempt.Claim, NotBegun: why})
		})
		return
	}
	ctx, cancel := context.WithCancelCause(e.ctx)
	e.running[id] = cancel
	e.wg.Go(func() {
		defer e.done(id)
		e.runAttempt(ctx, c)
	})
}

func (e *Engine) done(id localRun) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running[id](context.Canceled)
	delete(e.running, id)
}

// runsHere reports whether the present attempt of a call runs in this process.
func (e *Engine) runsHere(c *message.Call) bool {
	if c.Attempt.Worker != e.cfg.id {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running[localRun{c.Key, c.Attempt.Number}] != nil
}

// cancelLocal stops what runs here of a call: earlier attempts than the present
// one, and the present one too unless the call goes on.
func (e *Engine) cancelLocal(c *message.Call, cause error) {
	last := c.Attempt.Number
	if c.Open() && !errors.Is(cause, ErrDeadline) {
		last--
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for n := 1; n <= last; n++ {
		if cancel := e.running[localRun{c.Key, n}]; cancel != nil {
			cancel(cause)
		}
	}
}

func (e *Engine) runAttempt(ctx context.Context, c *message.Call) {
	beat := message.HeartbeatRequest{Key: c.Key, Attempt: c.Attempt.Number, Claim: c.Attempt.Claim}
	stopBeats := make(chan struct{})
	e.wg.Go(func() { e.beats(c.Tool, beat, claimTime(c), stopBeats) })
	defer close(stopBeats)
	if d := c.Attempt.Deadline; !d.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, d, ErrDeadline)
		defer cancel()
	}
	inv := message.Invocation{Call: c, Input: []byte(c.Input), IdempotencyKey: c.IdempotencyKey()}
	res := e.cfg.executor.Run(ctx, inv, e.progressOf(c))
	if errors.Is(context.Cause(ctx), ErrStopping) && res.State == message.ToolResultInterrupted {
		return // cut off by our own stop: what happened is not known, and the lease will say so
	}
	e.deliver(message.ResultRequest{Key: c.Key, Attempt: c.Attempt.Number, Claim: c.Attempt.Claim, Result: res})
}

// progressOf passes the lines of a local attempt on, numbered and in order,
// from whichever goroutine they come.
func (e *Engine) progressOf(c *message.Call) func(text string) {
	var mu sync.Mutex // guards n, and the order of the lines
	n := 0
	return func(text string) {
		mu.Lock()
		defer mu.Unlock()
		n++
		e.cfg.signals.Progress(c, message.ProgressRequest{Key: c.Key, Attempt: c.Attempt.Number, Claim: c.Attempt.Claim, N: n, Text: clip(shownText(c, text))})
	}
}

// beats says that a local attempt lives, until stop.
func (e *Engine) beats(tool string, r message.HeartbeatRequest, lease time.Duration, stop <-chan struct{}) {
	tick := time.NewTicker(heartbeat(lease))
	defer tick.Stop()
	for {
		e.liveness.Hear(r.Key, r.Attempt, time.Now())
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
	ctx, unfit := context.WithoutCancel(e.ctx), false
	for pauses := (schedule.Pauses{Next: 50 * time.Millisecond, Most: 5 * time.Second}); ; {
		step, cancel := context.WithTimeout(ctx, 30*time.Second)
		_, err := e.result(step, e.self(), r)
		cancel()
		if err == nil {
			return
		}
		if refused := errors.Is(err, message.ErrInvalid) || errors.Is(err, message.ErrTooLarge); refused && !unfit {
			// The tool has run: that has to be known, even without its output.
			e.log.Warn("the result of a local call cannot be kept", "call", r.Key.String(), "error", err)
			r.Result, unfit = unfitResult(err), true
			continue
		}
		if final(err) {
			e.log.Warn("the result of a local call was not taken", "call", r.Key.String(), "error", err)
			return
		}
		if !pauses.Wait(e.ctx) {
			return
		}
	}
}

// final reports whether a result that was refused so will be refused for ever.
// Everything else (no journal, a full one, a lost race, an unreadable event record) may
// pass.
func final(err error) bool {
	switch message.AsError("result", err).Code {
	case message.CodeFinished, message.CodeSuperseded, message.CodeForbidden, message.CodeNotFound, message.CodeState, message.CodeInvalid, message.CodeTooLarge:
		return true
	default:
		return false
	}
}

// unfitResult takes the place of a result that cannot be kept.
func unfitResult(err error) message.ToolResultBlock {
	return message.ToolResultBlock{State: message.ToolResultError, Output: message.Content{
		Text: "<system-reminder>The tool has run, but its result could not be kept: " + clip(strings.ToValidUTF8(err.Error(), "�")) + "</system-reminder>"}}
}

// beginAllowed begins a call that is on record as allowed and has not begun: the
// replica that allowed it could not run it, or the call relies on remembered
// rules, which are looked at once more only now.
func (e *Engine) beginAllowed(ctx context.Context, key message.Key) (*message.Call, error) {
	return e.update(ctx, "start", key, e.self(), func(ctx context.Context, m *toolcall.Machine) error {
		c := m.Call()
		if c.Phase() != message.PhaseReady || c.Placement == message.PlaceLocal && !e.canRun(c.Tool) {
			return errNoChange
		}
		if stop, err := e.mustNotBegin(ctx, m); stop || err != nil {
			return err
		}
		if c.Placement == message.PlaceLocal {
			return m.Step(e.localStart(c, e.tool(c.Tool), stamp(), max(c.Attempt.Number, 1)))
		}
		return e.beginNow(m)
	})
}

// mustNotBegin is asked right before an attempt begins: a reply that was
// interrupted or a deny rule that came into force since the decision ends the
// call instead. If an earlier attempt was started, only a person can end it. An
// interrupt that is written after the call's last event record need not be seen here:
// it closes the call itself before it is acknowledged.
func (e *Engine) mustNotBegin(ctx context.Context, m *toolcall.Machine) (bool, error) {
	c := m.Call()
	phase, err := e.phaseAt(ctx, c.ReplyKey(), c.Seq)
	if err != nil {
		return true, err
	}
	if phase != message.ReplyOpen {
		return true, m.Step(toolcall.Interrupted{Base: stamp()})
	}
	d, denied := e.deniedNow(ctx, c)
	if !denied {
		if d.Reason, err = e.standingApprovalEnded(ctx, c); err != nil {
			return true, err
		}
		denied = d.Reason != ""
	}
	switch {
	case !denied:
		return false, nil
	case !c.Started():
		return true, m.Step(toolcall.Revoked{Base: stamp(), Reason: d.Reason})
	case c.Phase() != message.PhaseBlocked: // what the attempt before did is not known, and it may not be tried again
		return true, m.Step(toolcall.Suspended{Base: stamp(), Attempt: c.Attempt.Number, Blocked: message.BlockedUnknown})
	}
	return true, &message.Error{Code: message.CodeForbidden, Call: c.Clone(), What: "the call is denied by now: " + d.Reason, Hint: "resolve it as happened or did_not_happen"}
}

// clip bounds a text, without cutting a character in two.
func clip(text string) string {
	if len(text) <= message.MaxTextBytes {
		return text
	}
	n := message.MaxTextBytes
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
