package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func (e *Engine) answer(ctx context.Context, by message.Principal, a message.Answer) (*message.Call, error) {
	a.Space = e.space
	if err := checkAnswer(a); err != nil {
		return nil, opError("answer", err)
	}
	late := false
	c, err := e.update(ctx, "answer", a.Key, by, func(ctx context.Context, m *toolcall.Machine) error {
		c := m.Call()
		late = false
		if err := mayAnswer(c, by); err != nil {
			return err
		}
		if err := suggestedOnly(c, a.Rules); err != nil {
			return err
		}
		vote := message.Vote{Kind: a.Kind, By: by, At: stamp().At, Digest: a.Digest, Feedback: a.Feedback}
		if expired(c, vote) {
			late = true
			return m.Step(toolcall.Expired{Base: stamp()})
		}
		if state, _ := e.view.replyState(c.Key); state != nil && state.Phase != message.ReplyOpen && c.Open() {
			late = true
			return m.Step(toolcall.Interrupted{Base: stamp()})
		}
		switch {
		case a.Kind != message.AnswerApprove:
			return m.Step(toolcall.Answered{Base: stamp(), Vote: vote, Output: a.Output})
		case a.Input != nil && *a.Input != c.Input:
			return e.approveEdited(ctx, m, vote, a)
		}
		return e.approve(ctx, m, vote, a.Rules)
	})
	if err == nil && late {
		return nil, &message.Error{Code: message.CodeFinished, Op: "answer", Call: c, What: "the answer came too late: the question is over (" + c.Cause + ")", Hint: "nothing to do: see the call's result"}
	}
	return c, err
}

func checkAnswer(a message.Answer) error {
	bad := func(code message.Code, what, hint string) error {
		return &message.Error{Code: code, What: what, Hint: hint}
	}
	switch {
	case a.Kind != message.AnswerApprove && a.Kind != message.AnswerReject && a.Kind != message.AnswerForTool:
		return bad(message.CodeInvalid, fmt.Sprintf("kind is %q", a.Kind), "use approve, reject or answer")
	case a.Digest == "":
		return bad(message.CodeInvalid, "digest is empty", "name the digest of the question that was shown")
	case a.Input != nil && a.Kind != message.AnswerApprove:
		return bad(message.CodeInvalid, "input goes only with approve", "leave it out")
	case a.Input != nil && len(*a.Input) > message.MaxInputBytes:
		return bad(message.CodeTooLarge, fmt.Sprintf("input has %d bytes, the limit is %d", len(*a.Input), message.MaxInputBytes), "pass large content by reference")
	case len(a.Feedback) > message.MaxTextBytes:
		return bad(message.CodeTooLarge, fmt.Sprintf("feedback has %d bytes, the limit is %d", len(a.Feedback), message.MaxTextBytes), "shorten it")
	case len(a.Output) > message.MaxOutputBytes:
		return bad(message.CodeTooLarge, fmt.Sprintf("output has %d bytes, the limit is %d", len(a.Output), message.MaxOutputBytes), "keep large output elsewhere and give a reference")
	case len(a.Rules) > 0 && a.Kind != message.AnswerApprove:
		return bad(message.CodeInvalid, "rules go only with approve", "leave them out")
	}
	return a.Key.Validate()
}

// mayAnswer checks the requirement as it was first issued.
func mayAnswer(c *message.Call, by message.Principal) error {
	if c.Question == nil || c.State != message.ToolCallAsking {
		return nil // the machine has the better error
	}
	users := c.Question.Requirement.Users
	if len(users) > 0 && !slices.Contains(users, by.Name) {
		return &message.Error{Code: message.CodeForbidden, What: by.Name + " is not among those who may answer this question", Hint: "ask one of them"}
	}
	return nil
}

