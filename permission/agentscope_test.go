package permission_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// vector is a row of testdata/agentscope/permission.jsonl; see the README there.
type vector struct {
	Name        string                   `json:"name"`
	Mode        permission.Mode          `json:"mode"`
	Cwd         string                   `json:"cwd"`
	WorkingDirs []string                 `json:"working_directories"`
	Rules       []message.PermissionRule `json:"rules"`
	Tool        string                   `json:"tool"`
	Input       json.RawMessage          `json:"input"`
	ToolSpec    *struct {
		Check      string `json:"check"`
		IsReadOnly bool   `json:"is_read_only"`
	} `json:"tool_spec"`
	Expect struct {
		Behavior     message.Behavior         `json:"behavior"`
		Suggested    []message.PermissionRule `json:"suggested_rules"`
		BypassImmune bool                     `json:"bypass_immune"`
		Step         permission.Step          `json:"step"`
	} `json:"expect"`
}

var checkAnswers = map[string]permission.CheckResult{
	"": permission.CheckPassthrough, "passthrough": permission.CheckPassthrough, "allow": permission.CheckAllow,
	"deny": permission.CheckDeny, "ask": permission.CheckAsk, "ask_immune": permission.CheckAskImmune,
}

// vectors reads the rows about invented tools. All rows, including those about AgentScope's own
// tools, run in package agentscope.
func vectors(t *testing.T) []vector {
	t.Helper()
	data, err := os.ReadFile("testdata/agentscope/permission.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var rows []vector
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		if v.ToolSpec != nil {
			rows = append(rows, v)
		}
	}
	if err := lines.Err(); err != nil || len(rows) < 8 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	return rows
}

func (v vector) bundle(rules []message.PermissionRule) (*permission.Bundle, error) {
	answer, known := checkAnswers[v.ToolSpec.Check]
	if !known {
		return nil, errors.New("unknown check " + v.ToolSpec.Check)
	}
	return permission.Compile(fromRules(rules), permission.Options{
		Tools: []permission.Tool{{Name: v.Tool, ReadOnly: v.ToolSpec.IsReadOnly, Check: answers(answer)}},
	})
}

func hasContent(r message.PermissionRule) bool { return r.RuleContent != nil && *r.RuleContent != "" }

// Rules with a content are skipped: upstream never matches them, and we refuse them.
func TestAgentScopeVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			b, err := v.bundle(slices.DeleteFunc(slices.Clone(v.Rules), hasContent))
			if err != nil {
				t.Fatal(err)
			}
			d := b.Decide(context.Background(), permission.Request{Tool: v.Tool, Input: v.Input, Mode: v.Mode, Cwd: v.Cwd, WorkingDirs: v.WorkingDirs})
			if d.Behavior != v.Expect.Behavior || d.Step != v.Expect.Step || d.BypassImmune != v.Expect.BypassImmune {
				t.Errorf("Decide = %s by %s, immune %v; want %s by %s, immune %v", d.Behavior, d.Step, d.BypassImmune,
					v.Expect.Behavior, v.Expect.Step, v.Expect.BypassImmune)
			}
			if diff := cmp.Diff(v.Expect.Suggested, d.Suggested); diff != "" {
				t.Errorf("suggested rules (-want +got):\n%s", diff)
			}
		})
	}
}

// A listed deviation: in AgentScope a content rule of a tool without a matcher never matches, not
// even a deny rule. We refuse it, because a rule without effect misleads its author.
func TestContentWithoutMatcherIsRefused(t *testing.T) {
	refused := 0
	for _, v := range vectors(t) {
		_, err := v.bundle(v.Rules)
		if content := slices.ContainsFunc(v.Rules, hasContent); content != (err != nil) {
			t.Errorf("%s: content %v, error %v", v.Name, content, err)
		}
		if err != nil {
			refused++
		}
	}
	if refused == 0 {
		t.Error("no row has such a rule, so this test checks nothing")
	}
}

