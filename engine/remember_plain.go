package engine

import (
	"context"
	"slices"

	"github.com/askance-dev/askance/engine/internal/view"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// This file takes suggested rules that an answer accepts as they are, as
// AgentScope's clients do.

// plainRules refuses rules that the approval request did not suggest, and all rules of
// a call that hides arguments.
func plainRules(c *message.Call, rules []message.PermissionRule) error {
	if len(rules) > 0 && c.State == message.ToolCallAsking && c.Hides() {
		return hidesRules()
	}
	return suggestedOnly(c, rules)
}

// suggestedOnly refuses rules that are not, to the dead letter, among those that the
// approval request suggested: an approver must not widen what was asked.
func suggestedOnly(c *message.Call, rules []message.PermissionRule) error {
	for _, r := range rules {
		ok := slices.ContainsFunc(c.Suggested, func(s message.PermissionRule) bool { return sameRule(s, r) })
		if !ok && c.State == message.ToolCallAsking {
			return &message.Error{Code: message.CodeForbidden, Call: c.Clone(), What: "a rule to remember for tool " + r.ToolName + " is not one that the approval request suggested", Hint: "accept a suggested rule as it is, or leave it out"}
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

// agreedRules are the rules to remember that every approval on the approval request
// carries: one person alone must not remember what several had to allow.
func agreedRules(c *message.Call) []message.PermissionRule {
	var out []message.PermissionRule
	for i, v := range c.Tally().Approvals {
		if i == 0 {
			out = slices.Clone(v.Rules)
			continue
		}
		out = slices.DeleteFunc(out, func(r message.PermissionRule) bool {
			return !slices.ContainsFunc(v.Rules, func(o message.PermissionRule) bool { return sameRule(o, r) })
		})
	}
	return out
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

// consult asks the policy about a call with the standing approvals of its
// session, and gives the standing approvals of those without which it would not be allowed:
// each is in force as the journal has it. Of what cannot be read a person is
// asked.
func (e *Engine) consult(ctx context.Context, c *message.Call) verdict {
	v := e.consultRules(ctx, c)
	var ok bool
	if v.decision, ok = e.handles(c, v.decision); !ok {
		v.standingApprovals = nil
	}
	return v
}

// verdict is what the policy says about a call.
type verdict struct {
	decision          permission.Decision
	why               *permission.Explanation // of the policy's own decision, where rules want it kept
	standingApprovals []message.StandingID    // without which it would not be allowed
	known             int                     // how many rules the session had
}

// consultRules is consult, whether or not the engine can do as the decision
// says.
func (e *Engine) consultRules(ctx context.Context, c *message.Call) verdict {
	for {
		rules := e.view.SessionRules(c.SessionKey())
		d, why := e.judge(ctx, c, view.WithoutLeases(rules))
		on := e.reliesOn(ctx, c, d, rules)
		ended, err := e.anyEnded(ctx, on)
		switch {
		case err != nil:
			e.log.Warn("standing approvals cannot be looked at and do not count", "call", c.Key.String(), "error", err)
			return e.judgeAlone(ctx, c, len(rules))
		case !ended:
			return verdict{d, why, on, len(rules)}
		case len(e.view.SessionRules(c.SessionKey())) >= len(rules): // it ended, and the view must know that by now
			return e.judgeAlone(ctx, c, len(rules))
		}
	}
}

// reliesOn gives the standing approvals of the session's rules without which a decision
// would not allow: the oldest one that suffices, or else every one about the
// tool, of which some cover the call together.
func (e *Engine) reliesOn(ctx context.Context, c *message.Call, d permission.Decision, rules []view.SessionRule) []message.StandingID {
	if d.Behavior != message.BehaviorAllow || d.Step != permission.StepAllowRule {
		return nil
	}
	byStanding := map[message.StandingID][]message.PermissionRule{}
	var ids []message.StandingID
	for _, r := range rules {
		if r.ToolName != c.Tool {
			continue
		}
		if byStanding[r.Standing] == nil {
			ids = append(ids, r.Standing)
		}
		byStanding[r.Standing] = append(byStanding[r.Standing], r.PermissionRule)
	}
	allows := func(rules []message.PermissionRule) bool {
		return e.policy.Decide(ctx, e.request(c, c.Input, rules)).Behavior == message.BehaviorAllow
	}
	if len(ids) == 0 || d.Rule != permission.SessionRuleName && allows(nil) {
		return nil
	}
	for _, id := range ids {
		if allows(byStanding[id]) {
			return []message.StandingID{id}
		}
	}
	return ids
}

// anyEnded reports whether one of the standing approvals is revoked, as the journal has it.
func (e *Engine) anyEnded(ctx context.Context, ids []message.StandingID) (bool, error) {
	for _, id := range ids {
		why, err := e.ended(ctx, id)
		if err != nil || why != "" {
			return why != "", err
		}
	}
	return false, nil
}

// allowedBy notes the standing approvals that a decision relies on.
func allowedBy(d *message.Decision, on []message.StandingID) {
	if d.Behavior != message.BehaviorAllow || len(on) == 0 {
		return
	}
	if d.Standing = on[0]; len(on) > 1 {
		d.Besides = on[1:]
	}
}
