package web

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/agent/script"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func TestMain(m *testing.M) { gatewaytest.Main(m) }

// marker is in all data of space A, and nowhere else.
const marker = "zx81-of-alpha"

// wired is everything that askance serve serves, for two spaces.
type wired struct {
	*gatewaytest.World
	t       *testing.T
	secrets map[string]string // by the holder
	call    *toolcall.Call    // an open approval request of A
	more    []gatewaytest.Option
}

// The credentials of the test, in addition to "" and "wrong".
var people = []struct {
	who    string
	space  toolcall.SpaceID
	role   toolcall.Role
	bad    bool // not valid
	expiry time.Duration
}{
	{who: "runtime of A", space: "alpha", role: toolcall.RoleRuntime},
	{who: "approver of A", space: "alpha", role: toolcall.RoleApprover},
	{who: "worker of A", space: "alpha", role: toolcall.RoleWorker},
	{who: "operator of A", space: "alpha", role: toolcall.RoleOperator},
	{who: "auditor of A", space: "alpha", role: toolcall.RoleAuditor},
	{who: "runtime of B", space: "beta", role: toolcall.RoleRuntime},
	{who: "approver of B", space: "beta", role: toolcall.RoleApprover},
	{who: "worker of B", space: "beta", role: toolcall.RoleWorker},
	{who: "operator of B", space: "beta", role: toolcall.RoleOperator},
	{who: "auditor of B", space: "beta", role: toolcall.RoleAuditor},
	{who: "runtime of nowhere", space: "gamma", role: toolcall.RoleRuntime},
	{who: "expired", space: "alpha", role: toolcall.RoleApprover, bad: true, expiry: -time.Hour},
	{who: "revoked", space: "alpha", role: toolcall.RoleApprover, bad: true},
}

