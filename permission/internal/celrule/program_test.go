package celrule

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/askance-dev/askance/permission/internal/schema"
)

func untypedEnv(t *testing.T) *cel.Env {
	t.Helper()
	env, err := ToolEnv(nil)
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func checked(t *testing.T, env *cel.Env, text string) *cel.Ast {
	t.Helper()
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	return ast
}

// usual contains the default bounds of a run.
var usual = Bounds{RuleCost: 10_000, DecisionCost: 1_000_000, Time: 50 * time.Millisecond, InputBytes: 256 << 10}

func newRun(ctx context.Context, t *testing.T, bounds Bounds, input map[string]any) *Run {
	t.Helper()
	vars, err := cel.NewActivation(map[string]any{"args": input})
	if err != nil {
		t.Fatal(err)
	}
	return &Run{Vars: vars, Bounds: &bounds, Parent: ctx}
}

func list(n int) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = int64(i)
	}
	return out
}

// cel-go up to v0.31 silently drops the cost limit if the evaluation is also traced (cel-go issue
// 1425). Explanations will trace.
func TestCostLimitHoldsWhileTracing(t *testing.T) {
	env := untypedEnv(t)
	ast := checked(t, env, `args.xs.all(a, a >= 0)`)
	for name, opts := range map[string][]cel.ProgramOption{
		"plain":      nil,
		"tracing":    {cel.EvalOptions(cel.OptTrackState)},
		"exhaustive": {cel.EvalOptions(cel.OptExhaustiveEval)},
	} {
		limits := Bounds{RuleCost: 500, DecisionCost: usual.DecisionCost, Time: usual.Time, InputBytes: usual.InputBytes}
		p, err := newProgram(env, ast, nil, limits, opts...)
		if err != nil {
			t.Fatal(err)
		}
		e := newRun(t.Context(), t, limits, map[string]any{"xs": list(10)})
		if ok, err := p.Bool(e); !ok || err != nil || e.Cost == 0 {
			t.Errorf("%s, within the limit: %v, %v, cost %d", name, ok, err, e.Cost)
		}
		e.Close()
		e = newRun(t.Context(), t, limits, map[string]any{"xs": list(1000)})
		if ok, err := p.Bool(e); ok || !errors.Is(err, ErrCostLimit) {
			t.Errorf("%s, over the limit: %v, %v", name, ok, err)
		}
		e.Close()
	}
}

// Without InterruptCheckFrequency this would run for hours.
func TestDeadlineInterruptsARunningExpression(t *testing.T) {
	env := untypedEnv(t)
	limits := Bounds{RuleCost: math.MaxUint64, DecisionCost: math.MaxUint64, Time: 20 * time.Millisecond, InputBytes: usual.InputBytes}
	p, err := newProgram(env, checked(t, env, `args.xs.all(a, args.xs.all(b, a >= 0 || b >= 0))`), nil, limits)
	if err != nil {
		t.Fatal(err)
	}
	e := newRun(t.Context(), t, limits, map[string]any{"xs": list(100_000)})
	defer e.Close()
	if ok, err := p.Bool(e); ok || !errors.Is(err, ErrDeadline) {
		t.Errorf("past the deadline: %v, %v", ok, err)
	}
	if ok, err := p.Bool(e); ok || !errors.Is(err, ErrDeadline) {
		t.Errorf("next rule past the deadline: %v, %v", ok, err)
	}
}

func TestCallerCancelsARunningExpression(t *testing.T) {
	env := untypedEnv(t)
	limits := Bounds{RuleCost: math.MaxUint64, DecisionCost: math.MaxUint64, Time: time.Hour, InputBytes: usual.InputBytes}
	p, err := newProgram(env, checked(t, env, `args.xs.all(a, args.xs.all(b, a >= 0 || b >= 0))`), nil, limits)
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stopping")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, stop)
	defer cancel()
	e := newRun(ctx, t, limits, map[string]any{"xs": list(100_000)})
	defer e.Close()
	if ok, err := p.Bool(e); ok || !errors.Is(err, stop) {
		t.Errorf("after the caller has gone: %v, %v", ok, err)
	}
}

// cel-go returns an Unknown without an error. It must not count as false.
func TestUnknownIsAnError(t *testing.T) {
	env := untypedEnv(t)
	prg, err := env.Program(checked(t, env, `args.x == 1`), cel.EvalOptions(cel.OptPartialEval))
	if err != nil {
		t.Fatal(err)
	}
	e := newRun(t.Context(), t, usual, map[string]any{"x": int64(1)})
	vars, err := cel.PartialVars(e.Vars, cel.AttributePattern("args"))
	if err != nil {
		t.Fatal(err)
	}
	v, _, err := prg.Eval(vars)
	if err != nil || !types.IsUnknown(v) {
		t.Fatalf("not the case this test is about: %v, %v", v, err)
	}
	p := &Program{prg: fixedProgram{Program: prg, vars: vars}, bound: 1}
	if ok, err := p.Bool(e); ok || err == nil || !strings.Contains(err.Error(), "not a bool") {
		t.Errorf("unknown result: %v, %v", ok, err)
	}
}

