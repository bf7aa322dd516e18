package web

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message"
)

// named sends a request to a route as somebody that the request names.
func (w *wired) named(r gateway.Route, query string, header ...string) int {
	w.t.Helper()
	body := `{"session_id":"s1","reply_id":"r1","tool_call_id":"c1","kind":"approve","digest":"` + w.call.Digest + `"}`
	req, err := http.NewRequestWithContext(w.t.Context(), r.Method, w.URL+path(r)+query, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := w.WithToken("").Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// TestEveryRouteWithoutCredentials: no route lets a request choose its name, and
// from the moment at which logins exist no route lets one in without a token.
func TestEveryRouteWithoutCredentials(t *testing.T) {
	var logins atomic.Bool
	w := &wired{t: t, secrets: map[string]string{"": ""}}
	w.serve(Config{User: "me", DefaultTokens: filepath.Join(t.TempDir(), "tokens.json"), HasLogins: logins.Load})
	if code, text := w.ask(gateway.Route{Method: http.MethodGet, Path: "/v1/whoami"}, "", ""); code != http.StatusOK || !strings.Contains(text, `"me"`) {
		t.Fatalf("the local user: %d %s", code, text)
	}
	routes := w.Gateway.Routes()
	for _, r := range routes {
		for _, name := range []string{"bob", "me", ""} {
			if code := w.named(r, "", "Askance-As", name); code != http.StatusForbidden {
				t.Errorf("%s %s as %q: %d", r.Method, r.Path, name, code)
			}
		}
	}
	logins.Store(true)
	for _, r := range routes {
		for _, query := range queries {
			code, text := w.ask(r, "", query)
			w.hides(r, "", text)
			switch {
			case r.OwnAuth && code < 400, r.Access.Public && (code == http.StatusUnauthorized || code >= 500), !r.OwnAuth && !r.Access.Public && code != http.StatusUnauthorized:
				t.Errorf("%s %s without a token: %d", r.Method, r.Path, code)
			}
		}
	}
	if c := w.A.Show(w.call.Key); c.State != message.ToolCallAsking || len(c.Votes) != 0 {
		t.Errorf("the call is %s with the votes %+v", c.State, c.Votes)
	}
	logins.Store(false)
	if code, _ := w.ask(gateway.Route{Method: http.MethodGet, Path: "/v1/whoami"}, "", ""); code != http.StatusUnauthorized {
		t.Errorf("the server opens again: %d", code)
	}
}
