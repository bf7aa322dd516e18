package lint

import (
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// precedence is the order in which rules are heard.
var precedence = map[message.Behavior]int{message.BehaviorDeny: 1, message.BehaviorAsk: 2, message.BehaviorAllow: 3}

// pairs looks for rules that another one leaves nothing to do.
func (l *linter) pairs() {
	parts := l.conditions()
	for i := range l.policy.Rules {
		later := &l.policy.Rules[i]
		for j := range l.policy.Rules {
			earlier := &l.policy.Rules[j]
			if i == j || !l.heardBefore(earlier, later, j < i) || !l.checkCovers(earlier, later, parts) {
				continue
			}
			level, hint := Warning, "remove it, or narrow "+earlier.Name
			if isAllow(later) && earlier.Behavior == message.BehaviorDeny {
				level = Error
			}
			l.add(Shadowed, level, later, "", "never decides: "+string(earlier.Behavior)+" rule "+earlier.Name+" is about all of its calls", hint)
			break
		}
	}
}

// checkReadOnly looks for allow rules that are meant to allow a part of what is
// allowed as a whole: the calls of tools that are declared read-only.
func (l *linter) checkReadOnly(r *permission.Rule) {
	if !isAllow(r) || !decidingRules(r) || r.When == "" && !hasContent(r) {
		return
	}
	tools := l.tools(r)
	if len(tools) == 0 || slices.ContainsFunc(tools, func(t permission.Tool) bool { return !t.ReadOnly }) {
		return
	}
	l.add(Shadowed, Warning, r, "", "never decides: "+tools[0].Name+" is declared read_only, and what no rule denies or asks about is allowed without a rule",
		"deny or ask about the other calls, or do not declare it read_only")
}

// heardBefore reports whether a rule decides in place of another that is about
// the same calls. Ask rules ask together, so that none of them hides another.
func (l *linter) heardBefore(a, b *permission.Rule, first bool) bool {
	if !decidingRules(a) || !decidingRules(b) {
		return false
	}
	x, y := precedence[a.Behavior], precedence[b.Behavior]
	if x == y {
		// Of two that say the same, the one that stands later is superfluous.
		return a.Behavior != message.BehaviorAsk && (first || !sameReach(a, b))
	}
	return x < y
}

func sameReach(a, b *permission.Rule) bool {
	return a.When == b.When && slices.Equal(a.Tools, b.Tools)
}

// checkCovers reports whether every call that b is about is one that a is about, as
// far as their parts show it.
func (l *linter) checkCovers(a, b *permission.Rule, parts map[*permission.Rule][]string) bool {
	if !slices.Contains(a.Tools, permission.AnyTool) {
		for _, name := range b.Tools {
			if !slices.Contains(a.Tools, name) && !l.onServer(a, name) {
				return false
			}
		}
	}
	if hasContent(a) && (!hasContent(b) || *a.RuleContent != *b.RuleContent || a.Behavior != b.Behavior) {
		return false // a content means more in a deny rule than in an allow rule
	}
	if a.When == "" {
		return true
	}
	if parts[a] == nil || parts[b] == nil {
		return false
	}
	return !slices.ContainsFunc(parts[a], func(part string) bool { return !slices.Contains(parts[b], part) })
}

// onServer reports whether a rule about a server is about one of its tools.
func (l *linter) onServer(r *permission.Rule, tool string) bool {
	return slices.ContainsFunc(l.opts.Tools, func(t permission.Tool) bool {
		return t.Name == tool && t.Server != "" && slices.Contains(r.Tools, t.Server+"/*")
	})
}

// conditions are the parts of each rule's condition.
func (l *linter) conditions() map[*permission.Rule][]string {
	out := map[*permission.Rule][]string{}
	for _, x := range l.expressions {
		if x.Field == "when" && out[x.Rule] == nil {
			out[x.Rule] = x.Conjuncts()
		}
	}
	return out
}
