package agenthook_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway/agenthook"
	"github.com/askance-dev/askance/gateway/agenthook/dialect"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/agentscope"
	"github.com/askance-dev/askance/toolcall"
)

const folderRules = `version: 1
name: folders
rules:
  - {name: keys, tool_name: Read, rule_content: /home/dev/.ssh/**, behavior: deny}
  - {name: clean, tool_name: Bash, rule_content: ./clean.sh, behavior: allow}
  - {name: apply, tool_name: Bash, rule_content: terraform apply, behavior: allow}
  - {name: notes, tool_name: Write, rule_content: notes/**, behavior: allow}
  - {name: below, tool_name: Write, when: 'path.within(path.join(ctx.cwd, args.file_path), ctx.cwd)', behavior: allow}
  - {name: vendored, tool_name: Write, rule_content: notes/vendor/**, behavior: deny}
`

// newFolders is a world whose engine works in /home/dev/proj.
func newFolders(t *testing.T, opts ...gatewaytest.Option) *world {
	t.Helper()
	var tools []engine.Tool
	var known []permission.Tool
	for name, kind := range map[string]string{"Bash": agentscope.Bash, "run_shell_command": agentscope.Bash, "Read": agentscope.Read, "Write": agentscope.Write} {
		k, err := agentscope.New(kind, agentscope.Config{Home: "/home/dev"})
		if err != nil {
			t.Fatal(err)
		}
		tool := permission.Tool{Name: name, Kind: k}
		known = append(known, tool)
		tools = append(tools, engine.Tool{Tool: tool, Placement: toolcall.PlaceExternal, ConcurrencySafe: true})
	}
	parsed, err := permission.Parse(permission.File{Name: "folders.yaml", Data: []byte(folderRules)})
	if err != nil {
		t.Fatal(err)
	}
	b, err := permission.Compile(parsed, permission.Options{Tools: known, Enforced: engine.Duties()})
	if err != nil {
		t.Fatal(err)
	}
	return newWorld(t, append(opts, gatewaytest.Tools(tools...), gatewaytest.LivePolicy(b, engine.WithWorkingDirs("/home/dev/proj")))...)
}

// preIn is pre with the JSON text of a working folder.
func preIn(d dialect.Dialect, id, tool, input, cwd string) string {
	return strings.Replace(pre(d, id, tool, input), `"/w"`, cwd, 1)
}

// askBriefly sends an event that does not wait long for a person: the engine works through all of
// the time that passes in a bubble.
func (w *world) askBriefly(d dialect.Dialect, event string) answer {
	w.t.Helper()
	a, err := w.send(w.t.Context(), d, agenthook.Options{Hold: time.Second}, event)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// Relative paths mean those of the event's folder. Outside the working folders, the text of a command
// does not say which files it runs.
func TestFolders(t *testing.T) {
	const claude, gemini = dialect.ClaudeCode, dialect.Gemini
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newFolders(t, gatewaytest.In(dir), gatewaytest.Piped())
		for i, c := range []struct {
			d                dialect.Dialect
			tool, input, cwd string
			want             string // allow, ask, or a part of the reason of a denial
		}{
			{claude, "Bash", `{"command":"cat id_rsa"}`, `"/home/dev/.ssh"`, "keys"},
			{claude, "Bash", `{"command":"cat home/dev/.ssh/id_rsa"}`, `"/"`, "keys"},
			{claude, "Read", `{"file_path":"id_rsa"}`, `"/home/dev/.ssh"`, "keys"},
			{claude, "Bash", `{"command":"cat ../../.ssh/id_rsa"}`, `"/home/dev/proj/sub"`, "keys"},
			{gemini, "run_shell_command", `{"command":"cat id_rsa","dir":"/home/dev/.ssh"}`, `"/home/dev/proj"`, "keys"},
			{gemini, "run_shell_command", `{"command":"cat id_rsa","directory":"../.ssh"}`, `"/home/dev/proj"`, "keys"},
			{claude, "Bash", `{"command":"cat id_rsa","dir":"/tmp"}`, `"/home/dev/.ssh"`, "keys"},
			{claude, "Bash", `{"command":"cat a.txt"}`, `"/home/dev/proj/sub"`, "allow"},
			{claude, "Bash", `{"command":"git status"}`, `"/home/dev/proj"`, "allow"},
			{claude, "Bash", `{"command":"git status"}`, `"/home/dev/proj/sub"`, "ask"},
			{claude, "Bash", `{"command":"./clean.sh"}`, `"/home/dev/proj/"`, "allow"},
			{claude, "Bash", `{"command":"./clean.sh"}`, `"/home/dev/proj/sub"`, "ask"},
			{claude, "Bash", `{"command":"./clean.sh"}`, `"/home/dev/other"`, "ask"},
			{claude, "Bash", `{"command":"./clean.sh","dir":"/home/dev/other"}`, `"/home/dev/proj"`, "ask"},
			{claude, "Bash", `{"command":"terraform apply"}`, `"/home/dev/other"`, "ask"},
			{claude, "Write", `{"file_path":"notes/a"}`, `"/home/dev/proj"`, "allow"},
			{claude, "Write", `{"file_path":"notes/b"}`, `"/home/dev/other"`, "ask"},
			{claude, "Write", `{"file_path":"a"}`, `"/home/dev/proj/sub"`, "allow"},
			{claude, "Write", `{"file_path":"/home/dev/proj/a"}`, `"/home/dev/proj/sub"`, "ask"},
			{claude, "Write", `{"file_path":"/etc/passwd"}`, `"/"`, "ask"},
			{claude, "Write", `{"file_path":"vendor/a"}`, `"/home/dev/proj/notes"`, "vendored"},
			{claude, "Bash", `{"command":"ls"}`, `"sub"`, "not an absolute path: sub"},
			{claude, "Bash", `{"command":"ls"}`, `"/home/dev/proj/l/../x"`, "contains .."},
			{claude, "Bash", `{"command":"ls"}`, "\"/home/dev/\u202eproj\"", "hidden character"},
			{claude, "Bash", `{"command":"ls"}`, "\"/home/dev\u2028/proj\"", "hidden character"},
			{claude, "Bash", `{"command":"ls"}`, "\"/home/dev\u2029/proj\"", "hidden character"},
			{claude, "Bash", `{"command":"ls"}`, `7`, "cwd is not a path"},
			{claude, "Bash", `{"command":"ls"}`, `null`, "cwd is not a path"},
			{claude, "Bash", `{"command":"ls"}`, `"/` + strings.Repeat("x", toolcall.MaxCwdBytes) + `"`, "the limit is 4096"},
		} {
			a := w.askBriefly(c.d, preIn(c.d, fmt.Sprint("c", i), c.tool, c.input, c.cwd))
			why := denied(c.d, a)
			switch {
			case c.want == "allow" && !allowed(c.d, a), c.want == "ask" && !strings.Contains(why, "still waiting"),
				c.want != "allow" && (c.want != "ask" && !strings.Contains(why, c.want) || why == ""):
				t.Errorf("%s %s in %s: want %s, got %+v", c.tool, c.input, c.cwd, c.want, a)
			}
		}
	})
}

