package celrule

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/askance-dev/askance/permission/internal/hint"
	"github.com/askance-dev/askance/permission/internal/schema"
)

// Reasons why a rule could not be evaluated, for errors.Is on a RuleError.
var (
	ErrCostLimit = errors.New("evaluation costs too much")
	ErrDeadline  = errors.New("decision took too long")
)

// Bounds limit the expressions of one decision.
type Bounds struct {
	RuleCost, DecisionCost uint64
	Time                   time.Duration // 0 means any time that the cost limits allow
	InputBytes             int
}

// Run is shared by the expressions of one decision.
type Run struct {
	Vars   interpreter.Activation
	Bounds *Bounds
	Cost   uint64
	Parent context.Context //nolint:containedctx // a run lives within one decision
	ctx    context.Context //nolint:containedctx // parent with the deadline; nil until needed
	cancel context.CancelFunc
}

// Close releases the deadline.
func (r *Run) Close() {
	if r.cancel != nil {
		r.cancel()
	}
}

// deadline returns the context for expressions whose cost is not proved. It is created on first
// use, because most decisions need none.
func (r *Run) deadline() (context.Context, error) {
	switch limit := r.Bounds.Time; {
	case r.ctx != nil:
	case limit == 0:
		r.ctx, r.cancel = context.WithCancel(r.Parent)
	default:
		r.ctx, r.cancel = context.WithTimeoutCause(r.Parent, limit, fmt.Errorf("%w: over %v", ErrDeadline, limit))
	}
	if r.ctx.Err() != nil {
		return nil, context.Cause(r.ctx)
	}
	return r.ctx, nil
}

// Fields provides the values of variables and fields.
type Fields interface {
	Field(path []string) (any, bool)
}

// interruptEvery is how many loop iterations pass between checks of the deadline. Without it cel-go
// never checks.
const interruptEvery = 100

// Program is a compiled expression. It may run on several goroutines at once.
type Program struct {
	prg cel.Program
	// bound is the highest possible cost if it was proved at load time; nothing is then measured at
	// run time. 0 means not proved: the run-time limits apply.
	bound uint64
	// guards are checked before a condition is evaluated.
	guards []guard
	// Expr is the source of the program. traced is the same expression compiled to keep the value
	// of every part, for Explain.
	Expr   expression
	traced traceable
	// ReadsCall: the expression names a variable, so its value can differ between calls.
	ReadsCall bool
}

type expression struct {
	Env  *cel.Env
	Text string
	args *schema.Type
}

// FaultKind classifies faults; the zero value means any other fault.
type FaultKind string

// The kinds of fault.
const (
	kindExpression FaultKind = "expression"
	KindName       FaultKind = "unknown_name"
	kindCost       FaultKind = "cost"
)

// Fault is a fault in an expression. Line and Col count from 1 in the expression's text; they are 0
// if the fault has no position.
type Fault struct {
	Line, Col int
	Kind      FaultKind
	Msg, Hint string
}

// Compile compiles text in env and requires a result of type want. args is the declared type of the
// arguments, nil if there is none.
func Compile(env *cel.Env, text string, want *cel.Type, args *schema.Type, limits Bounds) (*Program, []Fault) {
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, exprProblems(env, text, issues, args)
	}
	if out := ast.OutputType(); !out.IsExactType(want) {
		hint := "write the comparison out, e.g. args.approved == true"
		if want != cel.BoolType {
			hint = "convert with string(…)"
		}
		return nil, []Fault{{Line: 1, Col: 1, Kind: kindExpression, Msg: fmt.Sprintf("the result has type %s, want %s", out, want), Hint: hint}}
	}
	p, err := newProgram(env, ast, args, limits)
	if err != nil {
		return nil, []Fault{{Line: 1, Col: 1, Msg: err.Error()}}
	}
	if problem := p.findCostFault(env, ast, args, limits); problem != nil {
		return nil, []Fault{*problem}
	}
	p.Expr = expression{Env: env, Text: text, args: args}
	p.ReadsCall = contains(ast, celast.IdentKind)
	if want == cel.BoolType {
		p.guards = guardsOf(ast)
	}
	return p, nil
}

// findCostFault refuses an expression that costs too much on a typical call. One that is proved to
// be cheap on every call needs no such check.
func (p *Program) findCostFault(env *cel.Env, ast *cel.Ast, args *schema.Type, limits Bounds) *Fault {
	if p.bound > 0 {
		return nil
	}
	typical, err := maxCost(env, ast, sizeHints{args: args, unlimited: typicalSize, bound: uint64(limits.InputBytes)})
	switch {
	case err != nil:
		return &Fault{Line: 1, Col: 1, Msg: "no cost estimate: " + err.Error()}
	case typical > limits.RuleCost && typical != math.MaxUint64:
		return &Fault{Line: 1, Col: 1, Kind: kindCost,
			Msg:  fmt.Sprintf("may cost %d units on one call, but the limit is %d", typical, limits.RuleCost),
			Hint: costHint(ast, args)}
	}
	return nil
}

