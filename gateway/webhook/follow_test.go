package webhook_test

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/console"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/toolcall"
)

// linked is a world whose inbox accepts links.
type linked struct {
	*gatewaytest.World
	t     *testing.T
	links *webhook.Links
}

func newLinked(t *testing.T) *linked {
	t.Helper()
	l := &linked{t: t}
	l.World = gatewaytest.New(t, gatewaytest.Auth(gatewaytest.Cookies{}), gatewaytest.With(func(c *gateway.Config) { c.Login = "/login" }),
		gatewaytest.Surfaces(func(w *gatewaytest.World) []gateway.Surface {
			l.links = newLinks(t, w.A)
			return []gateway.Surface{console.New(console.WithLinks(l.links))}
		}))
	return l
}

// token returns the token of a link for the current approval request.
func (l *linked) token(k toolcall.Key, kind toolcall.ResponseKind) string {
	l.t.Helper()
	token, err := l.links.Token(webhook.Link{Key: k, Digest: l.A.Show(k).Digest, Kind: kind, Expires: time.Now().Add(time.Hour), Destination: "bot", Seq: 1})
	if err != nil {
		l.t.Fatal(err)
	}
	return token
}

// page is what a browser shows.
type page struct {
	status   int
	location string
	text     string
}

func (l *linked) do(req *http.Request, who string) page {
	l.t.Helper()
	req.Header.Set("Accept", "text/html")
	if who != "" {
		req.AddCookie(&http.Cookie{Name: "who", Value: who})
	}
	res, err := l.Anonymous().Do(req)
	if err != nil {
		l.t.Error(err)
		return page{}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		l.t.Error(err)
	}
	return page{res.StatusCode, res.Header.Get("Location"), string(b)}
}

// open follows a link, as a browser or a scanner of messages does.
func (l *linked) open(who, token string) page {
	l.t.Helper()
	req, err := http.NewRequestWithContext(l.t.Context(), http.MethodGet, l.URL+webhook.LinkPath+"?token="+url.QueryEscape(token), http.NoBody)
	if err != nil {
		l.t.Fatal(err)
	}
	return l.do(req, who)
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)">`)

// confirm submits the form of a page.
func (l *linked) confirm(who string, p page, change func(url.Values)) page {
	l.t.Helper()
	_, form, ok := strings.Cut(p.text, `<form id="panel"`)
	if !ok {
		l.t.Fatalf("the page has no form:\n%s", p.text)
	}
	form, _, _ = strings.Cut(form, "</form>")
	q := url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(form, -1) {
		q.Set(m[1], m[2])
	}
	if change != nil {
		change(q)
	}
	req, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, l.URL+"/inbox/response", strings.NewReader(q.Encode()))
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return l.do(req, who)
}

func (l *linked) votes(k toolcall.Key) int { return len(l.A.Show(k).Votes) }

// Opening a link decides nothing, no matter how often and by whom. Confirming it decides once, in
// the name of the person who is logged in.
func TestFollow(t *testing.T) {
	l := newLinked(t)
	k := l.A.Ask("s1", "r1", "c1")
	token := l.token(k, toolcall.ResponseApprove)
	if p := l.open("", token); p.status != http.StatusSeeOther || !strings.HasPrefix(p.location, "/login?next=") || !strings.Contains(p.location, url.QueryEscape(token)) {
		t.Errorf("without a login: %d %s", p.status, p.location)
	}
	var p page
	for range 3 {
		p = l.open("alpha.ann", token)
	}
	if p.status != http.StatusOK || !strings.Contains(p.text, "Approve: run exactly this") || !strings.Contains(p.text, "acme") || l.votes(k) != 0 {
		t.Errorf("opened: %d, %d votes\n%s", p.status, l.votes(k), p.text)
	}
	if r := l.confirm("alpha.ann", p, func(q url.Values) { q.Del("csrf") }); r.status != http.StatusForbidden || l.votes(k) != 0 {
		t.Errorf("without a CSRF token: %d, %d votes", r.status, l.votes(k))
	}
	for _, change := range []func(url.Values){
		func(q url.Values) { q.Set("do", "reject") }, func(q url.Values) { q.Set("do", "edit"); q.Set("input", "{}") },
		func(q url.Values) { q.Set("digest", "sha256:00") }, func(q url.Values) { q.Set("link", token+"x") },
	} {
		if r := l.confirm("alpha.ann", p, change); r.status < 400 || l.votes(k) != 0 {
			t.Errorf("another response than the link's: %d, %d votes", r.status, l.votes(k))
		}
	}
	if r := l.confirm("alpha.ann", p, nil); r.status != http.StatusSeeOther || l.votes(k) != 1 {
		t.Errorf("confirmed: %d %s, %d votes", r.status, r.text, l.votes(k))
	}
	if v := l.A.Show(k).Votes[0]; v.By.Name != "ann" || v.By.Auth != "test-cookie" || v.Kind != toolcall.ResponseApprove {
		t.Errorf("the vote is %+v", v)
	}
	if p := l.open("alpha.bob", token); p.status != http.StatusOK || !strings.Contains(p.text, "Decided meanwhile") {
		t.Errorf("afterwards: %d\n%s", p.status, p.text)
	}
	k = l.A.Ask("s1", "r1", "c2")
	p = l.open("alpha.bob", l.token(k, toolcall.ResponseReject))
	if r := l.confirm("alpha.bob", p, func(q url.Values) { q.Set("feedback", "too much") }); r.status != http.StatusSeeOther || l.A.Finished(k).Votes[0].Feedback != "too much" {
		t.Errorf("rejected: %d %s", r.status, r.text)
	}
}

