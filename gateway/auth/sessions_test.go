package auth_test

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/toolcall"
)

// turns sends the requests of a browser to several servers in turn, as a load balancer without
// affinity does.
type turns struct {
	hosts []string
	n     int
}

func (t *turns) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != "gate.invalid" {
		return http.DefaultTransport.RoundTrip(r)
	}
	host := t.hosts[t.n%len(t.hosts)]
	t.n++
	return rewrite(host).RoundTrip(r)
}

// replicas returns two servers with the same key and a browser that uses both.
func replicas(t *testing.T) (g *gate, c *http.Client, all *turns) {
	t.Helper()
	g = newGate(t, map[string][]toolcall.Role{"approvers": approver})
	all = &turns{}
	for range 2 {
		g.serve([32]byte{1})
		all.hosts = append(all.hosts, strings.TrimPrefix(g.URL, "http://"))
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return g, &http.Client{Jar: jar, Transport: all}, all
}

func cookies(c *http.Client) []*http.Cookie {
	return c.Jar.Cookies(&url.URL{Scheme: "http", Host: "gate.invalid"})
}

// A login is valid at every server with the same key until its token is revoked.
func TestLoginAtEveryReplica(t *testing.T) {
	g, c, _ := replicas(t)
	g.do(c, http.MethodPost, "/login", url.Values{"token": {g.ann}, "next": {"/auth/session"}})
	first, _ := g.self(c)
	for range 4 {
		if s, code := g.self(c); code != http.StatusOK || s.Name != "ann" || s.CSRF != first.CSRF || s.Auth != "http-token" {
			t.Fatalf("at the next replica: status %d, %+v", code, s)
		}
	}
	g.A.Ask("s1", "r1", "c1") // at the second server
	for range 2 {
		if code, _, _ := g.do(c, http.MethodPost, "/vote/c1", nil, gateway.CSRFHeader, first.CSRF); code == http.StatusUnauthorized || code == http.StatusForbidden {
			t.Errorf("a vote: %d", code)
		}
	}
	kept := cookies(c)
	if _, err := auth.RevokeTokens(t.Context(), g.path, "ann"); err != nil {
		t.Fatal(err)
	}
	if err := g.tokens.Reload(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c.Jar.SetCookies(&url.URL{Scheme: "http", Host: "gate.invalid"}, kept)
		if s, code := g.self(c); code != http.StatusUnauthorized {
			t.Errorf("after the token was revoked: %d %+v", code, s)
		}
	}
}

// A logout removes the cookie. At the server that gets the logout, the session also ends for a
// copy of the cookie.
func TestLogoutWithReplicas(t *testing.T) {
	g, c, all := replicas(t)
	g.do(c, http.MethodPost, "/login", url.Values{"token": {g.ann}, "next": {"/auth/session"}})
	s, _ := g.self(c)
	copied := cookies(c)
	all.n = 0
	g.do(c, http.MethodPost, "/logout", url.Values{"csrf": {s.CSRF}})
	if len(cookies(c)) != 0 {
		t.Errorf("the browser keeps %v", cookies(c))
	}
	for range 2 {
		if _, code := g.self(c); code != http.StatusUnauthorized {
			t.Errorf("after the logout: %d", code)
		}
	}
	c.Jar.SetCookies(&url.URL{Scheme: "http", Host: "gate.invalid"}, copied)
	all.n = 0
	if _, code := g.self(c); code != http.StatusUnauthorized {
		t.Errorf("a copy of the cookie where the logout was: %d", code)
	}
}

// A login ends the earlier session of the same browser, even for a copy of its cookie.
func TestLoginEndsTheEarlierSession(t *testing.T) {
	g := newGate(t, map[string][]toolcall.Role{"approvers": approver})
	g.serve([32]byte{1})
	g.provider.is(map[string]any{"sub": "1", "email": "dora@example.org", "email_verified": true, "groups": []string{"approvers"}})
	c := g.browser()
	logIn := map[string]func(){
		"a token": func() {
			now, _ := g.self(c)
			g.do(c, http.MethodPost, "/login", url.Values{"token": {g.ann}, "next": {"/auth/session"}, "csrf": {now.CSRF}})
		},
		"the provider": func() { g.do(c, http.MethodGet, "/auth/oidc/start?next=/auth/session", nil) },
	}
	for _, first := range []string{"a token", "the provider"} {
		for _, second := range []string{"a token", "the provider"} {
			logIn[first]()
			earlier := cookies(c)
			logIn[second]()
			if s, code := g.self(c); code != http.StatusOK || cookies(c)[0].Value == earlier[0].Value {
				t.Errorf("%s after %s: the new session has %d %+v", second, first, code, s)
			}
			copied := g.browser()
			copied.Jar.SetCookies(&url.URL{Scheme: "http", Host: "gate.invalid"}, earlier)
			if s, code := g.self(copied); code != http.StatusUnauthorized {
				t.Errorf("%s after %s: the earlier session has %d %+v", second, first, code, s)
			}
		}
	}
}

// A login at the provider can begin at one server and end at another. A person with more groups
// than fit into a cookie is logged in only at the second one.
func TestProviderLoginAtTwoReplicas(t *testing.T) {
	g, c, all := replicas(t)
	var many []string
	for i := range 400 {
		many = append(many, fmt.Sprintf("group-%x", i*7919*104729))
	}
	for _, tc := range []struct {
		groups []string
		both   bool
	}{{[]string{"approvers", "ops"}, true}, {append(many, "approvers"), false}} {
		g.provider.is(map[string]any{"sub": "1", "email": "dora@example.org", "email_verified": true, "groups": tc.groups})
		all.n = 0
		g.do(c, http.MethodGet, "/auth/oidc/start?next=/auth/session", nil) // start: 0, callback: 1
		all.n = 1
		if s, code := g.self(c); code != http.StatusOK || s.Name != "dora@example.org" || len(s.Groups) != len(tc.groups) {
			t.Errorf("%d groups: %d %+v", len(tc.groups), code, s)
		}
		if _, code := g.self(c); (code == http.StatusOK) != tc.both {
			t.Errorf("%d groups, at the other replica: %d", len(tc.groups), code)
		}
		for _, cookie := range cookies(c) {
			if len(cookie.Name)+len(cookie.Value) > 4000 {
				t.Errorf("a cookie of %d bytes", len(cookie.Value))
			}
		}
	}
}

// A cookie from a server with another key and a changed cookie are not accepted as logins, nor is
// the cookie of a login attempt.
func TestOnlySealedCookies(t *testing.T) {
	g, c, _ := replicas(t)
	g.do(c, http.MethodPost, "/login", url.Values{"token": {g.ann}, "next": {"/auth/session"}})
	good := cookies(c)[0].Value
	other := newGate(t, map[string][]toolcall.Role{"*": approver})
	stop := &http.Client{Transport: c.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	_, _, begun := g.do(stop, http.MethodGet, "/auth/oidc/start", nil)
	for name, value := range map[string]string{"changed": good[:len(good)-4] + "AAAA", "empty": "", "not sealed": "e30", "an attempt": begun.Cookies()[0].Value} {
		if code, _, _ := g.do(stop, http.MethodGet, "/auth/session", nil, "Cookie", "askance-session="+value); code != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, code)
		}
	}
	if code, _, _ := g.do(stop, http.MethodGet, "/auth/session", nil, "Cookie", "askance-session="+good); code != http.StatusOK {
		t.Errorf("the unchanged cookie: %d", code)
	}
	plain := &http.Client{Transport: rewrite(strings.TrimPrefix(other.URL, "http://"))}
	if code, _, _ := g.do(plain, http.MethodGet, "/auth/session", nil, "Cookie", "askance-session="+good); code != http.StatusUnauthorized {
		t.Errorf("at a server with another key: %d", code)
	}
}

