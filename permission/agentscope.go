package permission

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/display"
)

// FromContext makes a policy of an AgentScope PermissionContext. As in
// AgentScope a rule acts by the list and the tool name it stands under,
// and not by its own fields. A tool name with * in it is a pattern here;
// in AgentScope it names no tool. The rules get names
// like "agentscope/deny/Bash/1f2e3d4c5b6a7988", made from what they match; rules
// that match the same count once.
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

// sortDistinct drops rules that match the same. Which source remains must not
// depend on the order of maps, so the first in alphabetical order does.
func sortDistinct(rules []Rule) []Rule {
	content := func(r Rule) string { c, _ := r.content(); return c }
	slices.SortStableFunc(rules, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(content(a), content(b)), cmp.Compare(a.Source, b.Source))
	})
	return slices.CompactFunc(rules, func(a, b Rule) bool { return a.Name == b.Name && content(a) == content(b) })
}
