package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/gateway/agenthook/dialect"
	"github.com/askance-dev/askance/toolcall"
)

const agentRules = `
version: 1
name: agent
rules:
  - {name: look, tool: [frontend/Read], behavior: allow}
  - {name: shell, tool: [frontend/Bash], behavior: ask}
  - {name: never, tool: [frontend/Write], behavior: deny, message: "'no files'"}
`

// beforeTool returns an event before a tool call, in a session of the dialect.
func beforeTool(d dialect.Dialect, id, tool string) string {
	name := map[dialect.Dialect]string{dialect.Gemini: "BeforeTool"}[d]
	if name == "" {
		name = "PreToolUse"
	}
	return fmt.Sprintf(`{"session_id":%q,"hook_event_name":%q,"tool_name":%q,"tool_input":{"command":"make"},"tool_use_id":%q,"cwd":"/w"}`, d, name, tool, id)
}

// hookProcess starts askance hook as an agent does, with the event on its input.
func hookProcess(t *testing.T, d dialect.Dialect, event string, args ...string) (c *exec.Cmd, out, errs *bytes.Buffer) {
	t.Helper()
	c = exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], append([]string{"hook", string(d)}, args...)...)
	out, errs = new(bytes.Buffer), new(bytes.Buffer)
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(event), out, errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() }) // the process may have ended
	return c, out, errs
}

// runsTool reports whether the agent runs the tool after its hook: after exit code 0 it depends
// on the output, after exit code 2 the agent does not, and after other codes it does.
func runsTool(d dialect.Dialect, code int, out string) bool {
	switch {
	case code == 2:
		return false
	case code != 0:
		return true
	case d == dialect.Gemini:
		return !strings.Contains(out, `"decision":"deny"`)
	}
	return !strings.Contains(out, `"permissionDecision":"deny"`)
}

// fakeServer stands in for askance.
func fakeServer(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// TestHookFailsClosed: after every failure the agent does not run the tool, and its model is told
// why.
func TestHookFailsClosed(t *testing.T) {
	cleanEnvironment(t)
	hangs := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	says := func(status int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	allow := `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"},"decision":"allow"}`
	good := func(d dialect.Dialect) string { return beforeTool(d, "c1", "Read") }
	rows := []struct {
		name  string
		url   string
		event func(dialect.Dialect) string
		says  string
		args  []string
	}{
		{"server down", "http://127.0.0.1:1", good, "does not respond", nil},
		{"no socket", "unix:///nonexistent/askance.sock", good, "does not respond at unix:///nonexistent/askance.sock", nil},
		{"a socket without a folder", "unix://askance.sock", good, "is not an http or https URL", nil},
		{"server hangs until the agent's timeout", fakeServer(t, hangs), good, "in time", []string{"--timeout", "6s"}},
		{"server crashes", fakeServer(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), good, "does not respond", nil},
		{"server crashes within its answer", fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Askance-Invocation", r.Header.Get("Askance-Invocation"))
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, allow)
		}), good, "does not respond", nil},
		{"engine down", fakeServer(t, says(503, "application/problem+json", `{"status":503,"code":"unavailable","detail":"the journal did not answer","hint":"try again"}`)), good, "the journal did not answer", nil},
		{"another server allows", fakeServer(t, says(200, "application/json", allow)), good, "did not answer as askance does", nil},
		{"another server is silent", fakeServer(t, says(204, "", "")), good, "did not answer as askance does", nil},
		{"a proxy answers", fakeServer(t, says(502, "text/html", "<html>")), good, "did not answer as askance does", nil},
		{"a redirection", fakeServer(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }), good, "did not answer as askance does", nil},
		{"garbage in the answer", fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Askance-Invocation", r.Header.Get("Askance-Invocation"))
			says(200, "application/json", allow+"garbage")(w, r)
		}), good, "is not known to this command", nil},
		{"an unknown decision", fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Askance-Invocation", r.Header.Get("Askance-Invocation"))
			says(200, "application/json", `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"postpone"}}`)(w, r)
		}), good, "is not known to this command", nil},
		{"garbage in the event", fakeServer(t, hangs), func(dialect.Dialect) string { return "hello" }, "the event is not valid", nil},
		{"an empty event", fakeServer(t, hangs), func(dialect.Dialect) string { return "" }, "the event is not valid", nil},
		{"an unknown event", fakeServer(t, hangs), func(d dialect.Dialect) string {
			return strings.NewReplacer("PreToolUse", "PreTool", "BeforeTool", "PreTool").Replace(good(d))
		}, `the event "PreTool" is unknown`, nil},
		{"a duplicate member", fakeServer(t, hangs), func(d dialect.Dialect) string {
			return strings.Replace(good(d), `"tool_name"`, `"tool_name":"Bash","tool_name"`, 1)
		}, "the event is not valid", nil},
		{"a flag that does not exist", fakeServer(t, hangs), good, "unknown flag", []string{"--tineout", "6s"}},
		{"a token file that does not exist", fakeServer(t, hangs), good, "no such file", []string{"--token-file", "/nonexistent/token"}},
		{"a timeout below the margin", fakeServer(t, hangs), good, "--timeout is 3s", []string{"--timeout", "3s"}},
		{"no TLS", "http://192.0.2.1:8787", good, "has no TLS, so the token", nil},
		{"an invalid URL", "localhost:8787", good, "is not an http or https URL", nil},
	}
	var checks []func()
	for _, row := range rows {
		for _, d := range dialect.Dialects() {
			c, out, errs := hookProcess(t, d, row.event(d), append([]string{"--url", row.url}, row.args...)...)
			checks = append(checks, func() {
				_ = c.Wait() // the code says it
				if runsTool(d, c.ProcessState.ExitCode(), out.String()) {
					t.Errorf("%s, %s: exit %d and %q let the tool run", row.name, d, c.ProcessState.ExitCode(), out)
				}
				if out.Len() > 0 || !strings.Contains(errs.String(), row.says) {
					t.Errorf("%s, %s: printed %q and the reason %q, want %q", row.name, d, out, errs, row.says)
				}
			})
		}
	}
	for _, check := range checks {
		check()
	}
	t.Run("no agent named", func(t *testing.T) {
		fails(t, cli.ExitUsage, "name the agent", "hook")
		fails(t, cli.ExitUsage, "unknown command", "hook", "claude")
	})
}

