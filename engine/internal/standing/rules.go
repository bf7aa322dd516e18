package standing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine/internal/decide"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// rulesFit checks that the call's event records keep room for what ends the call.
func rulesFit(rules []message.PermissionRule) error {
	n := 0
	for _, r := range rules {
		if r.RuleContent != nil {
			n += len(*r.RuleContent)
		}
	}
	if n > toolcall.MaxStandingBytes {
		return tooLongError("the rules to remember", n)
	}
	return nil
}

// checkTermRules checks the rules of terms, and notes their source: they must be allow rules for
// the tool, no wider than those suggested (unless rules of the policy limit them), and cover this
// very call.
func (a *Approvals) checkTermRules(ctx context.Context, c *toolcall.Call, t *toolcall.StandingTerms, l limits) error {
	if err := rulesFit(t.Rules); err != nil { // suggested ones too
		return err
	}
	t.Rules = slices.Clone(t.Rules)
	for i := range t.Rules {
		r := &t.Rules[i]
		if r.ToolName != c.Tool || r.Behavior != message.BehaviorAllow {
			return decide.ForbiddenError(fmt.Sprintf("the rule %s %s is not an allow rule for the tool of this call, %s", r.Behavior, r.ToolName, c.Tool), "only what was asked can be remembered")
		}
		if l.byRule == nil && !hasRule(c.Suggested, *r) && !slices.ContainsFunc(c.Suggested, func(o message.PermissionRule) bool { return isNarrower(*r, o) }) {
			return decide.ForbiddenError("the rule "+textOf(*r)+" is not proven to be narrower than one that the approval request suggested", "accept a suggested rule as it is, or add words to the front part that it fixes")
		}
		r.Source = "remembered"
	}
	return a.Covers(ctx, c, t.Rules)
}

// Covers refuses rules that do not cover a call, or that include a rule which is not about
// the call: one that does not cover it alone and is not needed to cover it.
func (a *Approvals) Covers(ctx context.Context, c *toolcall.Call, rules []message.PermissionRule) error {
	req := a.policyRequest(ctx, c)
	if err := a.Policy.Covers(ctx, req, rules); err != nil {
		return decide.ForbiddenError("the rules to remember do not cover this call: "+err.Error(), "remember a rule that covers the call that you approve")
	}
	if len(rules) < 2 {
		return nil
	}
	for i, r := range rules {
		others := slices.Delete(slices.Clone(rules), i, i+1)
		if a.Policy.Covers(ctx, req, []message.PermissionRule{r}) != nil && a.Policy.Covers(ctx, req, others) == nil {
			return decide.ForbiddenError("the rule "+textOf(r)+" is not about this call", "leave it out")
		}
	}
	return nil
}

// HiddenError refuses to remember anything about a call that hides arguments: patterns and
// counted values are made of arguments.
func HiddenError() error {
	return decide.ForbiddenError("rules hide arguments of this call, so nothing about it can be remembered", "approve only this call")
}

func textOf(r message.PermissionRule) string {
	if r.RuleContent == nil || *r.RuleContent == "" {
		return r.ToolName
	}
	return r.ToolName + "(" + *r.RuleContent + ")"
}

// isNarrower reports whether a rule is proven to match fewer calls than another: both fix
// a prefix and leave one place open, and the narrower rule's prefix is longer. This helps a
// person who edits a rule. If it allows too much by mistake, the wider rule, which is kept
// and must also cover every call, still limits it.
func isNarrower(r, than message.PermissionRule) bool {
	if r.RuleContent == nil || *r.RuleContent == "" {
		return false
	}
	if than.RuleContent == nil || *than.RuleContent == "" {
		return true
	}
	narrow, wide := *r.RuleContent, *than.RuleContent
	if narrow == wide {
		return false
	}
	if front, ok := strings.CutSuffix(wide, ":*"); ok { // words of a command line
		words, open := strings.CutSuffix(narrow, ":*")
		return open && !strings.ContainsAny(front+words, "*?[]\\;&|<>$`'\"()\n") && strings.HasPrefix(words, front+" ")
	}
	front, ok := strings.CutSuffix(wide, "**") // paths
	return ok && front != "" && !strings.ContainsAny(front, "*?[]{}\\") && strings.HasPrefix(narrow, front) && len(narrow) > len(front) &&
		!strings.ContainsAny(strings.TrimSuffix(narrow, "**"), "*?[]{}\\~") && !slices.ContainsFunc(strings.Split(narrow, "/"), func(part string) bool { return part == ".." || part == "." })
}

// CheckPlain refuses rules that the approval request did not suggest, and any rules for
// a call that hides arguments.
func CheckPlain(c *toolcall.Call, rules []message.PermissionRule) error {
	if len(rules) > 0 && c.State == message.ToolCallAsking && c.Hides() {
		return HiddenError()
	}
	return CheckSuggested(c, rules)
}

// CheckSuggested refuses rules that are not exactly among those that the approval
// request suggested: an approver must not widen what was asked.
func CheckSuggested(c *toolcall.Call, rules []message.PermissionRule) error {
	for _, r := range rules {
		if !hasRule(c.Suggested, r) && c.State == message.ToolCallAsking {
			return &message.Error{Code: message.CodeForbidden, Call: toolcall.ErrorCall(c), What: "a rule to remember for tool " + r.ToolName + " is not one that the approval request suggested", Hint: "accept a suggested rule as it is, or leave it out"}
		}
	}
	return nil
}

