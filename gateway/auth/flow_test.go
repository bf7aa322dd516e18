package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// answering accepts votes as JSON and ignores names in it.
func answering() gateway.Surface {
	return gateway.Routes{{Method: http.MethodPost, Path: "/vote/{call}", Access: gateway.Only(toolcall.RoleApprover), Serve: func(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
		c, err := p.As(toolcall.RoleApprover)
		if err != nil {
			return err
		}
		k := toolcall.Key{Space: p.Space.ID, Session: "s1", Reply: "r1", Call: message.CallID(r.PathValue("call"))}
		shown, err := c.Show(r.Context(), toolcall.ShowRequest{Key: k})
		if err != nil {
			return err
		}
		_, err = c.SubmitResponse(context.WithoutCancel(r.Context()), toolcall.Response{Key: k, Kind: toolcall.ResponseApprove, Digest: shown.Call.Digest})
		return err
	}}}
}

// gate is a gateway to which people can log in.
type gate struct {
	*gatewaytest.World
	t        *testing.T
	tokens   *auth.Tokens
	path     string
	ann      string // her token
	provider *provider
	oidc     *auth.OIDC
	auth     *auth.Auth
	logMu    sync.Mutex // guards log
	log      strings.Builder
}

// Write implements io.Writer, for the log.
func (g *gate) Write(b []byte) (int, error) {
	g.logMu.Lock()
	defer g.logMu.Unlock()
	return g.log.Write(b)
}

func (g *gate) logged() string {
	g.logMu.Lock()
	defer g.logMu.Unlock()
	return g.log.String()
}

func newGate(t *testing.T, roles map[string][]toolcall.Role) *gate {
	t.Helper()
	return newGateAt(t, newProvider(t), roles)
}

func newGateAt(t *testing.T, p *provider, roles map[string][]toolcall.Role) *gate {
	t.Helper()
	g := &gate{t: t, path: tokenFile(t), provider: p}
	g.ann, _ = create(t, g.path, auth.Token{Name: "ann", Space: "alpha", Roles: approver})
	var err error
	if g.tokens, err = auth.OpenTokens(g.path, nil); err != nil {
		t.Fatal(err)
	}
	o, err := auth.NewOIDC(auth.OIDCConfig{Issuer: g.provider.URL, ClientID: clientID, Redirect: "http://gate.invalid/auth/oidc/callback", Space: "alpha", Roles: roles, Scopes: []string{"groups"}})
	if err != nil {
		t.Fatal(err)
	}
	g.oidc = o
	g.serve([32]byte{})
	return g
}

// serve starts a server of the gate that seals cookies with the key.
func (g *gate) serve(key [32]byte) {
	g.t.Helper()
	t := g.t
	a, err := auth.New(auth.Config{Tokens: g.tokens, OIDC: g.oidc, Key: key, Log: slog.New(slog.NewTextHandler(g, nil))})
	if err != nil {
		t.Fatal(err)
	}
	g.World = gatewaytest.New(t, gatewaytest.Auth(a), gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface {
		return []gateway.Surface{a, answering()}
	}), gatewaytest.With(func(c *gateway.Config) { c.Login = auth.LoginPath }))
}

// browser returns a client that keeps cookies, follows redirections, and reaches the gateway
// under the name that the provider knows.
func (g *gate) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		g.t.Fatal(err)
	}
	host := strings.TrimPrefix(g.URL, "http://")
	return &http.Client{Jar: jar, Transport: rewrite(host)}
}

type rewrite string

func (host rewrite) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == "gate.invalid" {
		r = r.Clone(r.Context())
		r.Host, r.URL.Host = "gate.invalid", string(host)
	}
	return http.DefaultTransport.RoundTrip(r)
}

const site = "http://gate.invalid"

func (g *gate) do(c *http.Client, method, path string, form url.Values, header ...string) (int, string, *http.Response) {
	g.t.Helper()
	if !strings.HasPrefix(path, "http") {
		path = site + path
	}
	r, err := http.NewRequestWithContext(g.t.Context(), method, path, strings.NewReader(form.Encode()))
	if err != nil {
		g.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return res.StatusCode, string(b), res
}

// self describes who is logged in in the browser.
type self struct {
	Name   string
	Roles  []toolcall.Role
	Groups []string
	Auth   string
	CSRF   string
}

func (g *gate) self(c *http.Client) (self, int) {
	g.t.Helper()
	code, text, _ := g.do(c, http.MethodGet, "/auth/session", nil)
	var s self
	if code == http.StatusOK {
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			g.t.Fatal(err)
		}
	}
	return s, code
}