// panics is a reader that panics.
type panics struct{}

func (panics) Read([]byte) (int, error) { panic("defect") }

// TestHookInputThatStaysOpen: the hook answers before the agent's timeout, and after a signal,
// even if the agent does not close its input.
func TestHookInputThatStaysOpen(t *testing.T) {
	cleanEnvironment(t)
	for name, signalled := range map[string]bool{"timeout": false, "signal": true} {
		in, event := io.Pipe()
		t.Cleanup(func() { _ = event.Close() })
		ctx, end := context.WithCancel(t.Context())
		t.Cleanup(end)
		timeout := "6s"
		if signalled {
			timeout = "10m"
			end()
		}
		var out, errs bytes.Buffer
		if code := cli.Main(ctx, cli.IO{In: in, Out: &out, Err: &errs}, []string{"hook", "gemini", "--timeout", timeout}); code != 2 || out.Len() > 0 || !strings.Contains(errs.String(), "this tool call is blocked") {
			t.Errorf("%s: exit %d, printed %q and %q", name, code, &out, &errs)
		}
	}
}

// TestHookCrash: a panic of the command and a signal both block the call.
func TestHookCrash(t *testing.T) {
	cleanEnvironment(t)
	for _, d := range dialect.Dialects() {
		var out, errs bytes.Buffer
		if code := cli.Main(t.Context(), cli.IO{In: panics{}, Out: &out, Err: &errs}, []string{"hook", string(d)}); code != 2 || out.Len() > 0 || !strings.Contains(errs.String(), "defect") {
			t.Errorf("%s: exit %d, printed %q and %q", d, code, &out, &errs)
		}
	}
	asked := make(chan struct{}, 1)
	url := fakeServer(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		<-r.Context().Done()
	})
	for _, d := range dialect.Dialects() {
		for _, sent := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
			if signal.Ignored(sent) { // the tests run under nohup, and so would the hook
				continue
			}
			c, out, errs := hookProcess(t, d, beforeTool(d, "c1", "Read"), "--url", url)
			<-asked
			if err := c.Process.Signal(sent); err != nil {
				t.Fatal(err)
			}
			if _ = c.Wait(); c.ProcessState.ExitCode() != 2 || out.Len() > 0 || errs.Len() == 0 {
				t.Errorf("%s after %s: exit %d, printed %q and %q", d, sent, c.ProcessState.ExitCode(), out, errs)
			}
		}
	}
}

