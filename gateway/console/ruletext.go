package console

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message/api"
)

// ruleOfCard is the rule that decided a call.
type ruleOfCard struct {
	Href string    // on the page of the policy
	File string    // "": not known
	Line int       // 0: not known
	Text *ruleText // nil: the policy in force has no such rule, or this person may not read it
}

// findRule finds the deciding rule in the policy in force.
func findRule(ctx context.Context, p *gateway.Peer, rule string, e *explanation) ruleOfCard {
	out := ruleOfCard{Href: policyAddress("rule", rule) + "#rule"}
	if e != nil {
		for _, t := range e.Trace {
			if t.Rule == rule && t.Because != nil {
				out.File, out.Line = t.Because.File, t.Because.Line
			}
		}
	}
	c, err := p.Reader()
	if err != nil {
		return out
	}
	text, err := api.PolicyText.Call(ctx, c, api.PolicyTextRequest{V: 1, Rule: rule})
	if err != nil || len(text.Rules) != 1 {
		return out
	}
	r := text.Rules[0]
	out.File, out.Line, out.Text = r.File, r.Line, &ruleText{PolicyRuleText: r, Lines: numberLines(r.Text, r.Line)}
	return out
}

// value is a value that a condition of a rule read.
type value struct{ Name, Value string }

// decidingValues are the values that the conditions of a rule read, in order.
func decidingValues(e *explanation, rule string) []value {
	if e == nil {
		return nil
	}
	values := map[string]string{}
	for _, t := range e.Trace {
		if t.Rule != rule || !t.Matched {
			continue
		}
		all := t.All
		if t.Because != nil {
			all = append(all, *t.Because)
		}
		for _, b := range all {
			for name, v := range b.Operands {
				values[name] = fmt.Sprint(v)
			}
		}
	}
	out := make([]value, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, value{name, values[name]})
	}
	return out
}