// cheap is the cost below which a proved expression is not measured at run time. A thousand of them
// fit into one decision.
const cheap = 1000

// newProgram plans the expression. One without loops that is cheap for every input is not measured
// at run time, which makes it several times faster.
func newProgram(env *cel.Env, ast *cel.Ast, args *schema.Type, limits Bounds, extra ...cel.ProgramOption) (*Program, error) {
	opts := append([]cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}, extra...)
	p := &Program{}
	limit := min(cheap, limits.RuleCost)
	worst, simple := simpleCost(ast.NativeRep().Expr())
	var err error
	if !simple || worst > limit {
		worst, err = maxCost(env, ast, sizeHints{args: args, unlimited: uint64(limits.InputBytes), bound: uint64(limits.InputBytes)})
	}
	if err == nil && worst <= limit && !contains(ast, celast.ComprehensionKind) {
		p.bound = max(worst, 1)
	} else {
		opts = append(opts, refuseTextRanges(ast), cel.CostLimit(limits.RuleCost), cel.InterruptCheckFrequency(interruptEvery))
	}
	p.prg, err = env.Program(ast, opts...)
	return p, err
}

// refuseTextRanges makes a loop over a text an error even if the text is empty. cel-go takes an empty
// one for an empty list, so all(…) would be true.
func refuseTextRanges(ast *cel.Ast) cel.ProgramOption {
	ranges := map[int64]bool{}
	loops := celast.KindMatcher(celast.ComprehensionKind)
	for _, e := range celast.MatchDescendants(celast.NavigateAST(ast.NativeRep()), loops) {
		ranges[e.AsComprehension().IterRange().ID()] = true
	}
	return cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		if ranges[i.ID()] {
			return textRefuser{i}, nil
		}
		return i, nil
	})
}

// textRefuser is the range of a loop.
type textRefuser struct{ interpreter.InterpretableV2 }

func (r textRefuser) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := r.InterpretableV2.Exec(frame)
	if v.Type() == types.StringType || v.Type() == types.BytesType {
		return types.NewErr("got '%T', expected iterable type", v)
	}
	return v
}

// Bool evaluates a condition. Anything except true or false is an error, in particular an Unknown,
// which cel-go returns without an error.
func (p *Program) Bool(r *Run) (bool, error) {
	v, err := p.Value(r)
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, NotBool(v)
	}
	return bool(b), nil
}

// NotBool is the error for a condition with a result of another type.
func NotBool(v ref.Val) error { return fmt.Errorf("the result is %s, not a bool", typeName(v)) }

// Text evaluates an expression of type string.
func (p *Program) Text(r *Run) (string, error) {
	v, err := p.Value(r)
	if err != nil {
		return "", err
	}
	s, ok := v.(types.String)
	if !ok {
		return "", fmt.Errorf("the result is %s, not a string", typeName(v))
	}
	return string(s), nil
}

// Value evaluates the expression.
func (p *Program) Value(r *Run) (ref.Val, error) {
	v, _, err := p.Details(r)
	return v, err
}

// Details is Value with cel-go's details about the evaluation.
func (p *Program) Details(r *Run) (v ref.Val, det *cel.EvalDetails, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			v, err = nil, fmt.Errorf("panic: %v", fault)
		}
	}()
	if r.Cost > r.Bounds.DecisionCost {
		return nil, nil, fmt.Errorf("%w: over %d units in one decision", ErrCostLimit, r.Bounds.DecisionCost)
	}
	if p.bound > 0 {
		r.Cost += p.bound
		return p.prg.Eval(r.Vars)
	}
	ctx, err := r.deadline()
	if err != nil {
		return nil, nil, err
	}
	v, det, err = p.prg.ContextEval(ctx, r.Vars)
	if c := det.ActualCost(); c != nil {
		r.Cost += *c
	} else {
		r.Cost += r.Bounds.RuleCost
	}
	return v, det, stopCause(ctx, err, *r.Bounds)
}