func TestFromContext(t *testing.T) {
	r := func(tool string, b message.Behavior, source string, content *string) message.PermissionRule {
		return message.PermissionRule{ToolName: tool, Behavior: b, Source: source, RuleContent: content}
	}
	p := permission.FromContext(message.PermissionContext{
		Mode:               permission.ModeExplore,
		WorkingDirectories: map[string]message.WorkingDirectory{"/b": {Path: "/x"}, "/a": {}},
		// A rule in the wrong list acts by that list and by the name under which it is listed.
		DenyRules: map[string][]message.PermissionRule{"shell": {r("other", message.BehaviorAllow, "user", nil)}},
		AskRules:  map[string][]message.PermissionRule{"mail": {r("mail", message.BehaviorAsk, "user", new(""))}},
		AllowRules: map[string][]message.PermissionRule{"read": {
			r("read", message.BehaviorAllow, "zed", nil), r("read", message.BehaviorAllow, "ann", new(""))}},
	})
	b, err := permission.Compile(p, permission.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if b.Rules() != 3 || b.Mode() != permission.ModeExplore {
		t.Errorf("%d rules, mode %s", b.Rules(), b.Mode())
	}
	for tool, want := range map[string]string{
		"shell": "deny agentscope/deny/shell user",
		"mail":  "ask agentscope/ask/mail user",
		"read":  "allow agentscope/allow/read ann",
		"other": "ask  ",
	} {
		d := b.Decide(context.Background(), permission.Request{Tool: tool, Input: []byte(`{}`), Mode: permission.ModeDefault})
		if got := string(d.Behavior) + " " + d.Rule + " " + d.Source; got != want {
			t.Errorf("%s: %q, want %q", tool, got, want)
		}
	}
}

// prefixMatcher is a matcher as a tool with string commands might have it.
type prefixMatcher struct{}

type prefix string

func (prefixMatcher) Compile(content string, b message.Behavior) (permission.Pattern, error) {
	switch content {
	case "bad":
		return nil, errors.New("is no pattern")
	case "nil":
		return nil, nil
	case "panic":
		panic("boom")
	}
	return prefix(content), nil
}

func (prefixMatcher) Suggest(c permission.Call) []message.PermissionRule {
	if c.Input["cmd"] == "nothing" {
		return nil
	}
	return []message.PermissionRule{{ToolName: c.Tool, RuleContent: new(c.Input["cmd"].(string)), Behavior: message.BehaviorAllow, Source: "suggested"}}
}

func (p prefix) Match(c permission.Call) (bool, error) {
	cmd, ok := c.Input["cmd"].(string)
	if !ok {
		return false, errors.New("cmd is no text")
	}
	return len(cmd) >= len(p) && cmd[:len(p)] == string(p), nil
}

func TestMatcher(t *testing.T) {
	opts := permission.Options{Matchers: map[string]permission.Matcher{"t": prefixMatcher{}}}
	content := func(name, text string, b message.Behavior, when string) permission.Rule {
		r := rule(name, b, when)
		r.RuleContent = new(text)
		return r
	}
	b := compile(t, opts, content("d", "rm", "deny", ""), content("a", "git", "allow", `args.cmd != "git push"`))
	for _, c := range []struct {
		input, want string
		suggested   int
	}{
		{`{"cmd": "rm x"}`, "deny rule", 0},
		{`{"cmd": "git status"}`, "allow allow_rule", 0},
		{`{"cmd": "git push"}`, "ask+S fallback_ask", 1}, // both content and condition must match
		{`{"cmd": "nothing"}`, "ask+S fallback_ask", 0},  // no suggestion is an empty list, not null
		{`{"cmd": 5}`, "ask+S error", 0},                 // matching failed, and so did suggesting
	} {
		d := decide(b, permission.ModeDefault, c.input)
		if summary(d) != c.want || len(d.Suggested) != c.suggested {
			t.Errorf("%s: %s with %d suggestions, want %s with %d", c.input, summary(d), len(d.Suggested), c.want, c.suggested)
		}
	}
	for _, bad := range []string{"bad", "nil", "panic"} {
		if _, err := permission.Compile(permission.Policy{Rules: []permission.Rule{content("r", bad, "deny", "")}}, opts); err == nil {
			t.Errorf("content %q is accepted", bad)
		}
	}
	remembered := permission.Request{Tool: "t", Input: []byte(`{"cmd": "ls"}`), Mode: permission.ModeDontAsk,
		SessionRules: []message.PermissionRule{{ToolName: "t", RuleContent: new("ls"), Behavior: message.BehaviorAllow, Source: "suggested"}}}
	if d := b.Decide(context.Background(), remembered); summary(d) != "allow allow_rule" {
		t.Errorf("remembered content: %s, %v", summary(d), d.Errors)
	}
}
