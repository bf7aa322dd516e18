package lint

import (
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// checkLoops looks for all() over what may be empty, in allow rules.
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
		c.report(EmptyAll, Error, e, "all() is true for an empty list, so that a call with an empty "+c.text(list)+" is allowed",
			"add size("+c.text(list)+") > 0 &&; where an empty one may be allowed, say so: size("+c.text(list)+") == 0 ||")
	})
}

// listsMeantEmpty are the loops next to a part that says that the list may be empty:
// size(x) == 0 || x.all(…).
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

// provesNotEmpty reports whether a part of the whole condition says that the list is
// not empty.
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

// mirrored has each comparison with its sides exchanged.
var mirrored = map[string]string{
	operators.Greater: operators.Less, operators.GreaterEquals: operators.LessEquals,
	operators.Less: operators.Greater, operators.LessEquals: operators.GreaterEquals,
	operators.Equals: operators.Equals, operators.NotEquals: operators.NotEquals,
}

// saysNotEmpty reports whether a comparison is false for an empty list.
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
