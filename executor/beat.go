package executor

import (
	"context"
	"time"

	"github.com/askance-dev/askance/message"
)

// fallbackHeartbeat is used when the engine named neither an interval nor a
// lease.
const fallbackHeartbeat = 5 * time.Second

// interval is how often to beat: as the engine asked, or more often.
func (w *Worker) interval(leave message.StartReply) time.Duration {
	every := time.Duration(leave.HeartbeatMS) * time.Millisecond
	if every <= 0 {
		every = time.Duration(leave.LeaseMS) * time.Millisecond / 3
	}
	if every <= 0 {
		every = fallbackHeartbeat
	}
	if w.heartbeat > 0 {
		every = min(every, w.heartbeat)
	}
	return every
}

// beat keeps the lease until ctx ends or the attempt is stale, and passes the
// engine's cancel and stale on to the handler. No answer changes nothing: the
// run goes on through an outage of the engine, which decides when it is back.
func (a *attempt) beat(ctx context.Context, leave message.StartReply) {
	every := a.w.interval(leave)
	// One lost beat must not cost the next one its turn: the engine hears a beat
	// when it arrives, whether or not its answer comes in time.
	limit := min(every, a.w.requestTimeout)
	tick := time.NewTicker(every)
	defer tick.Stop()
	// A start that needed several tries may be old in the engine's eyes.
	for now := a.tries > 1; ; now = false {
		if !now {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		reply, err := request(ctx, limit, a.w.transport.Heartbeat, a.id)
		if a.heard(reply, err) {
			return
		}
	}
}

// heard acts on the answer to a heartbeat and reports whether it was the last.
func (a *attempt) heard(reply message.HeartbeatReply, err error) (last bool) {
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
