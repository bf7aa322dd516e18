package engine

import (
	"context"
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// rememberEdited completes the decision about edited arguments with what their
// editor wants remembered. All of it is held against the edited call: its
// arguments, its approval request and what the rules that ask about it let be
// remembered. c is the call after the edit, before the decision.
func (e *Engine) rememberEdited(ctx context.Context, c *message.Call, ev *toolcall.Decided, a message.Response) error {
	if ev.Decision.Behavior == message.BehaviorDeny {
		return nil // the call ends, and nothing is remembered with it
	}
	after := asEdited(c, *ev)
	if len(a.Rules) > 0 {
		if after.Hides() {
			return hidesRules()
		}
		if err := e.covers(ctx, after, a.Rules); err != nil {
			return err
		}
	}
	if a.Remember == nil {
		return nil
	}
	switch {
	case ev.Decision.Behavior == message.BehaviorAllow:
		return refused("the policy allows the edited call without an approval request, and what nobody is asked is not remembered", "edit without remember")
	case len(after.Tally().Approvals) == 0:
		return refused("the edit does not count as an approval of the approval request about the edited call", "edit without remember; whoever approves that approval request can let it be remembered")
	}
	terms, err := e.termsFor(ctx, after, *a.Remember, ev.At)
	if err != nil {
		return err
	}
	ev.Terms = terms
	if after = asEdited(c, *ev); after.Tally().Agreed {
		ev.Leases, err = e.standingApprovalsFrom(ctx, after, ev.At)
	}
	return err
}

// asEdited is an edited call with the approval request that a decision makes of it.
func asEdited(c *message.Call, ev toolcall.Decided) *message.Call {
	after := c.Clone()
	q := ev.Request
	after.State, after.Request, after.Digest, after.Suggested, after.Step = message.ToolCallAsking, &q, ev.Digest, ev.Suggested, ev.Step
	after.Redact = nil
	after.Votes = slices.Clone(c.Votes)
	if n := len(after.Votes); ev.EditCounts && n > 0 {
		after.Votes[n-1] = ev.Counted(after.Votes[n-1])
	}
	return after
}