// TestTokenLogIn exchanges a token for a cookie, which has the rights of the token and ends with
// it.
func TestTokenLogIn(t *testing.T) {
	g := newGate(t, map[string][]toolcall.Role{"*": approver})
	c := g.browser()
	if _, code := g.self(c); code != http.StatusUnauthorized {
		t.Errorf("before: %d", code)
	}
	code, text, res := g.do(c, http.MethodGet, "/auth/session", nil, "Accept", "text/html")
	if code != http.StatusOK || !strings.Contains(text, `name="token"`) || res.Request.URL.Path != "/login" || strings.Contains(res.Header.Get("Content-Security-Policy"), "unsafe") {
		t.Errorf("the login page: %d at %s", code, res.Request.URL)
	}
	if code, text, _ := g.do(c, http.MethodPost, "/login", url.Values{"token": {"wrong"}}); code != http.StatusUnauthorized || !strings.Contains(text, "role=\"alert\"") {
		t.Errorf("a wrong token: %d %s", code, text)
	}
	if code, _, _ := g.do(c, http.MethodPost, "/login", url.Values{"token": {g.ann}}, "Origin", "https://evil.example"); code != http.StatusForbidden {
		t.Errorf("a login from another site: %d", code)
	}
	g.do(c, http.MethodPost, "/login", url.Values{"token": {g.ann}, "next": {"/auth/session"}})
	s, code := g.self(c)
	if code != http.StatusOK || s.Name != "ann" || s.Auth != "http-token" || len(s.CSRF) < 40 {
		t.Fatalf("logged in: %d %+v", code, s)
	}
	for _, cookie := range c.Jar.Cookies(&url.URL{Scheme: "http", Host: "gate.invalid"}) {
		if strings.Contains(cookie.Value, g.ann) {
			t.Error("the cookie contains the token")
		}
	}
	g.A.Ask("s1", "r1", "c1")
	if code, _, _ := g.do(c, http.MethodPost, "/vote/c1", nil); code != http.StatusForbidden {
		t.Errorf("a vote without the CSRF token: %d", code)
	}
	if code, _, _ := g.do(c, http.MethodPost, "/vote/c1", nil, gateway.CSRFHeader, s.CSRF); code != http.StatusOK {
		t.Errorf("a vote: %d", code)
	}
	if code, _, _ := g.do(c, http.MethodPost, "/logout", url.Values{"csrf": {s.CSRF}}); code != http.StatusOK {
		t.Errorf("log-out: %d", code)
	}
	if _, code := g.self(c); code != http.StatusUnauthorized {
		t.Errorf("after the logout: %d", code)
	}
	g.do(c, http.MethodPost, "/login", url.Values{"token": {g.ann}})
	if _, err := auth.RevokeTokens(t.Context(), g.path, "ann"); err != nil {
		t.Fatal(err)
	}
	if err := g.tokens.Reload(); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(2 * time.Minute)
	for {
		if _, code := g.self(c); code == http.StatusUnauthorized {
			return
		}
		select {
		case <-deadline:
			t.Fatal("the session outlives its token")
		default:
		}
	}
}