// TestHookWithoutReader: an agent that closed the output of its hook sees that nothing was decided.
func TestHookWithoutReader(t *testing.T) {
	cleanEnvironment(t)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = reader.Close()
	defer writer.Close()
	for _, d := range dialect.Dialects() {
		c := exec.CommandContext(t.Context(), os.Args[0], "hook", string(d), "--url", "http://127.0.0.1:1")
		c.Stdin, c.Stdout, c.Stderr = strings.NewReader("{}"), writer, writer
		if _ = c.Run(); c.ProcessState.ExitCode() != 2 {
			t.Errorf("%s: %s", d, c.ProcessState)
		}
	}
}

// TestHook uses a real server and real processes. If a hook is killed, the next call with the
// same arguments takes over its request.
func TestHook(t *testing.T) {
	cleanEnvironment(t)
	s := serveRules(t, agentRules)
	end := func(c *exec.Cmd, out, errs *bytes.Buffer) (int, string) {
		t.Helper()
		_ = c.Wait() // the exit code is checked
		if c.ProcessState.ExitCode() == 0 && errs.Len() > 0 {
			t.Errorf("printed %q", errs)
		}
		return c.ProcessState.ExitCode(), out.String()
	}
	asking := func(d dialect.Dialect) *toolcall.Call {
		t.Helper()
		for ctx, cancel := context.WithTimeout(t.Context(), time.Minute); ; {
			r := decode[toolcall.ListReply](t, ok(t, "list", "--json", "--session", string(d), "--state", "asking", "--data", s.data))
			if len(r.Calls) == 1 {
				cancel()
				return r.Calls[0]
			}
			if ctx.Err() != nil {
				t.Fatalf("%d requests are open", len(r.Calls))
			}
		}
	}
	for _, d := range dialect.Dialects() {
		if code, out := end(hookProcess(t, d, beforeTool(d, "c1", "Read"), "--url", s.http)); code != 0 || !runsTool(d, code, out) || d == dialect.Codex && out != "" {
			t.Errorf("%s: an allowed call: exit %d, printed %q", d, code, out)
		}
		if code, out := end(hookProcess(t, d, beforeTool(d, "c2", "Write"), "--url", s.http)); code != 0 || runsTool(d, code, out) || !strings.Contains(out, "no files") {
			t.Errorf("%s: a denied call: exit %d, printed %q", d, code, out)
		}
		c, out, _ := hookProcess(t, d, beforeTool(d, "c3", "Bash"), "--url", s.http)
		call := asking(d)
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if _ = c.Wait(); out.Len() > 0 {
			t.Errorf("%s: a killed hook printed %q", d, out)
		}
		waitReleased(t, s, d)
		ok(t, "approve", string(call.Call), "--session", string(d), "--yes", "--data", s.data)
		if code, out := end(hookProcess(t, d, beforeTool(d, "c4", "Bash"), "--url", s.http)); code != 0 || !runsTool(d, code, out) {
			t.Errorf("%s: the next call after the approval: exit %d, printed %q", d, code, out)
		}
		after := strings.NewReplacer("PreToolUse", "PostToolUse", "BeforeTool", "AfterTool", `"tool_use_id"`, `"tool_response":"built","tool_use_id"`).Replace(beforeTool(d, "c4", "Bash"))
		if code, out := end(hookProcess(t, d, after, "--url", s.http)); code != 0 || out != "" {
			t.Errorf("%s: a result: exit %d, printed %q", d, code, out)
		}
		if got := decode[toolcall.ShowReply](t, ok(t, "show", string(call.Call), "--session", string(d), "--json", "--data", s.data)).Call; got.Result == nil || got.Result.Output.String() != "built" {
			t.Errorf("%s: the result is %+v", d, got.Result)
		}
	}
}

// waitReleased waits until the server has noticed that a hook is gone.
func waitReleased(t *testing.T, s *served, d dialect.Dialect) {
	t.Helper()
	for {
		code, text := s.send(http.MethodGet, "/v1/sessions/"+string(d)+"/events?wait_ms=1000", "")
		if code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		if strings.Contains(text, "hook.released") {
			return
		}
	}
}

