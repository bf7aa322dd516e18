package lint

import (
	"maps"

	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// guards are the paths that are known to be there, by their text.
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

// checkGuards looks for fields that a call may lack and that nothing guards. An
// error beside a false part of && is no error, so that a guard helps on either
// side of it; in the same way a negated guard helps in ||.
func (c *expr) checkGuards() {
	level := Error
	if c.Rule.Behavior == message.BehaviorAsk || c.Field == "message" {
		level = Warning
	}
	reported := map[string]bool{}
	c.guarded(c.root(), guards{}.with(c.provedByCondition()...), func(in *expr, e, at celast.Expr) {
		text, what := in.text(e), ""
		if in != c {
			what = "the term " + c.text(at) + " needs " // of the vocabulary
		}
		if reported[what+text] {
			return
		}
		reported[what+text] = true
		name, level := e.AsSelect().FieldName(), level
		if permission.MayBeMissing(text) {
			level = Warning // an engine may know it of every call
		}
		msg := what + text + " may be missing in a call, and nothing guards it"
		if what != "" {
			msg = what + text + ", which may be missing in a call, and nothing guards it"
		}
		c.report(Unguarded, level, at, msg, "write has("+text+") && …, or "+in.text(e.AsSelect().Operand())+".?"+name+".orValue(…)")
	})
}

// term is the expression that a name of the vocabulary stands for.
func (c *expr) term(e celast.Expr) (*expr, bool) {
	if e.Kind() != celast.IdentKind || c.Terms[e.AsIdent()] == nil {
		return nil, false
	}
	x := *c.Expression
	x.AST, x.Terms = c.Terms[e.AsIdent()], nil // terms do not see each other
	return &expr{linter: c.linter, Expression: &x}, true
}

// unguarded is told of a field that nothing guards: the expression that it is
// in, and at, where that stands in the rule.
type unguarded func(in *expr, field, at celast.Expr)

// provedByCondition are the paths that are there wherever a message is made:
// its rule applies, so that the condition is true.
func (c *expr) provedByCondition() []string {
	if c.Field != "message" {
		return nil
	}
	for _, x := range c.expressions {
		if x.Field == "when" && x.Rule.Name == c.Rule.Name && x.Tool == c.Tool {
			when := &expr{c.linter, x}
			return when.proves(when.root(), true)
		}
	}
	return nil
}

// guarded walks an expression with what is known to be there.
func (c *expr) guarded(e celast.Expr, known guards, report unguarded) {
	if term, ok := c.term(e); ok {
		term.guarded(term.root(), known, func(in *expr, field, _ celast.Expr) { report(in, field, e) })
		return
	}
	switch e.Kind() {
	case celast.SelectKind:
		s := e.AsSelect()
		if c.mayBeMissing(e) && !s.IsTestOnly() && !known[c.text(e)] {
			report(c, e, e)
		}
		c.guarded(s.Operand(), known, report)
	case celast.CallKind:
		c.guardedCall(e, known, report)
	case celast.ListKind:
		for _, item := range e.AsList().Elements() {
			c.guarded(item, known, report)
		}
	case celast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			c.guarded(entry.AsMapEntry().Key(), known, report)
			c.guarded(entry.AsMapEntry().Value(), known, report)
		}
	case celast.ComprehensionKind:
		loop := e.AsComprehension()
		for _, part := range []celast.Expr{loop.IterRange(), loop.AccuInit(), loop.LoopCondition(), loop.LoopStep(), loop.Result()} {
			c.guarded(part, known, report)
		}
	default: // literals and names have no fields
	}
}

// mayBeMissing reports whether a call may lack a selected field: by the schema,
// or because the rule is about any tool and never asks which one it is.
func (c *expr) mayBeMissing(e celast.Expr) bool {
	if f, ok := c.field(e); ok {
		return !f.Required
	}
	if permission.MayBeMissing(c.text(e)) {
		return true
	}
	on := e.AsSelect().Operand()
	return c.Tool == permission.AnyTool && on.Kind() == celast.IdentKind && on.AsIdent() == "args" && !c.reads("tool")
}

func (c *expr) guardedCall(e celast.Expr, known guards, report unguarded) {
	call := e.AsCall()
	switch call.FunctionName() {
	case operators.LogicalAnd:
		parts := allOf(e)
		for i, part := range parts {
			inner := known
			for j, other := range parts {
				if i != j {
					inner = inner.with(c.proves(other, true)...)
				}
			}
			c.guarded(part, inner, report)
		}
	case operators.LogicalOr:
		parts := anyOf(e)
		for i, part := range parts {
			inner := known
			for j, other := range parts {
				if i != j {
					inner = inner.with(c.proves(other, false)...)
				}
			}
			c.guarded(part, inner, report)
		}
	case operators.Conditional:
		test := call.Args()[0]
		c.guarded(test, known, report)
		c.guarded(call.Args()[1], known.with(c.proves(test, true)...), report)
		c.guarded(call.Args()[2], known.with(c.proves(test, false)...), report)
	default:
		for _, arg := range args(call) {
			c.guarded(arg, known, report)
		}
	}
}

// proves are the paths that are there if the expression has the given value.
func (c *expr) proves(e celast.Expr, value bool) []string {
	if term, ok := c.term(e); ok {
		return term.proves(term.root(), value)
	}
	switch {
	case e.Kind() == celast.SelectKind && e.AsSelect().IsTestOnly():
		if !value {
			return nil
		}
		return []string{c.text(e.AsSelect().Operand()) + "." + e.AsSelect().FieldName()}
	case isCall(e, operators.LogicalNot):
		return c.proves(e.AsCall().Args()[0], !value)
	case isCall(e, operators.LogicalAnd) && value, isCall(e, operators.LogicalOr) && !value:
		var out []string
		for _, arg := range e.AsCall().Args() {
			out = append(out, c.proves(arg, value)...)
		}
		return out
	default:
		return nil
	}
}
