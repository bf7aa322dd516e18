package standing

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine/internal/decide"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// defaultScope is the scope of terms that name none.
const defaultScope = toolcall.ScopeSession

// CompleteTerms fills in what an approver wants remembered about a call. It refuses terms
// that do not cover the call, or are wider than the response to this approval request
// may be.
func (a *Approvals) CompleteTerms(ctx context.Context, c *toolcall.Call, t toolcall.StandingTerms, now time.Time) (*toolcall.StandingTerms, error) {
	if c.Hides() { // the terms and counted values would show it
		return nil, HiddenError()
	}
	t.Scope = cmp.Or(t.Scope, defaultScope)
	t.Until = t.Until.UTC()
	if err := checkTerms(t, now); err != nil {
		return nil, err
	}
	limits, err := limitsOf(c)
	if err == nil {
		limits.fill(&t, c)
		err = limits.boundTerms(t, c, now)
	}
	if err != nil {
		return nil, err
	}
	if err := a.checkTermRules(ctx, c, &t, limits); err != nil {
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
		return bad(fmt.Sprintf("scope is %q", t.Scope), "use "+spelling.OrList(toolcall.Scopes()))
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

// fill puts in how many uses and which rules terms leave out.
func (l limits) fill(t *toolcall.StandingTerms, c *toolcall.Call) {
	t.Uses = cmp.Or(t.Uses, l.uses())
	if t.Uses == 0 && t.Budget != nil {
		t.Uses = toolcall.MaxStandingUses
	}
	switch {
	case len(t.Rules) > 0:
	case l.byRule != nil:
		t.Rules = []message.PermissionRule{{ToolName: c.Tool, Behavior: message.BehaviorAllow}}
	default:
		t.Rules = c.Suggested
	}
}

// uses is the limit of further calls; 0 means none.
func (l limits) uses() int {
	if l.byRule == nil {
		return 0
	}
	return min(l.byRule.Uses, toolcall.MaxStandingUses)
}

// HasTerms reports whether a vote remembers what a response with these terms asks for. For a vote
// on an earlier approval request, what the terms leave out is unknown and counts as the same.
func HasTerms(c *toolcall.Call, v toolcall.Vote, sent *toolcall.StandingTerms) bool {
	if sent == nil || v.Remember == nil {
		return sent == nil && v.Remember == nil
	}
	t := *sent
	t.Scope = cmp.Or(t.Scope, defaultScope)
	if v.On(c.Digest) {
		limits, err := limitsOf(c)
		if err != nil {
			return false
		}
		limits.fill(&t, c)
	} else if t.Uses = cmp.Or(t.Uses, v.Remember.Uses); len(t.Rules) == 0 {
		t.Rules = v.Remember.Rules
	}
	return SameTerms(&t, v.Remember)
}

// boundTerms checks terms against the limits.
func (l limits) boundTerms(t toolcall.StandingTerms, c *toolcall.Call, now time.Time) error {
	switch {
	case t.Scope == toolcall.ScopeAgent && c.Agent == "":
		return decide.ForbiddenError("the call names no agent", "use another scope")
	case l.byRule == nil && t.Scope != toolcall.ScopeSession && t.Scope != toolcall.ScopeCallLike:
		return decide.ForbiddenError("no rule asks about this call, so it can be remembered only in its session, not with scope "+string(t.Scope), "use session or call_like; a rule with remember can allow a wider scope")
	case l.byRule == nil:
		return nil
	}
	if end := now.Add(time.Duration(l.byRule.TTLMS) * time.Millisecond); t.Until.After(end) {
		return decide.ForbiddenError("the rules that ask allow remembering only until "+end.Format(time.RFC3339), "choose an earlier time, or leave it out")
	}
	if most := l.uses(); most > 0 && t.Uses > most {
		return decide.ForbiddenError(fmt.Sprintf("the rules that ask allow at most %d further calls", most), "choose a smaller number, or leave it out")
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
