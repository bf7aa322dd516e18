package web

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// named sends a request to a route with a name that the request chooses.
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

// TestEveryRouteWithoutCredentials: no route lets a request choose its name, and once logins
// exist no route admits a request without a token.
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
		t.Errorf("the server is open again: %d", code)
	}
}

// begin sends the headers and half of the body of a form or JSON request, and returns after the
// server admitted it. finish sends the rest.
func (w *wired) begin(path, kind, token, body string) (finish func() (int, string)) {
	w.t.Helper()
	var d net.Dialer
	host := strings.TrimPrefix(w.URL, "http://")
	c, err := d.DialContext(w.t.Context(), "tcp", host)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\n%sIdempotency-Key: slow\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", path, host, kind, token, len(body)); err != nil {
		w.t.Fatal(err)
	}
	in := bufio.NewReader(c)
	for range 2 { // the interim response and its empty line
		if line, err := in.ReadString('\n'); err != nil || len(line) > 2 && !strings.Contains(line, "100 Continue") {
			w.t.Fatalf("%s: %q %v", path, line, err)
		}
	}
	return func() (int, string) {
		w.t.Helper()
		if _, err := io.WriteString(c, body); err != nil {
			w.t.Fatal(err)
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(b)
	}
}

// TestCredentialsEndBeforeBodyArrives: a request whose body arrives after its credentials ended
// approves nothing and begins no turn of an agent.
func TestCredentialsEndBeforeBodyArrives(t *testing.T) {
	for _, who := range []string{"local user", "token"} {
		t.Run(who, func(t *testing.T) {
			var logins atomic.Bool
			path := filepath.Join(t.TempDir(), "tokens.json")
			w := &wired{t: t, secrets: map[string]string{"": ""}}
			cfg, header := Config{User: "me", DefaultTokens: path, HasLogins: logins.Load}, ""
			end := func() { logins.Store(true) }
			if who == "token" {
				secret, kept, err := auth.CreateToken(t.Context(), path, auth.Token{Name: "ann", Space: "alpha", Roles: []toolcall.Role{toolcall.RoleApprover, toolcall.RoleRuntime}})
				if err != nil {
					t.Fatal(err)
				}
				w.secrets[""], header = secret, "Authorization: Bearer "+secret+"\r\n"
				cfg = Config{Tokens: path}
				end = func() {
					if _, err := auth.RevokeTokens(t.Context(), path, kept.ID); err != nil {
						t.Error(err)
					}
				}
			}
			w.serve(cfg)
			form := url.Values{"session": {"s1"}, "reply": {"r1"}, "call": {"c1"}, "digest": {w.call.Digest}, "do": {"approve"}}
			slow := map[string]func() (int, string){
				"REST":  w.begin("/v1/calls/s1/r1/c1/response", "application/json", header, `{"kind":"approve","digest":"`+w.call.Digest+`"}`),
				"inbox": w.begin("/inbox/response", "application/x-www-form-urlencoded", header, form.Encode()),
				"chat":  w.begin("/agentscope/chat/", "application/json", header, `{"agent_id":"demo","session_id":"chat","input":{"role":"user","name":"me","content":[{"type":"text","text":"say hi"}]}}`),
			}
			end()
			for code := 0; code != http.StatusUnauthorized; { // the server checks the file every second
				code, _ = w.ask(gateway.Route{Method: http.MethodGet, Path: "/v1/whoami"}, "", "")
			}
			for surface, finish := range slow {
				if code, text := finish(); code < http.StatusBadRequest {
					t.Errorf("%s: %d %s", surface, code, text)
				}
			}
			if c := w.A.Show(w.call.Key); c.State != message.ToolCallAsking || len(c.Votes) != 0 {
				t.Errorf("the call is %s with the votes %+v", c.State, c.Votes)
			}
		})
	}
}

// TestProxyEndsLocalUser: a gateway that browsers reach under the name of another host has no
// local user.
func TestProxyEndsLocalUser(t *testing.T) {
	for public, open := range map[string]bool{"": true, "http://localhost:8787": true, "http://127.0.0.1": true, "https://inbox.example": false, "http://localhost.example": false} {
		w := &Web{cfg: Config{User: "me", Public: public, TokenCommand: "make a token", Space: &gateway.Space{ID: "alpha"}, DefaultTokens: filepath.Join(t.TempDir(), "tokens.json")}}
		var err error
		if w.auth, err = w.authenticator(); err != nil {
			t.Fatal(err)
		}
		if w.auth.IsOpen() != open || (w.Logins() == "") != open || !open && !strings.Contains(w.Logins(), "(make a token)") {
			t.Errorf("--http-url %q: open %v, %q", public, w.auth.IsOpen(), w.Logins())
		}
	}
}
