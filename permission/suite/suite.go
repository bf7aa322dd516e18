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
	"slices"
	"strconv"
	"strings"
	"time"

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
		differ("quorum", strconv.Itoa(*want.Quorum), strconv.Itoa(max(1, need.Quorum)))
	}
	if want.Expiry != nil {
		differ("expiry", duration(*want.Expiry), duration(need.Expiry))
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
