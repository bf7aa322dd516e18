package celrule

import (
	"fmt"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"pgregory.net/rapid"

	"github.com/askance-dev/askance/permission/internal/schema"
)

// parts are comparisons, some of them guards, that are true, false or fail depending on the
// input.
var (
	fields        = []string{"args.s", "args.n", "args.b", "args.o.s", "args.o.n", "args.missing", "args.nul", "args.xs", "args.f", "args", "caller.user", "ctx.mode", "tool.name", "args.o"}
	operatorTexts = []string{"==", "!=", "<", "<=", ">", ">="}
	constants     = []string{`"a"`, `"ab"`, `""`, "1", "2", "-1", "true", "false", "1.0", `["a", "b"]`, "null", `"default"`}
)

func drawComparison(t *rapid.T) string {
	field := rapid.SampledFrom(fields).Draw(t, "field")
	constant := rapid.SampledFrom(constants).Draw(t, "constant")
	switch rapid.IntRange(0, 5).Draw(t, "form") {
	case 0:
		return fmt.Sprintf("%s %s %s", constant, rapid.SampledFrom(operatorTexts).Draw(t, "op"), field)
	case 1:
		return fmt.Sprintf("%s.%s(%s)", field, rapid.SampledFrom([]string{"startsWith", "endsWith", "contains"}).Draw(t, "method"), `"a"`)
	case 2:
		return field + ` in ["a", "b"]`
	case 3:
		return rapid.SampledFrom([]string{"has(args.s)", "!(args.s == \"a\")", "(args.s == \"a\" || args.n == 1)", "1 / args.n == 1", "args.?s.orValue(\"\") == \"a\""}).Draw(t, "other")
	default:
		return fmt.Sprintf("%s %s %s", field, rapid.SampledFrom(operatorTexts).Draw(t, "op"), constant)
	}
}

func TestGuardsAreFound(t *testing.T) {
	env, err := ToolEnv(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		when string
		want int
	}{
		{`args.a == "x"`, 1}, {`"x" == args.a`, 1}, {`args.a.b.c.startsWith("x") && args.n < 5`, 2}, {`5 > args.n`, 1},
		{`args.a in ["x", "y"]`, 1}, {`args.a == "x" || args.b == "y"`, 0}, {`has(args.a) && args.a == "x"`, 1},
		{`args.?a.orValue("") == "x"`, 0}, {`args["a"] == "x"`, 0}, {`args.a == 1.5`, 0}, {`args.a == args.b`, 0},
		{`args.xs.exists(x, x == "a")`, 0}, {`!(args.a == "x")`, 0}, {`(args.a == "x" && args.b == "y") && args.c == "z"`, 3},
	} {
		p, problems := Compile(env, c.when, cel.BoolType, nil, usual)
		if problems != nil {
			t.Errorf("%s: %+v", c.when, problems)
		} else if len(p.guards) != c.want {
			t.Errorf("%s has %d guards, want %d", c.when, len(p.guards), c.want)
		}
	}
}

// The quick bound of a simple expression is at least cel-go's own bound.
func TestSimpleCostIsNoLess(t *testing.T) {
	typed, err := schema.Compile([]byte(`{"type": "object", "properties": {"s": {"type": "string"}, "n": {"type": "integer"}, "b": {"type": "boolean"},
		"o": {"type": "object", "properties": {"s": {"type": "string"}, "n": {"type": "number"}}}, "xs": {"type": "array", "items": {"type": "string"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	simple := 0
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom([]*schema.Schema{nil, typed}).Draw(t, "schema")
		var root *schema.Type
		if s != nil {
			root = s.Root
		}
		env, err := ToolEnv(root)
		if err != nil {
			t.Fatal(err)
		}
		var parts []string
		for range rapid.IntRange(1, 5).Draw(t, "parts") {
			part := drawComparison(t)
			if rapid.IntRange(0, 3).Draw(t, "long") == 0 {
				part = fmt.Sprintf("args.s == %q", strings.Repeat("x", rapid.IntRange(0, 2000).Draw(t, "length")))
			}
			if rapid.Bool().Draw(t, "not") {
				part = "!(" + part + ")"
			}
			parts = append(parts, part)
		}
		text := strings.Join(parts, rapid.SampledFrom([]string{" && ", " || "}).Draw(t, "join"))
		ast, issues := env.Compile(text)
		if issues.Err() != nil {
			return
		}
		bound, ok := simpleCost(ast.NativeRep().Expr())
		if !ok {
			return
		}
		simple++
		hints := sizeHints{args: root, unlimited: 256 << 10, bound: 256 << 10}
		worst, err := maxCost(env, ast, hints)
		if err != nil || worst > bound || contains(ast, celast.ComprehensionKind) {
			t.Fatalf("%s: bound %d, cel-go's bound %d, %v", text, bound, worst, err)
		}
	})
	if simple == 0 {
		t.Error("no expression was simple, so nothing was tested")
	}
}
