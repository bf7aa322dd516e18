package agentscope

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// The oracle makes every recorded decision, including the step that decided and the rules that it
// suggests.
func TestOracleDecisions(t *testing.T) {
	for _, row := range decisions(t) {
		if diff := cmp.Diff(row.Expect, row.upstream(t)); diff != "" {
			t.Errorf("%s (-upstream +oracle):\n%s", row.Name, diff)
		}
	}
}

func TestOracleAnalyses(t *testing.T) {
	for _, row := range analyses(t) {
		quirk := row.Quirk
		row.Quirk = ""
		if diff := cmp.Diff(row, analyseAsUpstream(row.Command)); diff != "" {
			t.Errorf("%q %s (-upstream +oracle):\n%s", row.Command, quirk, diff)
		}
	}
}

func TestOracleMatches(t *testing.T) {
	for _, row := range matches(t) {
		if got, err := row.upstream(); err != nil || got != row.Match {
			t.Errorf("rule %v of %s with %v: %v, %v; upstream: %v", deref(row.Content), row.Tool, row.Input, got, err, row.Match)
		}
	}
}

func deref(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// A denial of the mode or of the tool outranks an ask rule. In AgentScope the ask rule takes the
// place of the denial.
func TestAskRuleAndDenials(t *testing.T) {
	rules := []message.PermissionRule{{ToolName: "Bash", Behavior: message.BehaviorAsk, Source: "test"}}
	for _, tt := range []struct {
		command string
		mode    permission.Mode
		want    message.Behavior
	}{
		{"npm run x", permission.ModeExplore, message.BehaviorDeny},
		{"ls", permission.ModeExplore, message.BehaviorAsk},
		{"ls \u202e", permission.ModeDefault, message.BehaviorDeny},
		{"ls \u202e", permission.ModeBypass, message.BehaviorDeny},
		{"npm run x", permission.ModeBypass, message.BehaviorAsk},
	} {
		input, err := json.Marshal(map[string]string{"command": tt.command})
		if err != nil {
			t.Fatal(err)
		}
		upstream, ours := decideBoth(t, "Bash", rules, permission.Request{Tool: "Bash", Input: input, Mode: tt.mode, Cwd: "/w"})
		if upstream.Behavior != message.BehaviorAsk || ours.Behavior != tt.want {
			t.Errorf("%q in %s: upstream %s by %s, ours %s by %s", tt.command, tt.mode, upstream.Behavior, upstream.Step, ours.Behavior, ours.Step)
		}
	}
}
