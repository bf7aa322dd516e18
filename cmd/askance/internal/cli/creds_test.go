package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// credFile adds a login and moves its file out of the folder, as an administrator does who hands
// it over.
func credFile(t *testing.T, data string, args ...string) string {
	t.Helper()
	made := decode[struct{ File string }](t, ok(t, append([]string{"creds", "add", "--json", "--data", data}, args...)...)).File
	to := filepath.Join(t.TempDir(), "given.creds")
	if err := os.Rename(made, to); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestCreds: with credentials, each login names a person, and connections without a login are
// refused.
func TestCreds(t *testing.T) {
	cleanEnvironment(t)
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	write(t, filepath.Join(dir, "rules.yaml"), testRules)
	write(t, filepath.Join(dir, "tools.yaml"), testTools)
	if out := ok(t, "creds", "init", "--data", data); !strings.Contains(out, "askance creds add ROLE NAME --data "+data+"\n") || !strings.Contains(out, "askance token create NAME --role approver --data "+data+"\n") {
		t.Errorf("creds init printed\n%s", out)
	}
	fails(t, cli.ExitConflict, "already has credentials", "creds", "init", "--data", data)
	fails(t, cli.ExitUsage, "--tool", "creds", "add", "worker", "wk", "--data", data)
	ann, bob, bot := credFile(t, data, "approver", "ann"), credFile(t, data, "approver", "bob", "--expires", "1h"), credFile(t, data, "runtime", "bot")
	// A command on the data folder uses the logins in the folder.
	ok(t, "creds", "add", "operator", "olga", "--data", data)

	// With logins the server may listen anywhere, if plain text is permitted.
	fails(t, cli.ExitUsage, "in plain text", "serve", "--data", data, "--listen", "0.0.0.0:0")
	s := serveOn(t, data, "--listen", "0.0.0.0:0", "--nats-insecure", "--policy", filepath.Join(dir, "rules.yaml"), "--tools", filepath.Join(dir, "tools.yaml"))
	if s.open {
		t.Error("serve reports that it is open")
	}
	s.url = strings.Replace(s.url, "0.0.0.0", "127.0.0.1", 1)
	nc, err := bus.Connect(t.Context(), s.url, bus.ConnectOptions{Principal: "bot", CredsFile: bot})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	runtime, err := bus.NewClient(nc, "default", toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runtime.Propose(t.Context(), toolcall.ProposeRequest{Session: "s1", Reply: "r1", Calls: []message.ToolCallBlock{{ID: "c1", Name: "boss", Input: `{}`}, {ID: "c2", Name: "pay", Input: `{"cents":500}`}}}); err != nil {
		t.Fatal(err)
	}

	fails(t, cli.ExitForbidden, "refuses these credentials", "list", "--nats", s.url, "--as", "ann")
	fails(t, cli.ExitForbidden, "pass your login with --creds FILE", "list", "--nats", s.url, "--as", "ann")
	fails(t, cli.ExitForbidden, "refuses these credentials", "approve", "c2", "--yes", "--data", data, "--as", "ann")
	fails(t, cli.ExitForbidden, "create it with askance creds add approver ann --data "+data, "list", "--data", data, "--as", "ann")
	fails(t, cli.ExitUsage, "valid only for that name", "list", "--nats", s.url, "--creds", ann, "--as", "boss")
	fails(t, cli.ExitUsage, "valid only for the space", "list", "--nats", s.url, "--creds", ann, "--space", "other")
	if out := ok(t, "list", "--nats", s.url, "--creds", ann); !strings.Contains(out, "c2") {
		t.Errorf("ann sees\n%s", out)
	}
	if out := ok(t, "list", "--data", data, "--as", "olga"); !strings.Contains(out, "c2") {
		t.Errorf("olga sees\n%s", out)
	}
	fails(t, cli.ExitForbidden, "", "approve", "c1", "--yes", "--nats", s.url, "--creds", ann) // the approval request is for boss
	if r := run(t, "approve", "c2", "--yes", "--nats", s.url, "--creds", bot); r.code != cli.ExitForbidden || !strings.Contains(r.err, "lacks the NATS permissions of the role approver") || strings.Contains(r.err, "level=") {
		t.Errorf("a runtime's login approves: exit %d\n%s", r.code, r.err)
	}
	ok(t, "approve", "c2", "--yes", "--nats", s.url, "--creds", ann)
	if out := run(t, "__complete", "show", "--nats", s.url, "--creds", bob, "").out; !strings.Contains(out, "c2\tpay queued ") {
		t.Errorf("completion of a queued call:\n%s", out)
	}
	shown := decode[toolcall.ShowReply](t, ok(t, "show", "c2", "--json", "--nats", s.url, "--creds", bob))
	if len(shown.Call.Votes) != 1 || shown.Call.Votes[0].By != (toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann", Auth: "nats-jwt"}) {
		t.Errorf("the votes are %+v", shown.Call.Votes)
	}

	ok(t, "creds", "revoke", "approver", "ann", "--data", data)
	for { // the revocation counts within a second
		if r := run(t, "list", "--nats", s.url, "--creds", ann); r.code == cli.ExitForbidden {
			break
		} else if r.code != cli.ExitOK && r.code != cli.ExitUnavailable { // the connection can end during a command
			t.Fatalf("exit %d\n%s", r.code, r.err)
		}
	}
	ok(t, "list", "--nats", s.url, "--creds", bob)
	out := ok(t, "creds", "list", "--data", data)
	for _, want := range []string{"askance-engine", "revoked", "until"} {
		if !strings.Contains(out, want) {
			t.Errorf("the list lacks %q\n%s", want, out)
		}
	}
	seed := regexp.MustCompile(`\bS[A-Z][A-Z2-7]{56}\b`) // a private key as package nkeys writes it
	if login, err := os.ReadFile(bob); err != nil || !seed.Match(login) {
		t.Fatalf("no private key found in a login, %v", err)
	}
	if config := ok(t, "creds", "config", "--data", data); !strings.Contains(config, "resolver_preload") || seed.MatchString(config) {
		t.Errorf("the configuration is\n%s", config)
	}
	// Serving without the existing logins needs a flag.
	s.stop()
	if err := os.Rename(filepath.Join(data, "creds"), filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	fails(t, cli.ExitForbidden, "was served with credentials", "serve", "--data", data, "--listen", "127.0.0.1:0")
	fails(t, cli.ExitUsage, "--insecure", "serve", "--data", data, "--creds-dir", filepath.Join(dir, "away"), "--insecure")
	serveOn(t, data, "--insecure")
}
