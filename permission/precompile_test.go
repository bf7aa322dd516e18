package permission_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// A large policy, whose expressions are compiled in parallel, decides according to its rules. Its
// faults are reported like those of a small one: each with its rule, always in the same order.
func TestLargePolicies(t *testing.T) {
	opts := permission.Options{Tools: []permission.Tool{{Name: "t"}, {Name: "u", Schema: schema(t, `{"type": "object", "properties": {"x": {"type": "integer"}}}`)}}}
	var rules []permission.Rule
	for i := range 300 {
		r := rule(fmt.Sprintf("r%03d", i), message.BehaviorDeny, fmt.Sprintf("args.x == %d || args.x == -%d", i, i+1000))
		r.Tools = []string{"t", "u"}
		r.Message = fmt.Sprintf(`"rule %d of " + tool.name`, i%7)
		rules = append(rules, r)
	}
	b := compile(t, opts, rules...)
	for _, x := range []int{0, 7, 299} {
		for _, tool := range []string{"t", "u"} {
			d := b.Decide(t.Context(), permission.Request{Tool: tool, Input: fmt.Appendf(nil, `{"x": %d}`, x), Mode: permission.ModeBypass})
			want := fmt.Sprintf("Permission denied for %s (rule r%03d: rule %d of %s).", tool, x, x%7, tool)
			if d.Rule != fmt.Sprintf("r%03d", x) || d.Message != want || len(d.Errors) > 0 {
				t.Errorf("%s %d: %s, %q, %v", tool, x, d.Rule, d.Message, d.Errors)
			}
		}
	}
	for _, i := range []int{3, 150, 299} {
		rules[i].When = "args.x == nope"
	}
	var first string
	for range 3 {
		_, err := permission.Compile(permission.Policy{Rules: rules}, opts)
		var le *permission.LoadError
		if !errors.As(err, &le) || len(le.Problems) != 3 || le.Problems[1].Rule != "r150" {
			t.Fatal(err)
		}
		if first == "" {
			first = err.Error()
		} else if err.Error() != first {
			t.Errorf("reported differently:\n%s\n%s", first, err)
		}
	}
}
