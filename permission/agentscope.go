package permission

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/display"
)

// FromContext converts an AgentScope PermissionContext to a policy. As in AgentScope, the list and
// tool name under which a rule is stored determine its effect, not its own fields. A tool name
// containing * is a pattern here; in AgentScope it matches no tool. Rules get names like
// "agentscope/deny/Bash/1f2e3d4c5b6a7988", derived from what they match. Rules that match the same
// calls are merged.
func FromContext(c message.PermissionContext) Policy {
	p := Policy{Mode: c.Mode}
	for _, list := range []struct {
		behavior message.Behavior
		rules    map[string][]message.PermissionRule
	}{
		{message.BehaviorDeny, c.DenyRules}, {message.BehaviorAsk, c.AskRules}, {message.BehaviorAllow, c.AllowRules},
	} {
		for tool, rules := range list.rules {
			for _, r := range rules {
				r.ToolName, r.Behavior = tool, list.behavior
				p.Rules = append(p.Rules, fromRule(r))
			}
		}
	}
	p.Rules = sortDistinct(p.Rules)
	return p
}

func fromRule(r message.PermissionRule) Rule {
	name := "agentscope/" + string(r.Behavior) + "/" + display.Quoted(r.ToolName)
	if r.RuleContent != nil && *r.RuleContent != "" {
		sum := sha256.Sum256([]byte(*r.RuleContent))
		name += "/" + hex.EncodeToString(sum[:8])
	}
	return Rule{Name: name, Tools: []string{r.ToolName}, RuleContent: r.RuleContent, Behavior: r.Behavior, Source: r.Source, imported: true}
}

// sortDistinct drops rules that match the same calls. It keeps the alphabetically first source, so
// the result does not depend on map order.
func sortDistinct(rules []Rule) []Rule {
	content := func(r Rule) string { c, _ := r.content(); return c }
	slices.SortStableFunc(rules, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(content(a), content(b)), cmp.Compare(a.Source, b.Source))
	})
	return slices.CompactFunc(rules, func(a, b Rule) bool { return a.Name == b.Name && content(a) == content(b) })
}
