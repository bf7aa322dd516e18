package standing

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine/internal/decide"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// CompleteTerms fills in what an approver wants remembered about a call. It refuses terms
// that do not cover the call, or are wider than the response to this approval request
// may be.
func (a *Approvals) CompleteTerms(ctx context.Context, c *toolcall.Call, t toolcall.StandingTerms, now time.Time) (*toolcall.StandingTerms, error) {
	if c.Hides() { // the terms and counted values would show it
		return nil, HiddenError()
	}
	t.Scope = cmp.Or(t.Scope, toolcall.ScopeSession)
	t.Until = t.Until.UTC()
	if err := checkTerms(t, now); err != nil {
		return nil, err
	}
	limits, err := limitsOf(c)
	if err == nil {
		err = limits.boundTerms(&t, c, now)
	}
	if err != nil {
		return nil, err
	}
	if err := a.completeRules(ctx, c, &t, limits); err != nil {
		return nil, err
	}
	return &t, a.checkBudget(c, t.Budget)
}

// checkTerms refuses terms that make no sense for any call.
func checkTerms(t toolcall.StandingTerms, now time.Time) error {
	bad := func(what, hint string) error {
		return &message.Error{Code: message.CodeInvalid, What: what, Hint: hint}
	}
	switch {
	case !t.Scope.Valid():
		return bad(fmt.Sprintf("scope is %q", t.Scope), "use call_like, session, agent, user or space")
	case t.Uses < 0 || t.Uses > toolcall.MaxStandingUses:
		return bad(fmt.Sprintf("uses is %d", t.Uses), fmt.Sprintf("use 1 to %d further calls, or leave it out", toolcall.MaxStandingUses))
	case !t.Until.IsZero() && (!t.Until.After(now) || t.Until.After(now.Add(toolcall.MaxStandingTime))):
		return bad("until is "+t.Until.Format(time.RFC3339)+", which has passed or is more than a year away", "choose a time in the future, within a year")
	case len(t.Rules) > toolcall.MaxStandingRules:
		return bad(fmt.Sprintf("%d rules, the limit is %d", len(t.Rules), toolcall.MaxStandingRules), "send fewer")
	}
	if t.Budget != nil && len(t.Budget.Path) > toolcall.MaxStandingBytes {
		return tooLongError("the path of the budget", len(t.Budget.Path))
	}
	return rulesFit(t.Rules)
}

func tooLongError(what string, n int) error {
	return &message.Error{Code: message.CodeTooLarge, What: fmt.Sprintf("%s: %d bytes, the limit is %d", what, n, toolcall.MaxStandingBytes), Hint: "shorten it, or approve only this call"}
}

// limits is how far a response to one approval request may be remembered.
type limits struct {
	byRule *toolcall.RememberLimits // from the rules that ask; nil if no rule asks
}

// limitsOf returns what the policy allows to be remembered about this approval request: what
// the rules that ask state, or, if no rule asks, the suggested rules within this session.
func limitsOf(c *toolcall.Call) (limits, error) {
	req := c.Request
	switch by := req.Requirement.Remember; {
	case by != nil:
		return limits{by}, nil
	case req.Rule == "" && req.Source == string(permission.StepFallbackAsk) && len(c.Suggested) > 0:
		return limits{}, nil
	case req.Rule != "":
		return limits{}, decide.ForbiddenError("the rules that ask about this call do not allow remembering", "approve only this call; the policy's author can add remember to the rule")
	}
	return limits{}, decide.ForbiddenError("no rule can answer this approval request", "approve only this call")
}

// boundTerms checks terms against the limits, and fills in what they leave out.
func (l limits) boundTerms(t *toolcall.StandingTerms, c *toolcall.Call, now time.Time) error {
	switch {
	case t.Scope == toolcall.ScopeAgent && c.Agent == "":
		return decide.ForbiddenError("the call names no agent", "use another scope")
	case l.byRule == nil && t.Scope != toolcall.ScopeSession && t.Scope != toolcall.ScopeCallLike:
		return decide.ForbiddenError("no rule asks about this call, so it can be remembered only in its session, not with scope "+string(t.Scope), "use session or call_like; a rule with remember can allow a wider scope")
	case l.byRule != nil:
		return l.byRules(t, now)
	case t.Budget != nil && t.Uses == 0:
		t.Uses = toolcall.MaxStandingUses
	}
	return nil
}

func (l limits) byRules(t *toolcall.StandingTerms, now time.Time) error {
	end := now.Add(time.Duration(l.byRule.TTLMS) * time.Millisecond)
	most := min(l.byRule.Uses, toolcall.MaxStandingUses)
	if t.Until.After(end) {
		return decide.ForbiddenError("the rules that ask allow remembering only until "+end.Format(time.RFC3339), "choose an earlier time, or leave it out")
	}
	if most > 0 && t.Uses > most {
		return decide.ForbiddenError(fmt.Sprintf("the rules that ask allow at most %d further calls", most), "choose a smaller number, or leave it out")
	}
	t.Uses = cmp.Or(t.Uses, most)
	if t.Uses == 0 && t.Budget != nil {
		t.Uses = toolcall.MaxStandingUses
	}
	return nil
}

// checkBudget checks that the budget sums a number that the call has.
func (a *Approvals) checkBudget(c *toolcall.Call, b *toolcall.Budget) error {
	if b == nil {
		return nil
	}
	bad := func(what, hint string) error {
		return &message.Error{Code: message.CodeInvalid, What: what, Hint: hint}
	}
	if err := toolcall.CheckAmount(b.Limit); err != nil {
		return bad("the budget's limit is "+fmt.Sprintf("%q: ", clipWord(b.Limit))+err.Error(), "use a number such as 10000 or 99.95")
	}
	if _, err := amountOf(c.Input, b); err != nil {
		return bad("the budget of "+clipWord(b.Path)+": "+err.Error(), "name an argument that is a number in this call, such as args.cents")
	}
	return nil
}

func clipWord(text string) string {
	if len(text) > 100 {
		return strings.ToValidUTF8(text[:100], "") + "…"
	}
	return text
}

// amountOf returns the amount that a call takes from a budget, as written in its input.
func amountOf(input string, b *toolcall.Budget) (string, error) {
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
	return text, toolcall.CheckAmount(text)
}
