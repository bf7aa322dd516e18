package permission

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"cel.dev/cel-go/cel"
	"pgregory.net/rapid"

	"github.com/askance-dev/askance/permission/internal/celrule"
)

// parts are comparisons, some of them guards, that are true, false or fail depending on the
// input.
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

// If a guard excludes a condition, CEL returns false and does not fail.
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
			return // the wrong type, or no type
		}
		e := b.evaluate(context.Background(), &Request{Tool: "t", Mode: ModeDefault,
			Input: []byte(rapid.SampledFrom(guardInputs).Draw(t, "input"))}, nil)
		defer e.run.Close()
		if e.inputErr != nil || !p.Excludes(&e.variables) {
			return
		}
		excluded++
		if v, err := p.Bool(&e.run); v || err != nil {
			t.Fatalf("%s is excluded, but CEL returns %v, %v", text, v, err)
		}
	})
	if excluded == 0 {
		t.Error("no condition was excluded, so nothing was tested")
	}
}

// Each guard on its own, on both sides of each constant.
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
			continue // the wrong type
		}
		for _, e := range evaluations {
			if e.inputErr != nil || !p.Excludes(&e.variables) {
				continue
			}
			excluded++
			if v, err := p.Bool(&e.run); v || err != nil {
				t.Errorf("%s is excluded for %s, but CEL returns %v, %v", text, e.req.Input, v, err)
			}
		}
	}
	if excluded < 200 {
		t.Errorf("only %d conditions were excluded", excluded)
	}
}
