package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/askance-dev/askance/engine/internal/approve"
	"github.com/askance-dev/askance/engine/internal/schedule"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// keeper does what follows an event record: it performs the effects of what this engine
// wrote, sets the timers of every open call, and takes the steps that become due.
type keeper struct {
	*core
	runs      *runs
	attempts  *attempts
	batches   *batches
	replies   *replies
	responses *approve.Responses
}

// performEffects performs the effects of this engine's own record, which was sent after
// sent. Effects that fail are derived again from the journal, so they fail no request.
func (k *keeper) performEffects(c *toolcall.Call, effects []toolcall.Effect, sent time.Time) {
	if c.Open() {
		k.runs.cancelRuns(c, ErrFinishedElsewhere) // attempts before the current one
	}
	for _, eff := range effects {
		switch eff {
		case toolcall.EffectAsk, toolcall.EffectClosed:
			k.cfg.signals.Hint(c)
		case toolcall.EffectRun:
			k.runs.runCall(c, sent)
		case toolcall.EffectCancel:
			k.cancelOwner(c, "the call is finished: "+c.Cause)
		case toolcall.EffectFinished:
			k.liveness.Forget(c.Key)
			if len(c.Votes) > 0 && !slices.Contains(effects, toolcall.EffectClosed) { // no one was asked about other calls, or their request closes now
				k.cfg.signals.Hint(c)
			}
		}
	}
	k.setTimers(c, 0)
	// The calls that this one waits for may have ended while its record was written.
	missed := false
	if c.State == message.ToolCallPending {
		missed = !k.batches.isHidden(c) && k.batches.gateOf(c) != gateWaits
		k.lookLater(c.ReplyKey()) // news of the calls it waits for may never come
	}
	if missed || hasEnded(effects) && k.hasPending(c) {
		k.runInBackground(func(ctx context.Context) { k.batches.advanceReply(ctx, c.ReplyKey()) })
	}
}

// hasEnded reports whether calls that waited for this one may now continue.
func hasEnded(effects []toolcall.Effect) bool {
	return slices.Contains(effects, toolcall.EffectClosed) || slices.Contains(effects, toolcall.EffectFinished)
}

// followRecord sets the timers for a record of another engine, or of this one before a
// restart, so this engine steps in if the writer dies before it performs the effects.
func (k *keeper) followRecord(rec *toolcall.EventRecord) {
	c := rec.Call
	switch {
	case c == nil && rec.Reply != nil && rec.Reply.Phase == toolcall.ReplyInterrupted:
		k.lookLater(rec.Reply.Key)
	case c == nil:
	case !c.Open() && rec.Note != nil:
	case !c.Open():
		k.liveness.Forget(c.Key)
		k.runs.cancelRuns(c, ErrFinishedElsewhere)
		k.wakeSiblings(c)
	default:
		k.runs.cancelRuns(c, ErrFinishedElsewhere)
		k.setTimers(c, k.cfg.grace)
		k.wakeSiblings(c) // they may be hidden behind an approval request that ended here or was replaced
		if state, _ := k.view.ReplyState(c.Key); state != nil && state.Phase != toolcall.ReplyOpen {
			k.lookLater(c.ReplyKey()) // its writer may have died before it saw the interrupt
		}
	}
}

// lookAtReply takes the look that lookLater scheduled.
func (k *keeper) lookAtReply(ctx context.Context, reply toolcall.Key) {
	if state, seq := k.view.ReplyState(reply); state != nil && state.Phase != toolcall.ReplyOpen {
		k.replies.closeReply(ctx, reply, seq)
		return
	}
	k.batches.advanceReply(ctx, reply)
}

// wakeSiblings schedules a look at a reply if it has pending calls, after one of its calls
// ended or one of them became known.
func (k *keeper) wakeSiblings(c *toolcall.Call) {
	if k.hasPending(c) {
		k.lookLater(c.ReplyKey())
	}
}

// hasPending reports whether a call's reply has a pending call. A call that the view does not have
// yet looks itself, once it is recorded, at those that it waits for.
func (k *keeper) hasPending(c *toolcall.Call) bool {
	return slices.ContainsFunc(k.view.CallsOf(c.Key), func(s *toolcall.Call) bool { return s.State == message.ToolCallPending })
}

