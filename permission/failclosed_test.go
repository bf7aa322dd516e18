package permission_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// What people and agents read says why a rule could not be evaluated, unless rules hide arguments.
func TestCauseOfFailure(t *testing.T) {
	for _, tc := range []struct{ rule, says string }{
		{"{name: a, tool: t, behavior: ask, when: args.n == 1}", "t needs approval: rule a could not be evaluated (no such key: n)."},
		{"{name: a, tool: t, behavior: deny, on_error: deny, when: args.n == 1, description: Not today}", "Permission denied for t (rule a could not be evaluated (no such key: n): Not today)."},
		{"{name: a, tool: t, behavior: ask, when: args.n == 1, redact: [args.x]}", "t needs approval: rule a could not be evaluated."},
	} {
		if d := decide(load(t, everything(), "version: 1\nname: x\nrules: ["+tc.rule+"]\n"), "", `{}`); d.Message != tc.says {
			t.Errorf("%s: %q, want %q", tc.rule, d.Message, tc.says)
		}
	}
}

// A loop over a text is an error, also if the text is empty and all(…) would be true.
func TestLoopOverATextFails(t *testing.T) {
	for _, when := range []string{`args.x.all(a, a == "b")`, `!args.x.exists(a, a == "b")`, `!args.x.exists_one(a, a == "b")`, `args.x.map(a, a) == []`, `args.x.filter(a, a == "b") == []`, `args.x.all(i, a, a == "b")`, `args.?x.orValue([]).all(a, a == "b")`} {
		for input, want := range map[string]message.Behavior{`{"x":[]}`: message.BehaviorAllow, `{"x":""}`: message.BehaviorAsk, `{"x":"b"}`: message.BehaviorAsk} {
			if d := decide(compile(t, permission.Options{}, rule("r", message.BehaviorAllow, when)), permission.ModeBypass, input); d.Behavior != want || (len(d.Errors) > 0) != (want == message.BehaviorAsk) {
				t.Errorf("%s of %s: %s, %v", when, input, d.Behavior, d.Errors)
			}
		}
	}
}

// A call cannot make a rule build a text that is far longer than the call, or compare one at every
// position of another.
func TestWorkOfRulesIsBounded(t *testing.T) {
	input := `{"s": "` + strings.Repeat("a", 20_000) + `", "l": ["` + strings.Repeat(`","`, 20_000) + `"]}`
	for _, when := range []string{`args.s.replace("a", args.s) == "b"`, `args.s.replace("a", args.s, 5000) == "b"`, `args.l.join(args.s) == "b"`, `regex.replace(args.s, "a", args.s) == "b"`,
		`args.s.indexOf(args.s) == 1`, `args.s.indexOf(args.s, 1) == 1`, `args.s.lastIndexOf(args.s) == 1`} {
		b := compile(t, permission.Options{Limits: permission.Limits{RuleCost: math.MaxUint32, DecisionCost: math.MaxUint32, Deadline: time.Minute}}, rule("long", message.BehaviorDeny, when))
		if d := decide(b, "", input); len(d.Errors) != 1 || !strings.Contains(d.Errors[0].Msg, "would build or compare more than") || d.Behavior == message.BehaviorAllow {
			t.Errorf("%s: %s, %v", when, d.Behavior, d.Errors)
		}
	}
}

// nested takes tens of thousands of steps on the input below. No schema limits the sizes, so only
// the limits at run time can stop it.
const nested = `args.xs.all(a, args.ys.all(b, a != b))`

func manyItems() string {
	in := []byte(`{"s": "x", "xs": [0`)
	for range 300 {
		in = append(in, ",0"...)
	}
	in = append(in, `], "ys": [1`...)
	for range 300 {
		in = append(in, ",1"...)
	}
	return string(append(in, "]}"...))
}

