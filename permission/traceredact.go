package permission

import (
	"slices"
	"strconv"
	"strings"
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
// more than the text of a question, so that it hides more.
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

// hides reports whether a variable, by its text in an expression, shows
// something that lies at one of the paths, or may show it because it is made of
// the arguments: the commands of a line, the paths in the input, and terms over
// those.
func hides(paths []argPath, variable string) bool {
	steps := variableSteps(variable)
	switch steps[0] {
	case "args":
	case "tool", "caller":
		return false
	case "ctx":
		return len(paths) > 0 && (len(steps) == 1 || steps[1] == "resolved")
	default:
		return len(paths) > 0
	}
	return slices.ContainsFunc(paths, func(p argPath) bool {
		hidden := append([]string{p.root}, p.steps...)
		return overlap(hidden, steps) || overlap(hidden, slices.DeleteFunc(slices.Clone(steps), isIndex))
	})
}

// overlap reports whether one path leads to the other, or past it.
func overlap(hidden, steps []string) bool {
	for i := range min(len(hidden), len(steps)) {
		if hidden[i] != "*" && hidden[i] != steps[i] {
			return false
		}
	}
	return true
}

// variableSteps takes args.?card["number"] apart.
func variableSteps(text string) []string {
	text = strings.NewReplacer("[?", ".", "[", ".", "]", "", ".?", ".", `"`, "").Replace(text)
	return strings.Split(text, ".")
}

func isIndex(step string) bool {
	_, err := strconv.Atoi(step)
	return err == nil
}
