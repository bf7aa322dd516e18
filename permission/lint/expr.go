package lint

import (
	"strings"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"github.com/askance-dev/askance/permission"
)

type expr struct {
	*linter
	*permission.Expression
}

func (c *expr) root() celast.Expr { return c.AST.NativeRep().Expr() }

// text returns the source of a part, on one line.
func (c *expr) text(e celast.Expr) string {
	s, err := cel.ExprToString(e, c.AST.NativeRep().SourceInfo())
	if err != nil {
		return "the expression"
	}
	return strings.Join(strings.Fields(s), " ")
}

func (c *expr) typeOf(e celast.Expr) *types.Type { return c.AST.NativeRep().GetType(e.ID()) }

func (c *expr) report(code Code, level Level, e celast.Expr, msg, hint string) {
	line, col := permission.StartOf(c.AST, e)
	c.found = append(c.found, Finding{Code: code, Level: level, Rule: c.Rule.Name, Field: c.Field,
		Place: c.Place(line, col), Msg: msg, Hint: hint})
}

func (c *expr) eachPart(f func(celast.Expr)) {
	celast.PreOrderVisit(c.root(), celast.NewExprVisitor(f))
}

// allOf and anyOf return the parts joined by && and ||.
func allOf(e celast.Expr) []celast.Expr { return joinedParts(e, operators.LogicalAnd) }

func anyOf(e celast.Expr) []celast.Expr { return joinedParts(e, operators.LogicalOr) }

func joinedParts(e celast.Expr, by string) []celast.Expr {
	if !isCall(e, by) {
		return []celast.Expr{e}
	}
	var out []celast.Expr
	for _, arg := range e.AsCall().Args() {
		out = append(out, joinedParts(arg, by)...)
	}
	return out
}

func isCall(e celast.Expr, function string) bool {
	return e.Kind() == celast.CallKind && e.AsCall().FunctionName() == function
}

// args returns the target of a call, if there is one, and its arguments.
func args(call celast.CallExpr) []celast.Expr {
	if call.IsMemberFunction() {
		return append([]celast.Expr{call.Target()}, call.Args()...)
	}
	return call.Args()
}

func textLiteral(e celast.Expr) (string, bool) {
	if e.Kind() != celast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}

func (c *expr) declaredField(e celast.Expr) (permission.Field, bool) {
	if c.Declared == nil || c.Declared.Schema == nil {
		return permission.Field{}, false
	}
	var operand celast.Expr
	var name string
	switch {
	case e.Kind() == celast.SelectKind:
		operand, name = e.AsSelect().Operand(), e.AsSelect().FieldName()
	case isCall(e, operators.OptSelect) && len(e.AsCall().Args()) == 2:
		operand = e.AsCall().Args()[0]
		name, _ = textLiteral(e.AsCall().Args()[1])
	default:
		return permission.Field{}, false
	}
	// dyn(args).x reaches the same field without its type.
	if isCall(operand, "dyn") && len(operand.AsCall().Args()) == 1 {
		operand = operand.AsCall().Args()[0]
	}
	t := c.typeOf(operand)
	if t == nil {
		return permission.Field{}, false
	}
	if t.Kind() == types.OpaqueKind && len(t.Parameters()) == 1 {
		t = t.Parameters()[0]
	}
	for _, f := range c.Declared.Schema.Fields(t.TypeName()) {
		if f.Name == name {
			return f, true
		}
	}
	return permission.Field{}, false
}

func (c *expr) eachCall(f func(e celast.Expr, name string)) {
	c.eachPart(func(e celast.Expr) {
		if e.Kind() == celast.CallKind {
			f(e, e.AsCall().FunctionName())
		}
	})
}
