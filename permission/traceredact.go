package permission

import (
	"fmt"
	"slices"
	"strconv"

	celast "cel.dev/cel-go/common/ast"
)

// Redacts reports whether a rule of the bundle hides any arguments.
func (b *Bundle) Redacts() bool {
	if b == nil {
		return false
	}
	hides := func(t *toolRules) bool {
		return t != nil && slices.ContainsFunc(t.handlers, func(r *compiledRule) bool { return len(r.rule.Redact) > 0 })
	}
	for _, t := range b.byTool {
		if hides(t) {
			return true
		}
	}
	return hides(b.others)
}

// Redacts reports whether the policy in force hides any arguments.
func (l *Live) Redacts() bool { return l.Bundle().Redacts() }

// hiddenPaths are what any rule about the tool redacts: an explanation shows
// more than the text of an approval request, so that it hides more.
func (t *toolRules) hiddenPaths() []argPath {
	var out []argPath
	for _, r := range slices.Concat(t.deny, t.ask, t.allow) {
		for _, text := range r.rule.Redact {
			if p, err := parsePath(text); err == nil {
				out = append(out, p)
			}
		}
	}
	return out
}

// hides reports whether a variable, by the steps that lead to it, shows
// something that lies at one of the paths, or may show it because it is made of
// the arguments: the commands of a line, the paths in the input, and terms over
// those.
func hides(paths []argPath, variable []string) bool {
	switch variable[0] {
	case "args":
	case "tool", "caller":
		return false
	case "ctx":
		return len(paths) > 0 && (len(variable) == 1 || variable[1] == "resolved")
	default:
		return len(paths) > 0
	}
	return slices.ContainsFunc(paths, func(p argPath) bool { return overlap(p.steps, variable[1:]) })
}

// overlap reports whether one path leads to the other, or past it. A number may
// be the place of an element in a list, of which the hidden path says nothing.
func overlap(hidden, steps []string) bool {
	if len(hidden) == 0 || len(steps) == 0 {
		return true
	}
	if (hidden[0] == anyStep || hidden[0] == steps[0]) && overlap(hidden[1:], steps[1:]) {
		return true
	}
	return isIndex(steps[0]) && overlap(hidden, steps[1:])
}

// variableSteps takes the path of an operand apart: args.?card["number"] is
// args, card and number.
func variableSteps(e celast.Expr) []string {
	switch e.Kind() {
	case celast.IdentKind:
		return []string{e.AsIdent()}
	case celast.SelectKind:
		return append(variableSteps(e.AsSelect().Operand()), e.AsSelect().FieldName())
	case celast.CallKind:
		args := e.AsCall().Args()
		return append(variableSteps(args[0]), fmt.Sprint(args[1].AsLiteral().Value()))
	default: // pathRoot knows no others
		return []string{""}
	}
}

func isIndex(step string) bool {
	_, err := strconv.Atoi(step)
	return err == nil
}
