package permission_test

import (
	"context"
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/agentscope"
)

func toolOfKind(t *testing.T, kind string, c agentscope.Config, schemaText string) permission.Tool {
	t.Helper()
	k, err := agentscope.New(kind, c)
	if err != nil {
		t.Fatal(err)
	}
	tool := permission.Tool{Name: "t", Kind: k}
	if schemaText != "" {
		tool.Schema = schema(t, schemaText)
	}
	return tool
}

func content(name string, behavior message.Behavior, text string) permission.Rule {
	r := rule(name, behavior, "")
	r.RuleContent = &text
	return r
}

// A kind whose argument the schema does not declare is refused at load, because no rule could
// match.
func TestArgumentOfAKindIsDeclared(t *testing.T) {
	for _, tc := range []struct{ kind, argument, schema, want string }{
		{"read", "", `{"properties": {"path": {"type": "string"}}}`, "declare; write argument: path"},
		{"read", "path", `{"properties": {"path": {"type": "string"}}}`, ""},
		{"read", "", `{"properties": {"file_path": {"type": "string"}, "path": {"type": "string"}}}`, ""},
		{"bash", "", `{"properties": {"cmd": {"type": "string"}, "description": {"type": "string"}}}`, "write argument: cmd"},
		{"bash", "cmd", `{"properties": {"cmd": {"type": "string"}}}`, ""},
		{"bash", "", `{"properties": {"command": {"type": "array", "items": {"type": "string"}}}}`, "is not text in input_schema"},
		{"write", "", `{"properties": {"content": {"type": "string"}, "target": {"type": "string"}, "mode": {"type": "string"}}}`, "the one that has the path: mode, target"},
		{"edit", "", `{"properties": {"line": {"type": "integer"}}}`, "or remove the kind"},
		{"glob", "", `{"properties": {"pattern": {"type": "string"}}}`, ""},
		{"glob", "", `{"properties": {"pattern": {"type": "string"}, "dir": {"type": "string"}}}`, "write argument: dir"},
		{"grep", "dir", `{"properties": {"pattern": {"type": "string"}, "dir": {"type": "string"}}}`, ""},
		{"read", "", `{"type": "object"}`, ""},
		{"read", "", "", ""},
		{"mcp", "", `{"properties": {"path": {"type": "string"}}}`, ""},
	} {
		tool := toolOfKind(t, tc.kind, agentscope.Config{Argument: tc.argument}, tc.schema)
		_, err := permission.Compile(permission.Policy{}, permission.Options{Tools: []permission.Tool{tool}})
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s with %s is refused: %v", tc.kind, tc.schema, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s with %s: %v, want %q", tc.kind, tc.schema, err, tc.want)
		}
	}
	if _, err := agentscope.New("mcp", agentscope.Config{Argument: "path"}); err == nil {
		t.Error("kind mcp reads no argument but accepts the name of one")
	}
}

// If the path or command is in an argument that the kind does not read, the call is never allowed
// by the kind or a rule with content, and a deny rule never misses it.
func TestCallWithoutTheArgument(t *testing.T) {
	open := `{"properties": {"%": {"type": "string"}, "mode": {"type": "string"}}}`
	for _, tc := range []struct{ kind, argument, schema, input string }{
		{"read", "file_path", "", `{"path": "/etc/shadow"}`},
		{"read", "file_path", open, `{"path": "/etc/shadow"}`},
		{"read", "file_path", open, `{"mode": "/etc/shadow"}`},
		{"read", "file_path", "", `{"file_path": null, "paths": ["/etc/shadow"]}`},
		{"read", "p", "", `{"file_path": "/etc/shadow"}`},
		{"bash", "command", "", `{"cmd": "cat /etc/shadow"}`},
		{"bash", "line", "", `{"command": "cat /etc/shadow"}`},
		{"write", "file_path", "", `{"path": "/etc/shadow", "content": "x"}`},
		{"glob", "path", "", `{"dir": "/etc", "pattern": "shadow"}`},
		{"grep", "path", "", `{"root": {"dir": "/etc"}, "pattern": "x"}`},
	} {
		tool := toolOfKind(t, tc.kind, agentscope.Config{Argument: tc.argument}, strings.ReplaceAll(tc.schema, "%", tc.argument))
		for _, rules := range [][]permission.Rule{
			{content("secrets", "deny", "/etc/shadow")},
			{content("secrets", "deny", "/etc/shadow"), rule("all", "allow", "")},
			{content("all", "allow", "*")},
			nil,
		} {
			b := compile(t, permission.Options{Tools: []permission.Tool{tool}}, rules...)
			for _, mode := range allModes {
				if mode == permission.ModeBypass && rules == nil {
					continue // this mode allows calls without a rule
				}
				d := b.Decide(context.Background(), permission.Request{Tool: "t", Input: []byte(tc.input), Mode: mode, Cwd: "/w"})
				if d.Behavior == message.BehaviorAllow {
					t.Errorf("%s with %s and %d rules in %s: allowed by %s", tc.kind, tc.input, len(rules), mode, d.Step)
				}
			}
		}
	}
}

// Rules apply to the argument that the tool names.
func TestNamedArgument(t *testing.T) {
	for _, tc := range []struct {
		kind, argument, content, input string
		want                           message.Behavior
	}{
		{"read", "path", "/etc/shadow", `{"path": "/etc/../etc/shadow"}`, "deny"},
		{"read", "path", "/etc/shadow", `{"path": "/etc/hosts"}`, "allow"},
		{"bash", "cmd", "rm:*", `{"cmd": "ls; rm x"}`, "deny"},
		{"bash", "cmd", "rm:*", `{"cmd": "ls -la"}`, "allow"},
		{"grep", "dir", "/etc/*", `{"dir": "/etc/ssl", "pattern": "x"}`, "deny"},
		{"write", "to", "/etc/*", `{"to": "/etc/x"}`, "deny"},
	} {
		tool := toolOfKind(t, tc.kind, agentscope.Config{Argument: tc.argument}, "")
		b := compile(t, permission.Options{Tools: []permission.Tool{tool}}, content("no", "deny", tc.content))
		d := b.Decide(context.Background(), permission.Request{Tool: "t", Input: []byte(tc.input), Cwd: "/w"})
		if d.Behavior != tc.want {
			t.Errorf("%s with %s: %s by %s, want %s", tc.kind, tc.input, d.Behavior, d.Step, tc.want)
		}
	}
}
