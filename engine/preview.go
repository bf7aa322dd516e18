package engine

import (
	"context"
	"errors"

	"github.com/askance-dev/askance/engine/internal/decide"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// preview decides calls with the current policy as a proposal would, each on its
// own, and records nothing.
func (p *Port) preview(ctx context.Context, r toolcall.ProposeRequest) (api.PreviewReply, error) {
	if err := p.e.sessions.checkSession(ctx, api.Preview.Name, p.by, r.Session); err != nil {
		return api.PreviewReply{}, err
	}
	if p.e.policy.Hash() == "" {
		return api.PreviewReply{}, &message.Error{Code: message.CodeUnavailable, Op: api.Preview.Name, What: "no policy is in force here", Hint: "ask an engine: start askance serve"}
	}
	by := p.by
	if by.Role != toolcall.RoleRuntime { // the rules see the runtime of the session
		by = toolcall.Principal{Role: toolcall.RoleRuntime, Name: p.e.view.Runtime(toolcall.Key{Space: p.e.space, Session: r.Session})}
	}
	calls, err := p.e.proposer.newCalls(by, r)
	if e, ok := errors.AsType[*message.Error](err); ok {
		named := *e
		named.Op, err = api.Preview.Name, &named
	}
	if err != nil {
		return api.PreviewReply{}, err
	}
	out := api.PreviewReply{Bundle: p.e.policy.Hash(), Calls: make([]api.PreviewedCall, len(calls))}
	for i, c := range calls {
		out.Calls[i] = p.e.proposer.previewCall(ctx, c)
	}
	return out, nil
}

func (p *proposer) previewCall(ctx context.Context, c *toolcall.Call) api.PreviewedCall {
	out := api.PreviewedCall{Call: c.Call, Tool: c.Tool, Refused: p.judge.Unfit(c)}
	if out.Refused != "" {
		return out
	}
	v := p.standing.Consult(ctx, c)
	if by, standing := p.standing.ResponseFor(ctx, c, v.Decision, couldSpend); standing != "" {
		v.Decision, v.StandingApprovals = by, []toolcall.StandingID{standing}
	}
	decision := decide.DecisionWithRun(v.Decision)
	decide.NoteStandingApprovals(&decision, v.StandingApprovals)
	out.Decision = &decision
	return out
}

// couldSpend reports why a standing approval could not be used for a call.
func couldSpend(_ context.Context, l *toolcall.StandingApproval, c *toolcall.Call, amount string) error {
	_, err := l.Spend(c.Key, c.Input, amount, stamp().At)
	return err
}
