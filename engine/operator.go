package engine

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/askance-dev/askance/engine/internal/approve"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// operators handles requests of operators and runtimes about allowed calls.
type operators struct {
	*core
	attempts  *attempts
	responses *approve.Responses
}

// resolveCall ends a blocked or external call with the outcome that an operator states, or runs a
// blocked one again.
func (o *operators) resolveCall(ctx context.Context, by toolcall.Principal, r toolcall.ResolveRequest) (*toolcall.Call, error) {
	r.Space = o.space
	if err := checkResolve(r); err != nil {
		return nil, err
	}
	return o.updateSeen(ctx, "resolve", r.Key, by, func(ctx context.Context, m *toolcall.Machine) error {
		c, now := m.Call(), baseNow()
		if c.Open() && !c.CanResolve() {
			return m.Step(toolcall.Resolved{Base: now, Attempt: c.Attempt.Number}) // the machine returns the right error
		}
		if r.Outcome == toolcall.OutcomeRunAgain && c.Open() && c.Placement == toolcall.PlaceExternal {
			return &message.Error{Code: message.CodeState, Call: toolcall.ErrorCall(c), What: "the call runs in its runtime, which alone can run it again", Hint: "use happened or did_not_happen"}
		}
		if r.Outcome == toolcall.OutcomeRunAgain && c.Open() && c.Attempt.Number == r.Attempt {
			if err := o.checkOwnerSilent(c); err != nil {
				return err
			}
			if stop, err := o.attempts.mustNotBegin(ctx, m); stop || err != nil {
				return err
			}
			return o.attempts.offerNext(m)
		}
		state, text := message.ToolResultSuccess, r.Output
		if r.Outcome != toolcall.OutcomeHappened {
			state, text = message.ToolResultError, fmt.Sprintf("<system-reminder>Tool %q did not run: %s resolved that nothing happened. %s</system-reminder>", c.Tool, by.Name, r.Note)
		}
		res := toolcall.TextResult(c, state, text, now.At)
		res.Metadata = map[string]any{"resolved_by": by.Name}
		if r.Note != "" {
			res.Metadata["note"] = r.Note
		}
		return m.Step(toolcall.Resolved{Base: now, Attempt: r.Attempt, Result: res})
	})
}

// checkOwnerSilent refuses to run a call again whose owner may still run it: this engine has not yet
// listened for a whole lease without a heartbeat of it.
func (o *operators) checkOwnerSilent(c *toolcall.Call) error {
	if c.Blocked != toolcall.BlockedUnknown {
		return nil
	}
	now := time.Now()
	rest := o.silentFrom(c, now).Sub(now)
	if rest <= 0 {
		return nil
	}
	return &message.Error{Code: message.CodeState, Call: toolcall.ErrorCall(c), What: "its worker may still run it: this engine has not yet listened for a whole lease without heartbeats of the call", Hint: "wait for its result, or stop the worker and try again in " + (rest + time.Second - 1).Truncate(time.Second).String()}
}

func checkResolve(r toolcall.ResolveRequest) error {
	switch {
	case !slices.Contains(toolcall.Outcomes(), r.Outcome):
		return &message.Error{Code: message.CodeInvalid, What: fmt.Sprintf("outcome is %q", r.Outcome), Hint: "use " + spelling.OrList(toolcall.Outcomes())}
	case len(r.Output) > toolcall.MaxOutputBytes || len(r.Note) > toolcall.MaxTextBytes:
		return &message.Error{Code: message.CodeTooLarge, What: fmt.Sprintf("output has %d bytes and note %d, the limits are %d and %d", len(r.Output), len(r.Note), toolcall.MaxOutputBytes, toolcall.MaxTextBytes), Hint: "shorten them; store large output elsewhere and send a reference"}
	}
	return r.Key.Validate()
}

// revokeCall revokes an allowed call that no worker has started. Operators may do so, and
// approvers who could have responded to its approval request.
func (o *operators) revokeCall(ctx context.Context, by toolcall.Principal, r toolcall.RevokeRequest) (*toolcall.Call, error) {
	r.Space = o.space
	if err := r.Key.Validate(); err != nil {
		return nil, err
	}
	if len(r.Reason) > toolcall.MaxTextBytes {
		return nil, &message.Error{Code: message.CodeTooLarge, What: fmt.Sprintf("reason has %d bytes, the limit is %d", len(r.Reason), toolcall.MaxTextBytes), Hint: "shorten it"}
	}
	return o.updateSeen(ctx, "revoke", r.Key, by, func(ctx context.Context, m *toolcall.Machine) error {
		if err := o.responses.CheckRevoke(ctx, by, m.Call()); err != nil {
			return err
		}
		return m.Step(toolcall.Revoked{Base: baseNow(), Reason: r.Reason})
	})
}