// TestHookToken: the command reads its token from a file or the environment, and a token with
// another role decides nothing.
func TestHookToken(t *testing.T) {
	cleanEnvironment(t)
	s := serveRules(t, agentRules)
	files := map[string]string{}
	for _, role := range []string{"runtime", "approver"} {
		files[role] = filepath.Join(t.TempDir(), role)
		write(t, files[role], ok(t, "token", "create", role, "--role", role, "--data", s.data))
	}
	event := beforeTool(dialect.ClaudeCode, "c1", "Read")
	for { // the running server checks the file every second
		if r := runWith(t, event, "hook", "claude-code", "--url", s.http, "--token-file", files["approver"]); !strings.Contains(r.err, "token is unknown") {
			break
		}
	}
	if r := runWith(t, event, "hook", "claude-code", "--url", s.http); r.code != 2 || !strings.Contains(r.err, "no credentials\nhint: pass --token-file or set ASKANCE_TOKEN; to create a token: askance token create NAME --role runtime") {
		t.Errorf("without a token: exit %d, %s", r.code, r.err)
	}
	if r := runWith(t, event, "hook", "claude-code", "--url", s.http, "--token-file", files["runtime"]); r.code != 0 || !json.Valid([]byte(r.out)) {
		t.Errorf("a runtime: exit %d, %s%s", r.code, r.out, r.err)
	}
	if r := runWith(t, event, "hook", "claude-code", "--url", s.http, "--token-file", files["approver"]); r.code != 2 || r.out != "" || !strings.Contains(r.err, "approver cannot send the hook events of claude-code (this needs the role runtime; yours: approver)\nhint: use credentials with such a role") {
		t.Errorf("an approver: exit %d, %s%s", r.code, r.out, r.err)
	}
	b, err := os.ReadFile(files["runtime"])
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("ASKANCE_TOKEN", strings.TrimSpace(string(b)))
	t.Setenv("ASKANCE_URL", s.http)
	if r := runWith(t, event, "hook", "claude-code"); r.code != 0 || !strings.Contains(r.out, `"permissionDecision":"allow"`) {
		t.Errorf("with a token in the environment: exit %d, %s%s", r.code, r.out, r.err)
	}
	// An agent could write a settings file in the project, so the hook does not read it.
	write(t, "askance.yaml", "no_such_setting: true\n")
	if r := runWith(t, event, "hook", "claude-code"); r.code != 0 {
		t.Errorf("with a broken settings file in the folder: exit %d, %s", r.code, r.err)
	}
}

// TestHookInstall: the installed hook decides, and check proves that it decides and blocks.
// Without a server, and with a broken entry, check reports that.
func TestHookInstall(t *testing.T) {
	parallel(t)
	s := serveRules(t, agentRules)
	for _, d := range dialect.Dialects() {
		file := filepath.Join(t.TempDir(), "folder", "settings.json")
		fails(t, cli.ExitUsage, "not a terminal: pass --yes", "hook", "install", string(d), "--file", file)
		fails(t, cli.ExitFindings, "checks failed", "hook", "check", string(d), "--file", file)
		out := ok(t, "hook", "install", string(d), "--file", file, "--url", s.http, "--yes")
		if !strings.Contains(out, "+ ") || !strings.Contains(out, "hook "+string(d)+" --url "+s.http) {
			t.Errorf("install does not show the change:\n%s", out)
		}
		if out := ok(t, "hook", "install", string(d), "--file", file, "--url", s.http, "--yes"); !strings.HasPrefix(out, "Nothing to change") {
			t.Errorf("installing a second time: %s", out)
		}
		out = ok(t, "hook", "check", string(d), "--file", file)
		if strings.Contains(out, "FAIL") || !strings.Contains(out, "without askance the hook blocks") || !strings.Contains(out, "the hook decides") {
			t.Errorf("%s: %s", d, out)
		}
		const remote = "http://192.0.2.1:8787"
		fails(t, cli.ExitUsage, "has no TLS", "hook", "install", string(d), "--file", file, "--url", remote, "--yes")
		if out := ok(t, "hook", "install", string(d), "--file", file+".remote", "--url", remote, "--url-insecure", "--yes"); !strings.Contains(out, " --url-insecure\"") {
			t.Errorf("the hook would refuse the URL:\n%s", out)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		write(t, file, strings.ReplaceAll(string(b), s.http, "http://127.0.0.1:9"))
		if r := fails(t, cli.ExitFindings, "checks failed", "hook", "check", string(d), "--file", file); !strings.Contains(r.out, "FAIL  the hook fails: askance does not respond") {
			t.Errorf("%s: without a server: %s", d, r.out)
		}
		write(t, file, strings.ReplaceAll(string(b), os.Args[0], "/nonexistent/askance"))
		if r := fails(t, cli.ExitFindings, "checks failed", "hook", "check", string(d), "--file", file); !strings.Contains(r.out, "FAIL  the hook fails") || !strings.Contains(r.out, "FAIL  without askance the hook does not block: exit code 127") {
			t.Errorf("%s: %s", d, r.out)
		}
		ok(t, "hook", "uninstall", string(d), "--file", file, "--yes")
		if b, err := os.ReadFile(file); err != nil || strings.Contains(string(b), "hook") {
			t.Errorf("after uninstall: %s %v", b, err)
		}
	}
	r := decode[toolcall.ListReply](t, ok(t, "list", "--all", "--json", "--data", s.data))
	if len(r.Calls) != 0 {
		t.Errorf("checks recorded %d calls", len(r.Calls))
	}
	for _, args := range []string{"hook install", "hook install vim", "hook install codex --http-hook", "hook install claude-code --http-hook --token-file x", "hook install claude-code --http-hook --url unix:///s", "hook install gemini --timeout 5s --yes", "hook install codex --on-allow maybe"} {
		if r := run(t, strings.Fields(args)...); r.code != cli.ExitUsage {
			t.Errorf("%s: exit %d", args, r.code)
		}
	}
}

// TestPermissionPrompt: the MCP tool for Claude Code decides as its hook does, in the folder where
// it was started, and denies without a server.
func TestPermissionPrompt(t *testing.T) {
	cleanEnvironment(t)
	s := serveRules(t, agentRules+`  - {name: elsewhere, tool: [frontend/Read], when: '!has(ctx.cwd)', behavior: deny, message: "'elsewhere'"}
`)
	for _, tc := range []struct{ dir, url, tool, want string }{
		{"", s.http, "Read", `{"behavior":"allow","updatedInput":{"command":"make"}}`},
		{t.TempDir(), s.http, "Read", `{"behavior":"deny","message":"Permission denied for Read (rule elsewhere: elsewhere)`},
		{"", s.http, "Write", `{"behavior":"deny","message":"`},
		{"", "http://127.0.0.1:9", "Read", `{"behavior":"deny","message":"askance hook: this tool call is blocked: askance does not respond`},
	} {
		client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		command := exec.CommandContext(t.Context(), os.Args[0], "hook", "mcp", "--url", tc.url)
		command.Dir = tc.dir
		session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: command}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "approve", Arguments: map[string]any{"tool_name": tc.tool, "input": map[string]any{"command": "make"}, "tool_use_id": "t1-" + tc.tool}})
		if err != nil {
			t.Fatal(err)
		}
		text, is := r.Content[0].(*mcp.TextContent)
		if !is || !strings.HasPrefix(text.Text, tc.want) || !json.Valid([]byte(text.Text)) {
			t.Errorf("%s: %+v, want %s", tc.tool, r.Content[0], tc.want)
		}
		if err := session.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// TestCodingAgentsPage: the policy of the page works unchanged, and its commands exist.
