package celrule

import (
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"

	"github.com/askance-dev/askance/permission/internal/schema"
)

// typicalSize is the assumed size of text and lists without a declared limit when a rule's cost is
// estimated at load time. A rule that is too expensive at this size is refused; one that is too
// expensive only for a huge input is stopped at run time.
const typicalSize = 256

type sizeHints struct {
	args      *schema.Type // nil if nothing is declared
	unlimited uint64       // assumed size where no limit is declared
	// bound is the largest possible size of a text or list: each character or element takes at
	// least one byte of the input.
	bound uint64
}

var _ cost.Estimator = sizeHints{}

// EstimateCallCost leaves the cost of functions to cel-go.
func (sizeHints) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// EstimateSize returns the size of a variable or of something inside one.
func (h sizeHints) EstimateSize(node cost.AstNode) *cost.SizeEstimate {
	path := node.Path()
	if len(path) == 0 {
		return nil
	}
	size := h.unlimited
	switch t := h.variable(path[0]).At(path[1:]); {
	case t == nil && strings.HasPrefix(path[len(path)-1], "@"):
		// The estimator probes undeclared values for their structure; any answer would make it
		// probe ever deeper.
		return nil
	case t != nil && t.MaxLen >= 0:
		size = min(uint64(t.MaxLen), h.bound)
	case t != nil && t.Usual > 0 && h.unlimited == typicalSize:
		size = uint64(t.Usual)
	}
	return &cost.SizeEstimate{Min: 0, Max: size}
}

func (h sizeHints) variable(name string) *schema.Type {
	if name == "args" {
		return h.args
	}
	return sizedVariables[name]
}

var sizedVariables = map[string]*schema.Type{
	"caller": {Kind: schema.KindStruct, Fields: map[string]*schema.Type{"roles": textList}},
	"cmd":    cmdSizes,
	"ctx": {Kind: schema.KindStruct, Fields: map[string]*schema.Type{
		"working_dirs": textList, "resolved": {Kind: schema.KindMap, MaxLen: -1, Elem: &schema.Type{Kind: schema.KindString, MaxLen: -1}}}},
}

var textList = &schema.Type{Kind: schema.KindList, MaxLen: -1, Elem: &schema.Type{Kind: schema.KindString, MaxLen: -1}}

func maxCost(env *cel.Env, ast *cel.Ast, hints sizeHints) (uint64, error) {
	est, err := env.EstimateCost(ast, hints)
	return est.Max, err
}

// contains reports whether an expression has a part of a kind: a comprehension is a loop, an
// identifier reads a variable.
func contains(ast *cel.Ast, kind celast.ExprKind) bool {
	root := celast.NavigateAST(ast.NativeRep())
	return len(celast.MatchSubset(celast.MatchDescendants(root, celast.AllMatcher()), celast.KindMatcher(kind))) > 0
}

// simpleCost is an upper bound on the cost of an expression that only joins comparisons of
// variables with constants. It is at least what cel-go estimates, and avoids building cel-go's
// tables, which takes longer than parsing. It returns false if the expression is not that simple.
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

// unlessSimple skips a validator for simple expressions, which have no functions, loops or lists.
// Each validator walks the whole expression, and together they take as long as type checking.
type unlessSimple struct{ cel.ASTValidator }

func (u unlessSimple) Validate(env *cel.Env, config cel.ValidatorConfig, a *celast.AST, issues *cel.Issues) {
	if _, simple := simpleCost(a.Expr()); !simple {
		u.ASTValidator.Validate(env, config, a, issues)
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

func literalLen(e celast.Expr) (uint64, bool) {
	if e.Kind() != celast.LiteralKind {
		return 0, false
	}
	if s, ok := e.AsLiteral().Value().(string); ok {
		return uint64(len(s)), true
	}
	return 1, true
}

// costHint says what makes an expression expensive: fields that can be long by their schema, or
// lists and maps that the schema does not describe.
func costHint(ast *cel.Ast, args *schema.Type) string {
	var long, open []string
	celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		path := argsPath(e)
		if args == nil || len(path) == 0 {
			return
		}
		t, name := args.At(path), "args."+strings.Join(path, ".")
		switch {
		case t == nil:
		case t.MaxLen > typicalSize:
			long = append(long, fmt.Sprintf("%s can have %d of them by its %s", name, t.MaxLen, t.SizeKeyword()))
		case t.MaxLen < 0 && (t.Kind == schema.KindList || t.Kind == schema.KindMap):
			open = append(open, name+" has no "+t.SizeKeyword())
		}
	}))
	found := append(long, open...)
	if len(found) == 0 {
		return "avoid nested loops and function calls within them, or declare maxItems, maxLength and maxProperties in the tool's schema"
	}
	slices.Sort(found)
	return "cost grows with characters and elements: " + strings.Join(slices.Compact(found), ", ") + "; lower the limits in the tool's schema, or simplify the expression"
}