// TestCookies checks the attributes of cookies, and that a login does not use a session id that
// existed before.
func TestCookies(t *testing.T) {
	g := newGate(t, map[string][]toolcall.Role{"*": approver})
	c := &http.Client{Transport: rewrite(strings.TrimPrefix(g.URL, "http://")), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	_, _, res := g.do(c, http.MethodPost, "/login", url.Values{"token": {g.ann}, "next": {"//evil.example/"}}, "Cookie", "askance-session=chosen-by-an-attacker")
	if len(res.Cookies()) != 1 || res.Header.Get("Location") != "/" {
		t.Fatalf("%v, to %q", res.Cookies(), res.Header.Get("Location"))
	}
	cookie := res.Cookies()[0]
	if cookie.Value == "chosen-by-an-attacker" || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.MaxAge <= 0 || cookie.MaxAge > 12*3600 {
		t.Errorf("the cookie is %v", cookie)
	}
	o, err := auth.NewOIDC(auth.OIDCConfig{Issuer: g.provider.URL, ClientID: clientID, Redirect: "https://gate.invalid/auth/oidc/callback", Space: "alpha", Scopes: []string{"groups"}, Roles: map[string][]toolcall.Role{"*": approver}})
	if err != nil {
		t.Fatal(err)
	}
	secure, err := auth.New(auth.Config{Tokens: g.tokens, OIDC: o, Secure: true})
	if err != nil {
		t.Fatal(err)
	}
	w := gatewaytest.New(t, gatewaytest.Auth(secure), gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface { return []gateway.Surface{secure} }))
	_, _, res = g.do(w.Anonymous(), http.MethodPost, w.URL+"/login", url.Values{"token": {g.ann}})
	if cookie := res.Cookies()[0]; !cookie.Secure || cookie.Name != "__Host-askance-session" || cookie.Path != "/" || cookie.Domain != "" {
		t.Errorf("over TLS the cookie is %v", cookie)
	}
	_, _, res = g.do(w.Anonymous(), http.MethodGet, w.URL+"/auth/oidc/start", nil)
	if cookie := res.Cookies()[0]; !cookie.Secure || !strings.HasPrefix(cookie.Name, "__Host-askance-oidc-") || cookie.Path != "/" || cookie.Domain != "" {
		t.Errorf("over TLS the cookie of a login that began is %v", cookie)
	}
}

// TestOIDCLogIn covers the whole flow: discovery, PKCE, state, nonce, a signed token, claims, and
// a vote that records where its name comes from.
func TestOIDCLogIn(t *testing.T) {
	g := newGate(t, map[string][]toolcall.Role{"approvers": approver, "everything": {toolcall.RoleOperator}})
	g.provider.is(map[string]any{"sub": "1", "email": "dora@example.org", "email_verified": true, "groups": []string{"approvers", "ops"}})
	c := g.browser()
	if code, text, _ := g.do(c, http.MethodGet, "/login?next=/auth/session", nil); code != http.StatusOK || !strings.Contains(text, "/auth/oidc/start?next=%2Fauth%2Fsession") {
		t.Errorf("the login page has no link to the provider: %s", text)
	}
	code, _, res := g.do(c, http.MethodGet, "/auth/oidc/start?next=/auth/session", nil)
	if code != http.StatusOK || res.Request.URL.Path != "/auth/session" {
		t.Fatalf("the login ended at %s with %d", res.Request.URL, code)
	}
	s, _ := g.self(c)
	if want := "oidc:" + g.provider.URL; s.Name != "dora@example.org" || s.Auth != want || !slices.Equal(s.Roles, approver) || !slices.Equal(s.Groups, []string{"approvers", "ops"}) {
		t.Errorf("logged in as %+v", s)
	}
	// deploy needs two approvers of ops: dora is in ops by the claim, ann by the directory.
	k := g.A.Propose("s1", "r1", "c1", gatewaytest.Deploy, `{}`).Key
	if code, text, _ := g.do(c, http.MethodPost, "/vote/c1", nil, gateway.CSRFHeader, s.CSRF); code != http.StatusOK {
		t.Fatalf("the vote: %d %s", code, text)
	}
	g.do(&http.Client{Transport: rewrite(strings.TrimPrefix(g.URL, "http://"))}, http.MethodPost, "/vote/c1", nil, "Authorization", "Bearer "+g.ann)
	votes := g.A.Finished(k).Votes
	if len(votes) != 2 {
		t.Fatalf("%d votes", len(votes))
	}
	if v := votes[0]; v.By.Name != "dora@example.org" || v.By.Auth != s.Auth || v.GroupsFrom != "oidc" || !slices.Equal(v.Groups, []string{"ops"}) {
		t.Errorf("dora's vote: %+v", v)
	}
	if v := votes[1]; v.By.Name != "ann" || v.By.Auth != "http-token" || v.GroupsFrom != "static" {
		t.Errorf("ann's vote: %+v", v)
	}
}

