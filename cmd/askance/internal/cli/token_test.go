package cli_test

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
)

// askHTTP sends a GET with a token.
func askHTTP(t *testing.T, url, token string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// TestTokens creates, uses and lists tokens, and revokes one while the server runs.
func TestTokens(t *testing.T) {
	cleanEnvironment(t)
	data := filepath.Join(t.TempDir(), "data")
	made := run(t, "token", "create", "ann", "--role", "approver", "--data", data)
	ann := strings.TrimSpace(made.out)
	if made.code != cli.ExitOK || !strings.HasPrefix(ann, "askance_") || !strings.Contains(made.err, "shown once") ||
		!strings.Contains(made.err, "every HTTP request needs a token. Approvers: ") || !strings.Contains(made.err, " token create NAME --role approver --data "+data+"\n") {
		t.Fatalf("made: %q, %q", made.out, made.err)
	}
	bob := decode[struct{ Token, ID, Name, Space, File string }](t, ok(t, "token", "create", "bob", "--role", "auditor", "--role", "operator", "--expires", "1h", "--json", "--data", data))
	if bob.Name != "bob" || bob.Space != "default" || bob.File != filepath.Join(data, "tokens.json") {
		t.Errorf("bob: %+v", bob)
	}
	if b, err := os.ReadFile(bob.File); err != nil || strings.Contains(string(b), bob.Token) {
		t.Errorf("the file contains the token or cannot be read: %v", err)
	}
	list := ok(t, "token", "list", "--data", data)
	if strings.Count(list, "\n") != 3 || !strings.Contains(list, "ann") || !strings.Contains(list, "auditor, operator") || strings.Contains(list, ann) {
		t.Errorf("list:\n%s", list)
	}
	fails(t, cli.ExitUsage, "--tool is missing: name a tool whose calls runner runs", "token", "create", "runner", "--role", "worker", "--data", data)
	if r := run(t, "token", "create", "runner", "--role", "worker", "--tool", "refund", "--data", data); r.code != cli.ExitOK || strings.Contains(r.err, "From now on") {
		t.Errorf("a later token: %d, %s", r.code, r.err)
	}
	if list := ok(t, "token", "list", "--data", data); !strings.Contains(list, "worker (refund)") {
		t.Errorf("list:\n%s", list)
	}
	s := serveOn(t, data)
	for token, want := range map[string]int{ann: 200, bob.Token: 200, "": 401, ann + "x": 401} {
		if code := askHTTP(t, s.http+"/auth/session", token); code != want {
			t.Errorf("with %q: %d, want %d", token, code, want)
		}
	}
	if out := ok(t, "token", "revoke", "ann", "--data", data); !strings.HasPrefix(out, "Revoked: ") {
		t.Errorf("revoke: %s", out)
	}
	for deadline := time.Now().Add(2 * time.Minute); askHTTP(t, s.http+"/auth/session", ann) != http.StatusUnauthorized; {
		if time.Now().After(deadline) {
			t.Fatal("a revoked token is still valid")
		}
	}
	fails(t, cli.ExitNotFound, "no valid token", "token", "revoke", "ann", "--data", data)
	fails(t, cli.ExitUsage, "--role", "token", "create", "cy", "--data", data)
	fails(t, cli.ExitUsage, `--role "engine": use runtime`, "token", "create", "cy", "--role", "engine", "--data", data)
	fails(t, cli.ExitUsage, "did you mean approver?", "token", "create", "cy", "--role", "aprover", "--data", data)
	fails(t, cli.ExitUsage, "one name", "token", "create", "--data", data)
}

// The shell completes tokens and logins that can be revoked.
func TestCompleteRevoke(t *testing.T) {
	cleanEnvironment(t)
	data := t.TempDir()
	ok(t, "creds", "init", "--data", data)
	if out := ok(t, "token", "list", "--data", data); out != "No tokens. Create one with askance token create NAME --role approver.\n" {
		t.Errorf("an empty list is %q", out)
	}
	for _, name := range []string{"ann", "bob", "gone"} {
		ok(t, "token", "create", name, "--role", "approver", "--data", data)
		ok(t, "creds", "add", "approver", name, "--data", data)
	}
	ok(t, "token", "revoke", "gone", "--data", data)
	ok(t, "creds", "revoke", "approver", "gone", "--data", data)
	ok(t, "creds", "add", "worker", "wk", "--tool", "pay", "--data", data)
	for args, want := range map[string]string{"token revoke ann": "bob\n:4\n", "creds revoke approver": "ann\nbob\n:4\n", "creds revoke worker": "wk\n:4\n", "creds revoke approver ann": ":4\n"} {
		if out := ok(t, append(append([]string{"__complete", "--data", data}, strings.Fields(args)...), "")...); out != want {
			t.Errorf("completion of %s:\n%s", args, out)
		}
	}
}

// A browser login is valid at every server with the keys of the space, even after a restart.
func TestLoginOutlivesRestart(t *testing.T) {
	cleanEnvironment(t)
	data := filepath.Join(t.TempDir(), "data")
	ann := strings.TrimSpace(ok(t, "token", "create", "ann", "--role", "approver", "--data", data))
	s := serveOn(t, data)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Jar: jar}
	send := func(method, path string, form url.Values) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.http+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	send(http.MethodPost, "/login", url.Values{"token": {ann}, "next": {"/auth/session"}})
	s.stop()
	s = serveOn(t, data)
	if code := send(http.MethodGet, "/auth/session", nil); code != http.StatusOK {
		t.Errorf("after a restart: %d", code)
	}
}

