package permission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cel.dev/cel-go/cel"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/celrule"
)

// parts are comparisons, some of them guards, that are true, false or failing
// depending on the input.
var (
	guardFields = []string{"args.s", "args.n", "args.b", "args.o.s", "args.o.n", "args.missing", "args.nul", "args.xs", "args.f", "args", "caller.user", "ctx.mode", "tool.name", "args.o"}
	guardOps    = []string{"==", "!=", "<", "<=", ">", ">="}
	guardConsts = []string{`"a"`, `"ab"`, `""`, "1", "2", "-1", "true", "false", "1.0", `["a", "b"]`, "null", `"default"`}
)

func drawPart(t *rapid.T) string {
	field := rapid.SampledFrom(guardFields).Draw(t, "field")
	constant := rapid.SampledFrom(guardConsts).Draw(t, "constant")
	switch rapid.IntRange(0, 5).Draw(t, "form") {
	case 0:
		return fmt.Sprintf("%s %s %s", constant, rapid.SampledFrom(guardOps).Draw(t, "op"), field)
	case 1:
		return fmt.Sprintf("%s.%s(%s)", field, rapid.SampledFrom([]string{"startsWith", "endsWith", "contains"}).Draw(t, "method"), `"a"`)
	case 2:
		return field + ` in ["a", "b"]`
	case 3:
		return rapid.SampledFrom([]string{"has(args.s)", "!(args.s == \"a\")", "(args.s == \"a\" || args.n == 1)", "1 / args.n == 1", "args.?s.orValue(\"\") == \"a\""}).Draw(t, "other")
	default:
		return fmt.Sprintf("%s %s %s", field, rapid.SampledFrom(guardOps).Draw(t, "op"), constant)
	}
}

var guardInputs = []string{
	`{}`, `{"s": "a", "n": 1, "b": true, "o": {"s": "ab", "n": 2}, "nul": null, "xs": ["a"], "f": 1.5}`,
	`{"s": "b", "n": 0, "b": false, "o": {"s": "", "n": -1}, "nul": "a", "xs": [], "f": 1.0}`,
	`{"s": 1, "n": "a", "b": "true", "o": "a", "f": "1"}`, `{"s": "", "n": 9223372036854775807, "o": {"s": null}}`, `[]`,
}

