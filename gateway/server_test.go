package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// fakeAuth identifies people by their token, and one person by a cookie.
type fakeAuth map[string]*gateway.Identity

func (a fakeAuth) Authenticate(r *http.Request) (*gateway.Identity, error) {
	if c, err := r.Cookie("session"); err == nil {
		return a.Token(r, c.Value)
	}
	h := r.Header.Get("Authorization")
	if h == "" {
		return nil, gateway.ErrNoCredentials
	}
	return a.Token(r, strings.TrimPrefix(h, "Bearer "))
}

func (a fakeAuth) Token(_ *http.Request, token string) (*gateway.Identity, error) {
	if id := a[token]; id != nil {
		return id, nil
	}
	return nil, &message.Error{Code: message.CodeForbidden, Op: "authenticate", What: "wrong", Hint: "use another"}
}

// stillSpace is a space in which nothing happens.
func stillSpace() *gateway.Space {
	return &gateway.Space{
		ID: "s", As: func(toolcall.Principal) engine.Client { return nil },
		Watch: func(ctx context.Context, sink toolcall.Sink) error {
			sink.CaughtUp()
			<-ctx.Done()
			return context.Cause(ctx)
		},
	}
}

type server struct {
	*gateway.Server
	t    *testing.T
	auth fakeAuth
	log  *bytes.Buffer
}