func wire(t *testing.T, more ...gatewaytest.Option) *wired {
	t.Helper()
	w := &wired{t: t, more: more, secrets: map[string]string{"": "", "wrong": "askance_0000000000000000_0000000000000000000000000000000000000000000"}}
	path := filepath.Join(t.TempDir(), "tokens.json")
	for _, p := range people {
		token := auth.Token{Name: string(p.role), Space: p.space, Roles: []toolcall.Role{p.role}}
		if p.role == toolcall.RoleWorker {
			token.Tools = []string{gatewaytest.Job}
		}
		if p.expiry != 0 {
			token.Expires = time.Now().Add(p.expiry)
		}
		secret, kept, err := auth.CreateToken(t.Context(), path, token)
		if err == nil && p.who == "revoked" {
			_, err = auth.RevokeTokens(t.Context(), path, kept.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		w.secrets[p.who] = secret
	}
	w.serve(Config{Tokens: path})
	return w
}

// serve wires all surfaces for a gateway with the credentials of cfg, and fills space A.
func (w *wired) serve(cfg Config) {
	w.t.Helper()
	t := w.t
	cfg.Public, cfg.Space = "http://localhost", &gateway.Space{ID: "alpha"}
	web := &Web{cfg: cfg, runners: agent.Runners{}}
	var err error
	if web.auth, err = web.authenticator(); err != nil {
		t.Fatal(err)
	}
	w.World = gatewaytest.New(t, append(w.more, gatewaytest.Auth(web.auth), gatewaytest.With(func(c *gateway.Config) { c.Login, c.Limits.Failures = auth.LoginPath, 1e6 }), gatewaytest.Surfaces(func(world *gatewaytest.World) []gateway.Surface {
		web.cfg.Space = world.A.Gateway()
		for _, s := range world.Spaces() {
			r, err := agent.New(agent.Config{As: s.Gateway().As, Agents: []agent.Agent{script.New(DemoAgent)}})
			if err != nil {
				t.Fatal(err)
			}
			web.runners[s.ID] = r
		}
		t.Cleanup(web.stopAgents)
		all, err := web.surfaces()
		if err != nil {
			t.Fatal(err)
		}
		return all
	}))...)
	w.seed()
}

// seed fills space A with markers.
func (w *wired) seed() {
	w.A.Say("s1", "r1", &message.ReplyStart{Session: "s1", Name: "agent"}, &message.TextBlockDelta{BlockID: "b1", Delta: "text " + marker})
	w.call = w.A.Propose("s1", "r1", "c1", gatewaytest.Pay, `{"to":"`+marker+`","amount":1}`)
	rejected := w.A.Propose("s1", "r1", "c2", gatewaytest.Pay, `{"to":"`+marker+`","amount":2}`)
	w.A.Reject(gatewaytest.Ann, rejected.Key, "because "+marker)
	w.A.Propose("s1", "r1", "c3", gatewaytest.Lookup, `{"x":"`+marker+`"}`)
	w.A.Propose(marker, marker, marker, gatewaytest.Pay, `{"to":"`+marker+`","amount":3}`)
}

var wildcard = regexp.MustCompile(`\{(\w+)(\.\.\.)?\}`)

// path fills a route's path with the ids of A's open approval request.
func path(r gateway.Route) string {
	p := strings.TrimSuffix(r.Path, "{$}")
	return wildcard.ReplaceAllStringFunc(p, func(m string) string {
		switch name := wildcard.FindStringSubmatch(m)[1]; {
		case strings.HasPrefix(name, "call"), strings.HasPrefix(name, "tool_call"):
			return "c1"
		case strings.HasPrefix(name, "session"), strings.HasPrefix(name, "thread"):
			return "s1"
		case strings.HasPrefix(name, "reply"), strings.HasPrefix(name, "run"):
			return "r1"
		case strings.HasPrefix(name, "agent"):
			return DemoAgent
		}
		return "x"
	})
}

// queries are tried with every route: nothing, and the ids of A's approval request.
var queries = []string{"", "?session=s1&session_id=s1&reply=r1&call=c1&space=alpha&agent=" + DemoAgent}

// letsIn reports whether a peer is admitted. Only admitted requests may be held; all others must
// be refused, no matter how slow the machine is.
func letsIn(r gateway.Route, who string) bool {
	if r.Access.Public {
		return true
	}
	for _, p := range people {
		if p.who == who {
			return !p.bad && p.space != "gamma" && slices.Contains(r.Access.Roles, p.role)
		}
	}
	return false
}

// ask sends one request. It reads only what a stream sends at once.
func (w *wired) ask(r gateway.Route, who, query string) (int, string) {
	w.t.Helper()
	wait, held := gatewaytest.Patience, letsIn(r, who) && (r.Stream || strings.HasSuffix(r.Path, "/wait"))
	if held {
		wait = 300 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), wait)
	defer cancel()
	body := `{"session_id":"s1","reply_id":"r1","tool_call_id":"c1","space":"alpha","kind":"approve","digest":"` + w.call.Digest + `"}`
	req, err := http.NewRequestWithContext(ctx, r.Method, w.URL+path(r)+query, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", "k-"+who)
	res, err := w.WithToken(w.secrets[who]).Do(req)
	if err != nil {
		if held && ctx.Err() != nil {
			return http.StatusOK, "" // held, so it was admitted
		}
		w.t.Errorf("%s %s as %q: %v", r.Method, r.Path, who, err)
		return 0, ""
	}
	defer res.Body.Close()
	var b bytes.Buffer
	if err := res.Header.Write(&b); err != nil {
		w.t.Fatal(err)
	}
	_, _ = io.Copy(&b, res.Body) // a stream ends with ctx
	return res.StatusCode, b.String()
}

// order is a sentence like "Open the page of finished calls."; errors quote it after "cannot".
var order = regexp.MustCompile(`^[A-Z][a-z]*[a-rt-z] \S`)

// TestEveryRouteWithEveryRole: a route that is added anywhere is tested here.
func TestEveryRouteWithEveryRole(t *testing.T) {
	w := wire(t)
	routes := w.Gateway.Routes()
	if len(routes) < 20 {
		t.Errorf("there are %d routes; are all surfaces wired?", len(routes))
	}
	before := w.A.Show(w.call.Key)
	for _, r := range routes {
		if r.Serve == nil || !order.MatchString(r.Doc) || strings.HasPrefix(r.Doc, "The ") {
			t.Errorf("%s %s has no handler, or %q does not say what to do with it", r.Method, r.Path, r.Doc)
		}
		for _, query := range queries {
			w.strangers(r, query)
			w.others(r, query)
		}
	}
	if after := w.A.Show(w.call.Key); after.Records != before.Records || after.State != message.ToolCallAsking || len(after.Votes) != 0 {
		t.Errorf("people of another space have changed the call: %+v", after)
	}
	shows := 0
	for _, r := range routes {
		for _, query := range queries {
			shows += w.own(r, query)
		}
	}
	if shows < 20 {
		t.Errorf("people of A see their calls in only %d replies: this test checks the wrong ones", shows)
	}
}

// strangers sends requests without valid credentials, which must be refused and show nothing.
func (w *wired) strangers(r gateway.Route, query string) {
	w.t.Helper()
	for _, who := range []string{"", "wrong", "expired", "revoked"} {
		code, text := w.ask(r, who, query)
		w.hides(r, who, text)
		public := r.Access.Public && who == ""
		own := r.OwnAuth && who == ""
		switch {
		case public && (code == http.StatusUnauthorized || code >= 500 && code != http.StatusServiceUnavailable),
			own && code < 400,
			!public && !own && code != http.StatusUnauthorized:
			w.t.Errorf("%s %s as %q: %d", r.Method, r.Path, who, code)
		}
	}
}

// others sends requests of people of other spaces, which are admitted and show nothing of A.
func (w *wired) others(r gateway.Route, query string) {
	w.t.Helper()
	for _, p := range people {
		if !p.bad && p.space != "alpha" {
			code, text := w.ask(r, p.who, query)
			w.hides(r, p.who, text)
			w.fits(r, p.who, p.role, p.space, code)
		}
	}
}

// own sends requests of people of A and returns how many replies show data of A.
func (w *wired) own(r gateway.Route, query string) (shows int) {
	w.t.Helper()
	for _, p := range people {
		if p.bad || p.space != "alpha" {
			continue
		}
		code, text := w.ask(r, p.who, query)
		w.fits(r, p.who, p.role, p.space, code)
		if strings.Contains(text, marker) {
			shows++
		}
	}
	return shows
}

// hides fails if a reply to a peer outside of A contains data of A.
func (w *wired) hides(r gateway.Route, who, text string) {
	w.t.Helper()
	if strings.Contains(text, marker) || strings.Contains(text, w.call.Digest) && !strings.Contains(text, "idempotency") {
		w.t.Errorf("%s %s shows %q data of A:\n%.400s", r.Method, r.Path, who, text)
	}
}

// fits compares a reply with the route's Access.
func (w *wired) fits(r gateway.Route, who string, role toolcall.Role, space toolcall.SpaceID, code int) {
	w.t.Helper()
	admitted := r.Access.Public || slices.Contains(r.Access.Roles, role)
	switch {
	case space == "gamma" && code != http.StatusForbidden,
		space != "gamma" && !admitted && code != http.StatusForbidden,
		space != "gamma" && admitted && (code == http.StatusUnauthorized || code >= 500):
		w.t.Errorf("%s %s as %q: %d", r.Method, r.Path, who, code)
	}
}
