package agentscope

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// material contains the parts of recorded rows of one tool, for new combinations.
type material struct {
	inputs []json.RawMessage
	texts  []string // of the command or the path
	rules  []message.PermissionRule
}

// recordedMaterial splits the recorded rows into their parts, by tool.
func recordedMaterial(t *testing.T) map[string]*material {
	out := map[string]*material{}
	add := func(d decided) {
		if builtin[d.Tool] == "" || d.Tool == "PowerShell" || d.Home != "/home/dev" {
			return
		}
		m := out[d.Tool]
		if m == nil {
			m = &material{}
			out[d.Tool] = m
		}
		m.inputs = append(m.inputs, d.Input)
		var in map[string]any
		if json.Unmarshal(d.Input, &in) == nil {
			for _, name := range []string{"command", "file_path", "path", "pattern"} {
				if text, ok := in[name].(string); ok && len(text) < 200 {
					m.texts = append(m.texts, text)
				}
			}
		}
		for _, r := range d.Rules {
			if r.ToolName == d.Tool {
				m.rules = append(m.rules, r)
			}
		}
	}
	for _, row := range decisions(t) {
		add(row)
	}
	for _, row := range rows[further](t, "recorded/permission.jsonl", 500) {
		add(row.decided)
	}
	for _, row := range rows[bypass](t, "policy/bash_bypass.jsonl", 60) {
		m := out["Bash"]
		m.texts = append(m.texts, row.Command)
		for _, content := range row.AllowRules {
			m.rules = append(m.rules, message.PermissionRule{ToolName: "Bash", RuleContent: &content, Behavior: message.BehaviorAllow, Source: "user"})
		}
	}
	return out
}

// genInput draws a recorded input, or one that is assembled from recorded texts.
func (m *material) genInput(t *rapid.T, tool string) map[string]any {
	if rapid.IntRange(0, 3).Draw(t, "recorded") == 0 {
		var in map[string]any
		if json.Unmarshal(rapid.SampledFrom(m.inputs).Draw(t, "input"), &in) == nil {
			return in
		}
	}
	text := rapid.SampledFrom(m.texts).Draw(t, "text")
	glue := joiners
	if tool != "Bash" {
		glue = []string{"/", "/../", "/./", "//", "", " "}
	}
	for range rapid.IntRange(0, 2).Draw(t, "more") {
		text += rapid.SampledFrom(glue).Draw(t, "glue") + rapid.SampledFrom(m.texts).Draw(t, "part")
	}
	switch tool {
	case "Bash":
		return map[string]any{"command": text}
	case "Glob", "Grep":
		return map[string]any{"path": text, "pattern": rapid.SampledFrom(m.texts).Draw(t, "pattern")}
	default:
		return map[string]any{"file_path": text, "content": "", "old_string": "a", "new_string": "b"}
	}
}

// No call is decided more loosely than by AgentScope, in any mode, with any recorded rules of the
// policy and of the session, and with every configuration that the product sets. The listed rows
// are stricter, so none is excluded here.
func TestNeverLooserThanUpstream(t *testing.T) {
	all := recordedMaterial(t)
	for _, tool := range []string{"Bash", "Read", "Write", "Edit", "Glob", "Grep"} {
		m := all[tool]
		if m == nil || len(m.texts) < 10 || len(m.rules) < 5 {
			t.Fatalf("there are too few recorded rows of %s", tool)
		}
		for name, c := range map[string]Config{"remote": {Home: "/home/dev"}, "local": {Home: "/home/dev", Links: permission.ResolveLinks}} {
			t.Run(tool+" "+name, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) { m.checkOne(t, tool, c) })
			})
		}
	}
}

func (m *material) checkOne(t *rapid.T, tool string, c Config) {
	var rules []message.PermissionRule
	for range rapid.IntRange(0, 4).Draw(t, "rules") {
		r := rapid.SampledFrom(m.rules).Draw(t, "rule")
		if rapid.Bool().Draw(t, "other behavior") {
			r.Behavior = rapid.SampledFrom([]message.Behavior{"allow", "deny", "ask"}).Draw(t, "behavior")
		}
		rules = append(rules, r)
	}
	raw, err := json.Marshal(m.genInput(t, tool))
	if err != nil {
		t.Fatal(err)
	}
	req := permission.Request{Tool: tool, Input: raw, Mode: rapid.SampledFrom(allModes).Draw(t, "mode"), Cwd: "/workspace/project",
		WorkingDirs: rapid.SampledFrom([][]string{nil, {"/srv/data"}, {"/home/dev", "/tmp"}}).Draw(t, "dirs")}
	upstream := decideAsUpstream(t, rules, req, "/home/dev")
	cut := rapid.IntRange(0, len(rules)).Draw(t, "session")
	req.SessionRules = slices.Clone(rules[:cut])
	tools := []permission.Tool{{Name: tool, Kind: mustNew(builtin[tool], c)}}
	b, err := permission.Compile(fromRules(rules[cut:]), permission.Options{Tools: tools})
	if err != nil {
		if strings.Contains(err.Error(), errOtherHome.Error()) {
			return // refused at load, so nothing is decided
		}
		t.Fatal(err)
	}
	ours := b.Decide(context.Background(), req)
	if looseness[ours.Behavior] > looseness[upstream.Behavior] {
		t.Fatalf("%s %s in %s with %d rules, %d of the session: %s by %s, upstream %s by %s", tool, raw, req.Mode, len(rules), cut,
			ours.Behavior, ours.Step, upstream.Behavior, upstream.Step)
	}
	checkNeverLooser(t, upstream, ours, string(raw))
}
