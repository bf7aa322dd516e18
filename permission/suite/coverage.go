package suite

import (
	"reflect"
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// RuleCoverage is what the tests exercise of one rule.
type RuleCoverage struct {
	Rule string `json:"rule"`
	permission.Place
	// Matched counts the tests whose call the rule matches, Spared those with a call of its tools
	// that it does not match.
	Matched int `json:"matched"`
	Spared  int `json:"spared"`
	Failed  int `json:"failed"` // tests in which it could not be evaluated
	// Parts are the parts of its condition in order of evaluation; empty for a rule that no test
	// reached.
	Parts []*Part `json:"parts"`
}

// Part is one part of a condition.
type Part struct {
	Expr  string `json:"expr"`
	Line  int    `json:"line,omitzero"`
	Col   int    `json:"col,omitzero"`
	True  int    `json:"true"` // tests in which it was true
	False int    `json:"false"`
}

// Covered reports whether the part was both true and false.
func (p *Part) Covered() bool { return p.True > 0 && p.False > 0 }

func (r *Report) rule(rule *permission.Rule) {
	c := &RuleCoverage{Rule: rule.Name, Place: rule.Place(), Parts: []*Part{}}
	r.Rules = append(r.Rules, c)
	r.byName[rule.Name] = c
}

func (r *Report) cover(x *permission.Explanation) {
	for _, t := range x.Trace {
		c := r.byName[t.Rule]
		if c == nil {
			continue
		}
		switch {
		case t.Failed:
			c.Failed++
		case t.Matched && t.Reached, joinsRules(t, x), isAsExpected(t, x):
			c.Matched++
		case !t.Matched:
			c.Spared++
		}
		c.parts(t.Conjuncts)
	}
}

// joinsRules reports whether a rule is one of several that allow a call together, so that it
// matches only a piece of the call.
func joinsRules(t *permission.Traced, x *permission.Explanation) bool {
	return x.Step == permission.StepAllowRule && t.Behavior == message.BehaviorAllow &&
		slices.ContainsFunc(t.Shell, func(p permission.Piece) bool { return p.Covered && p.Why == "" })
}

// isAsExpected reports whether an allow rule matches a call that would be allowed without it,
// because the call is proven to change nothing: the rule agrees with the decision.
func isAsExpected(t *permission.Traced, x *permission.Explanation) bool {
	return x.Step == permission.StepReadOnly && t.Behavior == message.BehaviorAllow && t.Matched
}

// parts adds the parts of a condition. A rule about several tools has the same
// parts for each of them.
func (c *RuleCoverage) parts(parts []permission.Because) {
	for i, b := range parts {
		if i == len(c.Parts) {
			c.Parts = append(c.Parts, &Part{Expr: b.Expr, Line: b.Line, Col: b.Col})
		}
		switch p := c.Parts[i]; {
		case b.Value == nil:
		case *b.Value:
			p.True++
		default:
			p.False++
		}
	}
}

func (r *Report) count() {
	for _, c := range r.Rules {
		for _, p := range c.Parts {
			r.Parts++
			if p.Covered() {
				r.Covered++
			}
		}
	}
}

// Fired reports whether a test has a call that the rule matches.
func (r *Report) Fired(rule string) bool { c := r.byName[rule]; return c != nil && c.Matched > 0 }

// Spared reports whether a test has a call of the rule's tools that it does not match.
func (r *Report) Spared(rule string) bool { c := r.byName[rule]; return c != nil && c.Spared > 0 }

// Missing describes the parts of the rule's condition that were true in no test, or false in none.
func (r *Report) Missing(rule string) []string {
	c := r.byName[rule]
	if c == nil {
		return nil
	}
	var out []string
	for _, p := range c.Parts {
		switch {
		case p.True == 0 && p.False == 0:
			out = append(out, p.Expr+" is not evaluated by any test")
		case p.True == 0:
			out = append(out, p.Expr+" is true in no test")
		case p.False == 0:
			out = append(out, p.Expr+" is false in no test")
		}
	}
	return out
}

// why explains the decision: what decided, what kept the expected rule from deciding, and what
// failed.
func why(want permission.Expect, x *permission.Explanation) []string {
	out := []string{"decided by " + string(x.Step) + ": " + x.Reason}
	for _, t := range x.Trace {
		switch {
		case want.Rule != nil && *want.Rule == t.Rule && t.Rule != x.Rule, t.Failed:
			out = append(out, RuleText(t))
		case t.Matched && t.Reached && t.Rule != x.Rule:
			out = append(out, RuleText(t))
		case want.Rule == nil && want.Behavior == t.Behavior && !t.Matched:
			out = append(out, RuleText(t))
		}
	}
	if want.Rule != nil && *want.Rule != "" && slices.Contains(x.NotEvaluated, *want.Rule+" (tool differs)") {
		out = append(out, "rule "+*want.Rule+" is about another tool")
	}
	for _, e := range x.Errors {
		if e.Rule == "" {
			out = append(out, e.Error())
		}
	}
	return out
}

// doubts finds tests that pass with any rules: nothing is expected, or the call could not be judged
// and so failed closed.
func doubts(want permission.Expect, x *permission.Explanation) []string {
	if reflect.ValueOf(want).IsZero() {
		return []string{"it expects nothing: add what you expect, such as behavior: ask"}
	}
	if want.Errors != nil || len(x.Errors) == 0 {
		return nil
	}
	return []string{"something could not be evaluated: " + x.Errors[0].Error() + " (write errors: true if that is intended)"}
}

// RuleText describes in one line how a rule judged a call.
func RuleText(t *permission.Traced) string {
	text := "rule " + t.Rule + " (" + string(t.Behavior)
	if t.Enforcement != "" {
		text += ", " + string(t.Enforcement) + " only"
	}
	text += ") "
	switch {
	case t.Failed:
		text += "could not be evaluated"
	case t.Matched && t.Reached:
		text += "matches"
	case t.Matched:
		text += "was not needed, and would match"
	case !t.Reached:
		text += "was not needed, and would not match"
	default:
		text += "does not match"
	}
	if b := t.Because; b != nil {
		text += ": " + b.String()
	}
	if t.Budget != "" {
		text += "; its budget " + t.Budget
	}
	return text
}