// SameRule reports whether two rules have the same tool, content and behavior.
func SameRule(a, b message.PermissionRule) bool {
	if (a.RuleContent == nil) != (b.RuleContent == nil) || a.RuleContent != nil && *a.RuleContent != *b.RuleContent {
		return false
	}
	return a.ToolName == b.ToolName && a.Behavior == b.Behavior
}

func hasRule(rules []message.PermissionRule, r message.PermissionRule) bool {
	return slices.ContainsFunc(rules, func(o message.PermissionRule) bool { return SameRule(o, r) })
}

// AgreedRules returns the rules to remember that all approvals carry: one person must not
// remember what needed the consent of several.
func AgreedRules(approvals []toolcall.Vote) []message.PermissionRule {
	var out []message.PermissionRule
	for i, v := range approvals {
		if i == 0 {
			out = slices.Clone(v.Rules)
			continue
		}
		out = slices.DeleteFunc(out, func(r message.PermissionRule) bool { return !hasRule(v.Rules, r) })
	}
	return out
}

// SuggestedRules returns the suggested rules themselves, not the approver's copies.
func SuggestedRules(c *toolcall.Call, rules []message.PermissionRule) []message.PermissionRule {
	var out []message.PermissionRule
	for _, s := range c.Suggested {
		if hasRule(rules, s) {
			out = append(out, s)
		}
	}
	return out
}

// HasRules reports whether a vote has the rules of a response, in any order.
func HasRules(vote, sent []message.PermissionRule) bool {
	within := func(list, all []message.PermissionRule) bool {
		return !slices.ContainsFunc(list, func(r message.PermissionRule) bool { return !hasRule(all, r) })
	}
	return within(vote, sent) && within(sent, vote)
}

// Grant makes the standing approval on which the approvals of a call agree. There is none if
// any of them remembers nothing, or something else.
func (a *Approvals) Grant(ctx context.Context, c *toolcall.Call, by []toolcall.Vote, now time.Time) ([]toolcall.StandingApproval, error) {
	if len(by) == 0 || by[0].Remember == nil || c.Request == nil {
		return nil, nil
	}
	for _, v := range by {
		if !SameTerms(v.Remember, by[0].Remember) {
			return nil, nil
		}
	}
	sa := toolcall.StandingApproval{
		ID: toolcall.NewStandingID(c.Key, c.Digest), Space: a.Space, Tool: c.Tool, Definition: c.DefinitionHash(), Terms: *by[0].Remember,
		Rule: c.Request.Rule, Source: c.Request.Source, Reason: c.Request.Reason,
		Session: c.Session, User: c.Runtime, Agent: c.Agent, Arguments: argumentsOf(c),
		From: c.Key, Digest: c.Digest, GrantedAt: now,
	}
	for _, v := range by {
		sa.GrantedBy = append(sa.GrantedBy, toolcall.Vote{Kind: v.Kind, By: v.By, At: v.At, Digest: v.Digest, Edited: v.Edited, Made: v.Made, Groups: v.Groups, GroupsFrom: v.GroupsFrom, Step: v.Step})
	}
	if b := sa.Terms.Budget; b != nil {
		sa.Left = b.Limit
	}
	limits := c.Request.Requirement.Remember
	if limits == nil {
		sa.Within = withinOf(sa.Terms.Rules, c.Suggested)
		return []toolcall.StandingApproval{sa}, nil
	}
	if end := now.Add(time.Duration(limits.TTLMS) * time.Millisecond); sa.Terms.Until.IsZero() || sa.Terms.Until.After(end) {
		sa.Terms.Until = end
	}
	var err error
	sa.Same, err = a.Policy.Values(ctx, a.Judge.Request(a.Snapshot(ctx, c, nil)), limits.Same)
	if err != nil {
		return nil, decide.ForbiddenError("cannot read from this call the values that later calls must share: "+err.Error(), "approve the call without remembering it")
	}
	for path, value := range sa.Same {
		sa.Same[path] = shortenValue(value)
	}
	return []toolcall.StandingApproval{sa}, nil
}

// withinOf returns the suggested rules if any of the rules was edited.
func withinOf(rules, suggested []message.PermissionRule) []message.PermissionRule {
	for _, r := range rules {
		if !hasRule(suggested, r) {
			return suggested
		}
	}
	return nil
}

// shortenValue returns a short value unchanged, and the digest of a long one.
func shortenValue(value string) string {
	if len(value) <= 256 {
		return value
	}
	return message.Digest([]byte(value))
}

// argumentsOf is the digest of a call's arguments, ignoring white space, and of its folder.
func argumentsOf(c *toolcall.Call) string {
	text, err := permission.ArgumentAt([]byte(c.Input), nil)
	if err != nil {
		text = c.Input
	}
	if c.Cwd != "" {
		text += "\x00" + c.Cwd
	}
	return message.Digest([]byte(text))
}

// SameTerms reports whether two sets of terms are equal.
func SameTerms(a, b *toolcall.StandingTerms) bool {
	if a == nil || b == nil {
		return a == b
	}
	sameBudget := a.Budget == b.Budget || a.Budget != nil && b.Budget != nil && *a.Budget == *b.Budget
	return sameBudget && a.Scope == b.Scope && a.Until.Equal(b.Until) && a.Uses == b.Uses && slices.EqualFunc(a.Rules, b.Rules, SameRule)
}