// TestLogInOverSession: a person who is logged in logs in again by the rules of a first login, so a
// token that reads nothing does not replace the session by one that can neither log in nor out.
func TestLogInOverSession(t *testing.T) {
	g := newGate(t, map[string][]toolcall.Role{"*": approver})
	elsewhere, _ := create(t, g.path, auth.Token{Name: "eve", Space: "gamma", Roles: approver})
	worker, _ := create(t, g.path, auth.Token{Name: "wendy", Space: "alpha", Roles: []toolcall.Role{toolcall.RoleWorker}, Tools: []string{"job"}})
	if err := g.tokens.Reload(); err != nil {
		t.Fatal(err)
	}
	c := g.browser()
	g.do(c, http.MethodPost, "/login", url.Values{"token": {g.ann}})
	before, _ := g.self(c)
	for who, token := range map[string]string{"of a space that is not served": elsewhere, "of a worker": worker} {
		if code, _, _ := g.do(c, http.MethodPost, "/login", url.Values{"token": {token}, "csrf": {before.CSRF}}); code != http.StatusUnauthorized {
			t.Errorf("a token %s: %d", who, code)
		}
		if after, _ := g.self(c); after.Name != "ann" || after.CSRF != before.CSRF {
			t.Fatalf("after a token %s: %+v", who, after)
		}
	}
	limited := false
	for range 40 {
		code, _, _ := g.do(c, http.MethodPost, "/login", url.Values{"token": {"wrong"}, "csrf": {before.CSRF}})
		limited = limited || code == http.StatusTooManyRequests
	}
	if !limited {
		t.Error("40 wrong tokens were answered within a minute")
	}
}
