package celrule

import (
	"math"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"github.com/askance-dev/askance/permission/internal/display"
)

// Conjuncts are the parts of a condition that must all be true, in the order in
// which they are evaluated.
func Conjuncts(e celast.Expr) []celast.Expr {
	if e.Kind() != celast.CallKind || e.AsCall().FunctionName() != operators.LogicalAnd {
		return []celast.Expr{e}
	}
	var out []celast.Expr
	for _, arg := range e.AsCall().Args() {
		out = append(out, Conjuncts(arg)...)
	}
	return out
}

// IsOrdering reports whether a part compares two values by their order.
func IsOrdering(e celast.Expr) bool {
	if e.Kind() != celast.CallKind {
		return false
	}
	switch e.AsCall().FunctionName() {
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return true
	}
	return false
}

// TextOf is the source text of a part of an expression, on one line.
func TextOf(ast *cel.Ast, e celast.Expr) string {
	text, err := cel.ExprToString(e, ast.NativeRep().SourceInfo())
	if err != nil {
		return "the condition" // no more than the text is lost
	}
	return display.Visible(display.Shorten(display.OneLine(text), display.MaxReasonExpr))
}

// StartOf is where a part of an expression begins in its text, line and column
// from 1. The place that cel-go keeps of a node is that of its operator.
func StartOf(ast *cel.Ast, e celast.Expr) (line, col int) {
	info := ast.NativeRep().SourceInfo()
	first := int32(math.MaxInt32)
	celast.PreOrderVisit(e, celast.NewExprVisitor(func(sub celast.Expr) {
		if r, ok := info.GetOffsetRange(sub.ID()); ok && r.Start < first {
			first = r.Start
		}
	}))
	if first == math.MaxInt32 {
		return 1, 1
	}
	at := info.GetLocationByOffset(first)
	return at.Line(), at.Column() + 1
}

// Operands are the variables that a part of an expression looks at: whole
// paths, such as args.customer.id, but nothing that a macro declares.
func Operands(e celast.Expr) []celast.Expr {
	var out []celast.Expr
	var walk func(e celast.Expr, local map[string]bool)
	walk = func(e celast.Expr, local map[string]bool) {
		if root, ok := pathRoot(e); ok {
			if !local[root] {
				out = append(out, e)
			}
			return
		}
		switch e.Kind() {
		case celast.SelectKind:
			walk(e.AsSelect().Operand(), local)
		case celast.CallKind:
			call := e.AsCall()
			if call.IsMemberFunction() {
				walk(call.Target(), local)
			}
			for _, arg := range call.Args() {
				walk(arg, local)
			}
		case celast.ListKind:
			for _, item := range e.AsList().Elements() {
				walk(item, local)
			}
		case celast.MapKind:
			for _, entry := range e.AsMap().Entries() {
				walk(entry.AsMapEntry().Key(), local)
				walk(entry.AsMapEntry().Value(), local)
			}
		case celast.ComprehensionKind:
			// Inside the loop values differ from turn to turn.
			walk(e.AsComprehension().IterRange(), local)
		default: // literals have no operands, and rules make no messages
		}
	}
	walk(e, map[string]bool{})
	return out
}

// pathRoot is the variable that a path of fields, keys and indexes starts at.
func pathRoot(e celast.Expr) (string, bool) {
	switch e.Kind() {
	case celast.IdentKind:
		return e.AsIdent(), true
	case celast.SelectKind:
		return pathRoot(e.AsSelect().Operand())
	case celast.CallKind:
		call := e.AsCall()
		switch call.FunctionName() {
		case operators.Index, operators.OptIndex, operators.OptSelect:
			if len(call.Args()) == 2 && call.Args()[1].Kind() == celast.LiteralKind {
				return pathRoot(call.Args()[0])
			}
		}
	}
	return "", false
}
