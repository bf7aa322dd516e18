package suite_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/suite"
)

const rules = `version: 1
name: shop
defaults: {expiry: 1h}
rules:
  - name: never
    tool: pay
    behavior: deny
    when: has(args.cents) && args.cents > 1000 && args.to != "self"
  - name: large
    tool: pay
    behavior: ask
    when: has(args.cents) && args.cents > 100
    approvers: {users: [ann, bob]}
    message: "'Pay?'"
  - name: small
    tool: pay
    behavior: allow
    when: has(args.cents) && args.cents <= 100
  - name: elsewhere
    tool: frontend/send
    behavior: deny
  - name: behind
    tool: send
    behavior: allow
`

func run(t *testing.T, tests string) *suite.Report {
	t.Helper()
	files := []permission.File{{Name: "shop.yaml", Data: []byte(rules + "tests:\n" + tests)}}
	policy, err := permission.Parse(files...)
	if err != nil {
		t.Fatal(err)
	}
	b, err := permission.Load(files, permission.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return suite.Run(t.Context(), policy, b)
}

func TestPassing(t *testing.T) {
	r := run(t, `
  - name: all that can be expected
    call: {tool: pay, args: {cents: 500}}
    expect: {behavior: ask, rule: large, step: rule, message: "Pay?", users: [bob, ann], groups: [], quorum: 1, expiry: 1h, errors: false, redact: []}
  - name: nothing decides
    call: {tool: pay, args: {}}
    expect: {behavior: ask, rule: null, on_expiry: deny}
`)
	if r.Failed != 0 || r.Passed != 2 {
		for _, res := range r.Results {
			t.Errorf("%s: %v", res.Name, res.Faults)
		}
	}
}

// A test names a frontend's tool as the rules do, or as calls do.
func TestFrontendTool(t *testing.T) {
	r := run(t, `
  - name: as in a rule
    call: {tool: frontend/send}
    expect: {behavior: deny, rule: elsewhere}
  - name: as in a call
    call: {tool: send}
    expect: {behavior: deny, rule: elsewhere}
`)
	if r.Failed != 0 {
		t.Errorf("%d of %d tests failed: %v", r.Failed, len(r.Results), r.Results[0].Why)
	}
}

func TestFailing(t *testing.T) {
	for _, tc := range []struct {
		name, expect string
		faults       []suite.Fault
		why          string
	}{
		{"behavior", "{behavior: allow}", []suite.Fault{{What: "behavior", Want: "allow", Got: "ask"}},
			"rule small (allow) was not needed, and would not match: args.cents <= 100 is false (args.cents is 500)"},
		{"rule", "{rule: never}", []suite.Fault{{What: "rule", Want: "never", Got: "large"}},
			"rule never (deny) does not match: args.cents > 1000 is false (args.cents is 500)"},
		{"no rule", "{rule: null}", []suite.Fault{{What: "rule", Want: "none", Got: "large"}}, "decided by rule: rule large"},
		{"other tool", "{rule: elsewhere}", []suite.Fault{{What: "rule", Want: "elsewhere", Got: "large"}}, "rule elsewhere is about another tool"},
		{"message", `{message: "Go?"}`, []suite.Fault{{What: "message", Want: `"Go?"`, Got: `"Pay?"`}}, "decided by"},
		{"on expiry", "{on_expiry: escalate}", []suite.Fault{{What: "on_expiry", Want: "escalate", Got: "deny"}}, "decided by"},
		{"errors", "{errors: true}", []suite.Fault{{What: "errors", Want: "true", Got: "false"}}, "decided by"},
		{"people", "{users: [ann], expiry: 2h, quorum: 2}", []suite.Fault{{What: "quorum", Want: "2", Got: "1"},
			{What: "expiry", Want: "2h0m0s", Got: "1h0m0s"}, {What: "users", Want: "[ann]", Got: "[ann, bob]"}}, "decided by"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := run(t, "  - name: x\n    call: {tool: pay, args: {cents: 500}}\n    expect: "+tc.expect+"\n")
			if diff := cmp.Diff(tc.faults, r.Results[0].Faults); diff != "" || r.Failed != 1 {
				t.Error(diff)
			}
			if why := strings.Join(r.Results[0].Why, "\n"); !strings.Contains(why, tc.why) {
				t.Errorf("why:\n%s\nwant %q", why, tc.why)
			}
		})
	}
}

