package celrule

import (
	"math"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/schema"
)

// A guard is a part of a condition, joined to the rest by &&, that is simple enough to check
// without CEL: a field compared with a constant. If a guard is false, so is the whole condition,
// even if other parts are true or fail, because in CEL false && error is false. So most rules of a
// tool are skipped at the cost of one comparison. A guard never decides that a rule matches; that,
// and every unclear case, is left to CEL.
type guard struct {
	path  []string // variable and fields
	op    string   // an operator or method name, with the field on the left
	text  string
	num   int64
	truth bool
	kind  schema.Kind // of the constant: kindString, kindInt, kindBool, or kindList
	texts []string    // of a list
}

const maxGuards = 4

func guardsOf(ast *cel.Ast) []guard {
	var out []guard
	for _, part := range Conjuncts(ast.NativeRep().Expr()) {
		if g, ok := guardOf(part); ok && len(out) < maxGuards {
			out = append(out, g)
		}
	}
	return out
}

func guardOf(e celast.Expr) (guard, bool) {
	if e.Kind() != celast.CallKind {
		return guard{}, false
	}
	call := e.AsCall()
	var left, right celast.Expr
	switch args := call.Args(); {
	case call.IsMemberFunction() && len(args) == 1:
		left, right = call.Target(), args[0]
	case !call.IsMemberFunction() && len(args) == 2:
		left, right = args[0], args[1]
	default:
		return guard{}, false
	}
	op := call.FunctionName()
	path, ok := fieldPath(left)
	if !ok {
		if op, ok = mirrored[op]; !ok {
			return guard{}, false
		}
		if path, ok = fieldPath(right); !ok {
			return guard{}, false
		}
		right = left
	}
	g := guard{path: path, op: op}
	ok = g.takeConstant(right) && g.isSupported() // before g is copied
	return g, ok
}

// mirrored maps each comparison to the one with its sides swapped.
var mirrored = map[string]string{
	operators.Equals: operators.Equals, operators.NotEquals: operators.NotEquals,
	operators.Less: operators.Greater, operators.LessEquals: operators.GreaterEquals,
	operators.Greater: operators.Less, operators.GreaterEquals: operators.LessEquals,
}

func (g *guard) takeConstant(e celast.Expr) bool {
	switch e.Kind() {
	case celast.LiteralKind:
		switch v := e.AsLiteral().(type) {
		case types.String:
			g.kind, g.text = schema.KindString, string(v)
		case types.Int:
			g.kind, g.num = schema.KindInt, int64(v)
		case types.Bool:
			g.kind, g.truth = schema.KindBool, bool(v)
		default:
			return false
		}
		return true
	case celast.ListKind:
		g.kind = schema.KindList
		for _, item := range e.AsList().Elements() {
			if item.Kind() != celast.LiteralKind {
				return false
			}
			s, ok := item.AsLiteral().(types.String)
			if !ok {
				return false
			}
			g.texts = append(g.texts, string(s))
		}
		return len(e.AsList().OptionalIndices()) == 0
	default:
		return false
	}
}

func (g *guard) isSupported() bool {
	switch g.op {
	case operators.Equals, operators.NotEquals:
		return g.kind != schema.KindList
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return g.kind == schema.KindInt || g.kind == schema.KindString
	case "startsWith", "endsWith", "contains":
		return g.kind == schema.KindString
	case operators.In:
		return g.kind == schema.KindList
	default:
		return false
	}
}

// fieldPath returns args.a.b as its names. Index, optional and has() forms are left to CEL.
func fieldPath(e celast.Expr) ([]string, bool) {
	if e == nil {
		return nil, false
	}
	switch e.Kind() {
	case celast.IdentKind:
		switch name := e.AsIdent(); name {
		case "args", "call", "caller", "ctx", "tool":
			return []string{name}, true
		}
	case celast.SelectKind:
		if e.AsSelect().IsTestOnly() {
			return nil, false
		}
		path, ok := fieldPath(e.AsSelect().Operand())
		return append(path, e.AsSelect().FieldName()), ok
	default:
	}
	return nil, false
}

// Excludes reports whether a guard makes the condition certainly false. A value whose type differs
// from the constant's is left to CEL, unless the two cannot be equal.
func (p *Program) Excludes(vars Fields) bool {
	for i := range p.guards {
		g := &p.guards[i]
		if v, ok := vars.Field(g.path); ok && g.isFalse(v) {
			return true
		}
	}
	return false
}

func (g *guard) isFalse(v any) bool {
	switch v := v.(type) {
	case string:
		switch g.kind {
		case schema.KindString:
			return !g.holdsText(v)
		case schema.KindList:
			return !slices.Contains(g.texts, v)
		default:
			return g.op == operators.Equals // a text never equals a constant of another type
		}
	case int64:
		if g.kind == schema.KindString {
			return g.op == operators.Equals
		}
		return g.kind == schema.KindInt && !compareValues(g.op, v, g.num)
	case bool:
		return g.kind == schema.KindBool && (v == g.truth) != (g.op == operators.Equals)
	default:
		return false
	}
}

func (g *guard) holdsText(v string) bool {
	switch g.op {
	case "startsWith":
		return strings.HasPrefix(v, g.text)
	case "endsWith":
		return strings.HasSuffix(v, g.text)
	case "contains":
		return strings.Contains(v, g.text)
	default:
		return compareValues(g.op, v, g.text)
	}
}

func compareValues[T int64 | string](op string, a, b T) bool {
	switch op {
	case operators.Equals:
		return a == b
	case operators.NotEquals:
		return a != b
	case operators.Less:
		return a < b
	case operators.LessEquals:
		return a <= b
	case operators.Greater:
		return a > b
	case operators.GreaterEquals:
		return a >= b
	default:
		return true // unknown: CEL decides
	}
}

// Conjuncts returns the parts of a condition that must all be true, in order of evaluation.
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

// IsOrdering reports whether a part compares two values by order.
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

// TextOf returns the source text of a part of an expression, on one line.
func TextOf(ast *cel.Ast, e celast.Expr) string {
	text, err := cel.ExprToString(e, ast.NativeRep().SourceInfo())
	if err != nil {
		return "the condition" // only the text is lost
	}
	return display.Visible(display.Shorten(display.OneLine(text), display.MaxReasonExpr))
}

// StartOf returns the line and column, from 1, where a part of an expression begins. The position
// that cel-go records for a node is that of its operator.
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

// Operands returns the variables that a part of an expression reads: whole paths, such as
// args.customer.id, but nothing that a macro declares.
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
			// Inside the loop values differ between iterations.
			walk(e.AsComprehension().IterRange(), local)
		default: // literals have no operands, and rules make no messages
		}
	}
	walk(e, map[string]bool{})
	return out
}

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