func newServer(t *testing.T, cfg gateway.Config, routes ...gateway.Route) *server {
	t.Helper()
	s := &server{t: t, log: new(bytes.Buffer), auth: fakeAuth{
		"ann":    {Name: "ann", Space: "s", Roles: []toolcall.Role{toolcall.RoleApprover}},
		"bot":    {Name: "bot", Space: "s", Roles: []toolcall.Role{toolcall.RoleRuntime}},
		"other":  {Name: "ann", Space: "elsewhere", Roles: []toolcall.Role{toolcall.RoleApprover}},
		"cookie": {Name: "ann", Space: "s", Roles: []toolcall.Role{toolcall.RoleApprover}, Ambient: true, CSRF: "proof"},
	}}
	cfg.Spaces, cfg.Auth, cfg.Surfaces = []*gateway.Space{stillSpace()}, s.auth, append(cfg.Surfaces, gateway.Routes(routes))
	cfg.Log = slog.New(slog.NewTextHandler(s.log, nil))
	var err error
	if s.Server, err = gateway.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// ask sends a request with headers, given in pairs.
func (s *server) ask(method, path string, header ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	return s.send(method, path, "", header...)
}

func (s *server) send(method, path, body string, header ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, "http://gate.example"+path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func answer(text string) gateway.Handler {
	return func(w http.ResponseWriter, _ *http.Request, _ *gateway.Peer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

var approvers = gateway.Only(toolcall.RoleApprover)

func TestWhoMay(t *testing.T) {
	s := newServer(t, gateway.Config{Login: "/login"},
		gateway.Route{Method: http.MethodGet, Path: "/calls", Access: approvers, Serve: answer("calls")},
		gateway.Route{Method: http.MethodGet, Path: "/no-access", Serve: answer("never")},
		gateway.Route{Method: http.MethodGet, Path: "/open", Access: gateway.Everybody, Serve: answer("open")},
	)
	for _, tt := range []struct {
		path, token string
		want        int
	}{
		{"/calls", "ann", 200},
		{"/calls", "bot", 403},
		{"/calls", "other", 403},
		{"/calls", "wrong", 401},
		{"/calls", "", 401},
		{"/no-access", "ann", 403},
		{"/open", "", 200},
		{"/open", "bot", 200},
		{"/open", "wrong", 401},
		{"/none", "ann", 404},
	} {
		var h []string
		if tt.token != "" {
			h = []string{"Authorization", "Bearer " + tt.token}
		}
		w := s.ask(http.MethodGet, tt.path, h...)
		if w.Code != tt.want {
			t.Errorf("%s with %q: %d, want %d", tt.path, tt.token, w.Code, tt.want)
		}
		if w.Code >= 400 && w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s with %q: got no problem details but %s", tt.path, tt.token, w.Body)
		}
		if challenge := w.Header().Get("WWW-Authenticate"); (challenge != "") != (w.Code == 401) {
			t.Errorf("%s with %q: %d with the challenge %q", tt.path, tt.token, w.Code, challenge)
		}
	}
	if w := s.ask(http.MethodGet, "/calls?x=1", "Accept", "text/html,*/*"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/login?next=%2Fcalls%3Fx%3D1" {
		t.Errorf("a browser: %d %s", w.Code, w.Header().Get("Location"))
	}
	if w := s.ask(http.MethodGet, "/none", "Accept", "text/html"); w.Code != http.StatusNotFound || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") || !strings.Contains(w.Body.String(), "<h1>Page not found</h1>") || !strings.Contains(w.Header().Get("Content-Security-Policy"), "style-src 'sha256-") {
		t.Errorf("a missing page, for a browser: %d %v\n%s", w.Code, w.Header(), w.Body)
	}
	if w := s.ask(http.MethodDelete, "/calls"); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("DELETE: %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
}

// A 401 names the roles that the route accepts, and a 403 also what the peer cannot do and its roles.
func TestRefusalNamesTheRole(t *testing.T) {
	s := newServer(t, gateway.Config{},
		gateway.Route{Method: http.MethodPost, Path: "/hook", Doc: "Send the events of a hook.", Access: gateway.Only(toolcall.RoleRuntime), Serve: answer("x")},
		gateway.Route{Method: http.MethodPost, Path: "/revoke", Doc: "Revoke an approval", Access: gateway.Only(toolcall.RoleApprover, toolcall.RoleOperator), Serve: answer("x")},
		gateway.Route{Method: http.MethodPost, Path: "/read", Doc: "Read the calls.", Access: gateway.Readers, Serve: answer("x")})
	s.auth["eve"] = &gateway.Identity{Name: "eve", Space: "s", Roles: []toolcall.Role{toolcall.RoleRuntime, toolcall.RoleAuditor}}
	for _, tt := range []struct{ path, token, detail, hint string }{
		{"/hook", "", "the request has no credentials", "send Authorization: Bearer TOKEN, with a token of the role runtime (askance token create NAME --role runtime), or log in"},
		{"/revoke", "", "the request has no credentials", "send Authorization: Bearer TOKEN, with a token of the role approver or operator (askance token create NAME --role ROLE), or log in"},
		{"/read", "", "the request has no credentials", "send Authorization: Bearer TOKEN, with a token of the role runtime, approver, operator or auditor (askance token create NAME --role ROLE), or log in"},
		{"/hook", "ann", "ann cannot send the events of a hook (this needs the role runtime; yours: approver)", "use credentials with such a role"},
		{"/revoke", "eve", "eve cannot revoke an approval (this needs the role approver or operator; yours: runtime, auditor)", "use credentials with such a role"},
	} {
		var h []string
		if tt.token != "" {
			h = []string{"Authorization", "Bearer " + tt.token}
		}
		w := s.ask(http.MethodPost, tt.path, h...)
		var p gateway.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Code != message.CodeForbidden || p.Detail != tt.detail || p.Hint != tt.hint {
			t.Errorf("%s with %q: %+v, %v", tt.path, tt.token, p, err)
		}
	}
}

// TestAmbient: credentials that a browser sends automatically do not prove which page made the
// request.
func TestAmbient(t *testing.T) {
	s := newServer(t, gateway.Config{Origins: []string{"https://app.example"}},
		gateway.Route{Method: http.MethodPost, Path: "/answer", Access: approvers, Serve: answer("done")},
		gateway.Route{Method: http.MethodPost, Path: "/check", Access: approvers, Safe: true, Serve: answer("done")},
		gateway.Route{Method: http.MethodGet, Path: "/calls", Access: approvers, Serve: answer("calls")},
		gateway.Route{Method: http.MethodPost, Path: "/login", Access: gateway.Everybody, Serve: answer("in")},
		gateway.Route{Method: http.MethodGet, Path: "/socket", Access: approvers, OwnAuth: true, Serve: func(w http.ResponseWriter, _ *http.Request, p *gateway.Peer) error {
			if p == nil {
				w.WriteHeader(http.StatusAccepted) // waits for a token
			}
			return nil
		}},
	)
	const cookie, proof = "Cookie", gateway.CSRFHeader
	for name, tt := range map[string]struct {
		method, path string
		header       []string
		want         int
	}{
		"with proof":                   {"POST", "/answer", []string{cookie, "session=cookie", proof, "proof"}, 200},
		"without proof":                {"POST", "/answer", []string{cookie, "session=cookie"}, 403},
		"with a wrong proof":           {"POST", "/answer", []string{cookie, "session=cookie", proof, "proofs"}, 403},
		"from another site":            {"POST", "/answer", []string{cookie, "session=cookie", proof, "proof", "Sec-Fetch-Site", "cross-site"}, 403},
		"from another origin":          {"POST", "/answer", []string{cookie, "session=cookie", proof, "proof", "Origin", "https://evil.example"}, 403},
		"from our origin":              {"POST", "/answer", []string{cookie, "session=cookie", proof, "proof", "Origin", "http://gate.example"}, 200},
		"from a listed origin":         {"POST", "/answer", []string{cookie, "session=cookie", proof, "proof", "Origin", "https://app.example"}, 200},
		"listed, no proof":             {"POST", "/answer", []string{cookie, "session=cookie", "Origin", "https://app.example"}, 403},
		"a token needs no proof":       {"POST", "/answer", []string{"Authorization", "Bearer ann"}, 200},
		"a token from anywhere":        {"POST", "/answer", []string{"Authorization", "Bearer ann", "Origin", "https://evil.example"}, 200},
		"a POST that changes nothing":  {"POST", "/check", []string{cookie, "session=cookie"}, 200},
		"reading":                      {"GET", "/calls", []string{cookie, "session=cookie"}, 200},
		"reading from another site":    {"GET", "/calls", []string{cookie, "session=cookie", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, 403},
		"navigation from another site": {"GET", "/calls", []string{cookie, "session=cookie", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 200},
		"a login from another site":    {"POST", "/login", []string{"Origin", "https://evil.example"}, 403},
		"a login from our page":        {"POST", "/login", []string{"Origin", "http://gate.example"}, 200},
		"a socket of another site":     {"GET", "/calls", []string{"Authorization", "Bearer ann", "Upgrade", "websocket", "Origin", "https://evil.example"}, 403},
		"a socket of our page":         {"GET", "/calls", []string{"Authorization", "Bearer ann", "Upgrade", "websocket", "Origin", "http://gate.example"}, 200},
		"a cookie's socket":            {"GET", "/socket", []string{cookie, "session=cookie", "Upgrade", "websocket", "Origin", "http://gate.example", "Sec-Fetch-Site", "same-origin"}, 200},
		"a cookie, listed socket":      {"GET", "/socket", []string{cookie, "session=cookie", "Upgrade", "websocket", "Origin", "https://app.example", "Sec-Fetch-Site", "same-site"}, 202},
		"the same, no other login":     {"GET", "/calls", []string{cookie, "session=cookie", "Upgrade", "websocket", "Origin", "https://app.example", "Sec-Fetch-Site", "same-site"}, 403},
		"a token, listed socket":       {"GET", "/socket", []string{"Authorization", "Bearer ann", "Upgrade", "websocket", "Origin", "https://app.example"}, 200},
		"a socket of a program":        {"GET", "/calls", []string{"Authorization", "Bearer ann", "Upgrade", "websocket"}, 200},
	} {
		if w := s.ask(tt.method, tt.path, tt.header...); w.Code != tt.want {
			t.Errorf("%s: %d, want %d: %s", name, w.Code, tt.want, w.Body)
		}
	}
	for form, want := range map[string]int{"csrf=proof&x=1": 200, "csrf=no": 403, "x=1": 403} {
		if w := s.send(http.MethodPost, "/answer", form, cookie, "session=cookie", "Content-Type", "application/x-www-form-urlencoded"); w.Code != want {
			t.Errorf("the form %s: %d, want %d", form, w.Code, want)
		}
	}
}

// A login that lacks the role of a page can be ended there, and has a link to the console if it may see it.
func TestRefusedPage(t *testing.T) {
	s := newServer(t, gateway.Config{Login: "/login"},
		gateway.Route{Method: http.MethodGet, Path: "/work", Access: gateway.Only(toolcall.RoleWorker), Serve: answer("work")},
		gateway.Route{Method: http.MethodPost, Path: "/answer", Access: approvers, Serve: answer("done")})
	s.auth["runtime"] = &gateway.Identity{Name: "bot", Space: "s", Roles: []toolcall.Role{toolcall.RoleRuntime}, Ambient: true, CSRF: "proof"}
	for _, tt := range []struct {
		login, method, path string
		logout, console     bool
	}{
		{"cookie", http.MethodGet, "/work", true, true},
		{"runtime", http.MethodGet, "/work", true, false},
		{"cookie", http.MethodPost, "/answer", false, true}, // without the proof
	} {
		w := s.ask(tt.method, tt.path, "Cookie", "session="+tt.login, "Accept", "text/html")
		if text := w.Body.String(); w.Code != http.StatusForbidden || strings.Contains(text, `action="/logout"`) != tt.logout || strings.Contains(text, "Open the console") != tt.console {
			t.Errorf("%+v: %d: %s", tt, w.Code, text)
		}
	}
}

func TestCORS(t *testing.T) {
	s := newServer(t, gateway.Config{Origins: []string{"https://app.example"}},
		gateway.Route{Method: http.MethodPost, Path: "/answer", Access: approvers, Serve: answer("done")})
	for origin, allowed := range map[string]bool{"https://app.example": true, "https://app.example.evil": false, "null": false, "http://app.example": false} {
		w := s.ask(http.MethodOptions, "/answer", "Origin", origin, "Access-Control-Request-Method", "POST")
		if got := w.Header().Get("Access-Control-Allow-Origin"); (got == origin) != allowed || (w.Code == http.StatusNoContent) != allowed {
			t.Errorf("preflight of %s: %d, allowed %q", origin, w.Code, got)
		}
		w = s.ask(http.MethodPost, "/answer", "Origin", origin, "Authorization", "Bearer ann")
		if got := w.Header().Get("Access-Control-Allow-Origin"); (got == origin) != allowed || w.Header().Get("Vary") != "Origin" || w.Header().Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("request of %s: allowed %q, Vary %q", origin, got, w.Header().Get("Vary"))
		}
	}
	for _, bad := range []string{"*", "https://*.example", "https://app.example/", "app.example", "", "https://App.example", "https://app.example:443", "http://app.example:80", "https://app.example:", "https://bücher.example"} {
		if _, err := gateway.New(gateway.Config{Spaces: []*gateway.Space{stillSpace()}, Auth: fakeAuth{}, Origins: []string{bad}}); err == nil {
			t.Errorf("the origin %q is accepted", bad)
		}
	}
}

func TestHeadersAndLog(t *testing.T) {
	s := newServer(t, gateway.Config{}, gateway.Route{Method: http.MethodGet, Path: "/calls/{id}", Access: approvers, Serve: answer("x")})
	w := s.ask(http.MethodGet, "/calls/secret-path?sig=secret-query", "Authorization", "Bearer ann", "X-Request-Id", "req-1")
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "X-Request-Id": "req-1", "Cache-Control": "no-store",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Referrer-Policy": "same-origin",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	s.ask(http.MethodGet, "/calls/1", "Authorization", "Bearer wrong-secret", "X-Request-Id", "a\nb")
	line := s.log.String()
	for _, want := range []string{"route=/calls/{id}", "name=ann", "status=200", "status=401", "id=req-1"} {
		if !strings.Contains(line, want) {
			t.Errorf("the log lacks %s:\n%s", want, line)
		}
	}
	if strings.Contains(line, "secret") || strings.Count(line, "\n") != 2 {
		t.Errorf("the log contains secrets or unexpected lines:\n%s", line)
	}
}

func TestPanics(t *testing.T) {
	s := newServer(t, gateway.Config{}, gateway.Route{Method: http.MethodGet, Path: "/panic", Access: gateway.Everybody, Serve: func(http.ResponseWriter, *http.Request, *gateway.Peer) error {
		panic("internals")
	}}, gateway.Route{Method: http.MethodGet, Path: "/fail", Access: gateway.Everybody, Serve: func(http.ResponseWriter, *http.Request, *gateway.Peer) error {
		return errors.New("internals")
	}}, gateway.Route{Method: http.MethodPost, Path: "/small", MaxBody: 10, Access: gateway.Everybody, Serve: func(_ http.ResponseWriter, r *http.Request, _ *gateway.Peer) error {
		_, err := io.ReadAll(r.Body)
		return err
	}})
	for _, path := range []string{"/panic", "/fail"} {
		w := func() *httptest.ResponseRecorder {
			r, w := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody), httptest.NewRecorder()
			defer func() { _ = recover() }() // http.ErrAbortHandler
			s.ServeHTTP(w, r)
			return w
		}
		if got := w(); got != nil && (got.Code != http.StatusInternalServerError || strings.Contains(got.Body.String(), "internals")) {
			t.Errorf("%s: %d %s", path, got.Code, got.Body)
		}
	}
	if !strings.Contains(s.log.String(), "panic=internals") || !strings.Contains(s.log.String(), "err=internals") {
		t.Errorf("the log: %s", s.log)
	}
	if w := s.send(http.MethodPost, "/small", strings.Repeat("x", 11)); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body: %d", w.Code)
	}
}

func TestLimits(t *testing.T) {
	hold := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(hold)
	entered := make(chan struct{}, 8)
	s := newServer(t, gateway.Config{Limits: gateway.Limits{PerSecond: 0.001, Burst: 5, Streams: 2, Failures: 3}},
		gateway.Route{Method: http.MethodGet, Path: "/stream", Stream: true, Access: gateway.Readers, Serve: func(http.ResponseWriter, *http.Request, *gateway.Peer) error {
			entered <- struct{}{}
			<-hold
			return nil
		}},
		gateway.Route{Method: http.MethodGet, Path: "/calls", Access: gateway.Readers, Serve: answer("x")},
		gateway.Route{Method: http.MethodPost, Path: "/calls", Access: gateway.Readers, Serve: answer("x")})
	for range 2 {
		wg.Go(func() { s.ask(http.MethodGet, "/stream", "Authorization", "Bearer bot") })
		<-entered
	}
	if w := s.ask(http.MethodGet, "/stream", "Authorization", "Bearer bot"); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("the third stream: %d", w.Code)
	}
	for i, want := range []int{200, 200, 200, 200, 200, 429} {
		if w := s.ask(http.MethodGet, "/calls", "Authorization", "Bearer ann"); w.Code != want {
			t.Errorf("request %d: %d, want %d", i+1, w.Code, want)
		}
	}
	for i, want := range []int{200, 200, 200, 200, 200, 429} { // reads do not count for this limit
		if w := s.ask(http.MethodPost, "/calls", "Authorization", "Bearer ann"); w.Code != want {
			t.Errorf("change %d: %d, want %d", i+1, w.Code, want)
		}
	}
	for i, want := range []int{401, 401, 401, 429} {
		if w := s.ask(http.MethodGet, "/calls", "Authorization", "Bearer guess"); w.Code != want {
			t.Errorf("guess %d: %d, want %d", i+1, w.Code, want)
		}
	}
	for from, want := range map[string]int{"192.0.2.1:9": 429, "192.0.2.2:9": 401, "unix-peer:1001": 401, "unix-peer:1002": 401} { // the tests send from 192.0.2.1
		for i := range 3 {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://gate.example/calls", http.NoBody)
			r.RemoteAddr = from
			r.Header.Set("Authorization", "Bearer guess")
			w := httptest.NewRecorder()
			if s.ServeHTTP(w, r); w.Code != want {
				t.Errorf("guess %d from %s: %d, want %d", i+1, from, w.Code, want)
			}
		}
	}
	if w := s.ask(http.MethodGet, "/calls", "Authorization", "Bearer bot"); w.Code != http.StatusOK {
		t.Errorf("correct credentials after wrong ones from the same address: %d", w.Code)
	}
}

// TestStreamsEnd: streams end with their credentials and with the server.
func TestStreamsEnd(t *testing.T) { synctest.Test(t, streamsEnd) }

func streamsEnd(t *testing.T) {
	entered := make(chan struct{})
	causes := make(chan error, 1)
	s := newServer(t, gateway.Config{},
		gateway.Route{Method: http.MethodGet, Path: "/stream", Stream: true, Access: gateway.Readers, Serve: func(_ http.ResponseWriter, r *http.Request, _ *gateway.Peer) error {
			entered <- struct{}{}
			<-r.Context().Done()
			causes <- context.Cause(r.Context())
			return nil
		}},
		gateway.Route{Method: http.MethodGet, Path: "/socket", Stream: true, OwnAuth: true, Access: gateway.Readers, Serve: func(_ http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
			if p != nil {
				return errors.New("there is a peer without credentials")
			}
			for token, ok := range map[string]bool{"wrong": false} {
				if _, err := gateway.Login(r, token); (err == nil) != ok {
					t.Errorf("login with %s: %v", token, err)
				}
			}
			if _, err := gateway.Login(r, "bot"); err != nil {
				t.Errorf("login: %v", err)
			}
			entered <- struct{}{}
			<-r.Context().Done()
			causes <- context.Cause(r.Context())
			return nil
		}})
	for _, path := range []string{"/stream", "/socket"} {
		revoked := make(chan struct{})
		s.auth["bot"] = &gateway.Identity{Name: "bot", Space: "s", Roles: []toolcall.Role{toolcall.RoleRuntime}, Revoked: revoked}
		var header []string
		if path == "/stream" {
			header = []string{"Authorization", "Bearer bot"}
		}
		go s.ask(http.MethodGet, path, header...)
		<-entered
		close(revoked)
		if err := <-causes; err == nil || !strings.Contains(err.Error(), "revoked") {
			t.Errorf("%s of a revoked peer: %v", path, err)
		}
		s.auth["bot"] = &gateway.Identity{Name: "bot", Space: "s", Roles: []toolcall.Role{toolcall.RoleRuntime}, Expires: time.Now().Add(time.Minute)}
		go s.ask(http.MethodGet, path, header...)
		<-entered
		if err := <-causes; err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("%s of an expired peer: %v", path, err)
		}
	}
	s.auth["bot"] = &gateway.Identity{Name: "bot", Space: "s", Roles: []toolcall.Role{toolcall.RoleRuntime}}
	go s.ask(http.MethodGet, "/stream", "Authorization", "Bearer bot")
	<-entered
	s.Close()
	if err := <-causes; err == nil || !strings.Contains(err.Error(), "stopping") {
		t.Errorf("a stream when the server stops: %v", err)
	}
}

