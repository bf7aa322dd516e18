package agentscope

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// In the strict reading every recorded decision is upstream's, down to the part
// that decided and the rules that it suggests.
func TestStrictDecisions(t *testing.T) {
	for _, row := range decisions(t) {
		if diff := cmp.Diff(row.Expect, row.decide(t, Strict)); diff != "" {
			t.Errorf("%s (-upstream +ours):\n%s", row.Name, diff)
		}
	}
}

func TestStrictAnalyses(t *testing.T) {
	for _, row := range analyses(t) {
		quirk := row.Quirk
		row.Quirk = ""
		if diff := cmp.Diff(row, analyse(row.Command, true)); diff != "" {
			t.Errorf("%q %s (-upstream +ours):\n%s", row.Command, quirk, diff)
		}
	}
}

func TestStrictMatches(t *testing.T) {
	for _, row := range matches(t) {
		for _, b := range []message.Behavior{message.BehaviorAllow, message.BehaviorDeny, message.BehaviorAsk} {
			if got, err := row.match(t, Strict, b); err != nil || got != row.Match {
				t.Errorf("%s rule %v of %s with %v: %v, %v; upstream: %v", b, deref(row.Content), row.Tool, row.Input, got, err, row.Match)
			}
		}
	}
}

func deref(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// An ask rule stands in for a denial of the mode in the strict reading alone.
func TestAskRuleAndDenials(t *testing.T) {
	rules := []message.PermissionRule{{ToolName: "Bash", Behavior: message.BehaviorAsk, Source: "test"}}
	for _, tt := range []struct {
		command string
		mode    permission.Mode
		guarded message.Behavior
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
		strict, guarded := decideBoth(t, "Bash", rules, permission.Request{Tool: "Bash", Input: input, Mode: tt.mode, Cwd: "/w"})
		if strict.Behavior != message.BehaviorAsk || guarded.Behavior != tt.guarded {
			t.Errorf("%q in %s: strict %s by %s, guarded %s by %s", tt.command, tt.mode, strict.Behavior, strict.Step, guarded.Behavior, guarded.Step)
		}
	}
}
