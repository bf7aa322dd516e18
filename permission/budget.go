package permission

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/rulefile"
	"github.com/askance-dev/askance/permission/internal/schema"
	"github.com/askance-dev/askance/toolcall"
)

// Budget limits what an allow rule allows in any period of its length. Beyond that the rule does
// not apply, and the other rules and the mode decide.
type Budget struct {
	// Sum is the path of a numeric argument, such as args.cents, whose values add up to at most
	// AtMost, a decimal number as text. The rule never allows a value that is not a decimal number
	// of at least 0 without exponent.
	Sum    string
	AtMost string
	// Calls is how many calls the rule allows; 0 means any number.
	Calls int
	// Per divides the budget: each session, agent (of a requester), requester or tool gets its own.
	// If empty, all calls that the rule allows in the space share one.
	Per []string
	// Every is the period; 0 means that spending never expires.
	Every time.Duration
}

// MarshalJSON writes the period in milliseconds.
func (b Budget) MarshalJSON() ([]byte, error) {
	return strictjson.Marshal(struct {
		Sum     string   `json:"sum"`
		AtMost  string   `json:"at_most"`
		Calls   int      `json:"calls"`
		Per     []string `json:"per"`
		EveryMS int64    `json:"every_ms"`
	}{b.Sum, b.AtMost, b.Calls, sortedNames(b.Per), b.Every.Milliseconds()})
}

// budgetScopes are the allowed words in Budget.Per.
var budgetScopes = []string{"session", "agent", "requester", "tool"}

// Exhausted names a rule whose budget has no room for the call, and why. An empty Rule means every
// rule with a budget.
type Exhausted struct {
	Rule string
	Why  string
}

// EveryBudget says that no rule with a budget allows anything.
func EveryBudget(why string) []Exhausted { return []Exhausted{{Why: why}} }

// allowWithin allows a call that matches a rule with a budget, if there is room. The decision says
// what the engine must take from the budget first.
func (e *decider) allowWithin(r *compiledRule) (Decision, bool) {
	i := slices.IndexFunc(e.req.Exhausted, func(x Exhausted) bool { return x.Rule == "" || x.Rule == r.rule.Name })
	if i >= 0 {
		e.noteBudget(r, "has no room: "+e.req.Exhausted[i].Why)
		if e.req.Exhausted[i].Why != "" {
			e.full = append(e.full, "The budget of rule "+display.Quoted(r.rule.Name)+" has no room: "+e.req.Exhausted[i].Why+".")
		}
		return Decision{}, false
	}
	claim, err := e.claim(r.rule)
	if err != nil {
		e.addError(r.rule.Name, "budget", err)
		e.noteBudget(r, "cannot be counted: "+err.Error())
		e.unsure = true
		return Decision{}, false
	}
	e.noteBudget(r, claim.Text())
	d := e.allow(StepAllowRule, r, r.reason)
	if d.Behavior == message.BehaviorAllow {
		d.Budget = &claim
	}
	return d, true
}

// noteBudget adds to an explanation what the budget means for the call. Amounts are arguments, so
// they are hidden with them.
func (e *decider) noteBudget(r *compiledRule, text string) {
	if e.trace == nil || e.trace.byRule[r] == nil {
		return
	}
	if len(e.trace.hidden) > 0 {
		text = "is hidden with the arguments"
	}
	e.trace.byRule[r].Budget = display.Visible(display.Shorten(text, display.MaxErrorText))
}

// budgetText tells people, below the request text, which budgets have no room.
func (e *decider) budgetText() string {
	if len(e.full) == 0 {
		return ""
	}
	if len(e.joinHandling().hidden) > 0 {
		return "\nThe budget of a rule has no room; the amounts are hidden with the arguments."
	}
	return "\n" + display.Visible(display.Shorten(strings.Join(e.full, "\n"), display.MaxMessage))
}

// claim is what the call takes from the budget of a rule.
func (e *evaluation) claim(r *Rule) (toolcall.BudgetClaim, error) {
	b := r.Budget
	out := toolcall.BudgetClaim{Rule: r.Name, Sum: b.Sum, AtMost: b.AtMost, Calls: b.Calls, EveryMS: b.Every.Milliseconds()}
	caller := &e.req.Caller
	names := map[string]string{"session": string(caller.Session), "agent": caller.Agent, "requester": caller.User, "tool": e.req.Tool}
	for _, kind := range budgetScopes {
		ofAgent := kind == "requester" && slices.Contains(b.Per, "agent") // agents are counted per requester
		if ofAgent || slices.Contains(b.Per, kind) {
			out.For = append(out.For, kind, names[kind])
		}
	}
	if b.Sum == "" {
		return out, nil
	}
	steps, err := ParseArgument(b.Sum)
	if err == nil {
		out.Amount, err = ArgumentAt(e.req.Input, steps)
	}
	if err == nil {
		err = toolcall.CheckAmount(out.Amount)
	}
	if err != nil {
		return out, fmt.Errorf("%s: %w", b.Sum, err)
	}
	return out, nil
}

func (c checker) checkBudget(r *Rule) {
	b := r.Budget
	if b == nil {
		return
	}
	if b.Sum == "" && b.Calls == 0 {
		c.addFault(r, "budget", "sets no limit", "give it calls, or sum and at_most")
	}
	if (b.Sum == "") != (b.AtMost == "") {
		c.addFault(r, "budget", "sum and at_most belong together", "write both, for example {sum: args.cents, at_most: 50000}")
	}
	if b.AtMost != "" && toolcall.CheckAmount(b.AtMost) != nil {
		c.addFault(r, "budget.at_most", "is "+display.Quoted(b.AtMost)+", want a decimal number of at least 0", "write for example 500 or 99.95")
	}
	if b.Calls < 0 {
		c.addFault(r, "budget.calls", "is negative", "write how many calls the rule allows, at least 1")
	}
	if b.Every < 0 || b.Every > rulefile.MaxTime {
		c.addFault(r, "budget.every", "must be between 0 and one year", "write for example 1h or 24h")
	}
	for i, word := range b.Per {
		at := fmt.Sprintf("budget.per[%d]", i)
		switch {
		case !slices.Contains(budgetScopes, word):
			c.addFault(r, at, "is "+display.Quoted(word)+", want "+spelling.OrList(budgetScopes), "use one or more of these, or leave per out to share one budget")
		case slices.Contains(b.Per[:i], word):
			c.addFault(r, at, display.Quoted(word)+" is listed twice", "remove one of them")
		}
	}
	if err := c.checkSum(r, b.Sum); err != nil {
		c.addFaultOf(ProblemPath, r, "budget.sum", err.Error(), "name a numeric argument, such as args.cents")
	}
}

// checkSum checks the path of a sum: every tool of the rule must have a number there.
func (c checker) checkSum(r *Rule, text string) error {
	if text == "" {
		return nil
	}
	steps, err := ParseArgument(text)
	if err != nil {
		return err
	}
	for _, s := range c.schemasOf(r) {
		if s == nil {
			continue
		}
		if !s.root().HasPath(steps) {
			p, _ := parsePath(text)
			return noSuchPath(text, p, s)
		}
		if t := s.root().At(steps); t != nil && !slices.Contains([]schema.Kind{schema.KindInt, schema.KindDouble, schema.KindDyn}, t.Kind) {
			return fmt.Errorf("%s is not a number in the tool's schema", display.Quoted(text))
		}
	}
	return nil
}
