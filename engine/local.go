package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/engine/internal/schedule"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Causes with which a running local call is cancelled.
var (
	ErrFinishedElsewhere = errors.New("another party finished the call")
	ErrDeadline          = errors.New("the attempt exceeded its deadline")
)

// localRun identifies one attempt that runs here. An attempt that was declared dead may
// still be running when the next one begins.
type localRun struct {
	call    toolcall.Key
	attempt int
}

// runs are the local attempts that run in this process.
type runs struct {
	*core
	storeResult func(ctx context.Context, by toolcall.Principal, r toolcall.ResultRequest) (toolcall.ResultReply, error)

	mu      sync.Mutex // guards running
	running map[localRun]context.CancelCauseFunc
}

// count is how many attempts run here.
func (rs *runs) count() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return len(rs.running)
}

// runCall executes a local attempt that this engine has just started. The start is
// durable; the effect may happen now, once. sent is a time before the start was sent to
// the journal, so no engine counts the lease from an earlier time.
func (rs *runs) runCall(c *toolcall.Call, sent time.Time) {
	id := localRun{c.Key, c.Attempt.Number}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.ctx.Err() != nil || rs.running[id] != nil {
		return // not run: once the lease has passed, the attempt counts as lost
	}
	// An engine that ends a call updates the view before it cancels runs.
	now := rs.view.Call(c.Key)
	if now == nil || !isOwner(now, rs.selfPrincipal(), c.Attempt.Number, c.Attempt.Claim) || !now.Open() {
		return
	}
	if past := toolcall.Elapsed(sent, time.Now()); past > toolcall.BeginWithin(claimTime(c)) || now.Phase() != toolcall.PhaseRunning {
		why := fmt.Sprintf("%s of the lease of %s had passed", past.Round(time.Millisecond), claimTime(c))
		rs.startGoroutine(func() {
			rs.deliverResult(toolcall.ResultRequest{Key: c.Key, Attempt: c.Attempt.Number, Claim: c.Attempt.Claim, NotBegun: why})
		})
		return
	}
	ctx, cancel := context.WithCancelCause(rs.ctx)
	rs.running[id] = cancel
	started := rs.startGoroutine(func() {
		defer rs.endRun(id)
		growStack()
		rs.runAttempt(ctx, c)
	})
	if !started {
		delete(rs.running, id)
		cancel(ErrStopping)
	}
}

// growStack makes room for a run on the stack of a new goroutine while that is almost empty:
// growing step by step copies the frames of all callers each time.
//
//go:noinline
func growStack() {
	var room [12 << 10]byte
	runtime.KeepAlive(&room)
}

func (rs *runs) endRun(id localRun) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.running[id](context.Canceled)
	delete(rs.running, id)
}

// isRunningHere reports whether the current attempt of a call runs in this process.
func (rs *runs) isRunningHere(c *toolcall.Call) bool {
	if c.Attempt.Worker != rs.cfg.id {
		return false
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.running[localRun{c.Key, c.Attempt.Number}] != nil
}

// cancelRuns cancels the runs of a call here: earlier attempts, and the current one too
// unless the call continues.
func (rs *runs) cancelRuns(c *toolcall.Call, cause error) {
	last := c.Attempt.Number
	if c.Open() && !errors.Is(cause, ErrDeadline) {
		last--
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for n := 1; n <= last; n++ {
		if cancel := rs.running[localRun{c.Key, n}]; cancel != nil {
			cancel(cause)
		}
	}
}

func (rs *runs) runAttempt(ctx context.Context, c *toolcall.Call) {
	beat := toolcall.HeartbeatRequest{Key: c.Key, Attempt: c.Attempt.Number, Claim: c.Attempt.Claim}
	stopBeats := make(chan struct{})
	defer close(stopBeats)
	// The record of the start counts as the first heartbeat. Most runs end before the second.
	defer time.AfterFunc(heartbeatInterval(claimTime(c)), func() { rs.sendBeats(c.Queue(), beat, claimTime(c), stopBeats) }).Stop()
	if d := c.Attempt.Deadline; !d.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, d, ErrDeadline)
		defer cancel()
	}
	inv := toolcall.Invocation{Call: c, Input: []byte(c.Input), IdempotencyKey: c.IdempotencyKey()}
	res := rs.cfg.executor.Run(ctx, inv, rs.progressSender(c))
	res.ID, res.Name = c.Call, c.Tool // there is no other call that it could be of
	if why := context.Cause(ctx); res.State == message.ToolResultInterrupted {
		switch {
		case errors.Is(why, ErrStopping):
			return // cut off by our own stop: the outcome is unknown, and the lease will expire
		case errors.Is(why, ErrDeadline): // no one interrupted it
			res.State = message.ToolResultError
		}
	}
	rs.deliverResult(toolcall.ResultRequest{Key: c.Key, Attempt: c.Attempt.Number, Claim: c.Attempt.Claim, Result: res})
}

