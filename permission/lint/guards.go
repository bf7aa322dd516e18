package lint

import (
	"maps"

	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// guards are the paths that are known to exist, by their text.
type guards map[string]bool

func (g guards) with(paths ...string) guards {
	if len(paths) == 0 {
		return g
	}
	out := maps.Clone(g)
	for _, p := range paths {
		out[p] = true
	}
	return out
}

type guardCheck struct{ *expr }

// checkGuards looks for fields that may be missing and that nothing guards. An error next to a
// false part of && is no error, so a guard helps on either side; a negated guard helps in the same
// way in ||.
func (c guardCheck) checkGuards() {
	level := Error
	if c.Rule.Behavior == message.BehaviorAsk || c.Field == "message" {
		level = Warning
	}
	reported := map[string]bool{}
	c.walkGuarded(c.root(), guards{}.with(c.provedByCondition()...), func(in *expr, e, at celast.Expr) {
		text, what := in.text(e), ""
		if in != c.expr {
			what = "the term " + c.text(at) + " needs " // of the vocabulary
		}
		if reported[what+text] {
			return
		}
		reported[what+text] = true
		name, level := e.AsSelect().FieldName(), level
		if permission.MayBeMissing(text) {
			level = Warning // an engine may know it for every call
		}
		msg := what + text + " may be missing in a call, and nothing guards it"
		if what != "" {
			msg = what + text + ", which may be missing in a call, and nothing guards it"
		}
		c.report(Unguarded, level, at, msg, "write has("+text+") && …, or "+in.text(e.AsSelect().Operand())+".?"+name+".orValue(…)")
	})
}

func (c guardCheck) termOf(e celast.Expr) (*expr, bool) {
	if e.Kind() != celast.IdentKind || c.Terms[e.AsIdent()] == nil {
		return nil, false
	}
	x := *c.Expression
	x.AST, x.Terms = c.Terms[e.AsIdent()], nil // terms do not see each other
	return &expr{linter: c.linter, Expression: &x}, true
}

// unguarded is called for a field that nothing guards: in is the expression that contains it, at
// its position in the rule.
type unguarded func(in *expr, field, at celast.Expr)

// provedByCondition returns the paths that exist whenever a message is computed: its rule applies,
// so the condition is true.
func (c guardCheck) provedByCondition() []string {
	if c.Field != "message" {
		return nil
	}
	for _, x := range c.expressions {
		if x.Field == "when" && x.Rule.Name == c.Rule.Name && x.Tool == c.Tool {
			when := &expr{c.linter, x}
			return guardCheck{when}.provedFields(when.root(), true)
		}
	}
	return nil
}

func (c guardCheck) walkGuarded(e celast.Expr, known guards, report unguarded) {
	if term, ok := c.termOf(e); ok {
		guardCheck{term}.walkGuarded(term.root(), known, func(in *expr, field, _ celast.Expr) { report(in, field, e) })
		return
	}
	switch e.Kind() {
	case celast.SelectKind:
		s := e.AsSelect()
		if c.mayBeMissing(e) && !s.IsTestOnly() && !known[c.text(e)] {
			report(c.expr, e, e)
		}
		c.walkGuarded(s.Operand(), known, report)
	case celast.CallKind:
		c.walkGuardedCall(e, known, report)
	case celast.ListKind:
		for _, item := range e.AsList().Elements() {
			c.walkGuarded(item, known, report)
		}
	case celast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			c.walkGuarded(entry.AsMapEntry().Key(), known, report)
			c.walkGuarded(entry.AsMapEntry().Value(), known, report)
		}
	case celast.ComprehensionKind:
		loop := e.AsComprehension()
		for _, part := range []celast.Expr{loop.IterRange(), loop.AccuInit(), loop.LoopCondition(), loop.LoopStep(), loop.Result()} {
			c.walkGuarded(part, known, report)
		}
	default: // literals and names have no fields
	}
}

// mayBeMissing reports whether a selected field may be missing: by the schema, or because the rule
// is about any tool and never checks which one.
func (c guardCheck) mayBeMissing(e celast.Expr) bool {
	if f, ok := c.declaredField(e); ok {
		return !f.Required
	}
	if permission.MayBeMissing(c.text(e)) {
		return true
	}
	on := e.AsSelect().Operand()
	return c.Tool == permission.AnyTool && on.Kind() == celast.IdentKind && on.AsIdent() == "args" && !c.readsVariable("tool")
}

func (c guardCheck) walkGuardedCall(e celast.Expr, known guards, report unguarded) {
	call := e.AsCall()
	switch call.FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr:
		parts := joinedParts(e, call.FunctionName())
		for i, part := range parts {
			inner := known
			for j, other := range parts {
				if i != j {
					inner = inner.with(c.provedFields(other, call.FunctionName() == operators.LogicalAnd)...)
				}
			}
			c.walkGuarded(part, inner, report)
		}
	case operators.Conditional:
		test := call.Args()[0]
		c.walkGuarded(test, known, report)
		c.walkGuarded(call.Args()[1], known.with(c.provedFields(test, true)...), report)
		c.walkGuarded(call.Args()[2], known.with(c.provedFields(test, false)...), report)
	default:
		for _, arg := range args(call) {
			c.walkGuarded(arg, known, report)
		}
	}
}

// provedFields returns the paths that exist if the expression has the given value.
func (c guardCheck) provedFields(e celast.Expr, value bool) []string {
	if term, ok := c.termOf(e); ok {
		return guardCheck{term}.provedFields(term.root(), value)
	}
	switch {
	case e.Kind() == celast.SelectKind && e.AsSelect().IsTestOnly():
		if !value {
			return nil
		}
		return []string{c.text(e.AsSelect().Operand()) + "." + e.AsSelect().FieldName()}
	case isCall(e, operators.LogicalNot):
		return c.provedFields(e.AsCall().Args()[0], !value)
	case isCall(e, operators.LogicalAnd) && value, isCall(e, operators.LogicalOr) && !value:
		var out []string
		for _, arg := range e.AsCall().Args() {
			out = append(out, c.provedFields(arg, value)...)
		}
		return out
	default:
		return nil
	}
}
