package executor

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// attempt is one task in a slot, from its check until its result is answered. The slot's
// goroutine drives it; cancel and cancelFor may be called from any goroutine.
type attempt struct {
	w    *Worker
	log  *slog.Logger
	task toolcall.Task
	call *toolcall.Call
	id   toolcall.HeartbeatRequest // identifies us to the engine: call, attempt, claim

	cancel context.CancelCauseFunc // ends the handler's context
	lease  atomic.Pointer[lease]   // once the start is granted; heartbeats renew it after the begin
	began  atomic.Bool             // the handler was called
}

// newAttempt also returns the handler's context, which still lacks the deadline.
func newAttempt(handlers context.Context, w *Worker, task toolcall.Task) (*attempt, context.Context) {
	c := task.Record.Call
	a := &attempt{
		w: w, task: task, call: c,
		id:  toolcall.HeartbeatRequest{V: 1, Key: c.Key, Attempt: c.Attempt.Number, Claim: newID()},
		log: w.log.With("call", c.Key.String(), "attempt", c.Attempt.Number),
	}
	ctx, cancel := context.WithCancelCause(handlers)
	a.cancel = cancel
	return a, ctx
}

// newID returns a random id of 128 bits.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails, see its documentation
	return hex.EncodeToString(b[:])
}

// cancelFor ends the handler's context because the engine asked for it.
func (a *attempt) cancelFor(reason string) {
	cause := ErrCancelled
	if reason != "" {
		cause = fmt.Errorf("%w: %s", ErrCancelled, line(reason))
	}
	a.cancel(cause)
}

// run runs the handler with ctx under the engine's lease and delivers its result. It is
// called at most once, after the engine confirmed that our start is durable. handlers ends
// when a stopping worker no longer waits.
func (a *attempt) run(ctx, handlers context.Context, leave toolcall.StartReply) {
	if !leave.Deadline.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadlineCause(ctx, leave.Deadline, ErrDeadline)
		defer stop()
	}
	alive, stopBeats := context.WithCancel(context.WithoutCancel(handlers))
	lines := reporter{ctx: alive, send: a.report}
	every, beats := beatInterval(leave), make(chan struct{})
	// The start counts as the first heartbeat: after a late answer the next one is due.
	first := time.AfterFunc(max(0, every-elapsed(a.lease.Load().since)), func() { defer close(beats); a.beat(alive, every) })
	defer func() {
		if stopBeats(); !first.Stop() {
			<-beats
		}
	}()

	begin := func() error {
		err := ctx.Err()
		if err == nil {
			err = a.lease.Load().mayBegin()
		}
		if err == nil {
			a.began.Store(true)
		}
		return err
	}
	res, err := invoke(ctx, a.w.handler, Task{
		Call: a.call.Key, Tool: a.w.tool, Input: message.RawJSON(a.call.Request.Input),
		IdempotencyKey: a.call.Attempt.Grant.IdempotencyKey, Attempt: a.id.Attempt, Trace: a.call.Trace, progress: lines.add, begin: begin,
	})
	began := a.began.Load()
	lines.close()
	a.logRun(res, err)
	stopping := res.State == message.ToolResultInterrupted && errors.Is(context.Cause(ctx), ErrStopping)
	switch {
	case !began && stopping, (!began || a.w.command) && errors.Is(err, errNotBegun), errors.Is(err, ErrNotBegun):
		a.log.Warn("returning the attempt: nothing ran", "err", err)
		a.giveBack(handlers, line(err.Error()))
		return
	case stopping:
		// We stopped it, no one else asked for that: only without a result does the record stay true.
		// The lease expires, and the engine retries or asks a person, as for a dead worker.
		a.w.noteUndelivered(a)
		return
	case errors.Is(err, ErrUnknownOutcome): // no result would be true, so let the lease expire
		a.log.Error("the outcome of the attempt is unknown", "err", err)
		return
	}
	a.deliver(handlers, toolcall.ResultRequest{Result: res})
}

// giveBack returns the attempt: it tells the engine that this worker has not begun it and
// never will, so that the call can be offered again.
func (a *attempt) giveBack(handlers context.Context, why string) {
	a.deliver(handlers, toolcall.ResultRequest{NotBegun: why})
}

