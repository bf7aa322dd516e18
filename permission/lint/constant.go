package lint

import (
	"slices"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
)

// checkConstant looks for conditions that are the same for every call.
func (c *expr) checkConstant() {
	value, constant := c.folded()
	constant = constant || c.contradicts()
	switch {
	case !constant:
	case !value:
		c.report(AlwaysFalse, Error, c.root(), "the condition is false whatever the call is", "correct it, or remove the rule")
	case isAllow(c.Rule) && !c.Rule.IKnow:
		c.report(AlwaysTrue, Error, c.root(), "the condition is true whatever the call is, so that every call is allowed",
			"correct it, or say i_know: true")
	case !isAllow(c.Rule):
		c.report(AlwaysTrue, Warning, c.root(), "the condition is true whatever the call is", "leave it out")
	}
}

// folded is the value of an expression that folds to a constant.
func (c *expr) folded() (value, constant bool) {
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

// contradicts finds x && !x, and one value compared with two.
func (c *expr) contradicts() bool {
	var seen []string
	equal := map[string]string{}
	for _, part := range allOf(c.root()) {
		seen = append(seen, c.text(part))
		if left, right, ok := c.equation(part); ok {
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

// equation takes x == literal apart.
func (c *expr) equation(e celast.Expr) (left, right string, ok bool) {
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
