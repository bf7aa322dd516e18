package agentscope

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

func decideLine(t *testing.T, command string, mode permission.Mode, rules ...message.PermissionRule) permission.Decision {
	t.Helper()
	b, err := permission.Compile(fromRules(rules), permission.Options{
		Tools: []permission.Tool{{Name: "Bash", Kind: mustNew(Bash, Config{Home: "/home/dev"})}}})
	if err != nil {
		t.Fatal(err)
	}
	input, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		t.Fatal(err)
	}
	return b.Decide(context.Background(), permission.Request{Tool: "Bash", Input: input, Mode: mode, Cwd: "/workspace/project"})
}

func bashRule(b message.Behavior, content string) message.PermissionRule {
	r := message.PermissionRule{ToolName: "Bash", Behavior: b, Source: "test"}
	if content != "" {
		r.RuleContent = &content
	}
	return r
}

// If a deny or ask rule may apply to a line, the line never runs without approval. If it is asked
// about or denied anyway, the result is that of the step that would have decided.
func TestDoubtfulLines(t *testing.T) {
	deny, ask, all := bashRule("deny", "git push:*"), bashRule("ask", "git push:*"), bashRule("allow", "")
	for _, tt := range []struct {
		command string
		mode    permission.Mode
		rules   []message.PermissionRule
		want    message.Behavior
		step    permission.Step
		immune  bool
	}{
		{"git $X", permission.ModeDefault, []message.PermissionRule{deny}, "ask", permission.StepFallbackAsk, false},
		{"git $X", permission.ModeDefault, []message.PermissionRule{ask}, "ask", permission.StepFallbackAsk, false},
		{"git $X", permission.ModeDefault, []message.PermissionRule{deny, all}, "ask", permission.StepError, false},
		{"git $X", permission.ModeBypass, []message.PermissionRule{deny}, "ask", permission.StepError, false},
		{"git $X", permission.ModeExplore, []message.PermissionRule{deny}, "deny", permission.StepFallbackExplore, false},
		{"git $X", permission.ModeExplore, []message.PermissionRule{ask}, "deny", permission.StepFallbackExplore, false},
		{"git $X", permission.ModeDontAsk, []message.PermissionRule{deny}, "deny", permission.StepFallbackDontAsk, false},
		{"git $X", permission.ModeDontAsk, []message.PermissionRule{ask, all}, "deny", permission.StepAskConverted, false},
		{"$(x) y", permission.ModeDefault, []message.PermissionRule{deny}, "ask", StepInjection, true},
		{"$(x) y", permission.ModeBypass, []message.PermissionRule{deny}, "ask", permission.StepError, false},
		{"git $X; git push", permission.ModeDefault, []message.PermissionRule{deny}, "deny", permission.StepRule, false},
		{"git $X; git status", permission.ModeDefault, []message.PermissionRule{deny, bashRule("ask", "git status:*")}, "ask", permission.StepRule, false},
	} {
		d := decideLine(t, tt.command, tt.mode, tt.rules...)
		if d.Behavior != tt.want || d.Step != tt.step || d.BypassImmune != tt.immune {
			t.Errorf("%q in %s with %d rules: %s by %s, immune %v; want %s by %s, immune %v",
				tt.command, tt.mode, len(tt.rules), d.Behavior, d.Step, d.BypassImmune, tt.want, tt.step, tt.immune)
		}
	}
}

// An approval request about a doubtful line has the requirements of its rules.
func TestDoubtfulLinesKeepRequirements(t *testing.T) {
	p, err := permission.Parse(permission.File{Name: "p.yaml", Data: []byte(`version: 1
name: releases
rules:
  - {name: release, tool: Bash, match: {agentscope: "git push:*"}, behavior: ask, approvers: {users: [ann]}}
`)})
	if err != nil {
		t.Fatal(err)
	}
	b, err := permission.Compile(p, permission.Options{Tools: []permission.Tool{{Name: "Bash", Kind: mustNew(Bash, Config{})}}})
	if err != nil {
		t.Fatal(err)
	}
	d := b.Decide(context.Background(), permission.Request{Tool: "Bash", Input: []byte(`{"command": "git $X"}`), Mode: permission.ModeDefault, Cwd: "/w"})
	if d.Step != permission.StepFallbackAsk || len(d.Requirement.Users) != 1 || d.Requirement.Users[0] != "ann" || len(d.Errors) == 0 {
		t.Errorf("%s by %s for %v, errors %v", d.Behavior, d.Step, d.Requirement.Users, d.Errors)
	}
}

// AgentScope has no patterns for names of tools, so a rule about * matches no tool there. Here it
// matches every tool.
func TestToolNamesArePatterns(t *testing.T) {
	rules := fromRules([]message.PermissionRule{{ToolName: "*", Behavior: "deny", Source: "test"}})
	b, err := permission.Compile(rules, permission.Options{Tools: []permission.Tool{{Name: "t"}}})
	if err != nil {
		t.Fatal(err)
	}
	if d := b.Decide(context.Background(), permission.Request{Tool: "t", Input: []byte(`{}`), Mode: permission.ModeBypass, Cwd: "/w"}); d.Behavior != "deny" {
		t.Errorf("%s by %s", d.Behavior, d.Step)
	}
}
