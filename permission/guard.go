package permission

import (
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// A guard is a part of a condition, joined to the rest by &&, that is simple
// enough to be looked at without CEL: a field compared with a constant. Where a
// guard is false the whole condition is, whatever the other parts would say or
// fail with: in CEL false && error is false. So most rules of a tool are passed
// over for the price of a comparison. A guard never says that a rule matches;
// that, and every case that is not plain, is left to CEL.
type guard struct {
	path  []string // variable and fields
	op    string   // an operator or the name of a method, field on the left
	text  string
	num   int64
	truth bool
	kind  argKind  // of the constant: kindString, kindInt, kindBool, or kindList
	texts []string // of a list
}

// maxGuards bounds what is looked at before CEL is asked.
const maxGuards = 4

// guardsOf finds the guards of a checked condition.
func guardsOf(ast *cel.Ast) []guard {
	var out []guard
	for _, part := range conjuncts(ast.NativeRep().Expr()) {
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
	ok = g.constant(right) && g.supported() // before g is copied out
	return g, ok
}

// mirrored has each comparison with its sides exchanged.
var mirrored = map[string]string{
	operators.Equals: operators.Equals, operators.NotEquals: operators.NotEquals,
	operators.Less: operators.Greater, operators.LessEquals: operators.GreaterEquals,
	operators.Greater: operators.Less, operators.GreaterEquals: operators.LessEquals,
}

// constant takes over the constant that the field is compared with.
func (g *guard) constant(e celast.Expr) bool {
	switch e.Kind() {
	case celast.LiteralKind:
		switch v := e.AsLiteral().(type) {
		case types.String:
			g.kind, g.text = kindString, string(v)
		case types.Int:
			g.kind, g.num = kindInt, int64(v)
		case types.Bool:
			g.kind, g.truth = kindBool, bool(v)
		default:
			return false
		}
		return true
	case celast.ListKind:
		g.kind = kindList
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

func (g *guard) supported() bool {
	switch g.op {
	case operators.Equals, operators.NotEquals:
		return g.kind != kindList
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return g.kind == kindInt || g.kind == kindString
	case "startsWith", "endsWith", "contains":
		return g.kind == kindString
	case operators.In:
		return g.kind == kindList
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

// value is what the path leads to; false if it leads nowhere.
func (e *evaluation) value(path []string) (any, bool) {
	var v any = e.call.Input
	if path[0] != "args" {
		v, _ = e.ResolveName(path[0])
	}
	for _, name := range path[1:] {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = m[name]; !ok {
			return nil, false
		}
	}
	return v, true
}

// excludes reports whether a guard makes the condition false for certain. A
// value of another type than the constant's is left to CEL, unless the two
// cannot be equal: so every rule that an index passes over is excluded, and costs
// nothing either way.
func (p *program) excludes(e *evaluation) bool {
	for i := range p.guards {
		g := &p.guards[i]
		if v, ok := e.value(g.path); ok && g.fails(v) {
			return true
		}
	}
	return false
}

func (g *guard) fails(v any) bool {
	switch v := v.(type) {
	case string:
		switch g.kind {
		case kindString:
			return !g.holdsText(v)
		case kindList:
			return !slices.Contains(g.texts, v)
		default:
			return g.op == operators.Equals // a text equals no constant of another type
		}
	case int64:
		if g.kind == kindString {
			return g.op == operators.Equals
		}
		return g.kind == kindInt && !compared(g.op, v, g.num)
	case bool:
		return g.kind == kindBool && (v == g.truth) != (g.op == operators.Equals)
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
		return compared(g.op, v, g.text)
	}
}

func compared[T int64 | string](op string, a, b T) bool {
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
