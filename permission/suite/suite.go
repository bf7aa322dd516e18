// Package suite runs the tests of a policy and measures what they exercise.
//
//	policy, err := permission.Parse(files...)
//	bundle, err := permission.Compile(policy, options)
//	report := suite.Run(ctx, policy, bundle)
//	fmt.Println(report.Failed, "of", len(report.Results), "failed")
//
// Each test is a call and the decision expected for it. The call is explained rather than only
// decided, so a failed [Result] says what was expected, what happened and why: the rule that
// decided, and what kept the expected one from matching.
//
// A rule is covered when one test has a call that it matches and that no earlier step
// decides, and another test has a call that it does not match. A part of a condition
// joined by && is covered when it was true for one call and false for another; a part
// after a false one is not evaluated.
//
// A test's clock is the one it names: without now it is the zero time, so no test passes today and
// fails tomorrow.
package suite

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// Report is the result of a policy's tests.
type Report struct {
	Bundle  string    `json:"bundle"` // content hash of what was tested
	Results []*Result `json:"results"`
	Passed  int       `json:"passed"`
	Failed  int       `json:"failed"`
	// Rules has each rule of the policy and what the tests exercise of it, in file order.
	Rules []*RuleCoverage `json:"rules"`
	// Parts counts the parts of all conditions, Covered those that were both true and false.
	Parts   int `json:"parts"`
	Covered int `json:"covered"`

	byName map[string]*RuleCoverage
}

// Result is one test.
type Result struct {
	Name string `json:"name"`
	permission.Place
	Passed bool    `json:"passed"`
	Faults []Fault `json:"faults,omitzero"`
	// Doubts are reasons to think that a passed test does not show what its author believes.
	Doubts []string `json:"doubts,omitzero"`
	// Why explains the decision in a failed test, one line per reason.
	Why         []string                `json:"why,omitzero"`
	Explanation *permission.Explanation `json:"-"`
}

// Fault is one expectation that was not met.
type Fault struct {
	What string `json:"what"` // key of the test, e.g. behavior
	Want string `json:"want"`
	Got  string `json:"got"`
}

// Run runs a policy's tests on the bundle compiled from it.
func Run(ctx context.Context, policy permission.Policy, bundle *permission.Bundle) *Report {
	r := &Report{Bundle: bundle.Hash(), Results: []*Result{}, Rules: []*RuleCoverage{}, byName: map[string]*RuleCoverage{}}
	for i := range policy.Rules {
		r.rule(&policy.Rules[i])
	}
	for i := range policy.Tests {
		t := &policy.Tests[i]
		x := bundle.Explain(ctx, t.Call)
		res := &Result{Name: t.Name, Place: t.Place(), Faults: faults(t.Expect, x.Decided), Explanation: x}
		res.Passed = len(res.Faults) == 0
		if res.Passed {
			r.Passed++
			res.Doubts = doubts(t.Expect, x)
		} else {
			r.Failed++
			res.Why = why(t.Expect, x)
		}
		r.Results = append(r.Results, res)
		r.cover(x)
	}
	r.count()
	return r
}

func faults(want permission.Expect, got permission.Decision) []Fault {
	var out []Fault
	differ := func(what, want, got string) {
		if want != got {
			out = append(out, Fault{what, want, got})
		}
	}
	if want.Behavior != "" {
		differ("behavior", string(want.Behavior), string(got.Behavior))
	}
	if want.Rule != nil {
		differ("rule", ruleName(*want.Rule), ruleName(got.Rule))
	}
	if want.Step != "" {
		differ("step", string(want.Step), string(got.Step))
	}
	if want.Message != nil {
		differ("message", strconv.Quote(*want.Message), strconv.Quote(got.Message))
	}
	if want.Errors != nil && *want.Errors != (len(got.Errors) > 0) {
		differ("errors", strconv.FormatBool(*want.Errors), errorsText(got))
	}
	need := got.Requirement
	if want.Quorum != nil {
		differ("quorum", strconv.Itoa(*want.Quorum), strconv.Itoa(need.HighestQuorum()))
	}
	if want.Expiry != nil {
		differ("expiry", duration(*want.Expiry), duration(need.Expiry))
	}
	if got.Behavior == message.BehaviorAsk {
		need.OnExpiry = cmp.Or(need.OnExpiry, permission.OnExpiryDeny)
	}
	if want.OnExpiry != "" {
		differ("on_expiry", string(want.OnExpiry), string(need.OnExpiry))
	}
	users, groups := slices.Clone(need.Users), []string{}
	for _, set := range need.Approvers {
		users, groups = append(users, set.Users...), append(groups, set.Groups...)
	}
	for _, l := range []struct {
		what      string
		want, got []string
	}{{"users", want.Users, users}, {"groups", want.Groups, groups}, {"redact", want.Redact, got.Redact}} {
		if l.want != nil {
			differ(l.what, list(l.want), list(l.got))
		}
	}
	return out
}

func ruleName(name string) string {
	return cmp.Or(name, "none")
}

func errorsText(d permission.Decision) string {
	if len(d.Errors) == 0 {
		return "false"
	}
	texts := make([]string, len(d.Errors))
	for i, e := range d.Errors {
		texts[i] = e.Error()
	}
	return "true: " + strings.Join(texts, "; ")
}

func duration(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return d.String()
}

func list(items []string) string {
	sorted := slices.Sorted(slices.Values(items))
	return "[" + strings.Join(slices.Compact(sorted), ", ") + "]"
}

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