// Events that wait for a slow reader are not sent after its credentials have ended.
func TestNoEventsAfterTheCredentials(t *testing.T) {
	gone := errors.New("revoked")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, end := context.WithCancelCause(r.Context())
		err := gateway.Streaming(ctx, w, time.Hour, "", func(_ context.Context, s *gateway.Stream) error {
			err := s.JSON("call", "early")
			end(gone)
			if late := s.JSON("call", "late"); err != nil || !errors.Is(late, gone) {
				t.Errorf("before the end %v, and after it %v", err, late)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	res, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(body), "early") || strings.Contains(string(body), "late") {
		t.Errorf("the stream has %q, %v", body, err)
	}
}

func TestRoutesAreUnique(t *testing.T) {
	r := gateway.Route{Method: http.MethodGet, Path: "/x", Access: gateway.Everybody, Serve: answer("x")}
	if _, err := gateway.New(gateway.Config{Spaces: []*gateway.Space{stillSpace()}, Auth: fakeAuth{}, Surfaces: []gateway.Surface{gateway.Routes{r, r}}}); err == nil {
		t.Error("a duplicate route is accepted")
	}
}

// oneConn is a listener with one connection.
type oneConn struct{ conn chan net.Conn }

func (o oneConn) Accept() (net.Conn, error) {
	if c, ok := <-o.conn; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (oneConn) Addr() net.Addr { return &net.TCPAddr{} }
func (o oneConn) Close() error { close(o.conn); return nil }

// A stream over HTTP/2 lasts although nothing is sent for a while.
func TestIdleStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		l := oneConn{make(chan net.Conn, 1)}
		l.conn <- theirs
		h2 := &http.Protocols{}
		h2.SetUnencryptedHTTP2(true)
		server := &http.Server{Protocols: h2, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = gateway.Streaming(r.Context(), w, time.Hour, "", func(ctx context.Context, s *gateway.Stream) error {
				select {
				case <-time.After(time.Minute):
					return s.JSON("call", "late")
				case <-ctx.Done():
					return nil
				}
			})
		})}
		go func() { _ = server.Serve(l) }() // until it is closed
		client := &http.Transport{Protocols: h2, DialContext: func(context.Context, string, string) (net.Conn, error) { return ours, nil }}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://gateway/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil || !strings.Contains(string(text), "late") {
			t.Errorf("the stream is %q, %v", text, err)
		}
		client.CloseIdleConnections()
		_ = server.Close()
		_ = ours.Close()
	})
}