// setTimers sets the timers for c's phase. It adds late to steps that the writer of the
// record should take first.
func (k *keeper) setTimers(c *toolcall.Call, late time.Duration) {
	now := time.Now()
	at := func(t time.Time) { k.timers.Set(t, c.Key, c.Seq) }
	after := func(wait time.Duration) { k.timers.SetAfter(wait, c.Key, c.Seq) }
	switch c.Phase() {
	case toolcall.PhaseWaiting:
		if late > 0 {
			k.lookLater(c.ReplyKey())
		}
	case toolcall.PhaseAsking:
		if next := approve.NextLook(c, now, k.cfg.remind); !next.IsZero() {
			at(next)
		}
	case toolcall.PhaseRetrying:
		at(c.RetryAt.Add(late))
	case toolcall.PhaseRunning:
		k.watchOwner(c, now)
	case toolcall.PhaseReady:
		after(late)
	case toolcall.PhaseQueued:
		if c.Placement != toolcall.PlaceRemote {
			break // its result comes from outside, at any time
		}
		at(c.Attempt.OfferUntil.Add(late))
		if k.attempts.hasStaleGrant(c) {
			after(late)
		}
		if q := k.toolNamed(c.Tool).QueueTimeout; q > 0 {
			at(c.Attempt.OfferedAt.Add(q))
		}
	case toolcall.PhaseBlocked:
		if c.Blocked == toolcall.BlockedUnknown { // an operator can have it run again if its owner is silent
			after(k.silentFrom(c, now).Sub(now)) // the timer also wakes the timers, which notice pauses only while they listen
		}
	case toolcall.PhaseFinished:
	}
	if k.isTimedAhead(c, now) {
		after(max(late, k.cfg.grace))
	}
}

// watchClock looks at every open call again whenever this machine's clock was set back.
func (k *keeper) watchClock(ctx context.Context) {
	for before, tick := time.Now(), time.NewTicker(maxAhead); ; {
		select {
		case now := <-tick.C:
			if now.Sub(before)-now.Round(0).Sub(before.Round(0)) > maxAhead {
				k.recoverCalls()
			}
			before = now
		case <-ctx.Done():
			return
		}
	}
}

// watchOwner starts listening for the owner of a started attempt.
func (k *keeper) watchOwner(c *toolcall.Call, now time.Time) {
	k.liveness.LastHeard(c.Key, c.Attempt.Number, now)
	k.timers.SetAfter(claimTime(c), c.Key, c.Seq)
	if d := c.Attempt.Deadline; !d.IsZero() {
		k.timers.Set(d, c.Key, c.Seq)
	}
}

// claimTime is how long the owner of the attempt may be silent before it counts as dead.
func claimTime(c *toolcall.Call) time.Duration {
	return time.Duration(c.Attempt.LeaseMS) * time.Millisecond
}

// hearOwner records a sign of life of an attempt, unless its call is finished.
func (c *core) hearOwner(key toolcall.Key, attempt int) {
	c.liveness.Hear(key, attempt, time.Now())
	if call := c.view.Call(key); call == nil || !call.Open() {
		c.liveness.Forget(key) // it may have finished before, so nothing else forgets it
	}
}

// fireTimer handles a due timer. It runs on the timers' goroutine and only starts
// background steps.
func (k *keeper) fireTimer(d schedule.Due) {
	if d.Key.Call == "" {
		k.beginLook(d.Key)
		k.runInBackground(func(ctx context.Context) { k.lookAtReply(ctx, d.Key) })
		return
	}
	c := k.view.Call(d.Key)
	if c == nil || c.Seq != d.Seq || !c.Open() {
		return // the call has changed; its newer event record set its own timers
	}
	if c.Phase() == toolcall.PhaseRunning && k.isAlive(c) {
		return
	}
	k.runInBackground(func(ctx context.Context) { k.lookAtCall(ctx, c) })
}

// silentFrom is when the owner of the attempt counts as dead if nothing is heard of it until then.
func (c *core) silentFrom(call *toolcall.Call, now time.Time) time.Time {
	return c.liveness.LastHeard(call.Key, call.Attempt.Number, now).Add(claimTime(call))
}

// isAlive handles a timer of a running attempt. It reports whether the owner was heard of
// within the lease and ends by its deadline, or soon after, and if so sets the next timer.
func (k *keeper) isAlive(c *toolcall.Call) bool {
	if c.Placement == toolcall.PlaceExternal { // its runtime sends no heartbeats
		return true
	}
	now := time.Now()
	if k.runs.isRunningHere(c) { // a run in this process needs no heartbeat
		k.liveness.Hear(c.Key, c.Attempt.Number, now)
	}
	end := k.silentFrom(c, now)
	if d := c.Attempt.Deadline; !d.IsZero() && !now.Before(d) {
		k.cancelOwner(c, ErrDeadline.Error())
		stop, last := k.liveness.AskedToStop(c.Key, now).Add(max(claimTime(c), DefaultLease)), end.Add(-claimTime(c))
		if stop.Before(end) && (now.Before(stop) || !last.Before(stop.Add(-heartbeatInterval(claimTime(c))))) { // else the owner may be dead
			end = stop
		}
	}
	if !now.Before(end) {
		return false
	}
	k.timers.SetAfter(end.Sub(now), c.Key, c.Seq)
	return true
}