func (a *attempt) logRun(res message.ToolResultBlock, err error) {
	about := []any{"state", res.State}
	if err != nil {
		about = append(about, "err", err)
	}
	a.log.Info("ran the call", about...)
	if p, ok := errors.AsType[*PanicError](err); ok {
		a.log.Error("the handler panicked", "value", fmt.Sprint(p.Value), "stack", string(p.Stack))
	}
}

// deliver sends the outcome until the engine has answered. Heartbeats continue meanwhile, so
// the lease holds. Only a worker that has to stop gives up.
func (a *attempt) deliver(handlers context.Context, req toolcall.ResultRequest) {
	ctx, release := withDelayedEnd(handlers, resultGrace, ErrStopping)
	defer release()
	req.V, req.Key, req.Attempt, req.Claim = 1, a.id.Key, a.id.Attempt, a.id.Claim
	state, replaced := req.Result.State, req.NotBegun != ""
	var b backoff
	for {
		reply, err := request(ctx, a.w.requestTimeout, a.w.transport.Result, req)
		switch judgeResult(err) {
		case taken:
			if err != nil || !reply.Stored {
				a.log.Warn("the result arrived too late and does not count", "state", reply.State, "err", err)
			}
			return
		case unfit:
			a.log.Error("the engine refused the result", "err", err)
			if replaced {
				a.w.noteUndelivered(a)
				return
			}
			// Without any result, this worker would look dead to the engine.
			replaced = true
			req.Result = result(Task{Call: a.id.Key, Tool: a.w.tool}, Output{}, fmt.Errorf("the tool ran and ended with state %s, but the engine refused its result: %w", state, err))
			continue
		}
		a.log.Warn("no engine has answered the result yet, sending it again", "err", err)
		if !b.wait(ctx) {
			a.log.Error("the result could not be delivered", "state", state, "err", err)
			a.w.noteUndelivered(a)
			return
		}
	}
}

// report sends one line of progress, best effort.
func (a *attempt) report(ctx context.Context, n int, text string) error {
	_, err := request(ctx, progressTimeout, func(ctx context.Context, r toolcall.ProgressRequest) (struct{}, error) {
		return struct{}{}, a.w.transport.Progress(ctx, r)
	}, toolcall.ProgressRequest{V: 1, Key: a.id.Key, Attempt: a.id.Attempt, Claim: a.id.Claim, N: n, Text: text})
	if err != nil {
		a.log.Debug("a line of progress was lost", "n", n, "err", err)
	}
	return err
}

// request makes one attempt at a request, with a time limit.
func request[Q, R any](ctx context.Context, limit time.Duration, do func(context.Context, Q) (R, error), q Q) (R, error) {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	return do(ctx, q)
}

// fallbackHeartbeat is used if the engine gave neither an interval nor a lease.
const fallbackHeartbeat = 5 * time.Second

// beatInterval returns how often to send heartbeats: as the engine asked, but at least
// three times per lease.
func beatInterval(leave toolcall.StartReply) time.Duration {
	every := time.Duration(0)
	for _, d := range []time.Duration{time.Duration(leave.HeartbeatMS) * time.Millisecond, time.Duration(leave.LeaseMS) * time.Millisecond / 3} {
		if d > 0 && (every == 0 || d < every) {
			every = d
		}
	}
	return cmp.Or(every, fallbackHeartbeat)
}

