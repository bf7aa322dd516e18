package agentscope

import (
	"context"
	"encoding/json"
	"strings"
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

// elsewhere contains the rows that another part of AgentScope's procedure decides, before or
// together with the allow rules that the rows test.
var elsewhere = map[string]string{
	"dev-06 default":  "the text rm -rf asks, in quotes too",
	"dev-06 dont_ask": "the text rm -rf asks, in quotes too",
}

// The attempts to get a command past allow rules end as recorded in the whole decision, even
// though the read-only step comes before the rules.
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

// attack is a row of shell-dodges/dodges.jsonl; its README says what it means.
type attack struct {
	Command   string           `json:"command"`
	AllowRule string           `json:"allow_rule"` // several are separated by " | "
	DenyRule  string           `json:"deny_rule"`
	Verdict   message.Behavior `json:"verdict"`
	Why       string           `json:"why"`
}

// No attack is decided less strictly than recorded in the whole decision, and harmless lines are
// allowed.
func TestAttacks(t *testing.T) {
	strict := map[message.Behavior]int{message.BehaviorAllow: 0, message.BehaviorAsk: 1, message.BehaviorDeny: 2}
	for i, row := range rows[attack](t, "shell-dodges/dodges.jsonl", 382) {
		var rules []message.PermissionRule
		for content := range strings.SplitSeq(row.AllowRule, " | ") {
			rules = append(rules, message.PermissionRule{ToolName: "Bash", RuleContent: &content, Behavior: message.BehaviorAllow, Source: "user"})
		}
		if row.DenyRule != "" {
			rules = append(rules, message.PermissionRule{ToolName: "Bash", RuleContent: &row.DenyRule, Behavior: message.BehaviorDeny, Source: "user"})
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
		d := b.Decide(t.Context(), permission.Request{Tool: "Bash", Input: input, Mode: permission.ModeDefault, Cwd: "/workspace/project"})
		if strict[d.Behavior] < strict[row.Verdict] || row.Verdict == message.BehaviorAllow && d.Behavior != row.Verdict {
			t.Errorf("row %d: %q under allow %q and deny %q: %s by %s, want %s: %s",
				i+1, row.Command, row.AllowRule, row.DenyRule, d.Behavior, d.Step, row.Verdict, row.Why)
		}
	}
}
