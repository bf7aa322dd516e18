package standing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine/internal/decide"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// rulesFit leaves room in the call's event records for what ends it.
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

// completeRules completes the rules: they must be allow rules for the tool, no
// wider than those suggested unless rules of the policy bound them, and cover
// this very call.
func (s *Approvals) completeRules(ctx context.Context, c *toolcall.Call, t *toolcall.StandingTerms, l limits) error {
	if len(t.Rules) == 0 {
		t.Rules = c.Suggested
		if l.byRule != nil {
			t.Rules = []message.PermissionRule{{ToolName: c.Tool, Behavior: message.BehaviorAllow}}
		}
	}
	if err := rulesFit(t.Rules); err != nil { // suggested ones too
		return err
	}
	t.Rules = slices.Clone(t.Rules)
	for i := range t.Rules {
		r := &t.Rules[i]
		if r.ToolName != c.Tool || r.Behavior != message.BehaviorAllow {
			return decide.ForbiddenError(fmt.Sprintf("the rule %s %s is not an allow rule for the tool of this call, %s", r.Behavior, r.ToolName, c.Tool), "only what was asked can be remembered")
		}
		if l.byRule == nil && !slices.ContainsFunc(c.Suggested, func(o message.PermissionRule) bool { return SameRule(o, *r) || isNarrower(*r, o) }) {
			return decide.ForbiddenError("the rule "+textOf(*r)+" is not proven to be narrower than one that the approval request suggested", "accept a suggested rule as it is, or add words to the front part that it fixes")
		}
		r.Source = "remembered"
	}
	return s.Covers(ctx, c, t.Rules)
}

// Covers refuses rules that do not cover a call, or contain one that is not about
// it: without it they would cover the call as well, and alone it does not.
func (s *Approvals) Covers(ctx context.Context, c *toolcall.Call, rules []message.PermissionRule) error {
	req := s.policyRequest(ctx, c)
	if err := s.Policy.Covers(ctx, req, rules); err != nil {
		return decide.ForbiddenError("the rules to remember do not cover this call: "+err.Error(), "remember a rule that is about the call which you approve")
	}
	if len(rules) < 2 {
		return nil
	}
	for i, r := range rules {
		others := slices.Delete(slices.Clone(rules), i, i+1)
		if s.Policy.Covers(ctx, req, []message.PermissionRule{r}) != nil && s.Policy.Covers(ctx, req, others) == nil {
			return decide.ForbiddenError("the rule "+textOf(r)+" is not about this call", "leave it out")
		}
	}
	return nil
}

// HiddenError refuses to remember anything of a call that hides arguments:
// patterns are made of arguments, and so is what is counted.
func HiddenError() error {
	return decide.ForbiddenError("rules hide arguments of this call, and of such a call nothing is remembered", "approve the call alone")
}

func textOf(r message.PermissionRule) string {
	if r.RuleContent == nil || *r.RuleContent == "" {
		return r.ToolName
	}
	return r.ToolName + "(" + *r.RuleContent + ")"
}

// isNarrower reports whether a rule is proven to be about fewer calls than
// another: by what both fix at the front, before the one place where they leave
// something open. It helps a person who edits a rule: what it should let
// through by mistake the wider rule still bounds, which is kept and must cover
// every call as well.
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

// CheckPlain refuses rules that the approval request did not suggest, and all rules of
// a call that hides arguments.
func CheckPlain(c *toolcall.Call, rules []message.PermissionRule) error {
	if len(rules) > 0 && c.State == message.ToolCallAsking && c.Hides() {
		return HiddenError()
	}
	return CheckSuggested(c, rules)
}

// CheckSuggested refuses rules that are not exactly among those that the
// approval request suggested: an approver must not widen what was asked.
func CheckSuggested(c *toolcall.Call, rules []message.PermissionRule) error {
	for _, r := range rules {
		ok := slices.ContainsFunc(c.Suggested, func(o message.PermissionRule) bool { return SameRule(o, r) })
		if !ok && c.State == message.ToolCallAsking {
			return &message.Error{Code: message.CodeForbidden, Call: toolcall.ErrorCall(c), What: "a rule to remember for tool " + r.ToolName + " is not one that the approval request suggested", Hint: "accept a suggested rule as it is, or leave it out"}
		}
	}
	return nil
}

// SameRule reports whether two rules say the same.
func SameRule(a, b message.PermissionRule) bool {
	if (a.RuleContent == nil) != (b.RuleContent == nil) || a.RuleContent != nil && *a.RuleContent != *b.RuleContent {
		return false
	}
	return a.ToolName == b.ToolName && a.Behavior == b.Behavior
}