// TestUserInfo: a provider can give name and groups only at UserInfo (OpenID Connect Core, 5.4).
func TestUserInfo(t *testing.T) {
	g := newGate(t, map[string][]toolcall.Role{"approvers": approver, "*": {toolcall.RoleRuntime}, "operators": {toolcall.RoleOperator}})
	person := func(sub, name string, verified bool, group string) map[string]any {
		return map[string]any{"sub": sub, "email": name + "@example.org", "email_verified": verified, "groups": []string{group}}
	}
	for _, step := range []struct {
		token, info map[string]any
		code        int
		name        string
	}{
		{map[string]any{"sub": "1"}, person("1", "dora", true, "approvers"), http.StatusOK, "dora@example.org"},
		{map[string]any{"sub": "2"}, person("2", "emil", true, "operators"), http.StatusOK, "emil@example.org"},
		{map[string]any{"sub": "1", "email": "dora@example.org", "email_verified": true}, person("1", "other", true, "approvers"), http.StatusOK, "dora@example.org"},
		{map[string]any{"sub": "1", "email_verified": true}, person("1", "dora", false, "approvers"), http.StatusForbidden, ""},
		{map[string]any{"sub": "1", "email": "dora@example.org"}, person("1", "other", true, "approvers"), http.StatusForbidden, ""},
		{map[string]any{"sub": "1", "email": nil}, person("1", "dora", true, "approvers"), http.StatusOK, "dora@example.org"},
		{map[string]any{"sub": "1"}, person("2", "emil", true, "operators"), http.StatusForbidden, ""},
		{map[string]any{"sub": "1"}, map[string]any{"sub": "1"}, http.StatusForbidden, ""},
	} {
		g.provider.is(step.token)
		g.provider.mu.Lock()
		g.provider.info = step.info
		g.provider.mu.Unlock()
		c := g.browser()
		if code, text, _ := g.do(c, http.MethodGet, "/auth/oidc/start?next=/auth/session", nil); code != step.code {
			t.Errorf("%v and %v: %d %s", step.token, step.info, code, text)
		}
		if s, _ := g.self(c); s.Name != step.name {
			t.Errorf("%v and %v: logged in as %+v", step.token, step.info, s)
		}
	}
	g.provider.is(map[string]any{"sub": "1", "email": "dora@example.org", "email_verified": true}) // without groups, rules that deny a group would not match
	g.provider.mu.Lock()
	g.provider.odd = map[string]http.HandlerFunc{"/userinfo": http.NotFound}
	g.provider.mu.Unlock()
	if code, text, _ := g.do(g.browser(), http.MethodGet, "/auth/oidc/start", nil); code != http.StatusServiceUnavailable || !strings.Contains(text, `role="alert"`) {
		t.Errorf("without UserInfo: %d %s", code, text)
	}
}

// TestOIDCRefuses covers provider replies that are not quite right.
func TestOIDCRefuses(t *testing.T) {
	g := newGate(t, map[string][]toolcall.Role{"approvers": approver})
	good := map[string]any{"email": "ann@example.org", "email_verified": true, "groups": []string{"approvers"}}
	with := func(name string, v any) map[string]any {
		out := maps.Clone(good)
		out[name] = v
		return out
	}
	for name, claims := range map[string]map[string]any{
		"another nonce":      with("nonce", "other"),
		"another audience":   with("aud", "other"),
		"another issuer":     with("iss", "https://evil.example"),
		"expired":            with("exp", time.Now().Add(-time.Hour).Unix()),
		"unverified address": with("email_verified", false),
		"no address":         with("email", ""),
		"an odd name":        with("email", "a\u0000@example.org"),
		"no group":           with("groups", []string{}),
		"a group without":    with("groups", []string{"Approvers", "*"}),
		"groups of no list":  with("groups", map[string]bool{"approvers": true}),
	} {
		g.provider.is(claims)
		c := g.browser()
		if code, text, _ := g.do(c, http.MethodGet, "/auth/oidc/start", nil); code != http.StatusForbidden || !strings.Contains(text, `role="alert"`) {
			t.Errorf("%s: %d", name, code)
		}
		if s, code := g.self(c); code != http.StatusUnauthorized {
			t.Errorf("%s: logged in as %+v", name, s)
		}
	}
	delete(good, "groups")
	g.provider.is(good)
	if _, text, _ := g.do(g.browser(), http.MethodGet, "/auth/oidc/start", nil); !strings.Contains(text, "--oidc-scope groups") {
		t.Errorf("without the claim: %s", text)
	}
	good["groups"] = []string{"approvers"}
	g.provider.is(good)
	c := g.browser()
	for _, path := range []string{"/auth/oidc/callback", "/auth/oidc/callback?code=x&state=y", "/auth/oidc/callback?error=access_denied"} {
		if code, _, _ := g.do(c, http.MethodGet, path, nil); code != http.StatusForbidden {
			t.Errorf("%s: %d", path, code)
		}
	}
	// The provider's reply for another person, in this browser.
	stop := *c
	stop.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	_, _, begun := g.do(&stop, http.MethodGet, "/auth/oidc/start", nil)
	_, _, agreed := g.do(&stop, http.MethodGet, begun.Header.Get("Location"), nil)
	other := g.browser()
	if code, _, _ := g.do(other, http.MethodGet, agreed.Header.Get("Location"), nil); code != http.StatusForbidden {
		t.Errorf("the reply in another browser: %d", code)
	}
	if code, _, _ := g.do(&stop, http.MethodGet, agreed.Header.Get("Location"), nil); code != http.StatusSeeOther {
		t.Errorf("the reply itself: %d", code)
	}
	if code, _, _ := g.do(c, http.MethodGet, agreed.Header.Get("Location"), nil); code != http.StatusForbidden {
		t.Errorf("the reply again: %d", code)
	}
}

