package lint

import (
	"math"
	"slices"
	"strconv"
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

// checkConstant looks for conditions that have the same result for every call.
func (c *expr) checkConstant() {
	value, constant := c.foldedValue()
	if !constant {
		value = !c.cannotBe(c.root(), true)
		constant = !value || c.cannotBe(c.root(), false)
	}
	switch {
	case !constant:
	case !value:
		c.report(AlwaysFalse, Error, c.root(), "the condition is false for every call", "correct it, or remove the rule")
	case isAllow(c.Rule) && !c.Rule.IKnow:
		c.report(AlwaysTrue, Error, c.root(), "the condition is true for every call, so every call is allowed",
			"correct it, or write i_know: true")
	case !isAllow(c.Rule):
		c.report(AlwaysTrue, Warning, c.root(), "the condition is true for every call", "remove it")
	}
}

func (c *expr) foldedValue() (value, constant bool) {
	folding, err := cel.NewConstantFoldingOptimizer()
	if err != nil {
		return false, false
	}
	optimizer, err := cel.NewStaticOptimizer(folding)
	if err != nil {
		return false, false
	}
	ast, issues := optimizer.Optimize(c.Env, c.AST)
	if issues.Err() != nil {
		return false, false // if folding fails, the result depends on the call
	}
	root := ast.NativeRep().Expr()
	if root.Kind() != celast.LiteralKind {
		return false, false
	}
	b, ok := root.AsLiteral().(types.Bool)
	return bool(b), ok
}

// cannotBe reports whether an expression never has a value, because its parts contradict each other.
func (c *expr) cannotBe(e celast.Expr, value bool) bool {
	if term, ok := (guardCheck{c}).termOf(e); ok {
		return term.cannotBe(term.root(), value)
	}
	either, both := operators.LogicalOr, operators.LogicalAnd
	if !value {
		either, both = both, either
	}
	switch never := func(part celast.Expr) bool { return c.cannotBe(part, value) }; {
	case isCall(e, operators.LogicalNot):
		return c.cannotBe(e.AsCall().Args()[0], !value)
	case isCall(e, either):
		return !slices.ContainsFunc(joinedParts(e, either), func(part celast.Expr) bool { return !never(part) })
	case isCall(e, both) && slices.ContainsFunc(joinedParts(e, both), never):
		return true
	}
	return !spans{}.add(c, e, value)
}

// spans are what the parts of an expression say about each value, by its text.
type spans map[string]*span

// span is what a value can be.
type span struct {
	is, not             []string // literals; any if is is nil
	low, high           float64
	aboveLow, belowHigh bool // the bound itself is excluded
}

// add adds what holds if an expression has a value; false if that contradicts what is known.
func (f spans) add(c *expr, e celast.Expr, value bool) bool {
	if term, ok := (guardCheck{c}).termOf(e); ok {
		return f.add(term, term.root(), value)
	}
	switch {
	case isCall(e, operators.LogicalNot):
		return f.add(c, e.AsCall().Args()[0], !value)
	case isCall(e, operators.LogicalAnd) && value, isCall(e, operators.LogicalOr) && !value:
		return !slices.ContainsFunc(e.AsCall().Args(), func(part celast.Expr) bool { return !f.add(c, part, value) })
	}
	about, op, literals := c.comparison(e)
	if about == nil {
		about, op, literals = e, operators.In, []string{"true"}
	}
	if !value {
		op = opposite[op]
	}
	name := c.text(about)
	s := f[name]
	if s == nil {
		s = &span{low: math.Inf(-1), high: math.Inf(1)}
		if isCall(about, "size") {
			s.low = 0
		}
		f[name] = s
	}
	s.narrow(op, literals)
	return s.isPossible()
}

var opposite = map[string]string{
	operators.In: operators.NotEquals, operators.NotEquals: operators.In, operators.Less: operators.GreaterEquals,
	operators.LessEquals: operators.Greater, operators.Greater: operators.LessEquals, operators.GreaterEquals: operators.Less,
}

// comparison reads a comparison with literals. An == is an in with one literal.
func (c *expr) comparison(e celast.Expr) (about celast.Expr, op string, literals []string) {
	if e.Kind() != celast.CallKind || len(e.AsCall().Args()) != 2 {
		return nil, "", nil
	}
	op = e.AsCall().FunctionName()
	a, b := e.AsCall().Args()[0], e.AsCall().Args()[1]
	if op == operators.In && b.Kind() == celast.ListKind {
		literals = []string{}
		for _, item := range b.AsList().Elements() {
			if item.Kind() != celast.LiteralKind {
				return nil, "", nil
			}
			literals = append(literals, c.literalText(item))
		}
		return a, op, literals
	}
	if a.Kind() == celast.LiteralKind {
		a, b, op = b, a, mirrored[op]
	}
	if mirrored[op] == "" || a.Kind() == celast.LiteralKind || b.Kind() != celast.LiteralKind {
		return nil, "", nil
	}
	if op == operators.Equals {
		op = operators.In
	}
	return a, op, []string{c.literalText(b)}
}

// literalText writes equal numbers alike.
func (c *expr) literalText(e celast.Expr) string {
	switch v := e.AsLiteral().Value().(type) {
	case int64:
		return strconv.FormatFloat(float64(v), 'g', -1, 64)
	case uint64:
		return strconv.FormatFloat(float64(v), 'g', -1, 64)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	default:
		return c.text(e)
	}
}

func (s *span) narrow(op string, literals []string) {
	switch op {
	case operators.NotEquals:
		s.not = append(s.not, literals...)
		return
	case operators.In:
		if s.is == nil {
			s.is = literals
		}
		s.is = slices.DeleteFunc(slices.Clone(s.is), func(v string) bool { return !slices.Contains(literals, v) })
		return
	}
	n, err := strconv.ParseFloat(literals[0], 64)
	switch {
	case err != nil || math.Abs(n) > 1<<53: // a text, or a number that a float may not hold
	case (op == operators.Greater || op == operators.GreaterEquals) && n >= s.low:
		s.low, s.aboveLow = n, op == operators.Greater || s.aboveLow && n == s.low
	case (op == operators.Less || op == operators.LessEquals) && n <= s.high:
		s.high, s.belowHigh = n, op == operators.Less || s.belowHigh && n == s.high
	}
}

func (s *span) isPossible() bool {
	if s.low > s.high || s.low == s.high && (s.aboveLow || s.belowHigh) {
		return false
	}
	return s.is == nil || slices.ContainsFunc(s.is, func(v string) bool {
		n, err := strconv.ParseFloat(v, 64)
		outside := err == nil && (n < s.low || n > s.high || n == s.low && s.aboveLow || n == s.high && s.belowHigh)
		return !outside && !slices.Contains(s.not, v)
	})
}

// checkLoops looks for all() over lists that may be empty, in allow rules.
func (c *expr) checkLoops() {
	if !isAllow(c.Rule) {
		return
	}
	info := c.AST.NativeRep().SourceInfo()
	meant := c.listsMeantEmpty()
	c.eachPart(func(e celast.Expr) {
		macro, ok := info.GetMacroCall(e.ID())
		if !ok || macro.Kind() != celast.CallKind || macro.AsCall().FunctionName() != operators.All || e.Kind() != celast.ComprehensionKind {
			return
		}
		list := e.AsComprehension().IterRange()
		if f, ok := c.declaredField(list); ok && f.MinLength > 0 {
			return
		}
		if meant[e.ID()] || c.provesNotEmpty(c.text(list)) {
			return
		}
		c.report(EmptyAll, Error, e, "all() is true for an empty list, so a call with an empty "+c.text(list)+" is allowed",
			"add size("+c.text(list)+") > 0 &&; to allow an empty one, write size("+c.text(list)+") == 0 ||")
	})
}

// listsMeantEmpty returns the loops next to a part that says that the list may be empty: size(x) ==
// 0 || x.all(…).
func (c *expr) listsMeantEmpty() map[int64]bool {
	out := map[int64]bool{}
	c.eachCall(func(e celast.Expr, name string) {
		if name != operators.LogicalOr {
			return
		}
		parts := anyOf(e)
		for _, loop := range parts {
			if loop.Kind() != celast.ComprehensionKind {
				continue
			}
			list := c.text(loop.AsComprehension().IterRange())
			for _, part := range parts {
				switch c.text(part) {
				case "size(" + list + ") == 0", list + ".size() == 0", list + " == []":
					out[loop.ID()] = true
				}
			}
		}
	})
	return out
}

// provesNotEmpty reports whether a part of the whole condition implies that the list is not empty.
func (c *expr) provesNotEmpty(list string) bool {
	info := c.AST.NativeRep().SourceInfo()
	for _, part := range allOf(c.root()) {
		if macro, ok := info.GetMacroCall(part.ID()); ok && macro.Kind() == celast.CallKind && part.Kind() == celast.ComprehensionKind {
			name := macro.AsCall().FunctionName()
			if (name == operators.Exists || name == operators.ExistsOne) && c.text(part.AsComprehension().IterRange()) == list {
				return true
			}
			continue
		}
		if c.saysNotEmpty(part, list) {
			return true
		}
	}
	return false
}

// mirrored maps each comparison to the one with its sides swapped.
var mirrored = map[string]string{
	operators.Greater: operators.Less, operators.GreaterEquals: operators.LessEquals,
	operators.Less: operators.Greater, operators.LessEquals: operators.GreaterEquals,
	operators.Equals: operators.Equals, operators.NotEquals: operators.NotEquals,
}

func (c *expr) saysNotEmpty(part celast.Expr, list string) bool {
	if part.Kind() != celast.CallKind || part.AsCall().IsMemberFunction() || len(part.AsCall().Args()) != 2 {
		return false
	}
	op, left, right := part.AsCall().FunctionName(), part.AsCall().Args()[0], part.AsCall().Args()[1]
	if op == operators.NotEquals && (c.text(left) == list && c.text(right) == "[]" || c.text(left) == "[]" && c.text(right) == list) {
		return true
	}
	isSize := func(e celast.Expr) bool { return c.text(e) == "size("+list+")" || c.text(e) == list+".size()" }
	if isSize(right) {
		op, left, right = mirrored[op], right, left
	}
	if !isSize(left) || right.Kind() != celast.LiteralKind {
		return false
	}
	n, ok := right.AsLiteral().(types.Int)
	if !ok {
		return false
	}
	switch op {
	case operators.Greater:
		return n >= 0
	case operators.GreaterEquals, operators.Equals:
		return n >= 1
	case operators.NotEquals:
		return n == 0
	default:
		return false
	}
}
