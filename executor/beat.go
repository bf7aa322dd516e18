package executor

import (
	"context"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// fallbackHeartbeat is used when the engine named neither an interval nor a
// lease.
const fallbackHeartbeat = 5 * time.Second

// beatInterval is how often to beat: as the engine asked, and three times in a
// lease at least.
func beatInterval(leave toolcall.StartReply) time.Duration {
	every := time.Duration(0)
	for _, d := range []time.Duration{time.Duration(leave.HeartbeatMS) * time.Millisecond, time.Duration(leave.LeaseMS) * time.Millisecond / 3} {
		if d > 0 && (every == 0 || d < every) {
			every = d
		}
	}
	if every == 0 {
		return fallbackHeartbeat
	}
	return every
}

// beat keeps the lease until ctx ends or the attempt is stale, and passes the
// engine's cancel and stale on to the handler. No answer changes nothing: the
// run goes on through an outage of the engine, which decides when it is back.
func (a *attempt) beat(ctx context.Context, leave toolcall.StartReply) {
	every := beatInterval(leave)
	// One lost beat must not cost the next one its turn: the engine hears a beat
	// when it arrives, whether or not its answer comes in time.
	limit := min(every, a.w.requestTimeout)
	// The start is the first sign of life: after a late answer the next is due.
	due := time.NewTimer(max(0, every-elapsed(a.lease.Load().since)))
	defer due.Stop()
	select {
	case <-due.C:
	case <-ctx.Done():
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		sent := time.Now()
		reply, err := a.sendBeat(ctx, limit)
		if a.heard(reply, err) {
			return
		}
		if err == nil && a.began.Load() && !a.w.command { // before that only the signed start counts
			a.lease.Store(&lease{since: sent, length: a.lease.Load().length})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// sendBeat sends one heartbeat, and measures this worker's clock by the answer.
func (a *attempt) sendBeat(ctx context.Context, limit time.Duration) (toolcall.HeartbeatReply, error) {
	sent := time.Now()
	reply, err := request(ctx, limit, a.w.transport.Heartbeat, a.w.clock.on(a.id))
	if err == nil {
		a.w.clock.measure(a.w.log, sent, time.Now(), reply.At)
	}
	return reply, err
}

// reportClock measures this worker's clock and tells the engines, so that people
// see why a grant that is valid there starts nothing here.
func (a *attempt) reportClock(ctx context.Context) {
	for range 2 { // the first measures, the second tells
		if _, err := a.sendBeat(ctx, a.w.requestTimeout); err != nil {
			a.log.Debug("the clock could not be compared with the engine's", "err", err)
			return
		}
	}
}

// heard acts on the answer to a heartbeat and reports whether it was the last.
func (a *attempt) heard(reply toolcall.HeartbeatReply, err error) (last bool) {
	switch code(err) {
	case message.CodeSuperseded, message.CodeFinished, message.CodeNotFound:
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
		a.cancelled(reply.Reason)
	}
	return false
}
