package permission_test

import (
	"context"
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/agentscope"
)

func remembered(tool, content string) message.PermissionRule {
	return message.PermissionRule{ToolName: tool, RuleContent: &content, Behavior: message.BehaviorAllow}
}

func TestCovers(t *testing.T) {
	kind, err := agentscope.New(agentscope.Bash, agentscope.Config{Home: "/home/u"})
	if err != nil {
		t.Fatal(err)
	}
	tools := []permission.Tool{{Name: "Bash", Kind: kind}, {Name: "t"}}
	b := compile(t, permission.Options{Tools: tools},
		permission.Rule{Name: "no", Tools: []string{"Bash"}, Behavior: message.BehaviorDeny, When: `args.command.contains("secret")`},
		permission.Rule{Name: "npm", Tools: []string{"Bash"}, Behavior: message.BehaviorAllow, RuleContent: new("npm run:*")})
	for _, c := range []struct {
		command string
		rules   []message.PermissionRule
		why     string // "" if the call is covered
	}{
		{"git push origin main", []message.PermissionRule{remembered("Bash", "git push:*")}, ""},
		{"git fetch origin", []message.PermissionRule{remembered("Bash", "git push:*")}, "does not match this call"},
		{"git push origin secret", []message.PermissionRule{remembered("Bash", "git push:*")}, "no"},
		{"git push && npm run build", []message.PermissionRule{remembered("Bash", "git push:*")}, "does not match this call"}, // the bundle's own rules do not count
		{"git push && npm run build", []message.PermissionRule{remembered("Bash", "git push:*"), remembered("Bash", "npm run:*")}, ""},
		{"rm -rf /", []message.PermissionRule{remembered("Bash", "rm:*"), {ToolName: "Bash", Behavior: message.BehaviorAllow}}, "own check"},
		{"git push $(id)", []message.PermissionRule{{ToolName: "Bash", Behavior: message.BehaviorAllow}}, "own check"},
		{"git push", []message.PermissionRule{{ToolName: "t", Behavior: message.BehaviorAllow}}, "does not match this call"},
		{"git push", []message.PermissionRule{{ToolName: "Bash", Behavior: message.BehaviorDeny}}, "session"},
	} {
		req := permission.Request{Tool: "Bash", Input: []byte(`{"command":"` + c.command + `"}`), Mode: permission.ModeBypass, Cwd: "/work"}
		err := b.Covers(context.Background(), req, c.rules)
		if c.why == "" && err != nil || c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: %v, want %q", c.command, err, c.why)
		}
	}
	if err := b.Covers(context.Background(), permission.Request{Tool: "t", Input: []byte(`{}`)}, []message.PermissionRule{remembered("t", "x")}); err == nil {
		t.Error("content without a meaning covers a call")
	}
	if new(permission.Bundle).Covers(context.Background(), permission.Request{Tool: "t", Input: []byte(`{}`)}, []message.PermissionRule{{ToolName: "t", Behavior: message.BehaviorAllow}}) == nil {
		t.Error("without a policy a call is covered")
	}
	own := permission.Request{Tool: "t", Input: []byte(`{}`), SessionRules: []message.PermissionRule{{ToolName: "t", Behavior: message.BehaviorAllow}}}
	if b.Covers(context.Background(), own, nil) == nil {
		t.Error("another rule of the session counts")
	}
}

func TestValues(t *testing.T) {
	b := compile(t, permission.Options{}, rule("r", message.BehaviorAsk, ""))
	req := permission.Request{Tool: "t", Input: []byte(`{"a": {"b": 10000000000000000001, "c": [1, 2]}, "f": 1.10}`), Caller: permission.Caller{User: "ann"}, Cwd: "/w"}
	got, err := b.Values(context.Background(), req, []string{"args.a.b", "args.a.c", "args.f", "caller.user", "ctx.cwd", "tool.name"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"args.a.b": "10000000000000000001", "args.a.c": "[1,2]", "args.f": "1.10", "caller.user": `"ann"`, "ctx.cwd": `"/w"`, "tool.name": `"t"`} {
		if got[path] != want {
			t.Errorf("%s = %s, want %s", path, got[path], want)
		}
	}
	for _, path := range []string{"args.none", "args.a.b.c", "caller.tenant", "caller.none", "none.x", "args.."} {
		if got, err := b.Values(context.Background(), req, []string{path}); err == nil {
			t.Errorf("%s = %v", path, got)
		}
	}
	for _, path := range []string{"", "args", "caller.user", "args.*", "args.a.*.b", "args.["} {
		if steps, err := permission.ParseArgument(path); err == nil {
			t.Errorf("ParseArgument(%q) = %q", path, steps)
		}
	}
	if _, err := permission.ParseArgument("cents"); err == nil || err.Error() != "write args.cents, not cents" {
		t.Errorf("ParseArgument of an argument without args: %v", err)
	}
}
