//go:build unix

package cli_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/toolcall"
)

// oddFiles creates one of each kind of path that is not a regular file, and returns the paths
// with their error messages.
func oddFiles(t *testing.T) map[string]string {
	t.Helper()
	at := func(name string) string { return filepath.Join(t.TempDir(), name) }
	pipe, folder, link, socket := at("pipe.yaml"), at("folder.yaml"), at("link.yaml"), filepath.Join(shortDir(t), "s.yaml")
	for _, err := range []error{syscall.Mkfifo(pipe, 0o600), os.Mkdir(folder, 0o700), os.Symlink(pipe, link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return map[string]string{pipe: "is a pipe, not a file", folder: "is a folder, not a file", link: "is a pipe, not a file", socket: "is a socket, not a file", "/dev/zero": "is a device, not a file"}
}

// shortDir returns a folder whose path is short enough for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "a") //nolint:usetesting // a socket has no room for the path of t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// TestOddFiles passes to every flag for an operator's file a path that would block its reader or
// has no end. The command must end and report the problem.
func TestOddFiles(t *testing.T) {
	policyFolder(t)
	write(t, "hooks.yaml", "version: 1\n")
	write(t, "token", "x")
	cert, key := certificate(t)
	pub := publicKey(t)
	serve := func(args ...string) []string {
		return append([]string{"serve", "--data", "none", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-url", "http://x.example"}, args...)
	}
	oidc := []string{"--oidc-issuer", "http://127.0.0.1:1", "--oidc-client", "c", "--oidc-role", "*=approver"}
	for odd, says := range oddFiles(t) {
		folder := strings.HasSuffix(odd, "folder.yaml") // a flag that accepts a folder gets an empty one
		for _, args := range [][]string{
			{"policy", "lint", odd}, {"policy", "lint", "rules.yaml", "--tools", odd}, {"policy", "lint", "rules.yaml", "--directory", odd},
			{"policy", "lint", "rules.yaml", "--recorded", odd}, {"policy", "test", odd}, {"policy", "fmt", odd}, {"policy", "import", odd},
			{"policy", "explain", odd, "--tool", "refund"}, {"policy", "replay", "rules.yaml", "--tools", "tools.yaml", "--calls", odd},
			{"policy", "diff", odd, odd}, {"policy", "vars", "--tools", odd}, {"policy", "put", odd, "--dry-run"},
			{"list", "--config", odd}, {"audit", "verify", odd, "--key", pub}, {"audit", "check", odd, "--key", odd}, {"token", "list", "--http-tokens", odd},
			{"webhooks", "list", "--token-file", odd}, {"worker", "--tool", "refund", "--engine-key", pub, "--approver-keys", odd, "--require-approver-signature", "--nats", "nats://127.0.0.1:1", "--", "true"}, {"worker", "--tool", "refund", "--engine-key", odd, "--nats", "nats://127.0.0.1:1", "--", "true"},
			serve("--policy", odd), serve("--tools", odd), serve("--directory", odd),
			serve("--webhooks", odd), serve("--http-tokens", odd), serve(append(oidc, "--oidc-secret-file", odd)...), serve("--keys", odd),
			serve("--nats-cert", odd, "--nats-key", key), serve("--nats-cert", cert, "--nats-key", odd),
			serve("--http-cert", odd, "--http-key", key), serve("--http-cert", cert, "--http-key", odd), serve("--nats", "nats://127.0.0.1:1", "--creds", odd),
		} {
			r := run(t, args...)
			if r.code != cli.ExitUsage && (!folder || r.code != cli.ExitNotFound) || !strings.Contains(r.err, says) && !folder {
				t.Errorf("askance %s: exit %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
			}
		}
	}
	if _, err := os.Stat("none/nats"); err == nil {
		t.Error("a journal was created")
	}
}

// publicKey writes the public key file of an engine.
func publicKey(t *testing.T) string {
	t.Helper()
	keys, err := keyfile.LoadOrCreate(filepath.Join(t.TempDir(), "engine.key"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "engine.pub")
	if err := keys.WritePublic(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOddFileInAFolder: one path that is not a regular file invalidates a policy folder, because
// its contents are unknown.
func TestOddFileInAFolder(t *testing.T) {
	policyFolder(t)
	if err := os.Mkdir("rules", 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write(t, "rules/a.yaml", string(text))
	ok(t, "policy", "lint", "rules", "--tools", "tools.yaml")
	if err := os.Symlink("/nowhere", "rules/b.yaml"); err != nil {
		t.Fatal(err)
	}
	fails(t, cli.ExitNotFound, "follow the link to /nowhere", "policy", "lint", "rules", "--tools", "tools.yaml")
	for odd, says := range oddFiles(t) {
		if err := os.Remove("rules/b.yaml"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(odd, "rules/b.yaml"); err != nil {
			t.Fatal(err)
		}
		fails(t, cli.ExitUsage, "rules/b.yaml "+says, "policy", "test", "rules", "--tools", "tools.yaml")
	}
}

// TestHandedOver: commands that read once accept a file that a shell passes as a pipe. A server,
// which reads repeatedly, refuses it.
func TestHandedOver(t *testing.T) {
	policyFolder(t)
	text, err := os.ReadFile("rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tools, err := os.ReadFile("tools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	handed := func(text []byte) string {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		go func() {
			_, _ = w.Write(text) // the reader may be gone
			_ = w.Close()
		}()
		return fmt.Sprintf("/dev/fd/%d", r.Fd())
	}
	ok(t, "policy", "lint", handed(text), "--tools", handed(tools))
	ok(t, "policy", "test", "user="+handed(text), "--tools", "tools.yaml")
	ok(t, "policy", "diff", handed(text), handed(text), "--tools", handed(tools))
	ok(t, "policy", "explain", "--tools", "tools.yaml", "--tool", "refund", "--args", "{}", "--policy", handed(text))
	if r := runWith(t, string(text), "policy", "lint", "-", "--tools", "tools.yaml"); r.code != cli.ExitOK {
		t.Errorf("standard input: exit %d\n%s%s", r.code, r.out, r.err)
	}
	if r := runWith(t, "rules: [", "policy", "test", "-"); r.code != cli.ExitUsage || !strings.Contains(r.err, "standard input:1:") {
		t.Errorf("broken standard input: exit %d\n%s%s", r.code, r.out, r.err)
	}
	fails(t, cli.ExitNotFound, "has no askance journal", "list", "--data", "none", "--config", handed([]byte("space: x\n")))
	fails(t, cli.ExitNotFound, "has no askance journal", "list", "--data", "none", "--config", os.DevNull)
	fails(t, cli.ExitUsage, "is a pipe, not a file", "serve", "--data", "none", "--policy", handed(text))
	fails(t, cli.ExitUsage, "is a pipe, not a file", "serve", "--data", "none", "--tools", handed(tools))
}

// TestUnreadableCredentials: a credentials folder that cannot be read does not count as missing,
// because then the server would require no login.
func TestUnreadableCredentials(t *testing.T) {
	cleanEnvironment(t)
	data := t.TempDir()
	if err := os.Symlink("creds", filepath.Join(data, "creds")); err != nil {
		t.Fatal(err)
	}
	fails(t, cli.ExitError, "look for credentials", "serve", "--data", data, "--listen", "127.0.0.1:0", "--http", "off")
}

// hostile contains an escape sequence, a Cyrillic letter in a Latin word, a change of direction,
// and an invisible character.
const hostile = "\x1b[2Jp\u0430y\u202epal\u200b"

// TestHostileText: every command that shows what agents and people wrote shows it in the same
// safe form.
func TestHostileText(t *testing.T) {
	cleanEnvironment(t)
	s := serveRules(t, strings.Replace(testRules, "rules:", "rules:\n  - {name: odd, tool_name: outside, behavior: ask, when: 'size(args) > 0', message: \"'Run ' + args.what + '?'\"}", 1))
	id := "c-" + hostile
	input := `{"what":"` + strings.ReplaceAll(hostile, "\x1b", `\u001b`) + `"}`
	s.propose("r1-"+hostile, id, "outside", input)
	shown := func(args ...string) {
		t.Helper()
		r := run(t, append(args, "--data", s.data)...)
		if r.code != 0 || !strings.Contains(r.out, "‹U+001B›[2Jp‹U+0430›y") {
			t.Errorf("askance %s: exit %d\n%s%s", args[0], r.code, r.out, r.err)
		}
		for _, text := range []string{r.out, r.err} {
			if text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '‹' || r == '›' }), ""); reveal.Hidden(text) {
				t.Errorf("askance %s shows %q", args[0], text)
			}
		}
	}
	shown("show", id)
	shown("events", "tail", "--once")
	shown("delegate", id, "--to", "ann-"+hostile, "--note", hostile, "--yes")
	shown("show", id)
	shown("list", "--all")
	if got := decode[toolcall.ShowReply](t, ok(t, "show", id, "--json", "--data", s.data)).Call; string(got.Call) != id || got.Input != input {
		t.Errorf("show --json contains %q with %q", got.Call, got.Input)
	}
	if r := run(t, "__complete", "show", "", "--data", s.data); strings.Contains(r.out, "c-") {
		t.Errorf("completion offers %q", r.out)
	}
	shown("reject", id, "--yes", "--feedback", hostile)
	shown("show", id)
	s.propose("r1-"+hostile, id+"2", "outside", input)
	shown("interrupt", id+"2")
	shown("list", "--all")
}
