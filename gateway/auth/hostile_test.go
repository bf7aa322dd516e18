package auth_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// TestLoginsInTabs: each tab of a browser completes its own login, in any order, and a forged
// reply of the provider ends none of them.
func TestLoginsInTabs(t *testing.T) {
	g := newGate(t, map[string][]toolcall.Role{"approvers": approver})
	c := g.browser()
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	begin := func(next string) (reply string) {
		_, _, begun := g.do(c, http.MethodGet, "/auth/oidc/start?next="+next, nil)
		_, _, agreed := g.do(c, http.MethodGet, begun.Header.Get("Location"), nil)
		return agreed.Header.Get("Location")
	}
	first, second := begin("/first"), begin("/second")
	if code, _, _ := g.do(c, http.MethodGet, "/auth/oidc/callback?code=x&state=forged", nil); code != http.StatusForbidden {
		t.Errorf("a forged reply: %d", code)
	}
	for reply, next := range map[string]string{first: "/first", second: "/second"} {
		if code, text, res := g.do(c, http.MethodGet, reply, nil); code != http.StatusSeeOther || res.Header.Get("Location") != next {
			t.Errorf("the tab of %s: %d %s", next, code, text)
		}
		if code, _, _ := g.do(c, http.MethodGet, reply, nil); code != http.StatusForbidden {
			t.Errorf("the reply to the tab of %s again: %d", next, code)
		}
	}
	for range 30 {
		begin("/")
	}
	if n := len(c.Jar.Cookies(&url.URL{Scheme: "http", Host: "gate.invalid"})); n > 10 {
		t.Errorf("the browser carries %d cookies of logins that it never completed", n)
	}
	last := begin("/last")
	if code, _, res := g.do(c, http.MethodGet, last, nil); code != http.StatusSeeOther || res.Header.Get("Location") != "/last" {
		t.Errorf("the last login: %d", code)
	}
	if code, _, _ := g.do(c, http.MethodGet, strings.Replace(last, "state=", "state=%00", 1), nil); code != http.StatusForbidden {
		t.Errorf("an invalid state: %d", code)
	}
}

// TestProviderOfOddReplies: the server reads a bounded part of a reply, and uses no address in
// plain text beyond this machine.
func TestProviderOfOddReplies(t *testing.T) {
	elsewhere := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://id.invalid/", http.StatusTemporaryRedirect)
	}
	for name, tt := range map[string]struct {
		path, want string
		reply      http.HandlerFunc
	}{
		"huge configuration":  {"/.well-known/openid-configuration", "too large", huge},
		"huge keys":           {"/keys", "too large", huge},
		"other configuration": {"/.well-known/openid-configuration", "plain HTTP", elsewhere},
		"other keys":          {"/keys", "plain HTTP", elsewhere},
		"a code for others":   {"/token", "plain HTTP", elsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t)
			p.odd = map[string]http.HandlerFunc{tt.path: tt.reply}
			g := newGateAt(t, p, map[string][]toolcall.Role{"approvers": approver})
			code, text, _ := g.do(g.browser(), http.MethodGet, "/auth/oidc/start", nil)
			if code != http.StatusServiceUnavailable || strings.Contains(text, tt.want) {
				t.Errorf("%d, and the page is %s", code, text)
			}
			if logged := g.logged(); !strings.Contains(logged, tt.want) {
				t.Errorf("logged %s", logged)
			}
		})
	}
}

// huge replies with 8 MiB.
func huge(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"issuer":"`)) // the reader may be gone
	for range 8 {
		_, _ = w.Write(bytes.Repeat([]byte("a"), 1<<20))
	}
}

