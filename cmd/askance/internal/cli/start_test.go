package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/gateway/agenthook/dialect"
)

// The files that askance init writes load, pass lint and their own tests, and a server runs with
// them.
func TestInit(t *testing.T) {
	cleanEnvironment(t)
	if out := ok(t, "init", "shop"); !strings.Contains(out, "cd shop && askance serve\n") || !strings.Contains(out, "\n  cd shop && askance open ") || !strings.Contains(out, "\n  cd shop && askance preview ") {
		t.Errorf("init printed\n%s", out)
	}
	t.Chdir("shop")
	r := fails(t, cli.ExitConflict, "askance.yaml, rules.yaml, tools.yaml", "init")
	if !strings.Contains(r.err, "--force") {
		t.Errorf("the error contains no advice: %s", r.err)
	}
	write(t, "rules.yaml", "mine")
	if out := ok(t, "init", "--force"); !strings.Contains(out, "\n  askance open ") {
		t.Errorf("init --force printed\n%s", out)
	}
	if out := ok(t, "policy", "check", "rules.yaml", "--tools", "tools.yaml", "--strict"); !strings.HasPrefix(out, "0 errors, 0 warnings") {
		t.Errorf("lint printed\n%s", out)
	}
	ok(t, "policy", "test", "rules.yaml", "--tools", "tools.yaml")
	s := serveOn(t, ".askance")
	for command, want := range map[string]string{"ls": "allow", "go test ./...": "allow", "git push": "ask", "git push --force": "deny"} {
		if out := ok(t, "preview", "bash", "--args", `{"command": "`+command+`"}`); !strings.HasPrefix(out, want+" bash") {
			t.Errorf("preview of %s printed\n%s", command, out)
		}
	}
	if out := ok(t, "open", "--print"); out != s.http+"/\n" {
		t.Errorf("open --print printed %q, the console is at %s", out, s.http)
	}
}