// faults are the ways in which the evaluation of a rule can fail, each with an input that reaches
// the tool. The budgets are large enough for the rule to load.
var faults = []struct {
	name   string
	when   string
	input  string
	limits permission.Limits
	cause  error
}{
	{"missing key", `args.missing == "x"`, `{}`, permission.Limits{}, nil},
	{"type error", `args.s + 1 == 2`, `{"s": "x"}`, permission.Limits{}, nil},
	{"index out of range", `args.xs[5] == 1`, `{"xs": []}`, permission.Limits{}, nil},
	{"division by zero", `1 / args.n == 1`, `{"n": 0}`, permission.Limits{}, nil},
	{"overflow", `args.n + 1 > 0`, `{"n": 9223372036854775807}`, permission.Limits{}, nil},
	{"bad regex", `"x".matches(args.s)`, `{"s": "("}`, permission.Limits{}, nil},
	{"huge regex", `"x".matches(args.s)`, `{"s": "(((x{9}){9}){9})"}`, permission.Limits{}, nil},
	{"cost limit", nested, manyItems(), permission.Limits{RuleCost: 20_000, Deadline: time.Hour}, permission.ErrCostLimit},
	{"deadline", nested, manyItems(), permission.Limits{RuleCost: math.MaxUint64, DecisionCost: math.MaxUint64, Deadline: time.Nanosecond}, permission.ErrDeadline},
	{"duplicate members", `args.s == "x"`, `{"s": "x", "s": "y"}`, permission.Limits{}, nil},
	{"no object", `args.s == "x"`, `["x"]`, permission.Limits{}, nil},
	{"input too long", `args.s == "x"`, `{"s": "xxxxxxxxxxxxxxx"}`, permission.Limits{InputBytes: 20}, nil},
	{"input too deep", `args.s == "x"`, `{"s": [[[]]]}`, permission.Limits{InputDepth: 3}, nil},
}

// Table E: for every fault, a deny rule counts as matched (deny if locked, otherwise ask), an ask
// rule asks, and an allow rule neither matches nor lets the mode allow. Explore denies, as it
// does without the rule.
func TestFailsClosed(t *testing.T) {
	deny, ask := message.BehaviorDeny, message.BehaviorAsk
	for _, f := range faults {
		for _, k := range []struct {
			name string
			rule permission.Rule
			want map[permission.Mode]message.Behavior
		}{
			{"locked deny", permission.Rule{Behavior: deny, Locked: true}, responsesOf(deny, deny, deny, deny, deny)},
			{"strict deny", permission.Rule{Behavior: deny, OnError: permission.OnErrorDeny}, responsesOf(deny, deny, deny, deny, deny)},
			{"deny", permission.Rule{Behavior: deny}, responsesOf(ask, ask, deny, ask, deny)},
			{"ask", permission.Rule{Behavior: ask}, responsesOf(ask, ask, deny, ask, deny)},
			{"strict ask", permission.Rule{Behavior: ask, OnError: permission.OnErrorDeny}, responsesOf(deny, deny, deny, deny, deny)},
			{"allow", permission.Rule{Behavior: message.BehaviorAllow}, responsesOf(ask, ask, deny, ask, deny)},
		} {
			k.rule.Name, k.rule.Tools, k.rule.When = "r", []string{"t"}, f.when
			b := compile(t, permission.Options{Limits: f.limits}, k.rule)
			for _, mode := range allModes {
				d := decide(b, mode, f.input)
				if d.Behavior != k.want[mode] {
					t.Errorf("%s in %s rule, mode %s: %s by %s, want %s", f.name, k.name, mode, d.Behavior, d.Step, k.want[mode])
				}
				if mode == permission.ModeExplore && k.rule.Behavior == message.BehaviorAllow {
					continue // allow rules are not consulted
				}
				if len(d.Errors) == 0 {
					t.Errorf("%s in %s rule, mode %s: the error is not reported", f.name, k.name, mode)
				} else if f.cause != nil && !errors.Is(d.Errors[0], f.cause) {
					t.Errorf("%s in %s rule: error is %v, want %v", f.name, k.name, d.Errors[0], f.cause)
				}
			}
		}
	}
}

func responsesOf(b ...message.Behavior) map[permission.Mode]message.Behavior {
	m := map[permission.Mode]message.Behavior{}
	for i, mode := range allModes {
		m[mode] = b[i]
	}
	return m
}

