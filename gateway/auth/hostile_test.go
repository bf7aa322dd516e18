package auth_test

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"

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