// TestBearerJWT: programs send tokens that the provider signed for this server.
func TestBearerJWT(t *testing.T) {
	g := newGate(t, map[string][]toolcall.Role{"approvers": approver})
	good := map[string]any{"email": "ann@example.org", "email_verified": true, "groups": "approvers", "scope": "askance"}
	g.A.Ask("s1", "r1", "c1")
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signed := g.provider.sign(g.provider.key, good)
	parts := strings.Split(signed, ".")
	for name, tt := range map[string]struct {
		token string
		want  int
	}{
		"good":           {signed, http.StatusOK},
		"another key":    {g.provider.sign(stranger, good), http.StatusUnauthorized},
		"no signature":   {parts[0] + "." + parts[1] + ".", http.StatusUnauthorized},
		"alg none":       {"eyJhbGciOiJub25lIn0." + parts[1] + ".", http.StatusUnauthorized},
		"other audience": {g.provider.sign(g.provider.key, map[string]any{"aud": "x", "scope": "askance", "email": "ann@example.org", "email_verified": true, "groups": "approvers"}), http.StatusUnauthorized},
		"expired":        {g.provider.sign(g.provider.key, map[string]any{"exp": 1, "scope": "askance", "email": "ann@example.org", "email_verified": true, "groups": "approvers"}), http.StatusUnauthorized},
		"no role":        {g.provider.sign(g.provider.key, map[string]any{"scope": "askance", "email": "ann@example.org", "email_verified": true}), http.StatusUnauthorized},
	} {
		if code, text, _ := g.do(g.browser(), http.MethodPost, "/vote/c1", nil, "Authorization", "Bearer "+tt.token); code != tt.want {
			t.Errorf("%s: %d, want %d: %s", name, code, tt.want, text)
		}
	}
}