// beginCall gives an external call to the process that runs it. A call that must not run ends
// or is blocked instead, and every reply that does not mean "run it" is an error.
func (o *operators) beginCall(ctx context.Context, by toolcall.Principal, r toolcall.BeginRequest) (*toolcall.Call, error) {
	if err := o.checkOwner(&r.Key, r.Claim); err != nil {
		return nil, err
	}
	c, err := o.updateSeen(ctx, "begin", r.Key, by, func(ctx context.Context, m *toolcall.Machine) error {
		c := m.Call()
		switch {
		case c.Runtime != by.Name:
			return &message.Error{Code: message.CodeForeign, What: "the session belongs to another runtime", Hint: "begin only calls of your own sessions"}
		case !c.Open() || c.Phase() == toolcall.PhaseRunning && isOwner(c, by, c.Attempt.Number, r.Claim):
			return errNoChange
		case c.Placement != toolcall.PlaceExternal:
			return &message.Error{Code: message.CodeState, Call: toolcall.ErrorCall(c), What: "the call is not external: askance runs it", Hint: "begin only calls of external tools"}
		case c.State != message.ToolCallSubmitted:
			return &message.Error{Code: message.CodeState, Call: toolcall.ErrorCall(c), What: "the call is not allowed yet", Hint: "wait with until=runnable"}
		case c.Phase() == toolcall.PhaseQueued:
			if stop, err := o.attempts.mustNotBegin(ctx, m); stop || err != nil {
				return err
			}
		case c.Phase() == toolcall.PhaseRunning: // another process would run an idempotent tool again
			if _, why, err := o.attempts.whyRevoked(ctx, c); err != nil {
				return err
			} else if why != "" {
				return &message.Error{Code: message.CodeForbidden, Call: toolcall.ErrorCall(c), What: "another process began the call, and it is no longer allowed: " + why, Hint: "do not run it; an operator has to resolve it"}
			}
		}
		return m.Step(toolcall.Started{Base: baseNow(), Attempt: c.Attempt.Number, Worker: by.Name, Claim: r.Claim})
	})
	switch {
	case err != nil:
		return nil, err
	case !c.Open():
		return nil, &message.Error{Code: message.CodeFinished, Call: toolcall.ErrorCall(c), What: "the call is finished (" + c.Cause + ")", Hint: "do not run it; use its result"}
	case c.Phase() != toolcall.PhaseRunning:
		return nil, &message.Error{Code: message.CodeSuperseded, Call: toolcall.ErrorCall(c), What: "the call is blocked", Hint: "do not run it; an operator has to resolve it"}
	}
	return c, nil
}

// reportResult records the result of an external call; the first result counts.
func (o *operators) reportResult(ctx context.Context, by toolcall.Principal, r toolcall.ReportRequest) (*toolcall.Call, error) {
	r.Space = o.space
	if err := r.Key.Validate(); err != nil {
		return nil, err
	}
	digest := ""
	if !r.Unknown {
		var err error
		if digest, err = checkResult(&r.Result); err != nil {
			return nil, err
		}
	} else if r.Unasked || !reflect.ValueOf(r.Result).IsZero() {
		return nil, &message.Error{Code: message.CodeInvalid, What: "unknown is set together with result or unasked", Hint: "send the result if the tool ran, otherwise only unknown"}
	}
	return o.updateSeen(ctx, "report", r.Key, by, func(_ context.Context, m *toolcall.Machine) error {
		c := m.Call()
		wrong := checkNamed(c, r.Result)
		switch {
		case c.Runtime != by.Name && by.Role == toolcall.RoleRuntime:
			return &message.Error{Code: message.CodeForeign, What: "the session belongs to another runtime", Hint: "report only results of your own sessions"}
		case wrong != nil:
			return wrong
		case !c.Open() && c.IsResult(digest):
			return errNoChange
		case c.Open() && c.Placement != toolcall.PlaceExternal:
			return &message.Error{Code: message.CodeState, Call: toolcall.ErrorCall(c), What: "the call is not external: its result comes from its worker", Hint: "report only results of external tools"}
		case r.Unknown && c.Blocked == toolcall.BlockedUnknown:
			return errNoChange
		case r.Unknown:
			return m.Step(toolcall.Suspended{Base: baseNow(), Attempt: c.Attempt.Number, Blocked: toolcall.BlockedUnknown})
		}
		res := r.Result
		res.ID, res.Name = c.Call, c.Tool
		if r.Unasked && (c.State == message.ToolCallPending || c.State == message.ToolCallAsking) {
			return m.Step(toolcall.Bypassed{Base: baseNow(), Result: res, Digest: c.SealResult(digest)})
		}
		return m.Step(toolcall.Resulted{Base: baseNow(), Attempt: c.Attempt.Number, Result: res, Digest: c.SealResult(digest)})
	})
}