// Links that are not valid show a page that says so and links to the inbox.
func TestFollowRefused(t *testing.T) {
	l := newLinked(t)
	k := l.A.Ask("s1", "r1", "c1")
	token := l.token(k, toolcall.ResponseApprove)
	late, err := l.links.Token(webhook.Link{Key: k, Digest: l.A.Show(k).Digest, Kind: toolcall.ResponseApprove, Expires: time.Now().Add(-time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]struct {
		who, token string
		status     int
		text       string
	}{
		"forged":        {"alpha.ann", token + "A", http.StatusForbidden, "or not of this server"},
		"nothing":       {"alpha.ann", "", http.StatusForbidden, "or not of this server"},
		"late":          {"alpha.ann", late, http.StatusConflict, "This link expired at"},
		"another space": {"beta.ann", token, http.StatusForbidden, "or not of this server"},
		"auditor":       {"alpha.audie", token, http.StatusOK, "Only approvers can respond"},
		"worker":        {"alpha.wendy", token, http.StatusForbidden, ""},
	} {
		p := l.open(of.who, of.token)
		if p.status != of.status || !strings.Contains(p.text, of.text) {
			t.Errorf("%s: %d, want %d and %q\n%s", name, p.status, of.status, of.text, p.text)
		}
	}
	if l.votes(k) != 0 {
		t.Error("an invalid link decided something")
	}
}

// An old link does not respond to a request that has changed.
func TestFollowChanged(t *testing.T) {
	l := newLinked(t)
	k := l.A.Propose("s1", "r1", "c1", gatewaytest.Deploy, `{"v":1}`).Key
	token := l.token(k, toolcall.ResponseApprove)
	before := l.open("alpha.ann", token)
	edited := `{"v":2}`
	l.A.SubmitResponse(gatewaytest.Bob, toolcall.Response{Key: k, Kind: toolcall.ResponseApprove, Input: &edited})
	votes := l.votes(k)
	if p := l.open("alpha.ann", token); p.status != http.StatusOK || !strings.Contains(p.text, "This request changed after you opened it") || !strings.Contains(p.text, "/inbox/call?") {
		t.Errorf("opened: %d\n%s", p.status, p.text)
	}
	if r := l.confirm("alpha.ann", before, nil); r.status != http.StatusConflict || l.votes(k) != votes {
		t.Errorf("confirmed: %d", r.status)
	}
}

// A link is valid for one response, even if the approval request stays open.
func TestFollowOnce(t *testing.T) {
	l := newLinked(t)
	k := l.A.Propose("s1", "r1", "c1", gatewaytest.Deploy, `{"v":1}`).Key
	token := l.token(k, toolcall.ResponseApprove)
	ann, bob := l.open("alpha.ann", token), l.open("alpha.bob", token)
	if r := l.confirm("alpha.ann", ann, nil); r.status != http.StatusSeeOther || l.votes(k) != 1 {
		t.Fatalf("first: %d, %d votes", r.status, l.votes(k))
	}
	r := l.confirm("alpha.bob", bob, nil)
	if r.status != http.StatusConflict || l.votes(k) != 1 || !strings.Contains(r.text, "This link was already used") && !strings.Contains(r.text, "this link was already used") || strings.Contains(r.text, `name="link"`) {
		t.Errorf("second: %d, %d votes\n%s", r.status, l.votes(k), r.text)
	}
	if !strings.Contains(r.text, `data-do="approve"`) {
		t.Error("the page does not offer the approval request itself")
	}
	l.A.Approve(gatewaytest.Bob, k)
	l.A.Finished(k)
}

// If two people confirm at the same time, one response counts.
func TestFollowRace(t *testing.T) {
	l := newLinked(t)
	for _, call := range []string{"c1", "c2", "c3", "c4"} {
		k := l.A.Propose("s1", "r1", call, gatewaytest.Deploy, `{"v":1}`).Key
		token := l.token(k, toolcall.ResponseApprove)
		out := make(chan page, 2)
		for _, who := range []string{"alpha.ann", "alpha.bob"} {
			p := l.open(who, token)
			go func() { out <- l.confirm(who, p, nil) }()
		}
		a, b := <-out, <-out
		if a.status+b.status != http.StatusSeeOther+http.StatusConflict || l.votes(k) != 1 {
			t.Errorf("%d and %d, %d votes", a.status, b.status, l.votes(k))
		}
	}
}
