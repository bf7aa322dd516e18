package engine

import (
	"context"
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// approveEdited treats an edit as a new proposal by the approver: checked
// against the schema, decided again. A deny wins; an ask by other rules asks
// anew; to an ask by the very rules that asked before the edit is the approval
// of this approver, who has seen the new arguments, because they wrote them.
// Whoever else must approve is asked anew, and earlier approvals are void.
func (e *Engine) approveEdited(ctx context.Context, m *toolcall.Machine, vote message.Vote, a message.Response) error {
	c := m.Call()
	asked, before := c.Decision, c.Request
	if err := roomFor(c, vote); err != nil {
		return err
	}
	if err := m.Step(toolcall.Edited{Base: stamp(), Vote: vote, Input: *a.Input, Remember: vote.Rules}); err != nil {
		return err
	}
	if text := e.unfit(c); text != "" {
		if c.Hides() {
			text = "the edited arguments of the tool " + c.Tool + " do not fit it; why is hidden with the arguments"
		}
		return &message.Error{Code: message.CodeInvalid, What: text, Hint: "correct the edited arguments; the approval request is still open"}
	}
	v := e.consult(ctx, c)
	d := v.decision
	if shows(before, c.Input, d.Redact) {
		return refused("rules would no longer hide all that they hide of this call", "leave alone what they go by, or take out what they hide")
	}
	ev, err := e.askedAnew(c, asked, d)
	if err != nil {
		return err
	}
	allowedBy(&ev.Decision, v.standingApprovals)
	ev.Explanation = onRecord(v.why)
	if ev.Request.Requirement.Signed { // nobody can sign an approval request before it is there
		ev.EditCounts = false
	}
	if err := e.rememberEdited(ctx, c, &ev, a); err != nil {
		return err
	}
	if d.Behavior == message.BehaviorAsk && ev.EditCounts && editSuffices(ev, vote) {
		ev.Decision.Behavior = message.BehaviorAllow
		ev.Decision.Reason = "approved as edited by " + vote.By.Name + "; " + d.Reason
	}
	if err := m.Step(ev); err != nil {
		return err
	}
	if m.Call().State != message.ToolCallAllowed {
		return nil
	}
	return e.begin(m)
}

// shows reports whether edited arguments have something left in a place that
// was hidden from their author and would not be hidden any more. The decision
// about them may repeat it in its texts, so that nothing of it is kept.
func shows(before *message.ApprovalRequest, edited string, redact []string) bool {
	if before == nil || before.Salt == "" {
		return false
	}
	return slices.ContainsFunc(before.Hidden, func(path string) bool {
		place := message.ApprovalRequest{Input: edited, Hidden: []string{path}, Salt: before.Salt}
		return !slices.Contains(redact, path) && place.Redacted().Input != edited
	})
}

// askedAnew makes the event of a decision about edited arguments. What the same
// rules of the same bundle ask goes on in the plan of the approval request before: an
// edit gains no time.
func (e *Engine) askedAnew(c *message.Call, asked *message.Decision, d permission.Decision) (toolcall.Decided, error) {
	same := d.Behavior == message.BehaviorAsk && sameAsk(asked, d)
	if !same || asked.Bundle != d.Bundle || c.Request == nil {
		ev, err := e.asEvent(c, c.Input, d)
		ev.EditCounts = same || d.Behavior == message.BehaviorAllow
		return ev, err
	}
	r := c.Request.Requirement
	if r.ExcludeEditor {
		r.Editors = editors(c)
	}
	ev, err := e.approval(c, c.Input, d, stamp(), r)
	ev.Step, ev.EditCounts = c.Step, true
	return ev, err
}

// editSuffices reports whether the editor's approval is all that the approval request
// about the edited arguments needs.
func editSuffices(ev toolcall.Decided, vote message.Vote) bool {
	vote.Edited, vote.Made, vote.Step = true, ev.Digest, ev.Step
	return ev.Request.Requirement.Tally([]message.Vote{vote}, ev.Digest, ev.Step).Agreed
}

// sameAsk reports whether a decision asks for the same reasons as before: the
// same rules of whatever bundle, or no rule and the same step. Where several
// rules ask, Rule is only the first of them, and Reason names them all; so it
// must be the same to the dead letter. What failed to be evaluated then may fail
// again, and nothing else.
func sameAsk(before *message.Decision, now permission.Decision) bool {
	if before == nil || before.Rule != now.Rule || before.Source != source(now) || before.Reason != now.Reason {
		return false
	}
	return !slices.ContainsFunc(now.Errors, func(re permission.RuleError) bool {
		return !slices.Contains(before.Errors, re.Error())
	})
}
