package celrule

import (
	"strings"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"github.com/askance-dev/askance/permission/internal/schema"
)

// typicalSize is the size at which text and lists without a declared limit are
// taken when a rule's cost is judged at load. A rule that is too expensive at
// this size is refused; one that is only too expensive on a huge input is
// stopped at run time.
const typicalSize = 256

// sizeHints tells the cost estimator how large the variables can get.
type sizeHints struct {
	args      *schema.Type // nil: nothing is declared
	unlimited uint64       // size of what has no declared limit
	// bound is how large any text or list can be at all: each character or
	// element takes at least one byte of the input.
	bound uint64
}

var _ cost.Estimator = sizeHints{}

// EstimateCallCost leaves the cost of functions to cel-go.
func (sizeHints) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// EstimateSize gives the size of a variable or of something inside one.
func (h sizeHints) EstimateSize(node cost.AstNode) *cost.SizeEstimate {
	path := node.Path()
	if len(path) == 0 {
		return nil
	}
	size := h.unlimited
	switch t := h.variable(path[0]).At(path[1:]); {
	case t == nil && strings.HasPrefix(path[len(path)-1], "@"):
		// The estimator probes what is not declared for its structure; any
		// answer would make it look ever deeper.
		return nil
	case t != nil && t.MaxLen >= 0:
		size = min(uint64(t.MaxLen), h.bound)
	case t != nil && t.Usual > 0 && h.unlimited == typicalSize:
		size = uint64(t.Usual)
	}
	return &cost.SizeEstimate{Min: 0, Max: size}
}

// variable is the declared type of a variable, nil if there is none.
func (h sizeHints) variable(name string) *schema.Type {
	if name == "args" {
		return h.args
	}
	return sizedVariables[name]
}

// sizedVariables are the variables other than args that contain lists.
var sizedVariables = map[string]*schema.Type{
	"caller": {Kind: schema.KindStruct, Fields: map[string]*schema.Type{"roles": textList}},
	"cmd":    cmdSizes,
	"ctx": {Kind: schema.KindStruct, Fields: map[string]*schema.Type{
		"working_dirs": textList, "resolved": {Kind: schema.KindMap, MaxLen: -1, Elem: &schema.Type{Kind: schema.KindString, MaxLen: -1}}}},
}

var textList = &schema.Type{Kind: schema.KindList, MaxLen: -1, Elem: &schema.Type{Kind: schema.KindString, MaxLen: -1}}

// maxCost is the highest cost that evaluating the expression can have.
func maxCost(env *cel.Env, ast *cel.Ast, hints sizeHints) (uint64, error) {
	est, err := env.EstimateCost(ast, hints)
	return est.Max, err
}

// loops reports whether the expression iterates over something.
func hasLoops(ast *cel.Ast) bool {
	root := celast.NavigateAST(ast.NativeRep())
	return len(celast.MatchSubset(celast.MatchDescendants(root, celast.AllMatcher()),
		celast.KindMatcher(celast.ComprehensionKind))) > 0
}

// simpleCost is an upper bound of the cost of an expression that only joins
// comparisons of variables with constants. It is no less than what cel-go
// estimates, and found without building its tables, which takes longer than
// parsing. false: the expression is not that simple.
func simpleCost(e celast.Expr) (uint64, bool) {
	switch e.Kind() {
	case celast.LiteralKind:
		return 1, true
	case celast.IdentKind:
		return 2, true
	case celast.SelectKind:
		below, ok := simpleCost(e.AsSelect().Operand())
		return below + 2, ok
	case celast.CallKind:
		return simpleCall(e.AsCall())
	default:
		return 0, false
	}
}

// unlessSimple is a validator of what simple expressions do not have: functions,
// loops and lists. Each validator walks the whole expression, and together they
// take as long as checking its types.
type unlessSimple struct{ cel.ASTValidator }

// Validate implements cel.ASTValidator.
func (v unlessSimple) Validate(env *cel.Env, config cel.ValidatorConfig, a *celast.AST, issues *cel.Issues) {
	if _, simple := simpleCost(a.Expr()); !simple {
		v.ASTValidator.Validate(env, config, a, issues)
	}
}

func simpleCall(call celast.CallExpr) (uint64, bool) {
	args := call.Args()
	if call.IsMemberFunction() {
		args = append([]celast.Expr{call.Target()}, args...)
	}
	sum := uint64(2)
	for _, arg := range args {
		below, ok := simpleCost(arg)
		if !ok {
			return 0, false
		}
		sum += below
	}
	switch call.FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot:
		return sum, true
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
		"startsWith", "endsWith":
		length, ok := literalLen(args[len(args)-1])
		if other, also := literalLen(args[0]); also && !call.IsMemberFunction() && (!ok || other < length) {
			length, ok = other, true
		}
		return sum + length/5, ok
	default:
		return 0, false
	}
}

// literalLen is the size of a constant; false for anything else.
func literalLen(e celast.Expr) (uint64, bool) {
	if e.Kind() != celast.LiteralKind {
		return 0, false
	}
	if s, ok := e.AsLiteral().Value().(string); ok {
		return uint64(len(s)), true
	}
	return 1, true
}
