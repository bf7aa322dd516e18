package lint

import (
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
)

// checkConstant looks for conditions that are the same for every call.
func (c *expr) checkConstant() {
	value, constant := c.foldedValue()
	constant = constant || c.contradictsItself()
	switch {
	case !constant:
	case !value:
		c.report(AlwaysFalse, Error, c.root(), "the condition is false for every call", "correct it, or remove the rule")
	case isAllow(c.Rule) && !c.Rule.IKnow:
		c.report(AlwaysTrue, Error, c.root(), "the condition is true for every call, so that every call is allowed",
			"correct it, or say i_know: true")
	case !isAllow(c.Rule):
		c.report(AlwaysTrue, Warning, c.root(), "the condition is true for every call", "leave it out")
	}
}

// foldedValue is the value of an expression that folds to a constant.
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
		return false, false // what fails to fold is left to the run
	}
	root := ast.NativeRep().Expr()
	if root.Kind() != celast.LiteralKind {
		return false, false
	}
	b, ok := root.AsLiteral().(types.Bool)
	return bool(b), ok
}

// contradictsItself finds x && !x, one value compared with two, and one that must be
// above another number than it is below.
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
	for _, part := range allOf(c.root()) {
		if isCall(part, "!_") && slices.Contains(seen, c.text(part.AsCall().Args()[0])) {
			return true
		}
	}
	return false
}

// equationOf takes x == literal apart.
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
		if low, known := above[name]; op[0] == '>' && (!known || n > low) {
			above[name] = n
		}
		if high, known := below[name]; op[0] == '<' && (!known || n < high) {
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

// turned is the comparison with its sides changed.
var turned = map[string]string{"_<_": ">", "_<=_": ">=", "_>_": "<", "_>=_": "<="}

// boundOf takes x > 9 apart, and 9 < x.
func (c *expr) boundOf(e celast.Expr) (name, op string, n float64, ok bool) {
	if e.Kind() != celast.CallKind || turned[e.AsCall().FunctionName()] == "" {
		return "", "", 0, false
	}
	a, b := e.AsCall().Args()[0], e.AsCall().Args()[1]
	op = strings.Trim(e.AsCall().FunctionName(), "_")
	if a.Kind() == celast.LiteralKind {
		a, b, op = b, a, turned[e.AsCall().FunctionName()]
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
