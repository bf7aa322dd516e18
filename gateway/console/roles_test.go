package console_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// An operator revokes a call that has not started, and interrupts a reply.
func TestManage(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Olga)
	k := w.A.Propose("s1", "r1", "c1", gatewaytest.Job, `{}`).Key
	b.goTo("/inbox?show=running")
	b.click(".row")
	b.see("Allowed, not started yet")
	b.gone("#bar")
	b.click(`[data-do="revoke"]`)
	b.write("#note", "not today")
	b.click("#panel .main-action")
	b.see("Revoked: the call will not run.", "Revoked")
	if c := w.A.Finished(k); c.Cause != "revoke" {
		t.Errorf("the call ended with the cause %s", c.Cause)
	}
	k = w.A.Ask("s1", "r2", "c1")
	b.goTo(callPath(k))
	b.see("Only approvers can respond.")
	b.click(`[data-do="interrupt"]`)
	b.click("#panel .main-action")
	b.see("Decided: interrupted by olga")
}

// A blocked call that no worker has started can be revoked, as on the command line.
func TestRevokeBlocked(t *testing.T) {
	w := world(t, gatewaytest.Policy("version: 1\nname: world\nrules:\n  - {name: lonely, tool: lonely, behavior: allow}\n"),
		gatewaytest.Tools(engine.Tool{Tool: permission.Tool{Name: "lonely"}, Placement: toolcall.PlaceRemote, QueueTimeout: time.Millisecond}))
	b := open(t, w, gatewaytest.Olga)
	k := w.A.Propose("s1", "r1", "c1", "lonely", `{}`).Key
	b.goTo(callPath(k))
	b.see("Blocked: No worker took it in time.", "Resolve")
	b.click(`#bar [data-do="revoke"]`)
	b.click("#panel .main-action")
	b.see("Revoked: the call will not run.")
	if c := w.A.Finished(k); c.Cause != "revoke" {
		t.Errorf("the call ended with the cause %s", c.Cause)
	}
}

// An address without a call says what people can do.
func TestAddressWithoutCall(t *testing.T) {
	w := world(t)
	code, body := ask(t, w, "alpha.ann", "GET", "/inbox/call?session=s1", nil)
	if code != 400 || !strings.Contains(body, "The address names no call") || strings.Contains(body, "reply_id") {
		t.Errorf("%d %s", code, body)
	}
}

// A runtime that runs its own calls is no worker.
func TestRuntimeIsNoWorker(t *testing.T) {
	w := world(t)
	for _, id := range []string{"running", "unknown"} {
		k := w.A.Propose("s1", "r1", id, gatewaytest.Lookup, `{}`).Key
		if _, err := w.A.Client(gatewaytest.Bot).Begin(t.Context(), toolcall.BeginRequest{Key: k, Claim: "x"}); err != nil {
			t.Fatal(err)
		}
		if id == "running" {
			continue
		}
		if _, err := w.A.Client(gatewaytest.Bot).Report(t.Context(), toolcall.ReportRequest{Key: k, Unknown: true}); err != nil {
			t.Fatal(err)
		}
	}
	if code, body := ask(t, w, "alpha.olga", "GET", "/workers", nil); code != 200 || !strings.Contains(body, "Its runtime does not know") || strings.Contains(body, "Running calls") || strings.Contains(body, ">bot<") {
		t.Errorf("%d %s", code, body)
	}
}

// ask sends a request as the browser of a person of the space alpha does.
func ask(t *testing.T, w *gatewaytest.World, who, method, path string, form url.Values) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, w.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(&http.Cookie{Name: "who", Value: who})
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := w.Anonymous().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// A person without the role cannot respond, no matter how the request is sent, and no one sees or
// answers approval requests of another space.
func TestWhoMayWhat(t *testing.T) {
	w := world(t)
	k := w.A.Ask("s1", "r1", "c1")
	form := func(who string) url.Values {
		return url.Values{"session": {"s1"}, "reply": {"r1"}, "call": {"c1"}, "do": {"approve"}, "digest": {w.A.Show(k).Digest}, "csrf": {gatewaytest.ProofOf(who)}}
	}
	for _, tc := range []struct {
		who, method, path string
		form              url.Values
		want              int
		never             string
	}{
		{"alpha.audie", "GET", callPath(k), nil, 200, `data-do="approve"`},
		{"alpha.bot", "GET", "/inbox", nil, 403, "Pay 42"},
		{"alpha.wendy", "GET", callPath(k), nil, 403, "acme"},
		{"beta.ann", "GET", callPath(k), nil, 404, "acme"},
		{"beta.ann", "GET", "/inbox", nil, 200, "Pay 42"},
		{"alpha.audie", "POST", "/inbox/response", form("audie"), 403, "acme"},
		{"alpha.olga", "POST", "/inbox/response", form("olga"), 403, "acme"},
		{"beta.ann", "POST", "/inbox/response", form("ann"), 404, "acme"},
		{"alpha.ann", "POST", "/inbox/response", form("bob"), 403, "acme"},
		{"alpha.ann", "POST", "/inbox/check", form("ann"), 200, ""},
		{"beta.ann", "POST", "/inbox/check", form("ann"), 404, "acme"},
		{"alpha.ann", "POST", "/inbox/resolve", form("ann"), 403, "acme"},
	} {
		code, body := ask(t, w, tc.who, tc.method, tc.path, tc.form)
		if code != tc.want || tc.never != "" && strings.Contains(body, tc.never) {
			t.Errorf("%s %s %s: %d, want %d: %.300s", tc.who, tc.method, tc.path, code, tc.want, body)
		}
	}
	if c := w.A.Show(k); c.State != message.ToolCallAsking || len(c.Votes) != 0 {
		t.Fatalf("the call is %s with the votes %+v", c.State, c.Votes)
	}
	old := form("ann")
	old.Set("digest", "sha256:of-another-approval request")
	if code, body := ask(t, w, "alpha.ann", "POST", "/inbox/response", old); code != 409 || !strings.Contains(body, "This request changed after you opened it") {
		t.Errorf("another digest: %d %.300s", code, body)
	}
	if code, _ := ask(t, w, "alpha.ann", "POST", "/inbox/response", form("ann")); code != 303 {
		t.Errorf("a response: %d", code)
	}
	w.A.Finished(k)
}

// If approvals must be signed, the browser offers none and says where to sign.
func TestSigned(t *testing.T) {
	w := world(t, gatewaytest.Policy(strings.Replace(gatewaytest.Rules, "behavior: ask\n", "behavior: ask\n    signed: true\n", 1)))
	k := w.A.Ask("s1", "r1", "c1")
	code, body := ask(t, w, "alpha.ann", "GET", callPath(k), nil)
	if code != 200 || strings.Contains(body, `data-do="approve"`) || strings.Contains(body, `data-do="respond"`) || !strings.Contains(body, `data-do="reject"`) || !strings.Contains(body, "askance approve --sign-key") {
		t.Errorf("%d: %s", code, body)
	}
}
