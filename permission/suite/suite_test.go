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
    tool: send
    behavior: deny
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
    expect: {behavior: ask, rule: null}
`)
	if r.Failed != 0 || r.Passed != 2 {
		for _, res := range r.Results {
			t.Errorf("%s: %v", res.Name, res.Faults)
		}
	}
}

func TestFailing(t *testing.T) {
	for _, tc := range []struct {
		name, expect string
		faults       []suite.Fault
		why          string
	}{
		{"behavior", "{behavior: allow}", []suite.Fault{{What: "behavior", Want: "allow", Got: "ask"}},
			"rule small (allow) was not asked any more, and would not match: args.cents <= 100 is false (args.cents is 500)"},
		{"rule", "{rule: never}", []suite.Fault{{What: "rule", Want: "never", Got: "large"}},
			"rule never (deny) does not match: args.cents > 1000 is false (args.cents is 500)"},
		{"no rule", "{rule: null}", []suite.Fault{{What: "rule", Want: "none", Got: "large"}}, "decided by rule: rule large"},
		{"other tool", "{rule: elsewhere}", []suite.Fault{{What: "rule", Want: "elsewhere", Got: "large"}}, "rule elsewhere is about another tool"},
		{"message", `{message: "Go?"}`, []suite.Fault{{What: "message", Want: `"Go?"`, Got: `"Pay?"`}}, "decided by"},
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
				t.Errorf("why:\n%s\nwant %q in it", why, tc.why)
			}
		})
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