// progressSender returns a function that forwards the lines of a local attempt, numbered and in order.
func (rs *runs) progressSender(c *toolcall.Call) func(text string) {
	var mu sync.Mutex // guards n, and the order of the lines
	n := 0
	return func(text string) {
		mu.Lock()
		defer mu.Unlock()
		n++
		rs.cfg.signals.Progress(c, toolcall.ProgressRequest{Key: c.Key, Attempt: c.Attempt.Number, Claim: c.Attempt.Claim, N: n, Text: clipText(shownText(c, text))})
	}
}

// sendBeats sends heartbeats for a local attempt until stop is closed.
func (rs *runs) sendBeats(queue toolcall.Queue, r toolcall.HeartbeatRequest, lease time.Duration, stop <-chan struct{}) {
	tick := time.NewTicker(heartbeatInterval(lease))
	defer tick.Stop()
	for {
		rs.hearOwner(r.Key, r.Attempt)
		rs.cfg.signals.Beat(queue, rs.cfg.id, r)
		select {
		case <-tick.C:
		case <-stop:
			return
		}
	}
}

// deliverResult stores a local result. It tries again while the journal is unavailable.
func (rs *runs) deliverResult(r toolcall.ResultRequest) {
	ctx, unfit := context.WithoutCancel(rs.ctx), false
	for pauses := (schedule.Pauses{Next: 50 * time.Millisecond, Most: 5 * time.Second}); ; {
		step, cancel := context.WithTimeout(ctx, 30*time.Second)
		_, err := rs.storeResult(step, rs.selfPrincipal(), r)
		cancel()
		if err == nil {
			return
		}
		if refused := errors.Is(err, message.ErrInvalid) || errors.Is(err, message.ErrTooLarge); refused && !unfit {
			// The tool has run: that has to be known, even without its output.
			rs.log.Warn("cannot store the result of a local call", "call", r.Key.String(), "error", err)
			r.Result, unfit = unfitResult(err), true
			continue
		}
		if isFinal(err) {
			rs.log.Warn("the result of a local call was refused", "call", r.Key.String(), "error", err)
			return
		}
		if !pauses.Wait(rs.ctx) {
			return
		}
	}
}

// isFinal reports whether the error will not change if the result is sent again. Any other
// error (no journal, a full one, a lost race, an unreadable event record) may pass.
func isFinal(err error) bool {
	switch message.AsError("result", err).Code {
	case message.CodeFinished, message.CodeSuperseded, message.CodeForbidden, message.CodeNotFound, message.CodeState, message.CodeInvalid, message.CodeTooLarge:
		return true
	default:
		return false
	}
}

// unfitResult replaces a result that cannot be stored.
func unfitResult(err error) message.ToolResultBlock {
	return message.ToolResultBlock{State: message.ToolResultError, Output: message.Content{
		Text: "<system-reminder>The tool has run, but its result could not be stored: " + clipText(strings.ToValidUTF8(err.Error(), "�")) + "</system-reminder>"}}
}

// clipText bounds a text without splitting a character.
func clipText(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), toolcall.MaxTextBytes)], "")
}
