package suite

import (
	"context"

	"github.com/askance-dev/askance/permission"
)

// Report is what the tests of a policy say.
type Report struct {
	Bundle  string    `json:"bundle"` // content hash of what was tested
	Results []*Result `json:"results"`
	Passed  int       `json:"passed"`
	Failed  int       `json:"failed"`
	// Rules has each rule of the policy with what the tests exercise of it, in
	// the order of the files.
	Rules []*RuleCoverage `json:"rules"`
	// Parts counts the parts of all conditions, Covered those that the tests saw
	// both true and false.
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
	// Doubts are reasons to think that a test which passed does not show what
	// its author believes.
	Doubts []string `json:"doubts,omitzero"`
	// Why explains the decision of a test that failed, a line each.
	Why         []string                `json:"why,omitzero"`
	Explanation *permission.Explanation `json:"-"`
}

// Fault is one expectation that was not met.
type Fault struct {
	What string `json:"what"` // key of the test, e.g. behavior
	Want string `json:"want"`
	Got  string `json:"got"`
}

// Run runs the tests of a policy on the bundle that was compiled from it.
func Run(ctx context.Context, policy permission.Policy, bundle *permission.Bundle) *Report {
	r := &Report{Bundle: bundle.Hash(), Results: []*Result{}, Rules: []*RuleCoverage{}, byName: map[string]*RuleCoverage{}}
	for i := range policy.Rules {
		r.rule(&policy.Rules[i])
	}
	for i := range policy.Tests {
		t := &policy.Tests[i]
		x := bundle.Explain(ctx, t.Call.Request())
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