// askance open starts the browser with the page of the console or of a call.
func TestOpen(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	s.propose("r1", "c1", "pay", `{"cents":500}`)
	at := filepath.Join(t.TempDir(), "opened")
	browser := filepath.Join(t.TempDir(), "browser.sh")
	if err := os.WriteFile(browser, []byte("#!/bin/sh\necho \"$1\" >"+at+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BROWSER", browser)
	want := s.http + "/inbox/call?call=c1&reply=r1&session=s1\n"
	if out := ok(t, "open", "c1", "--data", s.data); out != want {
		t.Errorf("open printed %q, want %q", out, want)
	}
	if b, err := os.ReadFile(at); err != nil || string(b) != want {
		t.Errorf("the browser got %q, %v", b, err)
	}
	t.Setenv("BROWSER", "")
	t.Setenv("PATH", "")
	fails(t, cli.ExitUnavailable, "open "+s.http+"/ in a browser", "open", "--data", s.data)
	fails(t, cli.ExitNotFound, "pass --http-url", "open", "--nats", s.url)
	fails(t, cli.ExitUsage, "not the address of a web console", "open", "--http-url", "javascript:alert(1)", "--print", "--data", s.data)
	s.stop()
	fails(t, cli.ExitUnavailable, "start it with askance serve --data "+s.data, "open", "--data", s.data)

	s = serveOn(t, s.data, "--http", "off")
	fails(t, cli.ExitUnavailable, "has no web console\nhint: use go run ./cmd/askance inbox --data "+s.data, "open", "--data", s.data)
}

// A program that uses a folder without an address is no missing server.
func TestFolderOfAProgram(t *testing.T) {
	cleanEnvironment(t)
	data := t.TempDir()
	server, err := embed.Start(t.Context(), embed.Options{StoreDir: filepath.Join(data, "nats"), Durability: journal.DurabilityCached})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	fails(t, cli.ExitUnavailable, "the program that uses "+data+" accepts no commands", "approve", "c1", "--yes", "--data", data)
	fails(t, cli.ExitUnavailable, "the program on "+data+" has no web console", "open", "--data", data)
}

// A console that only has a Unix socket does not count as missing.
func TestOpenWithASocket(t *testing.T) {
	cleanEnvironment(t)
	dir, err := os.MkdirTemp("", "askance") //nolint:usetesting // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	data, socket := filepath.Join(dir, "data"), filepath.Join(dir, "http.sock")
	t.Chdir(dir)
	write(t, "tools.yaml", testTools)
	s := serveOn(t, data, "--http", "off", "--http-socket", filepath.Base(socket), "--tools", "tools.yaml")
	t.Chdir(t.TempDir()) // commands run in another folder
	fails(t, cli.ExitUnavailable, "only at the Unix socket "+socket, "open", "--print", "--data", data)
	fails(t, cli.ExitUnavailable, "start the server also with --http 127.0.0.1:8787", "open", "--data", data)
	if out := ok(t, "status", "--data", data); !strings.Contains(out, "unix:"+socket) {
		t.Errorf("status printed\n%s", out)
	}
	s.propose("r1", "c1", "pay", `{"cents":500}`)
	if out := ok(t, "list", "--server", "unix://"+socket); !strings.Contains(out, "c1") {
		t.Errorf("list over the socket printed\n%s", out)
	}
	ok(t, "reject", "c1", "--yes", "--server", "unix://"+socket)
	event := beforeTool(dialect.ClaudeCode, "h1", "Read")
	if r := runWith(t, event, "hook", "claude-code", "--url", "unix://"+socket, "--dry-run"); r.code != cli.ExitOK || !strings.Contains(r.out, "the policy says ask") {
		t.Errorf("a hook over the socket: exit %d, %s%s", r.code, r.out, r.err)
	}
	fails(t, cli.ExitNotFound, "no webhooks", "webhooks", "list", "--data", data)
	fails(t, cli.ExitUnavailable, "unix:///none does not answer", "list", "--server", "unix:///none")
	fails(t, cli.ExitUsage, "is not an http or https URL", "list", "--server", "unix://http.sock")
	fails(t, cli.ExitUsage, "is not an http or https URL", "worker", "--tool", "pay", "--server", "unix://"+socket, "--trust-server-keys", "--", "true")
	killed, err := os.ReadFile(filepath.Join(data, "console"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if r := runWith(t, event, "hook", "claude-code", "--url", "unix://"+socket); r.code != cli.ExitUsage || r.out != "" || !strings.Contains(r.err, "other users can write to "+dir) {
		t.Errorf("a hook over a socket that others could replace: exit %d, %s%s", r.code, r.out, r.err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.stop()
	if err := os.WriteFile(filepath.Join(data, "console"), killed, 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, cli.ExitUnavailable, "no server runs on "+data, "open", "--print", "--data", data)
}

// A context says where the server is, unless a source with precedence does.
func TestContexts(t *testing.T) {
	cleanEnvironment(t)
	config := os.Getenv("XDG_CONFIG_HOME")
	s := serve(t)
	if out := ok(t, "context", "list"); !strings.Contains(out, "askance context add") {
		t.Errorf("context list printed %q", out)
	}
	fails(t, cli.ExitUsage, "pass --data, --nats or --server", "context", "add", "prod", "--as", "ann")
	fails(t, cli.ExitUsage, "cannot have a user or a password", "context", "add", "prod", "--nats", "nats://ann:secret@127.0.0.1:4222")
	for _, server := range []string{"http://ann:secret@127.0.0.1:1", "nats://ann:secret@127.0.0.1:1", "https://ann:secret%@h"} {
		if r := fails(t, cli.ExitUsage, "cannot have a user or a password", "list", "--server", server); strings.Contains(r.err, "secret") {
			t.Errorf("the error repeats the password: %s", r.err)
		}
	}
	fails(t, cli.ExitUsage, "not a valid context name", "context", "add", "../prod", "--data", s.data)
	t.Setenv("ASKANCE_SPACE", "not-stored")
	ok(t, "context", "add", "here", "--data", s.data, "--as", "ann", "--use")
	t.Setenv("ASKANCE_SPACE", "")
	fails(t, cli.ExitConflict, "--replace", "context", "add", "here", "--data", s.data)
	ok(t, "context", "add", "gone", "--data", filepath.Join(config, "gone"))
	file := filepath.Join(config, "askance", "contexts.yaml")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v", file, info, err)
	}
	if b, err := os.ReadFile(file); err != nil || strings.Contains(string(b), "not-stored") {
		t.Errorf("%s: %s, %v", file, b, err)
	}
	if out := ok(t, "context", "list"); !strings.Contains(out, "here  *        "+s.data) || !strings.Contains(out, "\ngone           ") {
		t.Errorf("context list printed\n%s", out)
	}

	s.propose("r1", "c1", "pay", `{"cents":500}`)
	if out := ok(t, "list"); !strings.Contains(out, "c1") {
		t.Errorf("list in the current context printed\n%s", out)
	}
	ok(t, "approve", "c1", "--yes")
	if out := ok(t, "show", "c1"); !strings.Contains(out, "approve by approver ann") {
		t.Errorf("the context did not say who approves:\n%s", out)
	}
	gone := filepath.Join(config, "gone") + " has no askance journal"
	fails(t, cli.ExitNotFound, gone, "list", "--context", "gone")
	t.Setenv("ASKANCE_CONTEXT", "gone")
	fails(t, cli.ExitNotFound, gone, "list")
	ok(t, "list", "--context", "here")
	ok(t, "list", "--data", s.data)
	t.Setenv("ASKANCE_CONTEXT", "")
	fails(t, cli.ExitUsage, "both say where the server is", "list", "--context", "here", "--data", s.data)
	fails(t, cli.ExitNotFound, `there is no context "hree"; did you mean here?`, "list", "--context", "hree")

	// A settings file that names the server takes precedence over the current context, and an
	// explicit context over the file.
	write(t, "askance.yaml", "data: "+filepath.Join(config, "other")+"\n")
	fails(t, cli.ExitNotFound, filepath.Join(config, "other")+" has no askance journal", "list")
	ok(t, "list", "--context", "here")
	fails(t, cli.ExitNotFound, "has no askance journal", "list", "--context", "")
	if err := os.Remove("askance.yaml"); err != nil {
		t.Fatal(err)
	}

	if out := run(t, "__complete", "list", "--context", "").out; !strings.Contains(out, "here\n") || !strings.Contains(out, "gone\n") {
		t.Errorf("completion of contexts:\n%s", out)
	}
	if out := ok(t, "context", "show"); !strings.Contains(out, "here, the current context") || !strings.Contains(out, s.data) {
		t.Errorf("context show printed\n%s", out)
	}
	ok(t, "context", "use", "gone")
	fails(t, cli.ExitNotFound, gone, "list")
	ok(t, "context", "rm", "gone")
	fails(t, cli.ExitNotFound, "there is no current context", "context", "show")
	fails(t, cli.ExitNotFound, "there is no context", "context", "use", "gone")
	write(t, file, "contexts: {here: {token: secret}}\n")
	fails(t, cli.ExitUsage, "not a setting of a context", "list")
}

// With a URL and a token, the same commands work over HTTP.
func TestOverHTTP(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	s.propose("r1", "call_1", "pay", `{"cents":500}`)
	token := filepath.Join(t.TempDir(), "ann.token")
	write(t, token, ok(t, "token", "create", "ann", "--role", "approver", "--role", "auditor", "--data", s.data))
	create := func(role string) string {
		return "pass --token-file or set ASKANCE_TOKEN; to create a token: askance token create NAME --role " + role
	}
	fails(t, cli.ExitForbidden, create("runtime"), "call", "pay", "--server", s.http)
	fails(t, cli.ExitForbidden, create("operator"), "resolve", "call_1", "--server", s.http, "--outcome", "run_again")
	bot := filepath.Join(t.TempDir(), "bot.token")
	write(t, bot, ok(t, "token", "create", "bot", "--role", "runtime", "--data", s.data))
	fails(t, cli.ExitForbidden, "bot cannot respond to an approval request (this needs the role approver; yours: runtime)", "approve", "call_1", "--yes", "--server", s.http, "--token-file", bot)
	fails(t, cli.ExitUsage, "has no TLS, so the token and the calls would cross the network in plain text: use https, or pass --nats-insecure", "show", "call_1", "--server", "http://askance.example", "--token-file", token)
	fails(t, cli.ExitUsage, "or pass --server-insecure", "worker", "--tool", "pay", "--server", "http://askance.example", "--token-file", token, "--", "cat")
	fails(t, cli.ExitUsage, "both set", "show", "call_1", "--server", s.http, "--nats", s.url)
	ok(t, "context", "add", "web", "--server", s.http, "--token-file", token, "--use")
	if out := ok(t, "show", "call_1"); !strings.Contains(out, `"cents": 500`) {
		t.Errorf("show over HTTP printed\n%s", out)
	}
	if out := ok(t, "approve", "call_1", "--yes"); out != "call_1 is queued: waiting for a worker\n" {
		t.Errorf("approve over HTTP printed %q", out)
	}
	if out := ok(t, "show", "call_1"); !strings.Contains(out, "approve by approver ann (HTTP token)") {
		t.Errorf("the token does not say who approves:\n%s", out)
	}
	if out := ok(t, "events", "tail", "s1", "--once"); !strings.Contains(out, "USER_CONFIRM_RESULT") {
		t.Errorf("events over HTTP printed\n%s", out)
	}
	fails(t, cli.ExitForbidden, "", "resolve", "call_1", "--outcome", "happened", "--output", "x")
	fails(t, cli.ExitUsage, "cannot be read over HTTP", "audit", "checkpoint")
	if out := ok(t, "open", "--print"); out != s.http+"/\n" {
		t.Errorf("open --print printed %q", out)
	}
}