// beat sends heartbeats until ctx ends or the attempt is stale, and ends the handler's
// context if the engine answers with cancel or stale. Without an answer, the handler keeps
// running: the engine decides when it is back.
func (a *attempt) beat(ctx context.Context, every time.Duration) {
	// A lost heartbeat must not delay the next one: a heartbeat counts when it arrives,
	// whether or not its answer returns in time.
	limit := min(every, a.w.requestTimeout)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		sent := time.Now()
		reply, err := a.sendBeat(ctx, a.id, limit)
		if a.hearReply(reply, err) {
			return
		}
		if err == nil && a.began.Load() && !a.w.command { // before the begin, only the signed start counts
			a.lease.Store(&lease{since: sent, length: a.lease.Load().length})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// sendBeat sends one heartbeat, and compares this worker's clock with the reply.
func (a *attempt) sendBeat(ctx context.Context, r toolcall.HeartbeatRequest, limit time.Duration) (toolcall.HeartbeatReply, error) {
	sent := time.Now()
	reply, err := request(ctx, limit, a.w.transport.Heartbeat, a.w.clock.on(r))
	if err == nil {
		a.w.clock.measure(a.w.log, sent, time.Now(), reply.At)
	}
	return reply, err
}

// reportClock measures this worker's clock and reports it to the engines, so that people
// see why a grant that is valid there starts nothing here.
func (a *attempt) reportClock(ctx context.Context) {
	// The first heartbeat measures, the second reports. The first names no attempt: on a cluster, an
	// engine does not answer about one whose start it may not have read yet.
	for _, r := range []toolcall.HeartbeatRequest{{V: a.id.V, Key: a.id.Key, Claim: a.id.Claim}, a.id} {
		if _, err := a.sendBeat(ctx, r, a.w.requestTimeout); err != nil {
			a.log.Debug("the clock could not be compared with the engine's", "err", err)
			return
		}
	}
}

// hearReply acts on the reply to a heartbeat, and reports whether that was the last one.
func (a *attempt) hearReply(reply toolcall.HeartbeatReply, err error) (last bool) {
	switch code(err) {
	case message.CodeSuperseded, message.CodeFinished, message.CodeArchived, message.CodeNotFound:
		reply.Stale = true
	case message.CodeInterrupted:
		reply.Cancel = true
	default:
		if err != nil {
			a.log.Debug("a heartbeat was not answered", "err", err)
			return false
		}
	}
	if reply.Stale {
		a.log.Warn("the attempt is stale", "reason", reply.Reason)
		a.cancel(ErrStale)
		return true
	}
	if reply.Cancel {
		a.cancelFor(reply.Reason)
	}
	return false
}

// Limits of progress: at most one line per progressEvery is sent, the newest
// progressKept lines wait for their turn, sending one line can take progressTimeout, and
// sending the last lines of a finished run progressFlush.
const (
	progressEvery   = 50 * time.Millisecond
	progressKept    = 32
	progressFlush   = time.Second
	progressTimeout = time.Second
)

// reporter numbers lines of progress and sends them from a separate goroutine, so that a
// handler never waits for the network. Lines are numbered when they are reported: a gap
// shows that lines were dropped, always the oldest.
type reporter struct {
	ctx  context.Context //nolint:containedctx // ends when the heartbeats do
	send func(ctx context.Context, n int, text string) error
	runs sync.WaitGroup // of run, from the first line on
	wake chan struct{}  // one token: there are lines, or closed changed; nil until the first line

	mu     sync.Mutex // guards what follows
	n      int        // lines reported so far
	lines  []string   // the last reported lines, not yet sent
	closed bool
}

// add takes a line. It never blocks.
func (r *reporter) add(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if r.n++; r.wake == nil {
		r.wake = make(chan struct{}, 1)
		r.runs.Go(r.run)
	}
	if r.lines = append(r.lines, text); len(r.lines) > progressKept {
		r.lines = r.lines[1:]
	}
	r.signal()
}

// close returns after the remaining lines were sent, or could not be sent.
func (r *reporter) close() {
	r.mu.Lock()
	r.closed = true
	r.signal()
	r.mu.Unlock()
	r.runs.Wait()
}

func (r *reporter) signal() {
	select {
	case r.wake <- struct{}{}:
	default: // the token is already there, or nothing runs
	}
}

// take removes the oldest waiting line.
func (r *reporter) take() (n int, text string, ok, closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) == 0 {
		return 0, "", false, r.closed
	}
	n, text = r.n-len(r.lines)+1, r.lines[0]
	r.lines = r.lines[1:]
	return n, text, true, r.closed
}

// run sends until the reporter is closed and empty, or its context ends.
func (r *reporter) run() {
	ctx, pace := r.ctx, time.NewTicker(progressEvery)
	defer pace.Stop()
	for ctx.Err() == nil {
		n, text, ok, closed := r.take()
		switch {
		case closed:
			r.flush(ctx, n, text, ok)
			return
		case ok:
			_ = r.send(ctx, n, text) // best effort; send logs
			select {
			case <-pace.C:
			case <-ctx.Done():
			}
		default:
			select {
			case <-r.wake:
			case <-ctx.Done():
			}
		}
	}
}

// flush sends the remaining lines without pauses, until one fails or the time is over.
func (r *reporter) flush(ctx context.Context, n int, text string, ok bool) {
	ctx, stop := context.WithTimeout(ctx, progressFlush)
	defer stop()
	for ; ok; n, text, ok, _ = r.take() {
		if r.send(ctx, n, text) != nil {
			return
		}
	}
}