// A rule that matches but is no longer consulted does not count as covered.
func TestCoverageOfRulesBehindOthers(t *testing.T) {
	r := run(t, `
  - name: denied before the allow is asked
    call: {tool: send, args: {}}
    expect: {behavior: deny, rule: elsewhere}
`)
	if r.Failed != 0 || !r.Fired("elsewhere") || r.Fired("behind") || r.Spared("behind") {
		t.Errorf("%d failed; elsewhere fired %v; behind fired %v, spared %v", r.Failed, r.Fired("elsewhere"), r.Fired("behind"), r.Spared("behind"))
	}
}

func TestCoverage(t *testing.T) {
	r := run(t, `
  - name: large
    call: {tool: pay, args: {cents: 500}}
    expect: {behavior: ask}
  - name: huge, to oneself
    call: {tool: pay, args: {cents: 5000, to: self}}
    expect: {behavior: ask}
  - name: the field is missing
    call: {tool: pay, args: {}}
    expect: {behavior: ask}
  - name: a part fails
    call: {tool: pay, args: {cents: 5000}}
    expect: {behavior: ask, errors: true}
`)
	type covered struct {
		Fired, Spared bool
		Missing       []string
	}
	want := map[string]covered{
		"never":     {false, true, []string{`args.to != "self" is true in no test`}},
		"large":     {true, true, []string{"args.cents > 100 is false in no test"}},
		"small":     {false, true, []string{"args.cents <= 100 is true in no test"}},
		"elsewhere": {false, false, nil},
	}
	for rule, w := range want {
		if diff := cmp.Diff(w, covered{r.Fired(rule), r.Spared(rule), r.Missing(rule)}); diff != "" {
			t.Errorf("%s: %s", rule, diff)
		}
	}
	if r.Failed != 0 || r.Parts != 7 || r.Covered != 4 {
		t.Errorf("%d failed, %d of %d parts covered", r.Failed, r.Covered, r.Parts)
	}
}

// TestDoubts finds tests that pass but prove nothing.
func TestDoubts(t *testing.T) {
	r := run(t, `
  - name: expects nothing
    call: {tool: pay, args: {cents: 500}}
    expect: {}
  - name: fails by accident
    call: {tool: pay, args: {cents: 5000}}
    expect: {behavior: ask}
  - name: fails on purpose
    call: {tool: pay, args: {cents: 5000}}
    expect: {behavior: ask, errors: true}
  - name: sound
    call: {tool: pay, args: {cents: 500}}
    expect: {behavior: ask}
`)
	for i, want := range []string{"it expects nothing", "something could not be evaluated: rule never", "", ""} {
		if got := strings.Join(r.Results[i].Doubts, "; "); !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: doubts %q, want %q", r.Results[i].Name, got, want)
		}
	}
}

// TestReadOnlyIsCovered: an allow rule about a call that would be allowed without it still states
// the result, so its test counts.
func TestReadOnlyIsCovered(t *testing.T) {
	files := []permission.File{{Name: "x.yaml", Data: []byte(`version: 1
name: x
rules:
  - {name: look, tool: look, behavior: allow}
tests:
  - {name: looks, call: {tool: look}, expect: {behavior: allow, step: read_only}}
`)}}
	opts := permission.Options{Tools: []permission.Tool{{Name: "look", ReadOnly: true}}}
	policy, err := permission.Parse(files...)
	if err != nil {
		t.Fatal(err)
	}
	b, err := permission.Load(files, opts)
	if err != nil {
		t.Fatal(err)
	}
	if r := suite.Run(t.Context(), policy, b); r.Failed != 0 || !r.Fired("look") {
		t.Errorf("failed %d, fired %v", r.Failed, r.Fired("look"))
	}
}