// cancelOwner asks the owner of the attempt to stop.
func (k *keeper) cancelOwner(c *toolcall.Call, reason string) {
	if c.Attempt.Worker == k.cfg.id {
		cause := ErrFinishedElsewhere
		if c.Open() {
			cause = ErrDeadline
		}
		k.runs.cancelRuns(c, cause)
		return
	}
	k.cfg.signals.Cancel(c.Queue(), c.Attempt.Worker, toolcall.HeartbeatRequest{Key: c.Key, Attempt: c.Attempt.Number, Claim: c.Attempt.Claim}, reason)
}

// lookAtCallLater schedules another look at a call after the grace period, or less often while only
// people can end what blocks it.
func (k *keeper) lookAtCallLater(key toolcall.Key) {
	c, wait := k.view.Call(key), k.cfg.grace
	if c == nil {
		return
	}
	if k.clocks.Mark(c).Blocked == toolcall.BlockedKey {
		wait = max(wait, maxAhead)
	}
	k.timers.SetAfter(wait, key, c.Seq)
}

// lookAtCall takes the step that is due for an open call.
func (k *keeper) lookAtCall(ctx context.Context, c *toolcall.Call) {
	var err error
	switch c.Phase() {
	case toolcall.PhaseAsking:
		err = k.lookAtRequest(ctx, c)
	case toolcall.PhaseRetrying:
		err = k.attempts.retryCall(ctx, c.Key)
	case toolcall.PhaseRunning:
		if !k.isAlive(c) { // the owner may have been heard of while this look waited
			now := time.Now()
			err = k.attempts.loseAttempt(ctx, c, !now.Before(k.silentFrom(c, now)))
		}
	case toolcall.PhaseReady:
		_, err = k.attempts.startAllowed(ctx, c.Key)
	case toolcall.PhaseQueued:
		if c.Placement == toolcall.PlaceRemote {
			err = k.attempts.offerAgain(ctx, c.Key)
		}
	case toolcall.PhaseWaiting, toolcall.PhaseBlocked, toolcall.PhaseFinished: // no timer of the call is due
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, message.ErrFinished) && !errors.Is(err, message.ErrSuperseded) {
		k.log.Warn("cannot take a due step; will try again", "call", c.Key.String(), "phase", string(c.Phase()), "error", err)
		k.lookAtCallLater(c.Key)
	}
}

// lookAtRequest handles a due timer of an open approval request: it records what its plan
// demands or, if nothing is due, reminds people. A reminder repeats the hint, and every
// replica sends it.
func (k *keeper) lookAtRequest(ctx context.Context, c *toolcall.Call) error {
	err := k.responses.PassTime(ctx, c.Key)
	if now := k.view.Call(c.Key); err != nil || now == nil || now.Seq != c.Seq {
		return err // the call has changed; its newer event record set its own timers
	}
	if k.cfg.remind > 0 {
		k.cfg.signals.Hint(c)
	}
	if next := approve.NextLook(c, time.Now(), k.cfg.remind); !next.IsZero() {
		k.timers.Set(next, c.Key, c.Seq)
	}
	return nil
}

// recoverCalls resumes every open call after a start. Steps that only this process can take
// are taken now; those that a living replica may still take wait for the grace period.
func (k *keeper) recoverCalls() {
	queues := map[toolcall.Queue]bool{}
	for _, c := range k.view.OpenCalls() {
		k.setTimers(c, k.cfg.grace)
		if c.Placement == toolcall.PlaceRemote && c.State == message.ToolCallSubmitted { // in any phase, because it may be offered again
			queues[c.Queue()] = true
		}
	}
	for queue := range queues { // in the background, because a slow server must not delay requests
		k.runInBackground(func(ctx context.Context) {
			if err := k.journal.EnsureQueue(ctx, queue); err != nil && ctx.Err() == nil {
				k.log.Warn("cannot serve the workers of a tool yet", "queue", queue.String(), "error", err)
			}
		})
	}
	for _, key := range k.view.InterruptedReplies() {
		k.lookLater(key)
	}
}
