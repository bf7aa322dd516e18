package permission

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// Why a rule could not be evaluated, for errors.Is on a RuleError.
var (
	ErrCostLimit = errors.New("evaluation costs too much")
	ErrDeadline  = errors.New("decision took too long")
)

// interruptEvery is how many loop iterations pass between looks at the
// deadline. Without it cel-go never looks.
const interruptEvery = 100

// program is a compiled expression. It may run on several goroutines at once.
type program struct {
	prg cel.Program
	// bound is the highest possible cost, proved at load; then nothing is
	// measured at run time. 0: not proved, the run-time limits hold.
	bound uint64
	// guards are looked at before a condition is evaluated.
	guards []guard
	// expr is what it was compiled from, and traced the same as it keeps the value
	// of every part: for Explain.
	expr   expression
	traced traceable
}

// expression is the text of a program and what it was compiled in.
type expression struct {
	env  *cel.Env
	text string
	args *argType
}

// exprProblem is a fault in an expression; line and col count from 1 in the
// expression's text, 0 where the fault has no place.
type exprProblem struct {
	line, col int
	kind      ProblemKind
	msg, hint string
}

// compileExpr compiles text in env and requires its result to be of type want.
// args is the declared type of the arguments, nil if there is none.
func compileExpr(env *cel.Env, text string, want *cel.Type, args *argType, limits Limits) (*program, []exprProblem) {
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, exprProblems(env, text, issues, args)
	}
	if out := ast.OutputType(); !out.IsExactType(want) {
		hint := "write the comparison out, e.g. args.approved == true"
		if want != cel.BoolType {
			hint = "convert with string(…)"
		}
		return nil, []exprProblem{{line: 1, col: 1, kind: ProblemExpression, msg: fmt.Sprintf("the result has type %s, want %s", out, want), hint: hint}}
	}
	p, err := newProgram(env, ast, args, limits)
	if err != nil {
		return nil, []exprProblem{{line: 1, col: 1, msg: err.Error()}}
	}
	if problem := p.tooDear(env, ast, args, limits); problem != nil {
		return nil, []exprProblem{*problem}
	}
	p.expr = expression{env: env, text: text, args: args}
	if want == cel.BoolType {
		p.guards = guardsOf(ast)
	}
	return p, nil
}

// tooDear refuses an expression that costs too much on a call of usual size.
// What is proved to be cheap on every call needs no second look.
func (p *program) tooDear(env *cel.Env, ast *cel.Ast, args *argType, limits Limits) *exprProblem {
	if p.bound > 0 {
		return nil
	}
	typical, err := maxCost(env, ast, sizeHints{args: args, unlimited: typicalSize, bound: uint64(limits.InputBytes)})
	switch {
	case err != nil:
		return &exprProblem{line: 1, col: 1, msg: "no cost estimate: " + err.Error()}
	case typical > limits.RuleCost && typical != math.MaxUint64:
		return &exprProblem{line: 1, col: 1, kind: ProblemCost,
			msg:  fmt.Sprintf("may cost %d units on one call, the limit is %d", typical, limits.RuleCost),
			hint: dearHint(ast, args)}
	}
	return nil
}

// cheap is the cost below which a proved expression needs no measuring at run
// time. A thousand of them fit into one decision.
const cheap = 1000

// newProgram plans the expression. One without loops that is cheap whatever the
// input is not measured at run time, which makes it several times faster.
func newProgram(env *cel.Env, ast *cel.Ast, args *argType, limits Limits, extra ...cel.ProgramOption) (*program, error) {
	opts := append([]cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}, extra...)
	p := &program{}
	limit := min(cheap, limits.RuleCost)
	worst, simple := simpleCost(ast.NativeRep().Expr())
	var err error
	if !simple || worst > limit {
		worst, err = maxCost(env, ast, sizeHints{args: args, unlimited: uint64(limits.InputBytes), bound: uint64(limits.InputBytes)})
	}
	if err == nil && worst <= limit && !loops(ast) {
		p.bound = max(worst, 1)
	} else {
		opts = append(opts, cel.CostLimit(limits.RuleCost), cel.InterruptCheckFrequency(interruptEvery))
	}
	p.prg, err = env.Program(ast, opts...)
	return p, err
}

