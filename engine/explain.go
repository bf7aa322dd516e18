package engine

import (
	"context"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

func (p *Port) explain(ctx context.Context, r message.ExplainRequest) (message.ExplainReply, error) {
	out, err := p.e.explain(ctx, r)
	if err != nil {
		return message.ExplainReply{}, opError("explain", err)
	}
	return out, nil
}

func (e *Engine) explain(ctx context.Context, r message.ExplainRequest) (message.ExplainReply, error) {
	r.Space = e.space
	if err := r.Key.Validate(); err != nil {
		return message.ExplainReply{}, err
	}
	c, err := e.store.CallOrNil(ctx, r.Key)
	switch {
	case err != nil:
		return message.ExplainReply{}, err
	case c == nil:
		return message.ExplainReply{}, &message.Error{Code: message.CodeNotFound, What: "no call " + r.Key.String() + " is known", Hint: "list the calls of the session"}
	}
	out := message.ExplainReply{Key: c.Key, State: c.State, Decision: c.Decision, StandingApprovals: []message.StandingStatus{}}
	now := stamp().At
	for _, id := range c.Decision.StandingApprovals() {
		l, err := e.knownStandingApproval(ctx, id)
		if err != nil {
			return message.ExplainReply{}, err
		}
		out.StandingApprovals = append(out.StandingApprovals, l.Standing(now))
	}
	if out.Recorded, err = e.onRecordOf(ctx, c); err != nil {
		return message.ExplainReply{}, err
	}
	out.Trace, out.Withheld, err = e.trace(ctx, c)
	return out, err
}

// trace is how the policy in force judges a call, as JSON. What was hidden of
// the call stays hidden, also if the policy would show it by now.
func (e *Engine) trace(ctx context.Context, c *message.Call) (raw message.RawJSON, withheld string, err error) {
	x := e.policy.Explain(ctx, e.request(c, c.Input, e.view.Rules(c.SessionKey())))
	if !hidesAll(x.Decided.Redact, hiddenOf(c)) {
		return nil, "the policy in force does not hide all that was hidden of this call", nil
	}
	raw, err = strictjson.Marshal(x)
	return raw, "", err
}
