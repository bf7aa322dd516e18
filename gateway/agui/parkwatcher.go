package agui

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// pending are the calls of a reply that were begun and have no result, in the
// order in which they were begun.
type pending []message.CallID

// note records an event of the reply.
func (p *pending) note(e message.Event) {
	drop := func(id message.CallID) {
		*p = slices.DeleteFunc(*p, func(o message.CallID) bool { return o == id })
	}
	switch e := e.(type) {
	case *message.ToolCallStart:
		drop(e.ToolCallID)
		*p = append(*p, e.ToolCallID)
	case *message.ToolResultEnd:
		drop(e.ToolCallID)
	case *message.ExternalExecutionResult:
		for _, r := range e.ExecutionResults {
			drop(r.ID)
		}
	default:
	}
}

// parkWatcher finds out when a reply cannot continue without people or the client.
type parkWatcher struct {
	f      *follower
	parked chan []*toolcall.Call // the calls without a result, as they were then
	cancel context.CancelFunc
	done   chan struct{}
	pause  time.Duration // before the next wait, after waits that changed nothing
}

// stop ends the current wait.
func (l *parkWatcher) stop() {
	l.cancel()
	if l.done != nil {
		<-l.done
		l.done = nil
	}
}

// restart starts a new wait after an event.
func (l *parkWatcher) restart(ctx context.Context) {
	l.pause = 0
	l.begin(ctx)
}

// retry waits again after a result that did not end the run.
func (l *parkWatcher) retry(ctx context.Context) {
	l.pause = min(max(2*l.pause, 10*time.Millisecond), 2*time.Second)
	l.begin(ctx)
}

func (l *parkWatcher) begin(ctx context.Context) {
	l.stop()
	if len(l.f.calls) == 0 || l.f.out.ended {
		return
	}
	ctx, l.cancel = context.WithCancel(ctx)
	done := make(chan struct{})
	l.done = done
	req := toolcall.WaitRequest{Session: l.f.session, Reply: l.f.reply, Calls: slices.Clone(l.f.calls), Until: toolcall.UntilParked}
	wait := l.pause
	go func() {
		defer close(done)
		pause(ctx, wait)
		calls := l.f.s.waitUntilParked(ctx, l.f.run, req)
		if calls == nil {
			return
		}
		select {
		case l.parked <- calls:
		case <-ctx.Done():
		}
	}()
}

// waitUntilParked waits until the run should end, or returns nil if ctx ends first. Each event
// restarts the wait.
func (s *Surface) waitUntilParked(ctx context.Context, r *run, req toolcall.WaitRequest) []*toolcall.Call {
	began := time.Now()
	for ctx.Err() == nil {
		early := s.cfg.Grace - time.Since(began)
		hold := maxHold
		if early > 0 {
			hold = max(10*time.Millisecond, min(early, maxHold))
		}
		req.TimeoutMS = hold.Milliseconds()
		out, err := r.owner.Wait(ctx, req)
		if err != nil || len(out.Calls) == 0 {
			if errors.Is(err, message.ErrNotFound) && early <= 0 {
				req.Calls = dropUnknown(ctx, r, req) // a call was begun and never proposed
			}
			pause(ctx, 50*time.Millisecond)
			continue
		}
		if slices.ContainsFunc(out.Calls, r.needsPerson) {
			if out.Done || time.Since(began) >= s.cfg.Grace {
				return out.Calls
			}
			continue
		}
		if out.Done {
			pause(ctx, s.cfg.Patience-time.Since(began))
			if r.onlyWorkers(out.Calls) {
				return out.Calls
			}
			pause(ctx, maxHold) // their results are on the way
		}
	}
	return nil
}

// maxHold is how long one request waits at the engine.
const maxHold = 20 * time.Second

// dropUnknown returns the calls that the engine has.
func dropUnknown(ctx context.Context, r *run, req toolcall.WaitRequest) []message.CallID {
	return slices.DeleteFunc(slices.Clone(req.Calls), func(id message.CallID) bool {
		_, err := r.owner.Show(ctx, toolcall.ShowRequest{Key: toolcall.Key{Session: req.Session, Reply: req.Reply, Call: id}})
		return errors.Is(err, message.ErrNotFound)
	})
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// needsPerson reports whether a call waits for a person or for the client.
func (r *run) needsPerson(c *toolcall.Call) bool {
	return c.Phase() == toolcall.PhaseAsking || c.Phase() == toolcall.PhaseBlocked || r.isClientCall(c)
}

// isClientCall reports whether the client has to run a call. Another program of the thread's owner can
// have begun it.
func (r *run) isClientCall(c *toolcall.Call) bool {
	free := c.Phase() == toolcall.PhaseQueued || c.Phase() == toolcall.PhaseRunning && c.Attempt.Claim == handOverClaim
	return free && c.Placement == toolcall.PlaceExternal && r.of.ClientTools[c.Tool]
}

func (r *run) onlyWorkers(calls []*toolcall.Call) bool {
	return !slices.ContainsFunc(calls, func(c *toolcall.Call) bool { return c.State != message.ToolCallSubmitted })
}