// TestLogOutOfNoAccess: a person whose login opens no page can log out there, and log in again.
func TestLogOutOfNoAccess(t *testing.T) {
	g := newGate(t, map[string][]toolcall.Role{"builders": {toolcall.RoleWorker}})
	g.provider.is(map[string]any{"email": "bo@example.org", "email_verified": true, "groups": "builders"})
	c := g.browser()
	code, text, res := g.do(c, http.MethodGet, "/auth/oidc/start?next=/auth/session", nil, "Accept", "text/html")
	if code != http.StatusForbidden || !strings.Contains(text, "You cannot do this") {
		t.Fatalf("a worker got %d at %s: %s", code, res.Request.URL, text)
	}
	_, rest, _ := strings.Cut(text, `<form method="post" action="/logout"><input type="hidden" name="csrf" value="`)
	csrf, _, found := strings.Cut(rest, `"`)
	if policy := res.Header.Get("Content-Security-Policy"); !found || !strings.Contains(policy, "form-action 'self'") {
		t.Fatalf("the page has no button to log out, or its policy %q forbids it: %s", policy, text)
	}
	code, text, res = g.do(c, http.MethodPost, "/logout", url.Values{"csrf": {csrf}}, "Accept", "text/html")
	if code != http.StatusOK || res.Request.URL.Path != "/login" || !strings.Contains(text, `name="token"`) {
		t.Errorf("after the logout: %d at %s: %s", code, res.Request.URL, text)
	}
	if code, text, _ := g.do(c, http.MethodPost, "/login", url.Values{"token": {"wrong"}}, "Accept", "text/html"); strings.Contains(text, "/logout") {
		t.Errorf("without a login, the page offers to log out: %d %s", code, text)
	}
}

// TestLoginOfARemovedSpace: the browser is led to the login page, where another token works.
func TestLoginOfARemovedSpace(t *testing.T) {
	g := newGate(t, map[string][]toolcall.Role{"*": approver})
	bea, _ := create(t, g.path, auth.Token{Name: "bea", Space: "beta", Roles: approver})
	gone, _ := create(t, g.path, auth.Token{Name: "bea", Space: "gone", Roles: approver})
	if err := g.tokens.Reload(); err != nil {
		t.Fatal(err)
	}
	key := [32]byte{1}
	serve := func(spaces ...string) {
		a, err := auth.New(auth.Config{Tokens: g.tokens, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		g.World = gatewaytest.New(t, gatewaytest.Auth(a), gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface { return []gateway.Surface{a} }),
			gatewaytest.With(func(c *gateway.Config) {
				c.Login = auth.LoginPath
				extra := *c.Spaces[0]
				for _, id := range spaces {
					extra.ID = toolcall.SpaceID(id)
					c.Spaces = append(c.Spaces, &extra)
				}
			}))
	}
	serve("gone")
	c := g.browser()
	g.do(c, http.MethodPost, "/login", url.Values{"token": {gone}, "next": {"/auth/session"}})
	if s, code := g.self(c); code != http.StatusOK || s.Name != "bea" {
		t.Fatalf("logged in: %d %+v", code, s)
	}
	serve()
	c.Transport = g.browser().Transport
	code, text, res := g.do(c, http.MethodGet, "/auth/session", nil, "Accept", "text/html")
	if code != http.StatusOK || res.Request.URL.Path != "/login" || !strings.Contains(text, `name="token"`) {
		t.Fatalf("%d at %s: %s", code, res.Request.URL, text)
	}
	if code, text, _ := g.do(c, http.MethodPost, "/login", url.Values{"token": {gone}}); code != http.StatusUnauthorized || !strings.Contains(text, "does not serve the space") {
		t.Errorf("the token of the space: %d %s", code, text)
	}
	g.do(c, http.MethodPost, "/login", url.Values{"token": {bea}, "next": {"/auth/session"}})
	if s, code := g.self(c); code != http.StatusOK || s.Name != "bea" {
		t.Errorf("another login: %d %+v", code, s)
	}
}

// TestLogInOverTheSocket: a person whom the Unix socket does not identify, over ssh or through a
// proxy, can log in. A program gets the reason.
func TestLogInOverTheSocket(t *testing.T) {
	path := tokenFile(t)
	ann, _ := create(t, path, auth.Token{Name: "ann", Space: "alpha", Roles: approver})
	tokens, err := auth.OpenTokens(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	peers, err := auth.NewUnixPeers("alpha", 64100, "me", nil) // not this process
	if err != nil {
		t.Fatal(err)
	}
	a, err := auth.New(auth.Config{Tokens: tokens, Unix: peers})
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := auth.ListenUnix(t.Context(), socket, -1, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{t: t, World: gatewaytest.New(t, gatewaytest.Auth(a), gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface { return []gateway.Surface{a} }), gatewaytest.With(func(c *gateway.Config) { c.Login = auth.LoginPath }))}
	server := gateway.HTTP(g.Gateway, nil)
	server.ConnContext = auth.ConnContext
	go func() { _ = server.Serve(l) }() // until the end of the test
	t.Cleanup(func() { _ = server.Close() })
	for name, header := range map[string][]string{"over ssh": {"Accept", "text/html"}, "through a proxy": {"Accept", "text/html", "X-Forwarded-For", "192.0.2.1"}} {
		t.Run(name, func(t *testing.T) {
			c := g.browser()
			c.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket)
			}}
			t.Cleanup(c.CloseIdleConnections)
			code, text, res := g.do(c, http.MethodGet, "/auth/session", nil, header...)
			if code != http.StatusOK || res.Request.URL.Path != "/login" || !strings.Contains(text, `name="token"`) {
				t.Fatalf("a browser got %d at %s: %s", code, res.Request.URL, text)
			}
			if code, text, _ := g.do(c, http.MethodGet, "/auth/session", nil, header[2:]...); code != http.StatusUnauthorized || !strings.Contains(text, "does not name this machine") || strings.Contains(text, "or log in") {
				t.Errorf("a program got %d %s", code, text)
			}
			if code, text, _ := g.do(c, http.MethodPost, "/login", url.Values{"token": {ann}, "next": {"/auth/session"}}, header...); code != http.StatusOK || !strings.Contains(text, `"ann"`) {
				t.Errorf("logged in: %d %s", code, text)
			}
		})
	}
}