func argsPath(e celast.Expr) []string {
	switch e.Kind() {
	case celast.SelectKind:
		s := e.AsSelect()
		if s.Operand().Kind() == celast.IdentKind && s.Operand().AsIdent() == "args" {
			return []string{s.FieldName()}
		}
		if below := argsPath(s.Operand()); below != nil {
			return append(below, s.FieldName())
		}
	case celast.CallKind:
		call := e.AsCall()
		if call.FunctionName() != "_?._" || len(call.Args()) != 2 || call.Args()[1].Kind() != celast.LiteralKind {
			return nil
		}
		name, ok := call.Args()[1].AsLiteral().Value().(string)
		if !ok {
			return nil
		}
		if on := call.Args()[0]; on.Kind() == celast.IdentKind && on.AsIdent() == "args" {
			return []string{name}
		}
		if below := argsPath(call.Args()[0]); below != nil {
			return append(below, name)
		}
	default:
	}
	return nil
}

// textCosts sets the cost of functions that build texts from texts. cel-go charges one unit, as for
// a comparison, for each byte of the result, but copying a byte takes no longer than reading it. By
// its models, a condition that converts fifty addresses to lower case would exceed a rule's limit.
// The sizes of the results are those of its models.
func textCosts() []cost.OverloadModel {
	text := cost.Target()
	list := cost.ElemTotal(cost.Target())
	replaced := cost.Mul(cost.Sum(text, cost.Const(1)), cost.Sum(cost.Arg(1), cost.Const(1)))
	scan := cost.StringScan(cost.Length(cost.Target()))
	search := cost.StringScan(cost.Mul(cost.AtLeastOneQuantity(cost.Length(cost.Target())), cost.AtLeastOneQuantity(cost.Length(cost.Arg(0)))))
	elements := cost.Length(cost.Target())
	var models []cost.OverloadModel
	for _, f := range []struct {
		overload string
		read     cost.QuantityExpr
		size     cost.QuantityExpr
	}{
		{"string_lower_ascii", scan, text},
		{"string_upper_ascii", scan, text},
		{"string_reverse", scan, text},
		{"string_trim", scan, cost.AtMost(text)},
		{"string_substring_int", scan, cost.AtMost(cost.Sub(text, cost.IntArg(0, 0)))},
		{"string_replace_string_string", search, cost.AtMost(replaced)},
		{"string_replace_string_string_int", search, cost.AtMost(replaced)},
		{"list_join", elements, cost.AtMost(list)},
		{"list_join_string", elements, cost.AtMost(cost.Sum(list, cost.Mul(elements, cost.Arg(0))))},
	} {
		models = append(models, cost.MemberOverload(f.overload,
			cost.EvalCost(cost.Sum(cost.Const(cost.CallCost), f.read, cost.StringScan(cost.Length(cost.Result())))),
			cost.ResultSize(f.size)))
	}
	for _, id := range []string{"string_split_string", "string_split_string_int"} {
		models = append(models, cost.MemberOverload(id,
			cost.EvalCost(cost.AllocList(scan, cost.StringScan(cost.Length(cost.Result())))),
			cost.ResultSize(cost.Min(
				cost.List(cost.AtMost(cost.Sum(text, cost.Const(1))), cost.AtMost(text)),
				cost.Sum(cost.Scale(text, 2), cost.Const(2))))))
	}
	return models
}
