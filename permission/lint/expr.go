package lint

import (
	"slices"
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
	constant = constant || c.contradictsItself()
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

// contradictsItself finds x && !x, one value required to equal two, and one required to be above a
// number and below a smaller one.
func (c *expr) contradictsItself() bool {
	var seen []string
	equal := map[string]string{}
	if c.isEmptyRange() {
		return true
	}
	for _, part := range allOf(c.root()) {
		seen = append(seen, c.text(part))
		if left, right, ok := c.equationOf(part); ok {
			if before, ok := equal[left]; ok && before != right {
				return true
			}
			equal[left] = right
		}
	}
	return slices.ContainsFunc(allOf(c.root()), func(part celast.Expr) bool {
		return isCall(part, "!_") && slices.Contains(seen, c.text(part.AsCall().Args()[0]))
	})
}

func (c *expr) equationOf(e celast.Expr) (left, right string, ok bool) {
	if !isCall(e, "_==_") {
		return "", "", false
	}
	a, b := e.AsCall().Args()[0], e.AsCall().Args()[1]
	if a.Kind() == celast.LiteralKind {
		a, b = b, a
	}
	if b.Kind() != celast.LiteralKind || a.Kind() == celast.LiteralKind {
		return "", "", false
	}
	return c.text(a), c.text(b), true
}

// isEmptyRange finds x > 9 && x < 5.
func (c *expr) isEmptyRange() bool {
	above, below := map[string]float64{}, map[string]float64{}
	for _, part := range allOf(c.root()) {
		name, op, n, ok := c.boundOf(part)
		if !ok {
			continue
		}
		if low, known := above[name]; op[1] == '>' && (!known || n > low) {
			above[name] = n
		}
		if high, known := below[name]; op[1] == '<' && (!known || n < high) {
			below[name] = n
		}
		low, hasLow := above[name]
		high, hasHigh := below[name]
		if hasLow && hasHigh && low > high {
			return true
		}
	}
	return false
}

func (c *expr) boundOf(e celast.Expr) (name, op string, n float64, ok bool) {
	if e.Kind() != celast.CallKind || mirrored[e.AsCall().FunctionName()] == "" {
		return "", "", 0, false
	}
	a, b := e.AsCall().Args()[0], e.AsCall().Args()[1]
	op = e.AsCall().FunctionName()
	if a.Kind() == celast.LiteralKind {
		a, b, op = b, a, mirrored[op]
	}
	if b.Kind() != celast.LiteralKind {
		return "", "", 0, false
	}
	switch v := b.AsLiteral().Value().(type) {
	case int64:
		return c.text(a), op, float64(v), true
	case float64:
		return c.text(a), op, v, true
	default:
		return "", "", 0, false
	}
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
