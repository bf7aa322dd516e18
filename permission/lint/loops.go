package lint

import (
	"cel.dev/cel-go/common/operators"

	celast "cel.dev/cel-go/common/ast"
)

// checkLoops looks for all() over what may be empty, in allow rules.
func (c *expr) checkLoops() {
	if !isAllow(c.Rule) {
		return
	}
	info := c.AST.NativeRep().SourceInfo()
	c.each(func(e celast.Expr) {
		macro, ok := info.GetMacroCall(e.ID())
		if !ok || macro.Kind() != celast.CallKind || macro.AsCall().FunctionName() != operators.All || e.Kind() != celast.ComprehensionKind {
			return
		}
		list := e.AsComprehension().IterRange()
		if f, ok := c.field(list); ok && f.MinLength > 0 {
			return
		}
		if c.notEmpty(c.text(list)) {
			return
		}
		c.report(EmptyAll, Error, e, "all() is true for an empty list, so that a call with an empty "+c.text(list)+" is allowed",
			"add size("+c.text(list)+") > 0 &&")
	})
}

// notEmpty reports whether a part of the whole condition says that the list is
// not empty.
func (c *expr) notEmpty(list string) bool {
	info := c.AST.NativeRep().SourceInfo()
	for _, part := range allOf(c.root()) {
		if macro, ok := info.GetMacroCall(part.ID()); ok && macro.Kind() == celast.CallKind && part.Kind() == celast.ComprehensionKind {
			name := macro.AsCall().FunctionName()
			if (name == operators.Exists || name == operators.ExistsOne) && c.text(part.AsComprehension().IterRange()) == list {
				return true
			}
			continue
		}
		if part.Kind() != celast.CallKind || len(part.AsCall().Args()) != 2 {
			continue
		}
		left, right := c.text(part.AsCall().Args()[0]), c.text(part.AsCall().Args()[1])
		isSize := left == "size("+list+")" || left == list+".size()"
		switch part.AsCall().FunctionName() {
		case operators.Greater:
			if isSize {
				return true
			}
		case operators.GreaterEquals, operators.Equals:
			if isSize && right != "0" {
				return true
			}
		case operators.NotEquals:
			if isSize && right == "0" || left == list && right == "[]" {
				return true
			}
		}
	}
	return false
}