// An approval is for one folder, which the approver sees.
func TestApprovalOfFolder(t *testing.T) {
	const d, input = dialect.ClaudeCode, `{"command":"make deploy"}`
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newFolders(t, gatewaytest.In(dir), gatewaytest.Piped())
		w.askBriefly(d, preIn(d, "k1", "Bash", input, `"/home/dev/proj/api"`))
		c := w.asking()
		if !strings.Contains(c.RequestText(), "/home/dev/proj/api") || c.Request.Cwd != "/home/dev/proj/api" || !strings.Contains(c.Summary, ", from /home/dev/proj/api") {
			t.Errorf("the approver reads %q about %+v", c.RequestText(), c.Request)
		}
		w.A.Approve(gatewaytest.Ann, c.Key)
		if a := w.askBriefly(d, preIn(d, "k2", "Bash", input, `"/home/dev/proj/web"`)); !strings.Contains(denied(d, a), "still waiting") {
			t.Errorf("the approval for another folder: %+v", a)
		}
		if why := denied(d, w.ask(d, preIn(d, "k1", "Bash", input, `"/home/dev/proj/web"`))); !strings.Contains(why, "in another folder") {
			t.Errorf("the same id in another folder: %q", why)
		}
		if a := w.ask(d, preIn(d, "k3", "Bash", input, `"/home/dev/proj/api/."`)); !allowed(d, a) {
			t.Errorf("the approval for the same folder: %+v", a)
		}
		w.list(1, message.ToolCallAsking)
	})
}

// The prompt about an allowed call assumes a folder, but the call's id names the folder of an earlier event.
func TestPromptAssumesFolder(t *testing.T) {
	const d, input = dialect.ClaudeCode, `{"command":"cat a.txt"}`
	w := newFolders(t)
	assumed := `"/home/dev/proj","cwd_assumed":true`
	for id, cwd := range map[string]string{"k1": "/home/dev/proj", "k2": "/home/dev/proj/sub"} {
		if _, err := w.send(t.Context(), d, agenthook.Options{Pass: true}, preIn(d, id, "Bash", input, `"`+cwd+`"`)); err != nil {
			t.Fatal(err)
		}
		if a := w.ask(d, strings.Replace(preIn(d, id, "Bash", input, assumed), `"prompt_id":"p",`, "", 1)); !allowed(d, a) {
			t.Errorf("in %s: %+v", cwd, a)
		}
		if why := denied(d, w.ask(d, preIn(d, id, "Bash", `{"command":"cat b.txt"}`, assumed))); !strings.Contains(why, "other arguments") {
			t.Errorf("other arguments: %q", why)
		}
	}
}

// Without ids, a result belongs to the call in the same folder.
func TestResultOfFolder(t *testing.T) {
	const d, input = dialect.Gemini, `{"command":"cat a.txt"}`
	w := newFolders(t)
	for _, cwd := range []string{`"/home/dev/proj/a"`, `"/home/dev/proj/b"`} {
		if a := w.ask(d, preIn(d, "", "run_shell_command", input, cwd)); !allowed(d, a) {
			t.Fatalf("%+v", a)
		}
	}
	w.ask(d, strings.Replace(post(d, "", "run_shell_command", input, `{"llmContent":"b"}`), "/w", "/home/dev/proj/b", 1))
	if c := w.list(1, message.ToolCallFinished)[0]; c.Cwd != "/home/dev/proj/b" {
		t.Errorf("the result is recorded for the call in %s", c.Cwd)
	}
}

// A summary shows the ends of a long folder.
func TestLongFolder(t *testing.T) {
	const d = dialect.ClaudeCode
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newFolders(t, gatewaytest.In(dir), gatewaytest.Piped())
		folder := "/home/dev/" + strings.Repeat("é", 500) + "/end"
		w.askBriefly(d, preIn(d, "k1", "Bash", `{"command":"make"}`, `"`+folder+`"`))
		want := ", from /home/dev/" + strings.Repeat("é", 29) + "…" + strings.Repeat("é", 36) + "/end"
		if c := w.asking(); !strings.HasSuffix(c.Summary, want) || c.Request.Cwd != folder {
			t.Errorf("the summary is %q of %q", c.Summary, c.Request.Cwd)
		}
	})
}
