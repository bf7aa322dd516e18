package cli_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/toolcall"
)

// TestServeStaysOnLoopback: the embedded server authenticates no one, so other machines can reach
// it only if a flag permits it.
func TestServeStaysOnLoopback(t *testing.T) {
	cleanEnvironment(t)
	data := filepath.Join(t.TempDir(), "data")
	for _, listen := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "server.example:0"} {
		fails(t, cli.ExitUsage, "can act under any name", "serve", "--data", data, "--listen", listen)
	}
	// These flags are accepted, so the error is about the missing tools file.
	none := filepath.Join(t.TempDir(), "none.yaml")
	for _, args := range [][]string{
		{"--listen", "127.0.0.2:0"}, {"--listen", "[::1]:0"}, {"--listen", "localhost:0"}, {"--listen", "0.0.0.0:0", "--insecure"},
		{"--listen", "0.0.0.0:0", "--nats", "nats://127.0.0.1:1"},
	} {
		fails(t, cli.ExitNotFound, "none.yaml", append([]string{"serve", "--data", data, "--tools", none}, args...)...)
	}
}

// TestServeSaysThatItIsOpen starts a server that other machines can reach.
func TestServeSaysThatItIsOpen(t *testing.T) {
	cleanEnvironment(t)
	s := serveOn(t, filepath.Join(t.TempDir(), "data"), "--listen", "0.0.0.0:0", "--insecure")
	if !s.open {
		t.Error("serve does not report that other machines can reach it")
	}
}

