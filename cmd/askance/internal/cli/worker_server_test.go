package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/message"
)

// serveWorkers returns a server and the file of a token for a worker of pay.
func serveWorkers(t *testing.T) (s *served, token string) {
	t.Helper()
	cleanEnvironment(t)
	dir := t.TempDir()
	token = filepath.Join(dir, "token")
	write(t, token, ok(t, "token", "create", "payer", "--role", "worker", "--tool", "pay", "--data", filepath.Join(dir, "data")))
	write(t, filepath.Join(dir, "rules.yaml"), testRules)
	write(t, filepath.Join(dir, "tools.yaml"), testTools)
	return serveOn(t, filepath.Join(dir, "data"), "--policy", filepath.Join(dir, "rules.yaml"), "--tools", filepath.Join(dir, "tools.yaml")), token
}

// A worker in a separate process needs only a URL, a token and a key to run calls. It continues
// with the next token after the first is revoked.
func TestWorkerOverHTTP(t *testing.T) {
	s, token := serveWorkers(t)
	key := filepath.Join(s.data, "engine.pub")
	if said := process(t, "worker", "--server", s.http, "--token-file", token, "--engine-key", key, "--data", t.TempDir(), "--tool", "pay", "--", "cat"); !strings.Contains(said, "runs cat for the calls of pay,") || !strings.Contains(said, s.http) {
		t.Errorf("the worker printed %q", said)
	}
	s.propose("r1", "c1", "pay", `{"cents": 5.0}`)
	if c := s.finished("c1"); c.Result == nil || c.Result.Output.String() != `{"cents": 5.0}` || c.Attempt.Worker != "payer" {
		t.Errorf("the call ended with %+v by %q", c.Result, c.Attempt.Worker)
	}
	next := ok(t, "token", "create", "payer-2", "--role", "worker", "--tool", "pay", "--data", s.data)
	if err := os.WriteFile(token+".new", []byte(next), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(token+".new", token); err != nil {
		t.Fatal(err)
	}
	// The waiting request still uses the old token; the next request uses the new one.
	s.propose("r1", "c2", "pay", `{"cents":6}`)
	s.finished("c2")
	ok(t, "token", "revoke", "payer", "--data", s.data)
	s.propose("r1", "c3", "pay", `{"cents":7}`)
	if c := s.finished("c3"); c.Attempt.Worker != "payer-2" {
		t.Errorf("the call ran at %q, want payer-2", c.Attempt.Worker)
	}
}

// If it trusts the server for the keys, a worker needs no file of the engine. Its server and
// token are settings, as those of other commands are.
func TestWorkerTrustsServer(t *testing.T) {
	s, token := serveWorkers(t)
	b, err := os.ReadFile(token)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("ASKANCE_TOKEN", string(b))
	t.Setenv("ASKANCE_SERVER", s.http)
	process(t, "worker", "--trust-server-keys", "--data", t.TempDir(), "--tool", "pay", "--", "cat")
	s.propose("r1", "c1", "pay", `{"cents":5}`)
	if c := s.finished("c1"); c.Result.State != message.ToolResultSuccess {
		t.Errorf("the call ended with %+v", c.Result)
	}
}

// A worker without the right token gets the command that makes it, and no names of operations.
func TestWorkerTokenOfAnotherTool(t *testing.T) {
	s, token := serveWorkers(t)
	worker := []string{"worker", "--server", s.http, "--token-file", token, "--engine-key", filepath.Join(s.data, "engine.pub"), "--data", t.TempDir()}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--tool", "pay", "--tool", "ship"}, "error: cannot take tasks of tool ship: the token of payer covers \"pay\", but the worker asked for \"ship\"\n" +
			"hint: make a token with askance token create payer --role worker --tool pay --tool ship --space default\n"},
		{[]string{"--tool", "o'ship; it"}, "error: cannot take tasks of tool o'ship; it: the token of payer covers \"pay\", but the worker asked for \"o'ship; it\"\n" +
			`hint: make a token with askance token create payer --role worker --tool pay --tool 'o'\''ship; it' --space default` + "\n"},
		{[]string{"--tool", "pay", "--subject", "exec.x"}, "error: cannot take tasks of tool pay: the token of payer covers \"pay\", but the worker asked for \"pay\" on \"exec.x\"\n" +
			"hint: make a token with askance token create payer --role worker --tool pay --subject exec.x --space default; it does not cover the queues of another route, which need a worker with its own token\n"},
	} {
		r := fails(t, cli.ExitForbidden, "", append(append(slices.Clip(worker), tc.args...), "--", "cat")...)
		if _, got, _ := strings.Cut(r.err, "\n"); got != tc.want { // the first line says what it runs
			t.Errorf("the worker printed\n%s\nwant\n%s", got, tc.want)
		}
	}
	r := fails(t, cli.ExitForbidden, "A worker runs cat for the calls of ship", append(worker, "--tool", "ship", "--log-format", "json", "--", "cat")...)
	for line := range strings.Lines(r.err) {
		if decode[struct{ Level, Msg string }](t, line).Msg == "" {
			t.Errorf("a line of the JSON logs is %s", line)
		}
	}
}

