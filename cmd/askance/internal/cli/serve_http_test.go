package cli_test

import (
	"io"
	"net/http"
	"path/filepath"
	"testing"

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

// TestServeHTTP: the gateway listens on loopback, says where, and is not there
// if it is turned off.
func TestServeHTTP(t *testing.T) {
	clean(t)
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
	clean(t)
	one := serveOn(t, filepath.Join(t.TempDir(), "data"), "--http", "")
	two := serveOn(t, filepath.Join(t.TempDir(), "data"), "--http", "")
	if one.http == "" || two.http == "" || one.http == two.http {
		t.Errorf("the gateways are at %q and %q", one.http, two.http)
	}
}

// TestServeHTTPStaysOnLoopback without credentials.
func TestServeHTTPStaysOnLoopback(t *testing.T) {
	clean(t)
	data := filepath.Join(t.TempDir(), "data")
	for _, address := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:0", "inbox.example:0"} {
		fails(t, cli.ExitUsage, "may act as you", "serve", "--data", data, "--listen", "127.0.0.1:0", "--http", address, "--http-insecure")
	}
	fails(t, cli.ExitUsage, "go together", "serve", "--data", data, "--http-cert", "x.pem")
}
