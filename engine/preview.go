package engine

import (
	"context"
	"errors"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
)

// preview decides calls with the current policy as a proposal would, each on its
// own, and records nothing.
func (p *Port) preview(ctx context.Context, r message.ProposeRequest) (api.PreviewReply, error) {
	if err := p.ownSession(ctx, api.Preview.Name, r.Session); err != nil {
		return api.PreviewReply{}, err
	}
	by := p.by
	if by.Role != message.RoleRuntime { // the rules see the runtime of the session
		by = message.Principal{Role: message.RoleRuntime, Name: p.e.view.Runtime(message.Key{Space: p.e.space, Session: r.Session})}
	}
	calls, err := p.e.newCalls(by, r)
	if e, ok := errors.AsType[*message.Error](err); ok {
		named := *e
		named.Op, err = api.Preview.Name, &named
	}
	if err != nil {
		return api.PreviewReply{}, err
	}
	out := api.PreviewReply{Bundle: p.e.policy.Hash(), Calls: make([]api.PreviewedCall, len(calls))}
	for i, c := range calls {
		out.Calls[i] = p.e.previewCall(ctx, c)
	}
	return out, nil
}

func (e *Engine) previewCall(ctx context.Context, c *message.Call) api.PreviewedCall {
	out := api.PreviewedCall{Call: c.Call, Tool: c.Tool, Refused: e.unfit(c)}
	if out.Refused != "" {
		return out
	}
	v := e.consult(ctx, c)
	d, standings := v.decision, v.standingApprovals
	if by, standing := e.byStandingApproval(ctx, c, d, couldSpend); standing != "" {
		d, standings = by, []message.StandingID{standing}
	}
	decision := handled(d)
	allowedBy(&decision, standings)
	out.Decision = &decision
	return out
}

// couldSpend reports why a standing approval could not be used for a call.
func couldSpend(_ context.Context, l *message.StandingApproval, c *message.Call, amount string) error {
	_, err := l.Spend(c.Key, c.Input, amount, stamp().At)
	return err
}