// TestIDTokenIsNoBearer: a program cannot use the ID token of a browser's login. It can use an
// access token, even from a provider that does not set its type.
func TestIDTokenIsNoBearer(t *testing.T) {
	g := newGate(t, map[string][]toolcall.Role{"approvers": approver})
	if code, _, _ := g.do(g.browser(), http.MethodGet, "/auth/oidc/start", nil); code != http.StatusOK && code != http.StatusNotFound {
		t.Fatalf("the login: %d", code)
	}
	g.provider.mu.Lock()
	ofLogin := g.provider.last
	g.provider.mu.Unlock()
	sign := func(typ jose.ContentType, more map[string]any) string {
		claims := map[string]any{"email": "ann@example.org", "email_verified": true, "groups": "approvers"}
		maps.Copy(claims, more)
		if typ == "" {
			return g.provider.sign(g.provider.key, claims)
		}
		return g.provider.sign(g.provider.key, claims, typ)
	}
	for name, tt := range map[string]struct {
		token string
		want  int
	}{
		"the ID token of a login":           {ofLogin, http.StatusUnauthorized},
		"no type, no nonce":                 {sign("", nil), http.StatusUnauthorized},
		"JWT, no nonce":                     {sign("JWT", nil), http.StatusUnauthorized},
		"a scope and a nonce":               {sign("JWT", map[string]any{"scope": "x", "nonce": "n"}), http.StatusUnauthorized},
		"a scope and the hash of an access": {sign("", map[string]any{"scope": "x", "at_hash": "h"}), http.StatusUnauthorized},
		"Keycloak's ID token":               {sign("JWT", map[string]any{"typ": "ID", "scope": "x"}), http.StatusUnauthorized},
		"Cognito's ID token":                {sign("", map[string]any{"token_use": "id", "client_id": clientID}), http.StatusUnauthorized},
		"a log-out":                         {sign("logout+jwt", map[string]any{"scope": "x"}), http.StatusUnauthorized},
		"a log-out without a type":          {sign("JWT", map[string]any{"scope": "x", "events": map[string]any{}}), http.StatusUnauthorized},
		"RFC 9068":                          {sign("at+jwt", nil), http.StatusOK},
		"RFC 9068 in full":                  {sign("application/AT+JWT", map[string]any{"client_id": clientID, "scope": "x"}), http.StatusOK},
		"a scope":                           {sign("JWT", map[string]any{"scope": "x"}), http.StatusOK},
		"Keycloak":                          {sign("JWT", map[string]any{"typ": "Bearer", "azp": clientID}), http.StatusOK},
		"Cognito":                           {sign("", map[string]any{"token_use": "access"}), http.StatusOK},
	} {
		code, text, _ := g.do(g.browser(), http.MethodGet, "/auth/session", nil, "Authorization", "Bearer "+tt.token)
		if code != tt.want || code == http.StatusUnauthorized && !strings.Contains(text, "access token") {
			t.Errorf("%s: %d, want %d: %s", name, code, tt.want, text)
		}
	}
	o, err := auth.NewOIDC(auth.OIDCConfig{Issuer: g.provider.URL, ClientID: clientID, Audience: "https://askance.example", Redirect: "http://gate.invalid/", Space: "alpha", Roles: map[string][]toolcall.Role{"*": approver}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := auth.New(auth.Config{OIDC: o})
	if err != nil {
		t.Fatal(err)
	}
	const api = "https://askance.example"
	for name, tt := range map[string]struct {
		aud  any
		more string
		ok   bool
	}{"its own audience": {api, "", true}, "its own and the client's": {[]string{api, clientID}, "", false}, "with a nonce": {api, "nonce", false}, "with a scope": {[]string{api, clientID}, "scope", true}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://gate.invalid/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		more := map[string]any{"aud": tt.aud}
		if tt.more != "" {
			more[tt.more] = "x"
		}
		if _, err := a.Token(r, sign("JWT", more)); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEmptyLogIn: a form without a token changes nothing for a person who is logged in.
func TestEmptyLogIn(t *testing.T) {
	g := newGate(t, map[string][]toolcall.Role{"*": approver})
	c := g.browser()
	if code, _, _ := g.do(c, http.MethodPost, "/login", url.Values{"token": {""}}); code != http.StatusUnauthorized {
		t.Errorf("no session and no token: %d", code)
	}
	g.do(c, http.MethodPost, "/login", url.Values{"token": {g.ann}})
	before, _ := g.self(c)
	for _, token := range []string{"", "  "} {
		code, _, res := g.do(c, http.MethodPost, "/login", url.Values{"token": {token}, "csrf": {before.CSRF}, "next": {"/auth/session"}})
		if after, _ := g.self(c); code != http.StatusOK || res.Request.URL.Path != "/auth/session" || after.Name != "ann" || after.CSRF != before.CSRF {
			t.Errorf("token %q: %d at %s, then %+v, was %+v", token, code, res.Request.URL, after, before)
		}
	}
	if code, _, _ := g.do(c, http.MethodPost, "/login", url.Values{"token": {"wrong"}, "csrf": {before.CSRF}}); code != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", code)
	}
	if after, _ := g.self(c); after.Name != "ann" {
		t.Errorf("after a wrong token: %+v", after)
	}
	if code, _, _ := g.do(c, http.MethodPost, "/login", url.Values{"csrf": {before.CSRF}}, "Authorization", "Bearer "+g.ann); code == http.StatusUnauthorized {
		t.Errorf("a token in the header: %d", code)
	}
}

// TestProviderIsDown: the provider is contacted when it is needed, and again later.
func TestProviderIsDown(t *testing.T) {
	g := newGate(t, map[string][]toolcall.Role{"*": approver})
	g.provider.mu.Lock()
	g.provider.down = true
	g.provider.mu.Unlock()
	if code, text, _ := g.do(g.browser(), http.MethodGet, "/auth/oidc/start", nil); code != http.StatusServiceUnavailable || !strings.Contains(text, "cannot be used.</p><p>try again in a minute; if that fails, an operator checks --oidc-issuer.</p>") {
		t.Errorf("a login: %d %s", code, text)
	}
	if code, _, _ := g.do(g.browser(), http.MethodPost, "/vote/x", nil, "Authorization", "Bearer a.b.c"); code != http.StatusServiceUnavailable {
		t.Errorf("a JWT: %d", code)
	}
	if code, _, _ := g.do(g.browser(), http.MethodPost, "/vote/x", nil, "Authorization", "Bearer "+g.ann); code != http.StatusNotFound {
		t.Errorf("a token of this server: %d", code)
	}
}

// handled is an http.RoundTripper without a network, as bubbles require.
type handled struct{ http.Handler }

func (h handled) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), nil
}

// withoutKeys is a transport to a provider whose keys cannot be read.
type withoutKeys struct{ handled }

func (w withoutKeys) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/keys" {
		return nil, errors.New("connection refused")
	}
	return w.handled.RoundTrip(r)
}