// boolean evaluates a condition. Anything but a clean true or false is an
// error: in particular an Unknown, which cel-go returns without one.
func (p *program) boolean(e *evaluation) (bool, error) {
	v, err := p.run(e)
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, notBool(v)
	}
	return bool(b), nil
}

func notBool(v ref.Val) error { return fmt.Errorf("the result is %s, not a bool", typeName(v)) }

// text evaluates an expression of type string.
func (p *program) text(e *evaluation) (string, error) {
	v, err := p.run(e)
	if err != nil {
		return "", err
	}
	s, ok := v.(types.String)
	if !ok {
		return "", fmt.Errorf("the result is %s, not a string", typeName(v))
	}
	return string(s), nil
}

func (p *program) run(e *evaluation) (ref.Val, error) {
	v, _, err := p.details(e)
	return v, err
}

// details is run with what cel-go tells about the evaluation.
func (p *program) details(e *evaluation) (v ref.Val, det *cel.EvalDetails, err error) {
	defer func() {
		if r := recover(); r != nil {
			v, err = nil, fmt.Errorf("panic: %v", r)
		}
	}()
	if e.cost > e.bundle.limits.DecisionCost {
		return nil, nil, fmt.Errorf("%w: over %d units in one decision", ErrCostLimit, e.bundle.limits.DecisionCost)
	}
	if p.bound > 0 {
		e.cost += p.bound
		return p.prg.Eval(e)
	}
	ctx, err := e.deadline()
	if err != nil {
		return nil, nil, err
	}
	v, det, err = p.prg.ContextEval(ctx, e)
	if c := det.ActualCost(); c != nil {
		e.cost += *c
	} else {
		e.cost += e.bundle.limits.RuleCost
	}
	return v, det, cause(ctx, err, e.bundle.limits)
}

// cause puts our own sentinels on errors of cel-go that stop an evaluation.
func cause(ctx context.Context, err error, limits Limits) error {
	var cancelled interpreter.EvalCancelledError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded:
		return fmt.Errorf("%w: over %d units in one rule", ErrCostLimit, limits.RuleCost)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return err
	}
}

func typeName(v ref.Val) string {
	if v == nil {
		return "missing"
	}
	return v.Type().TypeName()
}

// exprProblems translates what the compiler reports, with a guess at what was
// meant.
func exprProblems(env *cel.Env, text string, issues *cel.Issues, args *argType) []exprProblem {
	var out []exprProblem
	for _, e := range issues.Errors() {
		p := exprProblem{line: e.Location.Line(), col: e.Location.Column() + 1, msg: readable(e.Message)}
		p.kind, p.hint = exprScope{env, args}.explainFault(e.Message, text, e.Location.Line(), e.Location.Column())
		out = append(out, p)
		if strings.HasPrefix(e.Message, "Syntax error") && p.hint != "" {
			break // what follows is the same mistake, seen from further on
		}
	}
	if len(out) == 0 {
		out = append(out, exprProblem{line: 1, col: 1, msg: issues.Err().Error()})
	}
	return out
}

// fieldNames are all field names that a rule can use.
func fieldNames(args *argType) []string {
	var names []string
	structs := map[string]*argType{}
	if args != nil {
		args.structs(structs)
	}
	for _, t := range structs {
		for f := range t.fields {
			names = append(names, f)
		}
	}
	for _, fields := range fixedTypes {
		for f := range fields {
			names = append(names, f)
		}
	}
	slices.Sort(names) // one hint for one mistake, whatever the order of maps
	return names
}