// AgreedRules are the rules to remember that every approval on the approval request
// carries: one person alone must not remember what several had to allow.
func AgreedRules(c *toolcall.Call) []message.PermissionRule {
	var out []message.PermissionRule
	for i, v := range c.Tally().Approvals {
		if i == 0 {
			out = slices.Clone(v.Rules)
			continue
		}
		out = slices.DeleteFunc(out, func(r message.PermissionRule) bool {
			return !slices.ContainsFunc(v.Rules, func(o message.PermissionRule) bool { return SameRule(o, r) })
		})
	}
	return out
}

// SuggestedRules takes the suggested rules themselves, not the approver's copies.
func SuggestedRules(c *toolcall.Call, rules []message.PermissionRule) []message.PermissionRule {
	var out []message.PermissionRule
	for _, s := range c.Suggested {
		if slices.ContainsFunc(rules, func(r message.PermissionRule) bool { return SameRule(s, r) }) {
			out = append(out, s)
		}
	}
	return out
}

// Grant makes the standing approval that all approvals of a call agree on; none if one
// of them wants nothing remembered, or something else.
func (s *Approvals) Grant(ctx context.Context, c *toolcall.Call, now time.Time) ([]toolcall.StandingApproval, error) {
	by := c.Tally().Approvals
	if len(by) == 0 || by[0].Remember == nil || c.Request == nil {
		return nil, nil
	}
	for _, v := range by {
		if !SameTerms(v.Remember, by[0].Remember) {
			return nil, nil
		}
	}
	l := toolcall.StandingApproval{
		ID: toolcall.NewStandingID(c.Key, c.Digest), Space: s.Space, Tool: c.Tool, Definition: c.DefinitionHash(), Terms: *by[0].Remember,
		Rule: c.Request.Rule, Source: c.Request.Source, Reason: c.Request.Reason,
		Session: c.Session, User: c.Runtime, Agent: c.Agent, Arguments: argumentsOf(c.Input),
		From: c.Key, Digest: c.Digest, GrantedAt: now,
	}
	for _, v := range by {
		l.GrantedBy = append(l.GrantedBy, toolcall.Vote{Kind: v.Kind, By: v.By, At: v.At, Digest: v.Digest, Edited: v.Edited, Made: v.Made, Groups: v.Groups, GroupsFrom: v.GroupsFrom, Step: v.Step})
	}
	if b := l.Terms.Budget; b != nil {
		l.Left = b.Limit
	}
	limits := c.Request.Requirement.Remember
	if limits == nil {
		l.Within = withinOf(l.Terms.Rules, c.Suggested)
		return []toolcall.StandingApproval{l}, nil
	}
	if end := now.Add(time.Duration(limits.TTLMS) * time.Millisecond); l.Terms.Until.IsZero() || l.Terms.Until.After(end) {
		l.Terms.Until = end
	}
	var err error
	l.Same, err = s.Policy.Values(ctx, s.Judge.Request(s.Snapshot(ctx, c, nil)), limits.Same)
	if err != nil {
		return nil, decide.ForbiddenError("what must be the same in later calls cannot be read from this one: "+err.Error(), "approve the call without remembering it")
	}
	for path, value := range l.Same {
		l.Same[path] = shortenValue(value)
	}
	return []toolcall.StandingApproval{l}, nil
}

// withinOf are the suggested rules, if any of the rules is an edited one.
func withinOf(rules, suggested []message.PermissionRule) []message.PermissionRule {
	for _, r := range rules {
		if !slices.ContainsFunc(suggested, func(o message.PermissionRule) bool { return SameRule(o, r) }) {
			return suggested
		}
	}
	return nil
}

// shortenValue keeps a value as it is, or a long one by its digest.
func shortenValue(value string) string {
	if len(value) <= 256 {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// argumentsOf is the digest of a call's arguments, white space apart.
func argumentsOf(input string) string {
	text, err := permission.ArgumentAt([]byte(input), nil)
	if err != nil {
		text = input
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// SameTerms reports whether two wishes are equal.
func SameTerms(a, b *toolcall.StandingTerms) bool {
	if a == nil || b == nil {
		return a == b
	}
	sameBudget := a.Budget == b.Budget || a.Budget != nil && b.Budget != nil && *a.Budget == *b.Budget
	return sameBudget && a.Scope == b.Scope && a.Until.Equal(b.Until) && a.Uses == b.Uses && slices.EqualFunc(a.Rules, b.Rules, SameRule)
}