// A read-only tool is allowed in every mode, but a failing rule about it must still ask or deny.
func TestFailingRuleOutranksReadOnly(t *testing.T) {
	for _, behavior := range []message.Behavior{message.BehaviorDeny, message.BehaviorAsk} {
		b := compile(t, permission.Options{Tools: []permission.Tool{{Name: "t", ReadOnly: true}}}, rule("r", behavior, "args.missing == 1"))
		for _, mode := range allModes {
			if d := decide(b, mode, `{}`); d.Behavior == message.BehaviorAllow {
				t.Errorf("failing %s rule in %s allows by %s", behavior, mode, d.Step)
			}
		}
	}
}

func TestCancelledContext(t *testing.T) {
	stop := errors.New("stopping")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	b := compile(t, permission.Options{Tools: []permission.Tool{{Name: "t", ReadOnly: true}}}, rule("a", "allow", ""))
	for _, mode := range allModes {
		d := b.Decide(ctx, permission.Request{Tool: "t", Input: []byte(`{}`), Mode: mode})
		if d.Behavior == message.BehaviorAllow || len(d.Errors) != 1 || !errors.Is(d.Errors[0], stop) {
			t.Errorf("in %s: %s, errors %v", mode, d.Behavior, d.Errors)
		}
	}
}

// A decision has a budget in addition to the budget of each rule.
func TestDecisionCost(t *testing.T) {
	var rules []permission.Rule
	for _, name := range []string{"a", "b", "c", "d"} {
		rules = append(rules, rule(name, "deny", `args.xs.exists(x, x == 7)`))
	}
	in := manyItems()
	limits := permission.Limits{RuleCost: 100_000, DecisionCost: 1, Deadline: time.Hour}
	d := decide(compile(t, permission.Options{Limits: limits}, rules...), permission.ModeBypass, in)
	if d.Behavior != message.BehaviorAsk || len(d.Errors) != 3 || !errors.Is(d.Errors[0], permission.ErrCostLimit) {
		t.Errorf("over the budget: %s, errors %v", d.Behavior, d.Errors)
	}
	limits.DecisionCost = 1_000_000
	d = decide(compile(t, permission.Options{Limits: limits}, rules...), permission.ModeBypass, in)
	if d.Behavior != message.BehaviorAllow {
		t.Errorf("within the budget: %s, errors %v", d.Behavior, d.Errors)
	}
}

// The index never skips a rule that would have failed: neither one whose content is checked
// first, nor any rule if the input cannot be read.
func TestIndexPassesOverNoFailure(t *testing.T) {
	var withContent, byCaller []permission.Rule
	for i := range 20 {
		r := rule("content"+strconv.Itoa(i), "deny", fmt.Sprintf(`args.s == "v%d"`, i))
		r.RuleContent, r.Locked = new("x"), true
		withContent = append(withContent, r)
		r = rule("caller"+strconv.Itoa(i), "deny", fmt.Sprintf(`caller.user == "u%d"`, i))
		r.Locked = true
		byCaller = append(byCaller, r)
	}
	failing := permission.Options{Matchers: map[string]permission.Matcher{"t": failingMatcher{}}}
	for _, c := range []struct {
		name  string
		opts  permission.Options
		rules []permission.Rule
		input string
	}{
		{"content that fails", failing, withContent, `{"s": "none of them"}`},
		{"input that fails", permission.Options{}, byCaller, `[]`},
	} {
		b := compile(t, c.opts, c.rules...)
		if d := decide(b, permission.ModeBypass, c.input); d.Behavior != message.BehaviorDeny || d.Step != permission.StepError {
			t.Errorf("%s: %s by %s, errors %v", c.name, d.Behavior, d.Step, d.Errors)
		}
	}
}

type failingMatcher struct{}

func (failingMatcher) Compile(string, message.Behavior) (permission.Pattern, error) {
	return failingPattern{}, nil
}
func (failingMatcher) Suggest(permission.Call) []message.PermissionRule { return nil }

type failingPattern struct{}