// A reader that stops reading does not hold the end of a stream for ever.
func TestEndOfStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		route := gateway.Route{Method: http.MethodGet, Path: "/x", Access: gateway.Everybody, Stream: true, Serve: func(w http.ResponseWriter, r *http.Request, _ *gateway.Peer) error {
			return gateway.Streaming(r.Context(), w, time.Hour, "", func(_ context.Context, s *gateway.Stream) error { return s.JSON("call", "last") })
		}}
		gw, err := gateway.New(gateway.Config{Spaces: []*gateway.Space{stillSpace()}, Auth: fakeAuth{}, Surfaces: []gateway.Surface{gateway.Routes{route}}})
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := net.Pipe()
		l := oneConn{make(chan net.Conn, 1)}
		l.conn <- theirs
		server := &http.Server{Handler: gw}
		go func() { _ = server.Serve(l) }() // until it is closed
		if _, err := io.WriteString(ours, "GET /x HTTP/1.1\r\nHost: gateway\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReaderSize(ours, 16)
		for line := ""; line != "data: \"last\"\n"; {
			if line, err = lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		_ = ours.SetReadDeadline(time.Now().Add(time.Second))
		if rest, _ := io.ReadAll(lines); strings.Contains(string(rest), "0\r\n\r\n") {
			t.Errorf("after a minute without a reader, the stream ends with %q", rest)
		}
		_ = server.Close()
		_ = ours.Close()
		gw.Close()
	})
}
