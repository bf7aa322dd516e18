package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// Rememberer is a Policy that can say for which calls a remembered rule
// answers. *permission.Bundle and *permission.Live are. Under any other policy
// nothing is remembered on terms.
type Rememberer interface {
	// Covers reports whether remembered allow rules cover a call; nil: they do.
	Covers(ctx context.Context, r permission.Request, rules []message.PermissionRule) error
	// Values gives what a call has at each of the paths.
	Values(ctx context.Context, r permission.Request, paths []string) (map[string]string, error)
}

func (e *Engine) rememberer() (Rememberer, bool) {
	d, ok := e.policy.(dutiful)
	if !ok {
		return nil, false
	}
	r, ok := d.Policy.(Rememberer)
	return r, ok
}

// terms completes what an approver wants remembered, and refuses what does not
// cover the call that was asked about or is wider than an answer to this
// question may be. nil: nothing.
func (e *Engine) terms(ctx context.Context, c *message.Call, a message.Answer, now time.Time) (*message.LeaseTerms, error) {
	if a.Remember == nil || c.Question == nil || c.State != message.ToolCallAsking || a.Digest != c.Digest {
		return nil, nil // of an answer to no open question the machine has the better error
	}
	if c.Hides() { // the terms, and what is counted, would show it
		return nil, refused("rules hide arguments of this call, and what hides anything is not remembered on terms", "approve the call alone")
	}
	t := *a.Remember
	if t.Scope == "" {
		t.Scope = message.ScopeSession
	}
	t.Until = t.Until.UTC()
	if err := checkTerms(t, now); err != nil {
		return nil, err
	}
	limits, err := limitsOf(c)
	if err == nil {
		err = limits.bound(&t, c, now)
	}
	if err != nil {
		return nil, err
	}
	if err := e.termsRules(ctx, c, &t, limits); err != nil {
		return nil, err
	}
	return &t, e.termsBudget(c, t.Budget)
}

// checkTerms refuses what makes no sense for any call.
func checkTerms(t message.LeaseTerms, now time.Time) error {
	bad := func(what, hint string) error {
		return &message.Error{Code: message.CodeInvalid, What: what, Hint: hint}
	}
	switch {
	case !t.Scope.Valid():
		return bad(fmt.Sprintf("scope is %q", t.Scope), "use call_like, session, agent, user or space")
	case t.Uses < 0 || t.Uses > message.MaxLeaseUses:
		return bad(fmt.Sprintf("uses is %d", t.Uses), fmt.Sprintf("count from 1 to %d further calls, or leave it out", message.MaxLeaseUses))
	case !t.Until.IsZero() && (!t.Until.After(now) || t.Until.After(now.Add(message.MaxLeaseTime))):
		return bad("until is "+t.Until.Format(time.RFC3339)+", which has passed or is more than a year away", "name a later, or an earlier, time")
	case len(t.Rules) > message.MaxLeaseRules:
		return bad(fmt.Sprintf("%d rules, the limit is %d", len(t.Rules), message.MaxLeaseRules), "name fewer")
	}
	if t.Budget != nil && len(t.Budget.Path) > message.MaxLeaseBytes {
		return tooLong("the path of the budget", len(t.Budget.Path))
	}
	return rulesFit(t.Rules)
}

// rulesFit leaves room in the call's facts for what ends it.
func rulesFit(rules []message.PermissionRule) error {
	n := 0
	for _, r := range rules {
		if r.RuleContent != nil {
			n += len(*r.RuleContent)
		}
	}
	if n > message.MaxLeaseBytes {
		return tooLong("the rules to remember", n)
	}
	return nil
}

func tooLong(what string, n int) error {
	return &message.Error{Code: message.CodeTooLarge, What: fmt.Sprintf("%s: %d bytes, the limit is %d", what, n, message.MaxLeaseBytes), Hint: "shorten it, or approve the call alone"}
}

// limits is how far an answer to one question may be remembered.
type limits struct {
	byRule *message.RememberLimits // of the rules that ask; nil: no rule asks
}