// TestKeysOutOfReach: a token that cannot be checked is not called wrong.
func TestKeysOutOfReach(t *testing.T) {
	p := newProvider(t)
	o, err := auth.NewOIDC(auth.OIDCConfig{Issuer: p.URL, ClientID: clientID, Redirect: "http://gate.invalid/", Space: "alpha", Roles: map[string][]toolcall.Role{"*": approver}, Client: &http.Client{Transport: withoutKeys{handled{p.Config.Handler}}}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := auth.New(auth.Config{OIDC: o})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://gate.invalid/", http.NoBody)
	if _, err := a.Token(r, p.sign(p.key, map[string]any{"email": "ann@example.org", "email_verified": true, "scope": "x"})); !errors.Is(err, message.ErrUnavailable) {
		t.Errorf("%v, want unavailable", err)
	}
}

// TestWithdrawnKey: the provider is not asked about each token, and a key that it withdrew signs
// nothing any more, even if no token of another key comes.
func TestWithdrawnKey(t *testing.T) {
	p := newProvider(t)
	synctest.Test(t, func(t *testing.T) {
		o, err := auth.NewOIDC(auth.OIDCConfig{Issuer: p.URL, ClientID: clientID, Redirect: "http://gate.invalid/", Space: "alpha", Roles: map[string][]toolcall.Role{"*": approver}, Client: &http.Client{Transport: handled{p.Config.Handler}}})
		if err != nil {
			t.Fatal(err)
		}
		a, err := auth.New(auth.Config{OIDC: o})
		if err != nil {
			t.Fatal(err)
		}
		old := p.key
		admitted := func(key *ecdsa.PrivateKey) bool {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://gate.invalid/", http.NoBody)
			_, err := a.Token(r, p.sign(key, map[string]any{"email": "ann@example.org", "email_verified": true, "scope": "x"}))
			return err == nil
		}
		if !admitted(old) {
			t.Fatal("the provider's key is refused")
		}
		synctest.Wait() // the library stores the keys
		p.down = true
		if !admitted(old) {
			t.Error("a second token needs the provider")
		}
		p.down = false
		if p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if admitted(old) {
			t.Error("the withdrawn key is accepted")
		}
		if !admitted(p.key) {
			t.Error("the new key is refused")
		}
	})
}

// TestLocalUserIsOne: without credentials, no request can choose its name in any way.
func TestLocalUserIsOne(t *testing.T) {
	g, _ := localGate(t, nil)
	g.A.Ask("s1", "r1", "c1")
	who := func() string {
		_, text, _ := g.do(g.browser(), http.MethodGet, g.URL+"/auth/session?name=bob&user=bob&as=bob", nil)
		var s self
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(s.Name, " ", s.Auth, " ", len(s.CSRF) > 0)
	}
	if got := who(); got != "me http-loopback false" {
		t.Errorf("at first: %s", got)
	}
	if code, text, _ := g.do(g.browser(), http.MethodPost, g.URL+"/login", url.Values{"name": {"bob"}, "token": {"bob"}, "next": {"/auth/session"}}); code != http.StatusForbidden || !strings.Contains(text, "askance token create") {
		t.Errorf("login as bob: %d %s", code, text)
	}
	if got := who(); got != "me http-loopback false" {
		t.Errorf("after the login: %s", got)
	}
	for _, value := range []string{"carla", "me", ""} {
		if code, text, _ := g.do(g.browser(), http.MethodPost, g.URL+"/vote/c1", nil, "Askance-As", value); code != http.StatusForbidden || !strings.Contains(text, "askance token create") {
			t.Errorf("a vote as %q: %d %s", value, code, text)
		}
	}
	key := toolcall.Key{Space: "alpha", Session: "s1", Reply: "r1", Call: "c1"}
	if votes := g.A.Show(key).Votes; len(votes) != 0 {
		t.Fatalf("votes: %+v", votes)
	}
	if code, _, _ := g.do(g.browser(), http.MethodPost, g.URL+"/vote/c1?name=bob", url.Values{"name": {"bob"}}); code != http.StatusOK {
		t.Errorf("a vote: %d", code)
	}
	votes := g.A.Show(key).Votes
	if len(votes) != 1 || votes[0].By.Name != "me" || votes[0].By.Auth != auth.ViaLoopback {
		t.Errorf("votes: %+v", votes)
	}
	if code, _, _ := g.do(g.browser(), http.MethodGet, g.URL+"/auth/session", nil, "Sec-Fetch-Site", "cross-site"); code != http.StatusForbidden {
		t.Errorf("another site: %d", code)
	}
}

// localGate returns a gateway without credentials, which ends when hasCredentials returns true.
func localGate(t *testing.T, hasCredentials func() bool) (*gate, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.json")
	tokens, err := auth.AwaitTokens(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := auth.New(auth.Config{Local: &auth.Loopback{Name: "me", Space: "alpha"}, Tokens: tokens, HasCredentials: hasCredentials})
	if err != nil {
		t.Fatal(err)
	}
	w := gatewaytest.New(t, gatewaytest.Auth(a), gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface { return []gateway.Surface{a, answering()} }))
	return &gate{World: w, t: t, auth: a}, path
}

// TestLocalUserEndsWithCredentials: once credentials exist, every request without them is
// refused, and nothing reopens the server.
func TestLocalUserEndsWithCredentials(t *testing.T) {
	var logins atomic.Bool
	for name, tt := range map[string]struct{ begin, end func(path string) error }{
		"logins": {
			func(string) error { logins.Store(true); return nil },
			func(string) error { logins.Store(false); return nil },
		},
		"a token": {
			func(path string) error {
				_, _, err := auth.CreateToken(t.Context(), path, auth.Token{Name: "ann", Space: "alpha", Roles: []toolcall.Role{toolcall.RoleApprover}})
				return err
			},
			os.Remove,
		},
		"a token file that cannot be read": {func(path string) error { return os.WriteFile(path, nil, 0o600) }, os.Remove},
	} {
		t.Run(name, func(t *testing.T) {
			g, path := localGate(t, logins.Load)
			g.A.Ask("s1", "r1", "c1")
			status := func() int {
				code, _, _ := g.do(g.browser(), http.MethodGet, g.URL+"/auth/session", nil)
				return code
			}
			if code := status(); code != http.StatusOK {
				t.Fatalf("the local user: %d", code)
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", http.NoBody)
			id, err := g.auth.Authenticate(r)
			if err != nil {
				t.Fatal(err)
			}
			open, err := g.Gateway.Peer(id)
			if err == nil {
				_, err = open.As(toolcall.RoleApprover)
			}
			if err != nil {
				t.Fatalf("a connection of the local user: %v", err)
			}
			if err := tt.begin(path); err != nil {
				t.Fatal(err)
			}
			if _, err := open.As(toolcall.RoleApprover); !errors.Is(err, gateway.ErrNoCredentials) {
				t.Errorf("a connection from before: %v", err)
			}
			select {
			case <-id.Revoked:
			default:
				t.Error("streams from before are still open")
			}
			if code, text, _ := g.do(g.browser(), http.MethodPost, g.URL+"/vote/c1", nil); code != http.StatusUnauthorized || !strings.Contains(text, "askance token create NAME --role approver") {
				t.Errorf("the first vote afterwards: %d %s", code, text)
			}
			if err := tt.end(path); err != nil {
				t.Fatal(err)
			}
			if code := status(); code != http.StatusUnauthorized {
				t.Errorf("after the credentials are removed: %d", code)
			}
		})
	}
}