func TestCodingAgentsPage(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/howto/coding-agents.md")
	if err != nil {
		t.Fatal(err)
	}
	cleanEnvironment(t)
	files := strings.Split(string(page), "```yaml\n")
	if len(files) != 4 {
		t.Fatalf("the page has %d files, want 3", len(files)-1)
	}
	for i := range files {
		files[i], _, _ = strings.Cut(files[i], "```")
	}
	dir := t.TempDir()
	tools, commands := filepath.Join(dir, "tools.yaml"), filepath.Join(dir, "commands.yaml")
	write(t, tools, files[2])
	write(t, commands, files[3])
	for command, want := range map[string]string{"go test ./...": "allow by rule tests", "cat ~/.ssh/id": "deny by rule no-keys"} {
		if out := ok(t, "policy", "explain", commands, "--tools", tools, "--tool", "Bash", "--args", `{"command": "`+command+`"}`); !strings.HasPrefix(out, want) {
			t.Errorf("%s: %s, want %s", command, out, want)
		}
	}
	s := serveRules(t, files[1])
	if r := runWith(t, beforeTool(dialect.ClaudeCode, "c1", "Read"), "hook", "claude-code", "--url", s.http); !strings.Contains(r.out, `"permissionDecision":"allow"`) {
		t.Errorf("Read: exit %d %s%s", r.code, r.out, r.err)
	}
	if r := runWith(t, beforeTool(dialect.Gemini, "c2", "run_shell_command"), "hook", "gemini", "--url", s.http, "--dry-run"); !strings.Contains(r.out, "the policy says ask") {
		t.Errorf("run_shell_command: exit %d %s%s", r.code, r.out, r.err)
	}
	all := ownCommands()
	for _, block := range strings.Split(string(page), "```sh\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for line := range strings.Lines(block) {
			if strings.HasPrefix(line, "askance ") {
				checkExample(t, all, line)
			}
		}
	}
}
