package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// record is a call as the askance server has it.
type record struct {
	askance Client
	log     *slog.Logger
	key     toolcall.Key
	claim   string               // of this gateway
	seen    func(*toolcall.Call) // gets each state that a wait finds
}

// Time for which the gateway repeats a proposal, and the pauses between attempts.
const (
	proposeTime = 20 * time.Second
	pause       = 500 * time.Millisecond
	maxPause    = 10 * time.Second
)

// propose proposes the call until a server answers.
func (r *record) propose(ctx context.Context, agent string, t *tool, input json.RawMessage) (*toolcall.Call, error) {
	ctx, cancel := context.WithTimeout(ctx, proposeTime)
	defer cancel()
	proposal := toolcall.ProposeRequest{
		Session: r.key.Session, Reply: r.key.Reply, Agent: agent,
		Calls: []message.ToolCallBlock{{ID: r.key.Call, Name: t.clientName(), Input: string(input)}},
		Tools: []toolcall.ToolDefinition{t.declaration()},
	}
	for {
		out, err := r.askance.Propose(ctx, proposal)
		if err == nil && len(out.Calls) == 1 {
			return out.Calls[0], nil
		}
		if err == nil {
			err = errors.New("the reply has no call")
		}
		if !isTemporary(err) || sleep.For(ctx, pause) != nil {
			return nil, err
		}
	}
}

func isTemporary(err error) bool {
	return errors.Is(err, message.ErrUnavailable) || errors.Is(err, message.ErrUnknownOutcome) || errors.Is(err, message.ErrOverLimit)
}

// wait waits until the call may run or is finished, and retries after every failure of the
// server. Its error means that ctx has ended.
func (r *record) wait(ctx context.Context, until toolcall.WaitUntil) (*toolcall.Call, error) {
	d := pause
	for {
		out, err := r.askance.Wait(ctx, toolcall.WaitRequest{Session: r.key.Session, Reply: r.key.Reply, Calls: []message.CallID{r.key.Call}, Until: until})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil && len(out.Calls) == 1 {
			r.seen(out.Calls[0])
			if out.Done {
				return out.Calls[0], nil
			}
			continue
		}
		r.log.Warn("cannot wait for a call", "call", r.key.Call, "error", err)
		if sleep.For(ctx, d) != nil {
			return nil, ctx.Err()
		}
		d = min(2*d, maxPause)
	}
}

// waitForOther waits a short time for the result of a call that another gateway took: that
// gateway may be running it now, or may have stopped in the middle.
func (r *record) waitForOther(ctx context.Context, call *toolcall.Call, most time.Duration) *toolcall.Call {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if found, err := r.wait(ctx, toolcall.UntilFinished); err == nil {
		return found
	}
	return call
}

// begin takes the call for this gateway.
func (r *record) begin(ctx context.Context) (call *toolcall.Call, err error) {
	err = r.again(ctx, func() (err error) {
		call, err = r.askance.Begin(ctx, toolcall.BeginRequest{Key: r.key, Claim: r.claim})
		return err
	})
	return call, err
}

// look returns the call as the server has it now.
func (r *record) look(ctx context.Context) (call *toolcall.Call, err error) {
	err = r.again(ctx, func() error {
		out, err := r.askance.Wait(ctx, toolcall.WaitRequest{Session: r.key.Session, Reply: r.key.Reply, Calls: []message.CallID{r.key.Call}, TimeoutMS: 1})
		if err == nil && len(out.Calls) != 1 {
			return errors.New("the reply has no call")
		}
		if err == nil {
			call = out.Calls[0]
		}
		return err
	})
	return call, err
}

// notBegun returns a call that the server did not let this gateway begin: nothing was sent from here,
// and the record says whether another one runs it. The call is open if that stays unknown.
func (h *held) notBegun(ctx context.Context, call *toolcall.Call, why error) *toolcall.Call {
	now, err := toolcall.CallOf(why), error(nil)
	if now == nil {
		now, err = h.record.look(ctx)
	}
	switch {
	case err != nil:
		h.g.cfg.Log.Error("cannot begin a call or look it up", "call", h.key.Call, "error", errors.Join(why, err))
		return call
	case !now.Open() || now.Blocked.NeedsOperator(): // revoked, interrupted or blocked meanwhile
		return now
	case now.Placement != toolcall.PlaceExternal: // askance itself runs it
		if found, err := h.record.wait(ctx, toolcall.UntilFinished); err == nil {
			return found
		}
		return now
	case now.Started() && now.Attempt.Claim != h.record.claim: // another gateway runs it, and it must not run again
		return h.record.waitForOther(ctx, now, min(h.g.cfg.Hold/2, otherTime))
	}
	h.g.cfg.Log.Error("cannot begin a call, and it does not run", "call", h.key.Call, "error", why)
	did := refusal("the call did not run: "+why.Error(), now)
	if now.Started() {
		return h.report(ctx, now, did)
	}
	h.record.interrupt(ctx, "the gateway could not begin the call")
	if now, err = h.record.look(ctx); err != nil {
		return call
	}
	if !now.Open() && now.Begun == 0 { // else another gateway began it meanwhile
		h.change(func() { h.outcome = did })
	}
	return now
}

// again repeats a request to the server until it answers or the gateway ends.
func (r *record) again(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil || !isTemporary(err) {
			return err
		}
		if sleep.For(ctx, pause) != nil {
			return ctx.Err()
		}
	}
}

// interrupt ends a call that is not to run.
func (r *record) interrupt(ctx context.Context, reason string) {
	if err := r.again(ctx, func() error {
		_, err := r.askance.Interrupt(ctx, toolcall.InterruptRequest{Session: r.key.Session, Reply: r.key.Reply, Reason: reason})
		return err
	}); err != nil {
		r.log.Warn("cannot interrupt a call", "call", r.key.Call, "error", err)
	}
}

// outlast returns a context for reports, which ends a short time after ctx.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(reportTime, cancel) })
	return last, func() { stop(); cancel() }
}

// reportUnknown blocks the call until an operator resolves it. It returns the call as it is then.
func (r *record) reportUnknown(ctx context.Context, call *toolcall.Call) *toolcall.Call {
	ctx, cancel := outlast(ctx)
	defer cancel()
	var now *toolcall.Call
	err := r.again(ctx, func() (err error) {
		now, err = r.askance.Report(ctx, toolcall.ReportRequest{Key: call.Key, Unknown: true})
		return err
	})
	if err == nil {
		return now
	}
	if found := toolcall.CallOf(err); found != nil && !found.Open() {
		return found
	}
	r.log.Error("cannot report that the outcome of a call is unknown", "call", r.key.Call, "error", err)
	return call
}

// report puts the result on record. The server keeps the first result of a call.
func (r *record) report(ctx context.Context, call *toolcall.Call, o *outcome) (done *toolcall.Call, stored bool) {
	last, cancel := outlast(ctx)
	defer cancel()
	request := toolcall.ReportRequest{Key: call.Key, Result: resultBlock(call, o)}
	err := r.again(last, func() (err error) {
		done, err = r.askance.Report(last, request)
		return err
	})
	if err == nil {
		return done, toolcall.Cause(done.Cause) == toolcall.CauseResult
	}
	r.log.Error("cannot report the result of a call", "call", r.key.Call, "error", err)
	if found := toolcall.CallOf(err); found != nil && !found.Open() {
		return found, false
	}
	if ctx.Err() == nil {
		if found, werr := r.wait(ctx, toolcall.UntilParked); werr == nil {
			return found, false
		}
	}
	return call, false
}