// Where a guard excludes a condition, CEL says false, and does not fail.
func TestGuardsAgreeWithCEL(t *testing.T) {
	env, err := celrule.ToolEnv(nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Compile(Policy{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	excluded := 0
	rapid.Check(t, func(t *rapid.T) {
		var parts []string
		for range rapid.IntRange(1, 4).Draw(t, "parts") {
			parts = append(parts, drawPart(t))
		}
		text := strings.Join(parts, " && ")
		p, problems := celrule.Compile(env, text, cel.BoolType, nil, DefaultLimits.expressions(false))
		if problems != nil {
			return // of no type, or of the wrong one
		}
		e := b.evaluate(context.Background(), &Request{Tool: "t", Mode: ModeDefault,
			Input: []byte(rapid.SampledFrom(guardInputs).Draw(t, "input"))}, nil)
		defer e.run.Close()
		if e.inputErr != nil || !p.Excludes(&e.variables) {
			return
		}
		excluded++
		if v, err := p.Bool(&e.run); v || err != nil {
			t.Fatalf("%s is excluded, CEL says %v, %v", text, v, err)
		}
	})
	if excluded == 0 {
		t.Error("no condition was ever excluded: nothing was tested")
	}
}

// Each guard alone, on both sides of each constant.
func TestEachGuardAgreesWithCEL(t *testing.T) {
	env, err := celrule.ToolEnv(nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Compile(Policy{}, Options{Limits: Limits{Deadline: time.Hour, DecisionCost: 1 << 40}})
	if err != nil {
		t.Fatal(err)
	}
	var conditions []string
	for _, field := range []string{"args.s", "args.n", "args.b", "args.o.s", "ctx.mode"} {
		for _, op := range guardOps {
			for _, constant := range []string{`"a"`, `"b"`, `""`, "0", "1", "true", `"default"`} {
				conditions = append(conditions, field+" "+op+" "+constant, constant+" "+op+" "+field)
			}
		}
		for _, form := range []string{`.startsWith("a")`, `.endsWith("a")`, `.contains("a")`, ` in ["a", "default"]`, ` in []`} {
			conditions = append(conditions, field+form)
		}
	}
	var evaluations []*evaluation
	for _, input := range append([]string{`{"mode": "a", "n": 3}`, `{"s": "ba", "n": 2, "b": false, "o": {"s": "bab"}}`, `{"s": "ab", "n": -1, "o": {"s": "default"}}`}, guardInputs...) {
		e := b.evaluate(context.Background(), &Request{Tool: "t", Mode: ModeDefault, Input: []byte(input)}, nil)
		t.Cleanup(e.run.Close)
		evaluations = append(evaluations, e)
	}
	excluded := 0
	for _, text := range conditions {
		p, problems := celrule.Compile(env, text, cel.BoolType, nil, DefaultLimits.expressions(false))
		if problems != nil {
			continue // of the wrong type
		}
		for _, e := range evaluations {
			if e.inputErr != nil || !p.Excludes(&e.variables) {
				continue
			}
			excluded++
			if v, err := p.Bool(&e.run); v || err != nil {
				t.Errorf("%s is excluded for %s, CEL says %v, %v", text, e.req.Input, v, err)
			}
		}
	}
	if excluded < 200 {
		t.Errorf("only %d conditions were excluded", excluded)
	}
}

// A bundle with indexes decides as the same one without them.
func TestIndexChangesNoDecision(t *testing.T) {
	indexed := 0
	rapid.Check(t, func(t *rapid.T) {
		var p Policy
		for i := range rapid.IntRange(4*indexFrom, 8*indexFrom).Draw(t, "rules") {
			r := Rule{Name: fmt.Sprintf("r%02d", i), Tools: []string{"t"},
				Behavior: rapid.SampledFrom([]message.Behavior{message.BehaviorDeny, message.BehaviorAsk, message.BehaviorAllow}).Draw(t, "behavior")}
			r.When = fmt.Sprintf("args.s == %q", rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}).Draw(t, "value"))
			switch rapid.IntRange(0, 5).Draw(t, "form") {
			case 0:
				r.When += ` && args.missing == 1`
			case 1:
				r.When = "args.missing == 1 && " + r.When
			case 2:
				r.When = "args.n == 1"
			case 3:
				r.When = `args.s == "a" && args.s == "b"`
			}
			p.Rules = append(p.Rules, r)
		}
		with, err := Compile(p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		without, err := Compile(p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		tr := without.byTool["t"]
		if tr.denyIndex != nil || tr.askIndex != nil || tr.allowIndex != nil {
			indexed++
		}
		tr.denyIndex, tr.askIndex, tr.allowIndex = nil, nil, nil
		req := Request{Tool: "t", Input: []byte(rapid.SampledFrom(guardInputs).Draw(t, "input")), Mode: ModeBypass}
		a, b := with.Decide(context.Background(), req), without.Decide(context.Background(), req)
		if diff := cmp.Diff(a, b, cmp.Comparer(func(x, y RuleError) bool { return x.Rule == y.Rule && x.Field == y.Field && x.Msg == y.Msg })); diff != "" {
			t.Fatalf("with an index and without:\n%s", diff)
		}
	})
	if indexed == 0 {
		t.Error("no bundle had an index: nothing was tested")
	}
}

func TestIndexIsMade(t *testing.T) {
	var p Policy
	for i := range 40 {
		p.Rules = append(p.Rules, Rule{Name: fmt.Sprintf("r%02d", i), Tools: []string{"t"}, Behavior: message.BehaviorDeny,
			When: fmt.Sprintf(`args.account == "a%d" && args.kind == "k"`, i%20)})
	}
	p.Rules = append(p.Rules, Rule{Name: "r05b", Tools: []string{"t"}, Behavior: message.BehaviorDeny, When: "args.n == 3"})
	b, err := Compile(p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	x := b.byTool["t"].denyIndex
	if x == nil || !slices.Equal(x.path, []string{"args", "account"}) {
		t.Fatalf("index %+v", x)
	}
	e := b.evaluate(context.Background(), &Request{Tool: "t", Input: []byte(`{"account": "a5", "kind": "k"}`)}, nil)
	var names []string
	for _, r := range e.relevantRules(b.byTool["t"].deny, x) {
		names = append(names, r.rule.Name)
	}
	if want := []string{"r05", "r05b", "r25"}; !slices.Equal(names, want) {
		t.Errorf("relevant are %q, want %q", names, want)
	}
}

// What an index passes over is false and cannot fail: with rules of every
// form together with those that made it, on values that they name and do not name.
func TestIndexLeavesOutNothing(t *testing.T) {
	for _, field := range []struct{ path, constant string }{{"args.s", `"v%d"`}, {"args.n", "%d"}, {"args.o.s", `"v%d"`}} {
		var base []Rule
		for i := range indexFrom {
			base = append(base, Rule{Name: fmt.Sprintf("b%02d", i), When: field.path + " == " + fmt.Sprintf(field.constant, i)})
		}
		constant := fmt.Sprintf(field.constant, 3)
		for i, probe := range []string{
			field.path + " != " + constant, constant + " == " + field.path, field.path + " <= " + constant, field.path + " in [" + constant + "]",
			field.path + " == " + constant + " && args.missing == 1", "args.missing == 1 && " + field.path + " == " + constant,
			field.path + " == " + constant + " || args.b", "!(" + field.path + " == " + constant + ")", "args.b == true", "args.missing == 1", "",
			"has(" + field.path + ")", field.path + " == " + constant + " && args.b == false",
		} {
			for _, behavior := range []message.Behavior{message.BehaviorDeny, message.BehaviorAsk, message.BehaviorAllow} {
				p := Policy{Rules: append(slices.Clone(base), Rule{Name: fmt.Sprintf("p%02d", i), When: probe})}
				for k := range p.Rules {
					p.Rules[k].Tools, p.Rules[k].Behavior = []string{"t"}, behavior
				}
				checkIndex(t, p, probe)
			}
		}
	}
}

// checkIndex compares a bundle that has an index with itself without it.
func checkIndex(t *testing.T, p Policy, what string) {
	t.Helper()
	b, err := Compile(p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	tr := b.byTool["t"]
	if tr.denyIndex == nil && tr.askIndex == nil && tr.allowIndex == nil {
		t.Fatalf("%s: no index", what)
	}
	bare, _ := Compile(p, Options{})
	plain := bare.byTool["t"]
	plain.denyIndex, plain.askIndex, plain.allowIndex = nil, nil, nil
	for _, input := range []string{
		`{}`, `{"s": "v3", "n": 3, "o": {"s": "v3"}, "b": true}`, `{"s": "v3", "n": 3, "o": {"s": "v3"}, "b": false}`, `{"s": "other", "n": 99, "o": {"s": "other"}, "b": true}`,
		`{"s": "other", "n": 99, "o": {"s": "other"}, "b": false, "missing": 1}`, `{"s": 3, "n": "v3", "o": "v3"}`, `{"s": null, "n": 3.0, "o": {}}`, `{"n": 3.5, "b": "x"}`,
		`{"n": -1, "s": "", "o": {"s": ""}, "missing": 2}`, `[]`,
	} {
		req := Request{Tool: "t", Input: []byte(input), Mode: ModeBypass}
		got, want := b.Decide(context.Background(), req), bare.Decide(context.Background(), req)
		if diff := cmp.Diff(want, got, cmp.Comparer(func(x, y RuleError) bool { return x.Rule == y.Rule && x.Field == y.Field && x.Msg == y.Msg })); diff != "" {
			t.Errorf("%s on %s, without the index and with it:\n%s", what, input, diff)
		}
	}
}
