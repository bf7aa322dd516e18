package approve

import (
	"context"
	"slices"

	"github.com/askance-dev/askance/engine/internal/decide"
	"github.com/askance-dev/askance/engine/internal/standing"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// approveEdited treats an edit as a new proposal by the approver: checked
// against the schema, decided again. A deny wins; an ask by other rules asks
// again; to an ask by the very rules that asked before the edit is the approval
// of this approver, who has seen the new arguments, because they wrote them.
// All others who must approve are asked again, and earlier approvals are void.
func (s *Responses) approveEdited(ctx context.Context, r *response) error {
	m, c, vote := r.m, r.call, r.vote
	asked, before := c.Decision, c.Request
	if err := checkRoom(c, vote); err != nil {
		return err
	}
	if err := m.Step(toolcall.Edited{Base: base(), Vote: vote, Input: *r.in.Input, Remember: vote.Rules}); err != nil {
		return err
	}
	if text := s.Judge.Unfit(c); text != "" {
		if c.Hides() {
			text = "the edited arguments of the tool " + c.Tool + " do not fit it; why is hidden with the arguments"
		}
		return &message.Error{Code: message.CodeInvalid, What: text, Hint: "correct the edited arguments; the approval request is still open"}
	}
	v := s.Standing.Consult(ctx, c)
	d := v.Decision
	if decide.ShowsHidden(before, c.Input, d.Redact) {
		return decide.Forbid("rules would no longer hide all that they hide of this call", "leave alone what they go by, or take out what they hide")
	}
	ev, err := s.Judge.MakeEventAgain(c, asked, d, now())
	if err != nil {
		return err
	}
	decide.NoteStandingApprovals(&ev.Decision, v.StandingApprovals)
	ev.Explanation = decide.OnRecord(v.Why)
	if ev.Request.Requirement.Signed { // no person can sign an approval request before it exists
		ev.EditCounts = false
	}
	if err := s.rememberEdited(ctx, c, &ev, r.in); err != nil {
		return err
	}
	if d.Behavior == message.BehaviorAsk && ev.EditCounts && decide.EditSuffices(ev, vote) {
		ev.Decision.Behavior = message.BehaviorAllow
		ev.Decision.Reason = "approved as edited by " + vote.By.Name + "; " + d.Reason
	}
	if err := m.Step(ev); err != nil {
		return err
	}
	if m.Call().State != message.ToolCallAllowed {
		return nil
	}
	return s.Begin(m)
}

// rememberEdited completes the decision about edited arguments with what their
// editor wants remembered. All of it is held against the edited call: its
// arguments, its approval request and what the rules that ask about it let be
// remembered. c is the call after the edit, before the decision.
func (s *Responses) rememberEdited(ctx context.Context, c *toolcall.Call, ev *toolcall.Decided, a toolcall.Response) error {
	if ev.Decision.Behavior == message.BehaviorDeny {
		return nil // the call ends, and nothing is remembered with it
	}
	after := asEdited(c, *ev)
	if len(a.Rules) > 0 {
		if after.Hides() {
			return standing.HiddenError()
		}
		if err := s.Standing.Covers(ctx, after, a.Rules); err != nil {
			return err
		}
	}
	if a.Remember == nil {
		return nil
	}
	switch {
	case ev.Decision.Behavior == message.BehaviorAllow:
		return decide.Forbid("the policy allows the edited call without an approval request, and only what a person is asked is remembered", "edit without remember")
	case len(after.Tally().Approvals) == 0:
		return decide.Forbid("the edit does not count as an approval of the approval request about the edited call", "edit without remember; an approver of that approval request can let it be remembered")
	}
	terms, err := s.Standing.CompleteTerms(ctx, after, *a.Remember, ev.At)
	if err != nil {
		return err
	}
	ev.Terms = terms
	if after = asEdited(c, *ev); after.Tally().Agreed {
		ev.StandingApprovals, err = s.Standing.Grant(ctx, after, ev.At)
	}
	return err
}

// asEdited is an edited call with the approval request that a decision makes of it.
func asEdited(c *toolcall.Call, ev toolcall.Decided) *toolcall.Call {
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