func (failingPattern) Match(permission.Call) (bool, error) {
	return false, errors.New("unknown")
}

// Rules that are proved to be cheap also count: many small costs add up.
func TestDecisionCostOfCheapRules(t *testing.T) {
	rules := []permission.Rule{rule("a", "deny", `args.x == args.y`), rule("b", "deny", `args.x + 1 == args.y`), rule("c", "deny", `args.x == args.y + 1`)}
	opts := permission.Options{Limits: permission.Limits{DecisionCost: 1}, Tools: []permission.Tool{{Name: "t", Schema: schema(t, `{"type": "object",
		"required": ["x", "y"], "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}}`)}}}
	d := decide(compile(t, opts, rules...), permission.ModeBypass, `{"x": 1, "y": 5}`)
	if d.Behavior != message.BehaviorAsk || len(d.Errors) != 2 || !errors.Is(d.Errors[0], permission.ErrCostLimit) {
		t.Errorf("%s, errors %v", d.Behavior, d.Errors)
	}
}

// A thousand cheap rules about one tool stay within the budget of a decision.
func TestManyCheapRulesStayWithinTheBudget(t *testing.T) {
	var rules []permission.Rule
	for i := range 1000 {
		rules = append(rules, rule("r"+string(rune('a'+i%26))+time.Duration(i).String(), "deny", `args.s.startsWith("no such prefix")`))
	}
	if d := decide(compile(t, permission.Options{}, rules...), permission.ModeBypass, `{"s": "x"}`); d.Behavior != message.BehaviorAllow {
		t.Errorf("%s, %d errors, first %v", d.Behavior, len(d.Errors), d.Errors[0])
	}
}

// Rules that are individually cheap, and therefore not measured, still add up to the limit of the
// decision. Rules above it are not evaluated, and the call is not allowed.
func TestCheapRulesAddUp(t *testing.T) {
	rules := []permission.Rule{{Name: "zz", Tools: []string{"t"}, Behavior: message.BehaviorAllow}}
	for i := range 200 {
		rules = append(rules, rule(fmt.Sprintf("r%03d", i), message.BehaviorDeny, `args.n * 2 == 3`))
	}
	for _, k := range []struct {
		limit uint64
		want  message.Behavior
	}{{100_000, message.BehaviorAllow}, {300, message.BehaviorAsk}} {
		d := decide(compile(t, permission.Options{Limits: permission.Limits{DecisionCost: k.limit}}, rules...), permission.ModeBypass, `{"n": 1}`)
		if d.Behavior != k.want {
			t.Errorf("limit %d: %s by %s, want %s", k.limit, d.Behavior, d.Step, k.want)
		}
		failed := len(d.Errors) > 0 && errors.Is(d.Errors[0], permission.ErrCostLimit)
		if failed != (k.want != message.BehaviorAllow) || len(d.Errors) == len(rules)-1 {
			t.Errorf("limit %d: %d errors, first %v", k.limit, len(d.Errors), d.Errors)
		}
	}
}

// A tool that checks a policy gets the same verdict on a busy machine.
func TestUnhurried(t *testing.T) {
	opts := permission.Options{Limits: permission.Limits{RuleCost: 100_000, DecisionCost: 1_000_000, Deadline: time.Nanosecond}}
	rule := rule("all", "allow", `args.xs.all(x, x > 0)`)
	hurried := compile(t, opts, rule)
	opts.Unhurried = true
	unhurried := compile(t, opts, rule)
	if a, b := hurried.Hash(), unhurried.Hash(); a != b {
		t.Errorf("the hash depends on the deadline: %s, %s", a, b)
	}
	const input = `{"xs": [1, 2, 3]}`
	if d := decide(hurried, permission.ModeDefault, input); d.Behavior != message.BehaviorAsk || len(d.Errors) == 0 {
		t.Errorf("past its deadline: %s, errors %v", d.Behavior, d.Errors)
	}
	if d := decide(unhurried, permission.ModeDefault, input); d.Behavior != message.BehaviorAllow {
		t.Errorf("without a deadline: %s, errors %v", d.Behavior, d.Errors)
	}
}