// TestServersAtOnePath: of servers that start together at the path of one that has ended, one
// serves. The end of a server keeps the socket of its successor.
func TestServersAtOnePath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for range 10 {
		stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		stale.SetUnlinkOnClose(false) // as after a crash
		_ = stale.Close()
		var served []net.Listener
		var mu sync.Mutex // guards served
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				l, err := auth.ListenUnix(t.Context(), path, -1, nil)
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					served = append(served, l)
				} else if !errors.Is(err, message.ErrUnavailable) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(served) != 1 {
			t.Errorf("%d servers serve one path", len(served))
		}
		for _, l := range served {
			_ = l.Close()
		}
	}
	first, err := auth.ListenUnix(t.Context(), path, -1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := auth.ListenUnix(t.Context(), path, -1, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	c, err := new(net.Dialer).DialContext(t.Context(), "unix", path)
	if err != nil {
		t.Fatalf("the end of the first server removed the socket of the second: %v", err)
	}
	_ = c.Close()
	_ = second.Close()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the end of the second server: %v", err)
	}
}

// TestSocketInAnOpenFolder: where every user can replace the socket, a server does not start.
func TestSocketInAnOpenFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my files")
	must(t, os.Mkdir(dir, 0o700))
	for mode, refused := range map[fs.FileMode]bool{0o777: true, 0o757: true, 0o777 | fs.ModeSticky: false, 0o755: false, 0o770: false} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		l, err := auth.ListenUnix(t.Context(), filepath.Join(dir, "s"), -1, nil)
		if refused != errors.Is(err, message.ErrForbidden) || !refused && err != nil {
			t.Errorf("%v: %v", mode, err)
		}
		if refused && message.AsError("", err).Hint != "chmod o-w '"+dir+"'" {
			t.Errorf("%v: the hint is %q", mode, message.AsError("", err).Hint)
		}
		if err == nil {
			_ = l.Close()
		}
	}
}