// suggestedOnly refuses rules that are not, to the letter, among those that the
// question suggested: an approver must not widen what was asked.
func suggestedOnly(c *message.Call, rules []message.PermissionRule) error {
	for _, r := range rules {
		ok := slices.ContainsFunc(c.Suggested, func(s message.PermissionRule) bool { return sameRule(s, r) })
		if !ok && c.State == message.ToolCallAsking {
			return &message.Error{Code: message.CodeForbidden, Call: c.Clone(), What: "a rule to remember for tool " + r.ToolName + " is not one that the question suggested", Hint: "accept a suggested rule as it is, or leave it out"}
		}
	}
	return nil
}

func sameRule(a, b message.PermissionRule) bool {
	if (a.RuleContent == nil) != (b.RuleContent == nil) || a.RuleContent != nil && *a.RuleContent != *b.RuleContent {
		return false
	}
	return a.ToolName == b.ToolName && a.Behavior == b.Behavior
}

func expired(c *message.Call, v message.Vote) bool {
	if c.State != message.ToolCallAsking || c.Question == nil {
		return false
	}
	d := c.Question.Requirement.Deadline
	return !d.IsZero() && !v.At.Before(d)
}

// approve allows what was asked, unless a deny rule came into force since.
func (e *Engine) approve(ctx context.Context, m *toolcall.Machine, vote message.Vote, rules []message.PermissionRule) error {
	c := m.Call()
	if c.State == message.ToolCallAsking && vote.Digest == c.Digest {
		if d, denied := e.deniedNow(ctx, c); denied {
			return m.Step(toolcall.Denied{Base: toolcall.Base{At: vote.At}, Decision: d, Vote: &vote})
		}
	}
	if err := m.Step(toolcall.Answered{Base: stamp(), Vote: vote, Remember: fromSession(c, rules)}); err != nil {
		return err
	}
	return e.begin(m)
}

// fromSession takes the suggested rules themselves, not the approver's copies.
func fromSession(c *message.Call, rules []message.PermissionRule) []message.PermissionRule {
	var out []message.PermissionRule
	for _, s := range c.Suggested {
		if slices.ContainsFunc(rules, func(r message.PermissionRule) bool { return sameRule(s, r) }) {
			out = append(out, s)
		}
	}
	return out
}

// approveEdited treats an edit as a new proposal by the approver: checked
// against the schema, decided again. A deny wins; an ask by other rules asks
// anew; an ask by the very rules that asked before is what this approver
// answers, who has seen the new arguments, because they wrote them.
func (e *Engine) approveEdited(ctx context.Context, m *toolcall.Machine, vote message.Vote, a message.Answer) error {
	c := m.Call()
	asked := c.Decision
	if err := m.Step(toolcall.Edited{Base: stamp(), Vote: vote, Input: *a.Input, Remember: fromSession(c, a.Rules)}); err != nil {
		return err
	}
	if text := e.unfit(c.Tool, c.Input); text != "" {
		return &message.Error{Code: message.CodeInvalid, What: text, Hint: "correct the edited arguments; the question is still open"}
	}
	d := e.policy.Decide(ctx, e.request(c, c.Input, e.view.rules(c.SessionKey())))
	if d.Behavior == message.BehaviorAsk && sameAsk(asked, d) && d.Requirement.Accepts(vote.By.Name, nil, c.Runtime, 0) {
		d.Behavior = message.BehaviorAllow
		d.Reason = "approved as edited by " + vote.By.Name + "; " + d.Reason
	}
	ev, err := e.asEvent(c, c.Input, d)
	if err != nil {
		return err
	}
	if err := m.Step(ev); err != nil {
		return err
	}
	if m.Call().State != message.ToolCallAllowed {
		return nil
	}
	return e.begin(m)
}

// sameAsk reports whether a decision asks for the same reasons as before: the
// same rules of whatever bundle, or no rule and the same step. Where several
// rules ask, Rule is only the first of them, and Reason names them all; so it
// must be the same to the letter. What failed to be evaluated then may fail
// again, and nothing else.
func sameAsk(before *message.Decision, now permission.Decision) bool {
	if before == nil || before.Rule != now.Rule || before.Source != source(now) || before.Reason != now.Reason {
		return false
	}
	return !slices.ContainsFunc(now.Errors, func(re permission.RuleError) bool {
		return !slices.Contains(before.Errors, re.Error())
	})
}
