package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
)

// fetch gets a page.
func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// TestServeHTTP: the gateway listens on loopback and prints its address. It does not run if it is
// turned off.
func TestServeHTTP(t *testing.T) {
	cleanEnvironment(t)
	s := serveOn(t, filepath.Join(t.TempDir(), "data"))
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, text := fetch(t, s.http+path); code != http.StatusOK || text != "ok\n" {
			t.Errorf("%s: %d %q", path, code, text)
		}
	}
	if off := serveOn(t, filepath.Join(t.TempDir(), "data"), "--http", "off"); off.http != "" {
		t.Errorf("--http off serves at %s", off.http)
	}
}

// TestServeHTTPTakesAFreePort: two engines on one machine need no flags.
func TestServeHTTPTakesAFreePort(t *testing.T) {
	cleanEnvironment(t)
	one := serveOn(t, filepath.Join(t.TempDir(), "data"), "--http", "")
	two := serveOn(t, filepath.Join(t.TempDir(), "data"), "--http", "")
	if one.http == "" || two.http == "" || one.http == two.http {
		t.Errorf("the gateways are at %q and %q", one.http, two.http)
	}
}

// TestServeHTTPStaysOnLoopback: without credentials, other addresses are refused.
func TestServeHTTPStaysOnLoopback(t *testing.T) {
	cleanEnvironment(t)
	data := filepath.Join(t.TempDir(), "data")
	for _, address := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:0", "inbox.example:0"} {
		fails(t, cli.ExitUsage, "could act as you", "serve", "--data", data, "--listen", "127.0.0.1:0", "--http", address, "--http-insecure")
	}
	fails(t, cli.ExitUsage, "only one of --http-cert and --http-key is set", "serve", "--data", data, "--http-cert", "x.pem")
}

// chat sends a message to the agent of a server, as an AG-UI frontend does.
func chat(t *testing.T, server, thread, id, text string) string {
	t.Helper()
	body := fmt.Sprintf(`{"threadId":%q,"runId":"run-%s","protocolVersion":"1.0","messages":[{"id":%q,"role":"user","content":%q}],"tools":[],"context":[],"state":{},"forwardedProps":{}}`, thread, id, id, text)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server+"/agui", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestServeDemoAgent talks to the agent without a model, gets an approval request for its call,
// answers it on the command line, and finds the reply after a restart.
func TestServeDemoAgent(t *testing.T) {
	cleanEnvironment(t)
	data, tools := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "tools.yaml")
	write(t, tools, "version: 1\ntools:\n  - {name: pay, placement: external}\n")
	s := serveOn(t, data, "--tools", tools, "--demo-agent")
	if _, text := fetch(t, s.http+"/agui"); !strings.Contains(text, `"demo"`) {
		t.Errorf("the agents are %s", text)
	}
	if got := chat(t, s.http, "t1", "m1", "say hello"); !strings.Contains(got, "hello") || !strings.Contains(got, "RUN_FINISHED") {
		t.Errorf("the demo agent replies %s", got)
	}
	if got := chat(t, s.http, "t2", "m1", `call pay {"cents":5}`); !strings.Contains(got, `"interrupt"`) {
		t.Errorf("a call that asks: %s", got)
	}
	s.stop()
	_ = serveOn(t, data, "--tools", tools, "--demo-agent")
	ok(t, "reject", "call-1-1", "--yes", "--data", data, "--feedback", "no")
	deadline := time.Now().Add(2 * time.Minute)
	for text := ""; !strings.Contains(text, `"REPLY_END"`); {
		if time.Now().After(deadline) {
			t.Fatalf("the reply did not end:\n%s", text)
		}
		text = ok(t, "events", "tail", "t2", "--data", data, "--json", "--once")
	}
	off := serveOn(t, filepath.Join(t.TempDir(), "data"))
	if _, got := fetch(t, off.http+"/agui"); !strings.Contains(got, "no agent runs") {
		t.Errorf("the demo agent runs without its flag: %s", got)
	}
}