// TestServeHTTPBeyondLoopback: this needs tokens or a provider, and TLS.
func TestServeHTTPBeyondLoopback(t *testing.T) {
	cleanEnvironment(t)
	data := filepath.Join(t.TempDir(), "data")
	ann := strings.TrimSpace(ok(t, "token", "create", "ann", "--role", "approver", "--data", data))
	fails(t, cli.ExitUsage, "without TLS", "serve", "--data", data, "--listen", "127.0.0.1:0", "--http", "0.0.0.0:0")
	s := serveOn(t, data, "--http", "0.0.0.0:0", "--http-insecure")
	u, err := url.Parse(s.http)
	if err != nil {
		t.Fatal(err)
	}
	at := "http://127.0.0.1:" + u.Port()
	if code := askHTTP(t, at+"/auth/session", ""); code != http.StatusUnauthorized {
		t.Errorf("a request without a token: %d", code)
	}
	if code := askHTTP(t, at+"/auth/session", ann); code != http.StatusOK {
		t.Errorf("ann: %d", code)
	}
	for _, args := range [][]string{
		{"--oidc-issuer", "https://id.example"}, {"--oidc-issuer", "https://id.example", "--oidc-client", "x", "--oidc-role", "approver"},
		{"--http-session", "-1h"},
	} {
		fails(t, cli.ExitUsage, "-", append([]string{"serve", "--data", filepath.Join(data, "other"), "--listen", "127.0.0.1:0"}, args...)...)
	}
}

// TestServeOIDC: if the provider does not answer, serve still starts, but no request is admitted.
func TestServeOIDC(t *testing.T) {
	cleanEnvironment(t)
	s := serveOn(t, filepath.Join(t.TempDir(), "data"), "--oidc-issuer", "http://127.0.0.1:1", "--oidc-client", "askance", "--oidc-role", "people=of=ours=approver")
	if code, text := fetch(t, s.http+"/login"); code != http.StatusOK || !strings.Contains(text, "/auth/oidc/start") {
		t.Errorf("/login: %d %s", code, text)
	}
	for path, want := range map[string]int{"/auth/session": http.StatusUnauthorized, "/auth/oidc/start": http.StatusServiceUnavailable, "/auth/oidc/callback?code=x": http.StatusForbidden} {
		if code, _ := fetch(t, s.http+path); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
}

// TestTokenFileThatCannotBeUsed: an unusable token file keeps a server from starting, because it
// must not fall back to admitting everyone.
func TestTokenFileThatCannotBeUsed(t *testing.T) {
	cleanEnvironment(t)
	data := filepath.Join(t.TempDir(), "data")
	ok(t, "token", "create", "ann", "--role", "approver", "--data", data)
	path := filepath.Join(data, "tokens.json")
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	fails(t, cli.ExitForbidden, "other users can write to", "serve", "--data", data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
	write(t, path, "{}")
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, cli.ExitUsage, "version", "serve", "--data", data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
	fails(t, cli.ExitNotFound, "none.json", "serve", "--data", data, "--listen", "127.0.0.1:0", "--http-tokens", filepath.Join(data, "none.json"))
}
