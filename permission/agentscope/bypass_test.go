package agentscope

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// bypass is a row of testdata/policy/bash_bypass.jsonl.
type bypass struct {
	Name       string           `json:"name"`
	Command    string           `json:"command"`
	AllowRules []string         `json:"allow_rules"`
	Verdict    message.Behavior `json:"verdict"`
	Why        string           `json:"why"`
}

// elsewhere are the rows that another part of AgentScope's procedure answers
// before or together with the allow rules that they are about.
var elsewhere = map[string]string{
	"dev-06 default":  "the text rm -rf asks, in quotes too",
	"dev-06 dont_ask": "the text rm -rf asks, in quotes too",
}

// The attempts to get a command past allow rules end as they should, through
// the whole decision: also where the read-only step comes before the rules.
func TestBypasses(t *testing.T) {
	for _, row := range rows[bypass](t, "policy/bash_bypass.jsonl", 60) {
		var rules []message.PermissionRule
		for _, content := range row.AllowRules {
			rules = append(rules, message.PermissionRule{ToolName: "Bash", RuleContent: &content, Behavior: message.BehaviorAllow, Source: "user"})
		}
		b, err := permission.Compile(fromRules(rules), permission.Options{
			Tools: []permission.Tool{{Name: "Bash", Kind: mustNew(Bash, Config{Home: "/home/dev"})}}})
		if err != nil {
			t.Fatal(err)
		}
		input, err := json.Marshal(map[string]string{"command": row.Command})
		if err != nil {
			t.Fatal(err)
		}
		unattended := row.Verdict
		if unattended == message.BehaviorAsk {
			unattended = message.BehaviorDeny
		}
		for mode, want := range map[permission.Mode]message.Behavior{permission.ModeDefault: row.Verdict, permission.ModeDontAsk: unattended} {
			d := b.Decide(context.Background(), permission.Request{Tool: "Bash", Input: input, Mode: mode, Cwd: "/workspace/project"})
			if why := elsewhere[row.Name+" "+string(mode)]; why != "" {
				if d.Behavior == want {
					t.Errorf("%s in %s: %s as recorded, but listed: %s", row.Name, mode, want, why)
				}
				continue
			}
			if d.Behavior != want {
				t.Errorf("%s in %s: %q is %s by %s, want %s: %s", row.Name, mode, row.Command, d.Behavior, d.Step, want, row.Why)
			}
		}
	}
}