// A worker that waits for its server says so once, not at every try.
func TestWorkerWaitsForServer(t *testing.T) {
	cleanEnvironment(t)
	t.Setenv("ASKANCE_TOKEN", "t")
	tries := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		status, code := http.StatusServiceUnavailable, message.CodeUnavailable
		if tries++; tries > 2 {
			status, code = http.StatusForbidden, message.CodeForbidden
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"type":"about:blank","status":%d,"code":%q,"detail":"no from port %d"}`, status, code, tries)
	}))
	t.Cleanup(server.Close)
	r := run(t, "worker", "--server", server.URL, "--trust-server-keys", "--tool", "pay", "--", "cat")
	if n := strings.Count(r.err, "the worker waits until its server"); r.code != cli.ExitForbidden || tries != 3 || n != 1 {
		t.Errorf("after %d tries the worker ended with %d, and it said %d times that it waits:\n%s", tries, r.code, n, r.err)
	}
}

// A worker with the key of another engine does not start: it could run no call.
func TestWorkerWithWrongKey(t *testing.T) {
	s, token := serveWorkers(t)
	other := filepath.Join(t.TempDir(), "other.pub")
	keys, err := keyfile.New()
	if err == nil {
		err = keys.WritePublic(other)
	}
	if err != nil {
		t.Fatal(err)
	}
	fails(t, cli.ExitUsage, "the space \"default\", whose engines sign with other keys than those in "+other+"\nhint: use a token of the space of these keys, or pass engine.pub of the space default with --engine-key\n",
		"worker", "--server", s.http, "--token-file", token, "--engine-key", other, "--data", t.TempDir(), "--tool", "pay", "--", "cat")
}

func TestWorkerServerFlags(t *testing.T) {
	cleanEnvironment(t)
	worker := func(more ...string) []string {
		return append(append([]string{"worker", "--tool", "pay"}, more...), "--", "cat")
	}
	fails(t, cli.ExitUsage, "only for --server", worker("--token-file", "x")...)
	fails(t, cli.ExitUsage, "both set", worker("--server", "https://h", "--nats", "nats://h")...)
	fails(t, cli.ExitUsage, "not an http or https URL", worker("--server", "h:80")...)
	fails(t, cli.ExitUsage, "has no TLS", worker("--server", "http://askance.example")...)
	fails(t, cli.ExitUsage, "both set", worker("--server", "https://h", "--trust-server-keys", "--engine-key", "k")...)
	fails(t, cli.ExitNotFound, "hint: copy engine.pub from the server's data folder", worker("--server", "https://h", "--data", t.TempDir())...)
	fails(t, cli.ExitUsage, "ASKANCE_TOKEN has no token", worker("--server", "https://h", "--trust-server-keys")...)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/whoami" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, `{"name": "payer", "space": "default", "roles": ["worker"]}`) // the client reports a lost reply
	}))
	t.Cleanup(server.Close)
	fails(t, cli.ExitUnavailable, "the engines' keys", append([]string{"worker", "--server", server.URL, "--trust-server-keys", "--token-file", tokenIn(t), "--tool", "pay"}, "--", "cat")...)
}

// tokenIn returns a file with a token that no server knows.
func tokenIn(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	write(t, path, "unknown\n")
	return path
}
