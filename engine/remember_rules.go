package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
)

// rulesFit leaves room in the call's event records for what ends it.
func rulesFit(rules []message.PermissionRule) error {
	n := 0
	for _, r := range rules {
		if r.RuleContent != nil {
			n += len(*r.RuleContent)
		}
	}
	if n > message.MaxStandingBytes {
		return tooLong("the rules to remember", n)
	}
	return nil
}

// termsRules completes the rules: they must be allow rules for the tool, no
// wider than those suggested unless rules of the policy bound them, and cover
// this very call.
func (e *Engine) termsRules(ctx context.Context, c *message.Call, t *message.StandingTerms, l limits) error {
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
			return refused(fmt.Sprintf("the rule %s %s is not an allow rule for the tool of this call, %s", r.Behavior, r.ToolName, c.Tool), "only what was asked can be remembered")
		}
		if l.byRule == nil && !slices.ContainsFunc(c.Suggested, func(s message.PermissionRule) bool { return sameRule(s, *r) || narrower(*r, s) }) {
			return refused("the rule "+ruleText(*r)+" is not proven to be narrower than one that the approval request suggested", "accept a suggested rule as it is, or add words to the front part that it fixes")
		}
		r.Source = "remembered"
	}
	return e.covers(ctx, c, t.Rules)
}

// covers refuses rules that do not cover a call, or of which one is not about
// it: without it they would cover the call as well, and alone it does not.
func (e *Engine) covers(ctx context.Context, c *message.Call, rules []message.PermissionRule) error {
	req := e.request(c, c.Input, e.view.Rules(c.SessionKey()))
	if err := e.policy.Covers(ctx, req, rules); err != nil {
		return refused("the rules to remember do not cover this call: "+err.Error(), "remember a rule that is about the call which you approve")
	}
	if len(rules) < 2 {
		return nil
	}
	for i, r := range rules {
		others := slices.Delete(slices.Clone(rules), i, i+1)
		if e.policy.Covers(ctx, req, []message.PermissionRule{r}) != nil && e.policy.Covers(ctx, req, others) == nil {
			return refused("the rule "+ruleText(r)+" is not about this call", "leave it out")
		}
	}
	return nil
}

// hidesRules refuses to remember anything of a call that hides arguments:
// patterns are made of arguments, and so is what is counted.
func hidesRules() error {
	return refused("rules hide arguments of this call, and of such a call nothing is remembered", "approve the call alone")
}

func ruleText(r message.PermissionRule) string {
	if r.RuleContent == nil || *r.RuleContent == "" {
		return r.ToolName
	}
	return r.ToolName + "(" + *r.RuleContent + ")"
}

// narrower reports whether a rule is proven to be about fewer calls than
// another: by what both fix at the front, before the one place where they leave
// something open. It is a help to whoever edits a rule: what it should let
// through by mistake the wider rule still bounds, which is kept and must cover
// every call as well.
func narrower(r, than message.PermissionRule) bool {
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