// limitsOf finds what the policy lets be remembered of this question: what the
// rules that ask say; where no rule asks the suggested rules, in this session.
func limitsOf(c *message.Call) (limits, error) {
	q := c.Question
	switch by := q.Requirement.Remember; {
	case by != nil:
		return limits{by}, nil
	case q.Rule == "" && q.Source == string(permission.StepFallbackAsk) && len(c.Suggested) > 0:
		return limits{}, nil
	case q.Rule != "":
		return limits{}, refused("the rules that ask about this call let no answer be remembered", "approve it alone; whoever writes the policy can give the rule a remember")
	}
	return limits{}, refused("no rule can answer this question", "approve the call alone")
}

// bound keeps terms within the limits, and fills in what they leave out.
func (l limits) bound(t *message.LeaseTerms, c *message.Call, now time.Time) error {
	switch {
	case t.Scope == message.ScopeAgent && c.Agent == "":
		return refused("the call names no agent", "use another scope")
	case l.byRule == nil && t.Scope != message.ScopeSession && t.Scope != message.ScopeCallLike:
		return refused("no rule asks about this call, so that its answer may be remembered in its session alone, not with scope "+string(t.Scope), "use session or call_like; a rule with remember can let it be wider")
	case l.byRule != nil:
		return l.byRules(t, now)
	case t.Budget != nil && t.Uses == 0:
		t.Uses = message.MaxLeaseUses
	}
	return nil
}

func (l limits) byRules(t *message.LeaseTerms, now time.Time) error {
	end := now.Add(time.Duration(l.byRule.TTLMS) * time.Millisecond)
	most := min(l.byRule.Uses, message.MaxLeaseUses)
	if t.Until.After(end) {
		return refused("the rules that ask let an answer be remembered until "+end.Format(time.RFC3339)+" at most", "name an earlier time, or leave it out")
	}
	if most > 0 && t.Uses > most {
		return refused(fmt.Sprintf("the rules that ask let an answer be used for %d further calls at most", most), "name a smaller number, or leave it out")
	}
	if t.Uses == 0 {
		t.Uses = most
	}
	if t.Uses == 0 && t.Budget != nil {
		t.Uses = message.MaxLeaseUses
	}
	return nil
}

// termsRules completes the rules: they must be allow rules for the tool, no
// wider than those suggested unless rules of the policy bound them, and cover
// this very call.
func (e *Engine) termsRules(ctx context.Context, c *message.Call, t *message.LeaseTerms, l limits) error {
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
			return refused("the rule "+ruleText(*r)+" is not proven to be narrower than one that the question suggested", "accept a suggested rule as it is, or add words to the front part that it fixes")
		}
		r.Source = "remembered"
	}
	policy, ok := e.rememberer()
	if !ok {
		return refused("the policy of this engine lets nothing be remembered on terms", "leave it out")
	}
	if err := policy.Covers(ctx, e.request(c, c.Input, e.view.rules(c.SessionKey())), t.Rules); err != nil {
		return refused("the rules to remember do not cover this call: "+err.Error(), "remember a rule that is about the call which you approve")
	}
	return nil
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

// termsBudget makes sure that the budget is a sum of something that the call
// has.
func (e *Engine) termsBudget(c *message.Call, b *message.Budget) error {
	if b == nil {
		return nil
	}
	bad := func(what, hint string) error {
		return &message.Error{Code: message.CodeInvalid, What: what, Hint: hint}
	}
	if err := message.CheckAmount(b.Limit); err != nil {
		return bad("the budget's limit is "+fmt.Sprintf("%q: ", clipWord(b.Limit))+err.Error(), "write for example 10000 or 99.95")
	}
	if _, err := amountOf(c.Input, b); err != nil {
		return bad("the budget of "+clipWord(b.Path)+": "+err.Error(), "name an argument that is a number in this call, as args.cents")
	}
	return nil
}

func clipWord(text string) string {
	if len(text) > 100 {
		return text[:100] + "…"
	}
	return text
}

// amountOf is what a call takes from a budget, as it is written in the input.
func amountOf(input string, b *message.Budget) (string, error) {
	if b == nil {
		return "", nil
	}
	steps, err := permission.ParseArgument(b.Path)
	if err != nil {
		return "", err
	}
	text, err := permission.ArgumentAt([]byte(input), steps)
	if err != nil {
		return "", err
	}
	return text, message.CheckAmount(text)
}