// TestServeRefusesAPolicyInOneDocument: at a cold start there is no last good policy that could
// stay in force, so only the error is printed.
func TestServeRefusesAPolicyInOneDocument(t *testing.T) {
	cleanEnvironment(t)
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	write(t, bad, "version: 1\nname: x\nrules: [{name: a, behavior: perhaps}]\n")
	for path, code := range map[string]int{bad: cli.ExitUsage, filepath.Join(dir, "none.yaml"): cli.ExitNotFound} {
		r := fails(t, code, filepath.Base(path), "serve", "--json", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--policy", path)
		doc := decode[struct {
			Error struct{ Exit int } `json:"error"`
		}](t, r.err)
		if doc.Error.Exit != code {
			t.Errorf("%s: the document says exit %d, want %d", path, doc.Error.Exit, code)
		}
	}
}

// TestServeLooksFirst: serve reports every wrong flag and file before it binds a port or creates
// the data folder, and an address in use before it creates the journal.
func TestServeLooksFirst(t *testing.T) {
	cleanEnvironment(t)
	write(t, "bad.yaml", "version: 1\nrules: [{name: x}]\n")
	write(t, "tools.yaml", testTools)
	write(t, "rules.yaml", testRules)
	write(t, "bad.json", "{")
	write(t, "not.pem", "x")
	if err := os.Mkdir("empty", 0o700); err != nil {
		t.Fatal(err)
	}
	cert, key := certificate(t)
	_, other := certificate(t)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String()
	data := filepath.Join(t.TempDir(), "data")
	for _, tc := range []struct {
		code int
		says string
		args []string
	}{
		{cli.ExitUsage, "bad.yaml:2", []string{"--policy", "bad.yaml"}},
		{cli.ExitUsage, "bad.yaml:1", []string{"--policy", "bad.yaml", "--policy-bucket"}},
		{cli.ExitUsage, "empty contains no .yaml or .yml file", []string{"--policy", "empty"}},
		{cli.ExitUsage, "projct is not a layer", []string{"--policy", "projct=rules.yaml"}},
		{cli.ExitNotFound, "none.yaml", []string{"--policy", "none.yaml"}},
		{cli.ExitUsage, "bad.yaml:2", []string{"--tools", "bad.yaml"}},
		{cli.ExitUsage, "bad.yaml:2", []string{"--directory", "bad.yaml"}},
		{cli.ExitUsage, "bad.yaml:2", []string{"--directory", "bad.yaml", "--directory-bucket"}},
		{cli.ExitUsage, "bad.yaml:2", []string{"--webhooks", "bad.yaml"}},
		{cli.ExitUsage, "bad.json", []string{"--http-tokens", "bad.json"}},
		{cli.ExitNotFound, "none.json", []string{"--http-tokens", "none.json"}},
		{cli.ExitUsage, "are not a certificate and its key", []string{"--http-cert", cert, "--http-key", other}},
		{cli.ExitUsage, "are not a certificate and its key", []string{"--nats-cert", "not.pem", "--nats-key", key}},
		{cli.ExitUsage, "only one of --http-cert and --http-key is set", []string{"--http-cert", cert}},
		{cli.ExitUsage, "--http 8787 is not host:port", []string{"--http", "8787"}},
		{cli.ExitUsage, "--http-url inbox.example is not a URL", []string{"--http-url", "inbox.example"}},
		{cli.ExitUsage, "--http-origin", []string{"--http-origin", "app.example/x"}},
		{cli.ExitUsage, "is not a role", []string{"--oidc-issuer", "https://id.example", "--oidc-client", "c", "--oidc-role", "a=king"}},
		{cli.ExitUsage, "--oidc-issuer id.example is not a URL", []string{"--oidc-issuer", "id.example", "--oidc-client", "c", "--oidc-role", "a=approver"}},
		{cli.ExitUsage, "is plain HTTP", []string{"--oidc-issuer", "http://id.example", "--oidc-client", "c", "--oidc-role", "a=approver"}},
		{cli.ExitUsage, "--oidc-issuer is missing", []string{"--oidc-client", "c"}},
		{cli.ExitUsage, "--oidc-issuer is empty", []string{"--oidc-issuer", ""}},
		{cli.ExitUsage, "--http-tokens is empty", []string{"--http-tokens", ""}},
		{cli.ExitUsage, "--oidc-issuer is missing", []string{"--oidc-role", "a=approver"}},
		{cli.ExitUsage, "--oidc-issuer is missing", []string{"--oidc-groups-claim", "roles"}},
		{cli.ExitUsage, "--oidc-issuer is missing", []string{"--oidc-scope", "groups"}},
		{cli.ExitUsage, "is not host:port", []string{"--metrics", "9464"}},
		{cli.ExitNotFound, "empty has no credentials", []string{"--creds-dir", "empty"}},
		{cli.ExitUnavailable, "another program already listens at " + taken, []string{"--http", taken}},
		{cli.ExitUnavailable, "cannot listen at " + taken, []string{"--metrics", taken}},
	} {
		// If the port of the server were also in use, the error would be about that port.
		args := append([]string{"serve", "--data", data, "--listen", taken, "--http", "127.0.0.1:0"}, tc.args...)
		fails(t, tc.code, tc.says, args...)
		if _, err := os.Stat(data); err == nil {
			t.Fatalf("askance %s created a data folder", strings.Join(args, " "))
		}
	}
}

// A second server on a data folder says only that the folder is in use, whatever else is taken.
func TestServeTwiceOnAFolder(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	taken := strings.TrimPrefix(s.http, "http://")
	r := fails(t, cli.ExitUnavailable, "another process uses it\nhint: stop that engine", "serve", "--data", s.data, "--http", taken)
	if !strings.HasPrefix(r.err, "error: the data folder") {
		t.Errorf("before that it says:\n%s", r.err)
	}
}

// TestServeClaimsNoMoreThanIsKnown: an external server does not report when it syncs, so serve
// claims the minimum unless its operator states more.
func TestServeClaimsNoMoreThanIsKnown(t *testing.T) {
	cleanEnvironment(t)
	elsewhere, err := embed.Start(t.Context(), embed.Options{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", Durability: journal.DurabilityCached}) // it syncs every two minutes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(elsewhere.Close)
	data := filepath.Join(t.TempDir(), "data")
	for _, tc := range []struct {
		args      []string
		want, why string
	}{
		{nil, "cached", "no durability is stated"},
		{[]string{"--durability", "fsynced"}, "fsynced", "as stated"},
		{[]string{"--durability", "cached"}, "cached", "as stated"},
	} {
		s := serveOn(t, data, append([]string{"--nats", elsewhere.URL()}, tc.args...)...)
		info, err := s.bot().Info(t.Context())
		if err != nil || s.durability != tc.want || info.Durability != tc.want || !strings.Contains(s.why, tc.why) {
			t.Errorf("serve --nats %v claims %s (%s), info says %q, %v; want %s (%s)", tc.args, s.durability, s.why, info.Durability, err, tc.want, tc.why)
		}
		for _, command := range []string{"status", "doctor"} {
			if out := run(t, command, "--nats", elsewhere.URL()).out; strings.Contains(out, "(assumed: NATS does not tell clients when it syncs, and "+tc.why+")") != (tc.args == nil) {
				t.Errorf("%s of a server with %v prints\n%s", command, tc.args, out)
			}
		}
		s.stop()
	}
	fails(t, cli.ExitUsage, "1 of the 3 replicas", "serve", "--data", data, "--http", "off", "--nats", elsewhere.URL(), "--durability", "quorum")
	fails(t, cli.ExitUsage, "use fsynced or cached", "serve", "--data", data, "--durability", "quorum")
	fails(t, cli.ExitUsage, "run askance journal replicas 3", "serve", "--data", data, "--http", "off", "--nats", elsewhere.URL(), "--replicas", "3")
	fails(t, cli.ExitUsage, "use 1, 3 or 5", "serve", "--data", data, "--nats", elsewhere.URL(), "--replicas", "2")
	fails(t, cli.ExitUsage, "applies only to the cluster of --nats", "serve", "--data", data, "--replicas", "3")
	fails(t, cli.ExitUsage, "needs 3 replicas", "serve", "--data", data, "--nats", elsewhere.URL(), "--replicas", "1", "--durability", "quorum")
	fails(t, cli.ExitUsage, "pass its URL with --nats", "journal", "replicas", "3", "--data", data)
	fails(t, cli.ExitUsage, "applies only to the server of --nats", "serve", "--data", data, "--nats-system-creds", "sys.creds")
}

// TestSlips checks the errors for typical mistakes of an operator.
func TestSlips(t *testing.T) {
	cleanEnvironment(t)
	write(t, "file", "x")
	write(t, "space.yaml", "space: Big Space\n")
	write(t, "fast.yaml", "durability: fast\n")
	write(t, "nope.yaml", "policy: [managed=none.yaml]\n")
	write(t, "tools.yaml", "tools: none.yaml\n")
	t.Setenv("ASKANCE_REMIND", "-1h")
	before := list(t, ".")
	for _, tc := range []struct {
		code int
		says string
		args []string
	}{
		{cli.ExitUsage, "the data folder file is a file, not a folder", []string{"list", "--data", "file"}},
		{cli.ExitUsage, "the data folder file is a file, not a folder", []string{"serve", "--data", "file"}},
		{cli.ExitUsage, `space "Big Space" is not a valid name`, []string{"list", "--config", "space.yaml"}},
		{cli.ExitUsage, `space "a.b" is not a valid name`, []string{"serve", "--data", "none", "--space", "a.b"}},
		{cli.ExitUsage, `--durability is "fast", use fsynced or cached (--durability comes from fast.yaml: durability)`, []string{"serve", "--data", "none", "--config", "fast.yaml"}},
		{cli.ExitUsage, "use fsynced or cached\nSee", []string{"serve", "--data", "none", "--durability", "fast"}},
		{cli.ExitUsage, "--remind is -1h0m0s, use 0 or a positive time (--remind comes from the variable ASKANCE_REMIND)", []string{"serve", "--data", "none"}},
		{cli.ExitNotFound, "error: read rule files: none.yaml: no such file or directory (--policy comes from nope.yaml: policy)\nhint: check the path\n", []string{"serve", "--data", "none", "--config", "nope.yaml", "--remind", "0s", "--listen", "127.0.0.1:0"}},
		{cli.ExitNotFound, "none.yaml: no such file or directory (--tools comes from tools.yaml: tools)", []string{"serve", "--data", "none", "--config", "tools.yaml", "--remind", "0s"}},
		{cli.ExitNotFound, "settings file: open none.yaml: no such file or directory\nhint: check the path\n", []string{"status", "--config", "none.yaml"}},
		{cli.ExitNotFound, `"hint":"check the path"`, []string{"status", "--config", "none.yaml", "--json"}},
		{cli.ExitUsage, `"http://", which NATS does not support`, []string{"list", "--nats", "http://127.0.0.1:1"}},
		{cli.ExitUsage, `--url "ftp://x" is not an http or https URL`, []string{"webhooks", "list", "--url", "ftp://x"}},
		{cli.ExitNotFound, "there is no folder none\nhint: name a folder that askance journal backup wrote", []string{"journal", "restore", "none", "--data", "."}},
		{cli.ExitNotFound, "it has no usable backup.json", []string{"journal", "restore", ".", "--data", "."}},
		{cli.ExitNotFound, "error: none has no engine.pub", []string{"audit", "verify", "--data", "none"}},
		{cli.ExitNotFound, "none has no askance journal\nhint: write the files of a project with askance init", []string{"journal", "backup", "x", "--data", "none"}},
		{cli.ExitNotFound, "pass the engine's public key with --engine-key", []string{"worker", "--tool", "pay", "--data", "none", "--", "cat"}},
		{cli.ExitNotFound, "none.pub: no such file or directory\nhint: check the path", []string{"worker", "--tool", "pay", "--engine-key", "none.pub", "--", "cat"}},
		{cli.ExitUsage, "name engine.pub of the engine's data folder", []string{"worker", "--tool", "pay", "--engine-key", "file", "--", "cat"}},
	} {
		fails(t, tc.code, tc.says, tc.args...)
	}
	if after := list(t, "."); !slices.Equal(after, before) {
		t.Errorf("the folder has %v, before %v", after, before)
	}
}

// list returns the names in a folder.
func list(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// A variable that looks like a misspelled setting is not ignored silently.
func TestMisspelledVariable(t *testing.T) {
	cleanEnvironment(t)
	for _, name := range []string{"ASKANCE_PORT", "ASKANCE_PORT_4222_TCP", "ASKANCE_SERVICE_HOST", "ASKANCE_TOOL", "ASKANCE_CALL_ID", "ASKANCE_URL", "ASKANCE_E2E_SEED", "ASKANCE_DATA"} {
		t.Setenv(name, "x")
	}
	if r := run(t, "version"); r.err != "" {
		t.Errorf("a warning of variables that are not misspelled:\n%s", r.err)
	}
	t.Setenv("ASKANCE_POLCY", "x")
	const want = "the variable ASKANCE_POLCY is not a setting; did you mean ASKANCE_POLICY?"
	if r := run(t, "version"); !strings.Contains(r.err, "level=WARN") || !strings.Contains(r.err, want) {
		t.Errorf("version printed %q, want a warning that %s", r.err, want)
	}
	if r := run(t, "version", "--json"); decode[struct{ Msg string }](t, r.err).Msg != want {
		t.Errorf("version --json printed %q, want a warning that %s", r.err, want)
	}
}

// TestDirectory: a group's approval request can be answered by anyone who is a member when they
// answer, and the vote records where the group comes from.
func TestDirectory(t *testing.T) {
	cleanEnvironment(t)
	dir := t.TempDir()
	rules, tools, people := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "tools.yaml"), filepath.Join(dir, "people.yaml")
	write(t, rules, "version: 1\nname: test\nrules:\n  - {name: money, tool_name: pay, behavior: ask, approvers: {groups: [finance]}}\n")
	write(t, tools, testTools)
	write(t, people, "version: 1\ngroups: {finance: [bob]}\n")
	data := filepath.Join(dir, "data")
	fails(t, cli.ExitNotFound, "none.yaml", "serve", "--data", data, "--listen", "127.0.0.1:0", "--directory", filepath.Join(dir, "none.yaml"))
	write(t, people, "version: 1\ngruops: {finance: [bob]}\n")
	fails(t, cli.ExitUsage, "people.yaml", "serve", "--data", data, "--listen", "127.0.0.1:0", "--directory", people)
	write(t, people, "version: 1\ngroups: {finance: [bob]}\n")
	s := serveOn(t, data, "--policy", rules, "--tools", tools, "--directory", people)
	s.propose("r1", "c1", "pay", `{"cents":500}`)
	fails(t, cli.ExitForbidden, "is not an approver of this approval request", "approve", "c1", "--yes", "--data", s.data, "--as", "ann")
	write(t, people, "version: 1\ngroups: {finance: [ann]}\n")
	for { // takes effect within a second
		if r := run(t, "approve", "c1", "--yes", "--data", s.data, "--as", "ann"); r.code == cli.ExitOK {
			break
		} else if r.code != cli.ExitForbidden {
			t.Fatalf("exit %d\n%s", r.code, r.err)
		}
	}
	c := decode[toolcall.ShowReply](t, ok(t, "show", "c1", "--json", "--data", s.data)).Call
	if v := c.Votes[0]; v.By.Name != "ann" || v.By.Auth != "nats-subject" || v.GroupsFrom != "file" || !slices.Equal(v.Groups, []string{"finance"}) {
		t.Errorf("the vote is %+v", v)
	}
}
