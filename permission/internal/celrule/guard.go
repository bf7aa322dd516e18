package celrule

import (
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"github.com/askance-dev/askance/permission/internal/schema"
)

// A guard is a part of a condition, joined to the rest by &&, that is simple
// enough to be looked at without CEL: a field compared with a constant. Where a
// guard is false the whole condition is, also if other parts would be true or
// fail: in CEL false && error is false. So most rules of a tool are passed
// over for the price of a comparison. A guard never says that a rule matches;
// that, and every case that is not plain, is left to CEL.
type guard struct {
	Path  []string // variable and fields
	Op    string   // an operator or the name of a method, field on the left
	Text  string
	Num   int64
	truth bool
	Kind  schema.Kind // of the constant: kindString, kindInt, kindBool, or kindList
	texts []string    // of a list
}

// maxGuards bounds what is looked at before CEL is asked.
const maxGuards = 4

// guardsOf finds the guards of a checked condition.
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
	g := guard{Path: path, Op: op}
	ok = g.takeConstant(right) && g.isSupported() // before g is copied out
	return g, ok
}

// mirrored has each comparison with its sides exchanged.
var mirrored = map[string]string{
	operators.Equals: operators.Equals, operators.NotEquals: operators.NotEquals,
	operators.Less: operators.Greater, operators.LessEquals: operators.GreaterEquals,
	operators.Greater: operators.Less, operators.GreaterEquals: operators.LessEquals,
}

// constant takes over the constant that the field is compared with.
func (g *guard) takeConstant(e celast.Expr) bool {
	switch e.Kind() {
	case celast.LiteralKind:
		switch v := e.AsLiteral().(type) {
		case types.String:
			g.Kind, g.Text = schema.KindString, string(v)
		case types.Int:
			g.Kind, g.Num = schema.KindInt, int64(v)
		case types.Bool:
			g.Kind, g.truth = schema.KindBool, bool(v)
		default:
			return false
		}
		return true
	case celast.ListKind:
		g.Kind = schema.KindList
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
	switch g.Op {
	case operators.Equals, operators.NotEquals:
		return g.Kind != schema.KindList
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return g.Kind == schema.KindInt || g.Kind == schema.KindString
	case "startsWith", "endsWith", "contains":
		return g.Kind == schema.KindString
	case operators.In:
		return g.Kind == schema.KindList
	default:
		return false
	}
}

// fieldPath gives args.a.b as its names. Index, optional and has() forms are
// left to CEL.
func fieldPath(e celast.Expr) ([]string, bool) {
	if e == nil {
		return nil, false
	}
	switch e.Kind() {
	case celast.IdentKind:
		switch name := e.AsIdent(); name {
		case "args", "caller", "ctx", "tool":
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

// Excludes reports whether a guard makes the condition false for certain. A
// value of another type than the constant's is left to CEL, unless the two
// cannot be equal: so every rule that an index passes over is excluded, and costs
// nothing either way.
func (p *Program) Excludes(vars Fields) bool {
	for i := range p.Guards {
		g := &p.Guards[i]
		if v, ok := vars.Field(g.Path); ok && g.isFalse(v) {
			return true
		}
	}
	return false
}

func (g *guard) isFalse(v any) bool {
	switch v := v.(type) {
	case string:
		switch g.Kind {
		case schema.KindString:
			return !g.holdsText(v)
		case schema.KindList:
			return !slices.Contains(g.texts, v)
		default:
			return g.Op == operators.Equals // a text equals no constant of another type
		}
	case int64:
		if g.Kind == schema.KindString {
			return g.Op == operators.Equals
		}
		return g.Kind == schema.KindInt && !compareValues(g.Op, v, g.Num)
	case bool:
		return g.Kind == schema.KindBool && (v == g.truth) != (g.Op == operators.Equals)
	default:
		return false
	}
}

func (g *guard) holdsText(v string) bool {
	switch g.Op {
	case "startsWith":
		return strings.HasPrefix(v, g.Text)
	case "endsWith":
		return strings.HasSuffix(v, g.Text)
	case "contains":
		return strings.Contains(v, g.Text)
	default:
		return compareValues(g.Op, v, g.Text)
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
		return true // not known: CEL is asked
	}
}
