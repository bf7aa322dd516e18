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

// note takes in an event of the reply.
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

// lookout finds out when a reply can go on no further without people or the
// client.
type lookout struct {
	f      *follower
	parked chan []*toolcall.Call // the calls without a result, as they were then
	cancel context.CancelFunc
	done   chan struct{}
	vain   time.Duration // pause before the next look, after some in vain
}

func newLookout(f *follower) *lookout {
	return &lookout{f: f, parked: make(chan []*toolcall.Call), cancel: func() {}}
}

// stop ends the look that is being taken.
func (l *lookout) stop() {
	l.cancel()
	if l.done != nil {
		<-l.done
		l.done = nil
	}
}

// look begins anew, after something has happened.
func (l *lookout) look(ctx context.Context) {
	l.vain = 0
	l.begin(ctx)
}

// again looks once more although nothing has happened: what the last look found
// was not the time to end the run.
func (l *lookout) again(ctx context.Context) {
	l.vain = min(max(2*l.vain, 10*time.Millisecond), 2*time.Second)
	l.begin(ctx)
}

func (l *lookout) begin(ctx context.Context) {
	l.stop()
	if len(l.f.calls) == 0 || l.f.out.ended {
		return
	}
	ctx, l.cancel = context.WithCancel(ctx)
	done := make(chan struct{})
	l.done = done
	req := toolcall.WaitRequest{Session: l.f.session, Reply: l.f.reply, Calls: slices.Clone(l.f.calls), Until: toolcall.UntilParked}
	vain := l.vain
	go func() {
		defer close(done)
		pause(ctx, vain)
		calls := l.f.s.patient(ctx, l.f.run, req)
		if calls == nil {
			return
		}
		select {
		case l.parked <- calls:
		case <-ctx.Done():
		}
	}()
}

// patient waits until the run should end; nil if ctx ends before. Whatever
// happens meanwhile is an event, with which the look begins anew.
func (s *Surface) patient(ctx context.Context, r *run, req toolcall.WaitRequest) []*toolcall.Call {
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
				req.Calls = known(ctx, r, req) // one was begun and never proposed
			}
			pause(ctx, 50*time.Millisecond)
			continue
		}
		if slices.ContainsFunc(out.Calls, r.needsSomeone) {
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

// known are the calls that the engine knows.
func known(ctx context.Context, r *run, req toolcall.WaitRequest) []message.CallID {
	return slices.DeleteFunc(slices.Clone(req.Calls), func(id message.CallID) bool {
		_, err := r.owner.Show(ctx, toolcall.ShowRequest{Key: toolcall.Key{Session: req.Session, Reply: req.Reply, Call: id}})
		return errors.Is(err, message.ErrNotFound)
	})
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// needsSomeone reports whether a call waits for a person or for the client.
func (r *run) needsSomeone(c *toolcall.Call) bool {
	return c.Phase() == toolcall.PhaseAsking || c.Phase() == toolcall.PhaseBlocked || r.clients(c)
}

// clients reports whether a call waits for the client to run it.
func (r *run) clients(c *toolcall.Call) bool {
	return c.State == message.ToolCallSubmitted && c.Placement == toolcall.PlaceExternal && r.of.ClientTools[c.Tool]
}

// onlyWorkers reports whether the calls wait for workers, and for nobody else.
func (r *run) onlyWorkers(calls []*toolcall.Call) bool {
	return !slices.ContainsFunc(calls, func(c *toolcall.Call) bool { return c.State != message.ToolCallSubmitted })
}
