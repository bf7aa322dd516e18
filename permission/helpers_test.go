package permission_test

import (
	"context"
	"os"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// compile is like Compile, for policies that must compile.
func compile(t testing.TB, opts permission.Options, rules ...permission.Rule) *permission.Bundle {
	t.Helper()
	b, err := permission.Compile(permission.Policy{Rules: rules}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func schema(t testing.TB, text string) *permission.Schema {
	t.Helper()
	s, err := permission.CompileSchema([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// rule returns a rule for tool "t".
func rule(name string, behavior message.Behavior, when string) permission.Rule {
	return permission.Rule{Name: name, Tools: []string{"t"}, Behavior: behavior, When: when, Source: "test"}
}

func decide(b *permission.Bundle, mode permission.Mode, input string) permission.Decision {
	return b.Decide(context.Background(), permission.Request{Tool: "t", Input: []byte(input), Mode: mode})
}

var allModes = []permission.Mode{permission.ModeDefault, permission.ModeAcceptEdits, permission.ModeExplore,
	permission.ModeBypass, permission.ModeDontAsk}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// fromRules imports rules in AgentScope's form, by behavior and tool.
func fromRules(rules []message.PermissionRule) permission.Policy {
	lists := map[message.Behavior]map[string][]message.PermissionRule{}
	for _, r := range rules {
		if lists[r.Behavior] == nil {
			lists[r.Behavior] = map[string][]message.PermissionRule{}
		}
		lists[r.Behavior][r.ToolName] = append(lists[r.Behavior][r.ToolName], r)
	}
	return permission.FromContext(message.PermissionContext{DenyRules: lists[message.BehaviorDeny], AskRules: lists[message.BehaviorAsk], AllowRules: lists[message.BehaviorAllow]})
}

// allDuties lets a policy require everything.
var allDuties = []permission.Duty{permission.DutyUsers, permission.DutyGroups, permission.DutyExcludeRequester, permission.DutyExcludeEditor,
	permission.DutyQuorum, permission.DutySigned, permission.DutyExpiry, permission.DutyOnExpiry, permission.DutyEscalation,
	permission.DutyRemember, permission.DutyRedact, permission.DutyExecutorSubject, permission.DutyExecutorTimeout, permission.DutyAudit}