// stopCause replaces cel-go errors that stop an evaluation by our sentinels.
func stopCause(ctx context.Context, err error, limits Bounds) error {
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

// exprProblems translates the compiler's errors, and guesses what was meant.
func exprProblems(env *cel.Env, text string, issues *cel.Issues, args *schema.Type) []Fault {
	var out []Fault
	for _, e := range issues.Errors() {
		p := Fault{Line: e.Location.Line(), Col: e.Location.Column() + 1, Msg: readableMessage(e.Message)}
		p.Kind, p.Hint = exprScope{env, args}.explainFault(e.Message, text, e.Location.Line(), e.Location.Column())
		out = append(out, p)
		if strings.HasPrefix(e.Message, "Syntax error") && p.Hint != "" {
			break // the following errors are the same mistake
		}
	}
	if len(out) == 0 {
		out = append(out, Fault{Line: 1, Col: 1, Msg: issues.Err().Error()})
	}
	return out
}

// fieldNames returns all field names that a rule can use.
func fieldNames(args *schema.Type) []string {
	var names []string
	structs := map[string]*schema.Type{}
	if args != nil {
		args.Structs(structs)
	}
	for _, t := range structs {
		names = slices.AppendSeq(names, maps.Keys(t.Fields))
	}
	for _, fields := range fixedTypes {
		names = slices.AppendSeq(names, maps.Keys(fields))
	}
	slices.Sort(names) // the same hint for the same mistake, in any map order
	return names
}

// traceable is a program that keeps the value of every part. It is compiled when an explanation
// first needs it and then kept: compiling takes as long as hundreds of evaluations, and if rules
// record explanations, every decision makes one.
type traceable struct {
	once sync.Once // guards what follows
	ast  *cel.Ast
	prg  *Program
	err  error
}

// Traceable compiles the expression in the same environment and with the same limits.
func (p *Program) Traceable(limits Bounds) (*cel.Ast, *Program, error) {
	p.traced.once.Do(func() {
		ast, issues := p.Expr.Env.Compile(p.Expr.Text)
		if p.traced.err = issues.Err(); p.traced.err != nil {
			return
		}
		p.traced.ast = ast
		p.traced.prg, p.traced.err = newProgram(p.Expr.Env, ast, p.Expr.args, limits, cel.EvalOptions(cel.OptTrackState), cel.CostTracking(nil))
	})
	return p.traced.ast, p.traced.prg, p.traced.err
}

type exprScope struct {
	env  *cel.Env
	args *schema.Type
}

// Functions implements hint.Scope. It leaves out operators, whose names contain special characters.
func (s exprScope) Functions() []string {
	names := slices.Collect(maps.Keys(s.env.Functions()))
	for _, m := range s.env.Macros() {
		names = append(names, m.Function())
	}
	slices.Sort(names)
	return slices.DeleteFunc(names, func(f string) bool { return f != "exists_one" && strings.ContainsAny(f, "_@") })
}

func (s exprScope) Variables() []string {
	var out []string
	for _, v := range s.env.Variables() {
		out = append(out, v.Name())
		if fields, ok := s.Fields(v.Name()); ok {
			for _, f := range fields {
				out = append(out, v.Name()+"."+f)
			}
		}
	}
	slices.Sort(out)
	return append(out, "true", "false", "null")
}

func (s exprScope) Fields(path string) ([]string, bool) {
	structs := map[string]string{"caller": callerType, "ctx": contextType, "tool": toolType, "cmd": CommandType, "tool.annotations": annotationsType, "tool.claims": claimsType, "call": callType, "call.parent": parentType}
	if typ, ok := structs[path]; ok {
		return slices.Sorted(maps.Keys(fixedTypes[typ])), true
	}
	if steps := strings.Split(path, "."); steps[0] == "args" && s.args != nil {
		if t := s.args.At(steps[1:]); t != nil && t.Kind == schema.KindStruct {
			return slices.Sorted(maps.Keys(t.Fields)), true
		}
	}
	return fieldNames(s.args), false
}

// explainFault returns the kind of a fault and its hint. col counts characters from 0.
func (s exprScope) explainFault(msg, text string, line, col int) (FaultKind, string) {
	x := hint.Expression{Message: msg, Scope: s}
	if lines := strings.Split(text, "\n"); line >= 1 && line <= len(lines) {
		runes := []rune(lines[line-1])
		col = max(0, min(col, len(runes)))
		x.Before, x.Rest = string(runes[:col]), string(runes[col:])
		for line--; len(runes) == 0 && line > 0 && x.Before == ""; line-- { // the end, after empty lines
			x.Before = lines[line-1]
		}
	}
	unknownName, found := x.Explain()
	if unknownName {
		return KindName, found
	}
	return kindExpression, found
}

var expectedTokens = regexp.MustCompile(` expecting \{.*\}$`)

// readableMessage removes grammar details from a compiler message.
func readableMessage(msg string) string {
	msg = strings.ReplaceAll(strings.ReplaceAll(msg, " (in container '')", ""), "\n", "")
	msg = strings.ReplaceAll(msg, "mismatched input '<EOF>'", "the expression ends too early")
	msg = strings.ReplaceAll(msg, "'<EOF>'", "the end")
	return expectedTokens.ReplaceAllString(strings.ReplaceAll(msg, " expecting <EOF>", ""), "")
}