// TestTokenLoginsInTabs: a login page that was open before the browser logged in still works, and
// no other site can use it.
func TestTokenLoginsInTabs(t *testing.T) {
	g := newGate(t, map[string][]toolcall.Role{"*": approver})
	bob, _ := create(t, g.path, auth.Token{Name: "bob", Space: "alpha", Roles: approver})
	if err := g.tokens.Reload(); err != nil {
		t.Fatal(err)
	}
	c := g.browser()
	for _, name := range []string{"ann", "ann", "bob"} {
		token := map[string]string{"ann": g.ann, "bob": bob}[name]
		code, text, res := g.do(c, http.MethodPost, "/login", url.Values{"token": {token}, "next": {"/auth/session"}}, "Origin", site, "Sec-Fetch-Site", "same-origin")
		if code != http.StatusOK || res.Request.URL.Path != "/auth/session" || !strings.Contains(text, name) {
			t.Errorf("a login as %s: %d at %s: %s", name, code, res.Request.URL, text)
		}
	}
	for _, header := range [][]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}} {
		if code, _, _ := g.do(c, http.MethodPost, "/login", url.Values{"token": {g.ann}}, header...); code != http.StatusForbidden {
			t.Errorf("with %v: %d", header, code)
		}
	}
	// A screen reader reads the title and the field that has the focus.
	if _, text, _ := g.do(g.browser(), http.MethodPost, "/login", url.Values{"token": {"wrong"}}, "Origin", site, "Sec-Fetch-Site", "same-origin"); !strings.Contains(text, "<title>Login failed") || !strings.Contains(text, `aria-describedby="wrong" autofocus`) {
		t.Errorf("a wrong token: %s", text)
	}
	if s, _ := g.self(c); s.Name != "bob" {
		t.Errorf("another site logged the browser in as %+v", s)
	}
	// The button Log out of a page of ann's session.
	code, text, res := g.do(c, http.MethodPost, "/logout", url.Values{"csrf": {"old"}}, "Accept", "text/html")
	if code != http.StatusForbidden || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") || !strings.Contains(text, "load the page again") {
		t.Errorf("a logout from an old page: %d %s", code, text)
	}
}

// TestUnknownKeys: JWTs of strangers do not make the server ask the provider for its keys again
// and again.
func TestUnknownKeys(t *testing.T) {
	p := newProvider(t)
	var asked atomic.Int32
	p.odd = map[string]http.HandlerFunc{"/keys": func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		p.json(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "k1", Algorithm: "ES256", Use: "sig"}}})
	}}
	g := newGateAt(t, p, map[string][]toolcall.Role{"approvers": approver})
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{"email": "ann@example.org", "email_verified": true, "groups": "approvers", "scope": "askance"}
	for range 50 {
		if code, _, _ := g.do(g.browser(), http.MethodGet, "/auth/session", nil, "Authorization", "Bearer "+p.sign(stranger, claims)); code != http.StatusUnauthorized && code != http.StatusTooManyRequests {
			t.Fatalf("a stranger's JWT: %d", code)
		}
	}
	if n := asked.Load(); n > 10 { // one in five seconds
		t.Errorf("50 JWTs made the server ask for the keys %d times", n)
	}
	if code, text, _ := g.do(g.browser(), http.MethodGet, "/auth/session", nil, "Authorization", "Bearer "+p.sign(p.key, claims)); code != http.StatusOK {
		t.Errorf("a JWT of the provider: %d %s", code, text)
	}
}

// TestLoginFromALongAddress: a browser keeps the cookie of a login, even if the person comes from a
// page whose address is too long for it.
func TestLoginFromALongAddress(t *testing.T) {
	g := newGate(t, map[string][]toolcall.Role{"approvers": approver})
	for length, want := range map[int]string{2000: "/" + strings.Repeat("a", 2000), 5000: "/"} {
		c := g.browser()
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		_, _, begun := g.do(c, http.MethodGet, "/auth/oidc/start?next=/"+strings.Repeat("a", length), nil)
		if cookie := begun.Cookies()[0]; len(cookie.Name)+len(cookie.Value) > 4096 {
			t.Errorf("the cookie has %d bytes", len(cookie.Name)+len(cookie.Value))
		}
		_, _, agreed := g.do(c, http.MethodGet, begun.Header.Get("Location"), nil)
		if code, _, res := g.do(c, http.MethodGet, agreed.Header.Get("Location"), nil); code != http.StatusSeeOther || res.Header.Get("Location") != want {
			t.Errorf("from an address of %d bytes: %d", length, code)
		}
	}
}