// fixedProgram evaluates with its own variables.
type fixedProgram struct {
	cel.Program
	vars any
}

func (p fixedProgram) Eval(any) (v ref.Val, d *cel.EvalDetails, err error) {
	return p.Program.Eval(p.vars)
}

// A panic in a function must not escape the evaluation.
func TestPanicInAFunctionIsAnError(t *testing.T) {
	p := &Program{prg: panicking{}, bound: 1}
	if ok, err := p.Bool(newRun(t.Context(), t, usual, nil)); ok || err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("panic: %v, %v", ok, err)
	}
}

type panicking struct{ cel.Program }

func (panicking) Eval(any) (ref.Val, *cel.EvalDetails, error) { panic("boom") }

// An expression runs without measuring only if its cost is proved for every input.
func TestProvedCost(t *testing.T) {
	s, err := schema.Compile([]byte(`{"type": "object", "properties": {
		"short": {"type": "string", "maxLength": 64}, "long": {"type": "string"},
		"few": {"type": "array", "maxItems": 4, "items": {"type": "integer"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	env, err := ToolEnv(s.Root)
	if err != nil {
		t.Fatal(err)
	}
	for text, proved := range map[string]bool{
		`args.short == "x"`:                    true,
		`args.long == "x"`:                     true,
		`args.long.startsWith("git ")`:         true,
		`args.short.matches("^[a-z]+$")`:       true,
		`args.long.matches("^[a-z]+$")`:        false, // 250,000 characters
		`args.long.contains("some long text")`: false,
		`3 in args.few`:                        true,
		`args.few.all(x, x > 0)`:               false, // loops are always measured
		`caller.user == "ann"`:                 true,
		`"a" in caller.roles`:                  false,
		`args.long == args.short`:              true, // stops at the end of the shorter one
		`args.long + args.long == "x"`:         false,
	} {
		p, err := newProgram(env, checked(t, env, text), s.Root, usual)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.bound > 0; got != proved {
			t.Errorf("%s: proved %v (bound %d), want %v", text, got, p.bound, proved)
		}
	}
}

// The estimate must hold: the measured cost of a proved expression never exceeds its bound.
func TestProvedCostIsAnUpperBound(t *testing.T) {
	s, err := schema.Compile([]byte(`{"type": "object", "properties": {
		"s": {"type": "string", "maxLength": 64}, "n": {"type": "integer"}, "x": {"type": "number"},
		"o": {"type": "object", "properties": {"p": {"type": "string", "maxLength": 8}}},
		"l": {"type": "array", "maxItems": 4, "items": {"type": "string", "maxLength": 8}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	env, err := ToolEnv(s.Root)
	if err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("é", 64)
	input := map[string]any{"s": big, "n": int64(1), "x": 2.5, "o": map[string]any{"p": "éééééééé"},
		"l": []any{"éééééééé", "éééééééé", "éééééééé", "éééééééé"}}
	for _, text := range []string{
		`args.s.matches("^(é|x)+$")`, `args.s.contains("yy")`, `args.s + args.s + args.s == args.s`, `size(args.s) == 3`,
		`args.s.replace("é", "xx").startsWith("xx")`, `args.s.lowerAscii() == "x"`, `args.s.split("é").size() == 3`,
		`args.l.join(",").size() > 3`, `"q" in args.l`, `args.l == ["a", "b"]`, `args.?o.?p.orValue("zzz") == "z"`,
		`args.o.p.endsWith("é") && args.n + 1 > 2 && args.x * 2.0 < 9.0`, `args.s.substring(1, 5) == "éééé"`,
		`sets.contains(args.l, ["a"])`, `math.greatest(args.n, 5) == 5`, `args.s.trim().indexOf("x") == -1`,
		`string(args.n) + string(args.x) == "1"`, `args.l[0] == args.l[1]`, `args.s < "zzz" || args.s > "aaa"`,
		`duration(string(args.n) + "s") > duration("5s")`, `args.s.charAt(3) == "x"`, `args.s.reverse() == args.s`,
		`cidr("10.0.0.0/8").containsIP("10.1.1.1")`, `isIP(args.s)`, `regex.extract(args.s, "é+").hasValue()`,
		`args.n in [1, 2, 3] ? args.s == "x" : args.s == "y"`, `args.l.slice(0, 2).size() == 2`,
	} {
		ast := checked(t, env, text)
		p, err := newProgram(env, ast, s.Root, usual)
		if err != nil {
			t.Fatal(err)
		}
		if p.bound == 0 {
			continue // measured anyway
		}
		measured, err := env.Program(ast, cel.CostTracking(nil))
		if err != nil {
			t.Fatal(err)
		}
		e := newRun(t.Context(), t, usual, input)
		_, det, err := measured.Eval(e.Vars)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if c := det.ActualCost(); c == nil || *c > p.bound {
			t.Errorf("%s: cost %d, bound %d", text, *c, p.bound)
		}
	}
}
