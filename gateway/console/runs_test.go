package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/toolcall"
)

// The timeline has a row for each call of the session, updates live, links to the calls, and
// contains the same data as a table.
func TestTimelinePage(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	k := w.A.Ask("run <1>", "r1", "c1")
	w.A.Propose("run <1>", "r1", "c2", gatewaytest.Drop, `{}`)
	w.A.Finished(w.A.Propose("run <1>", "r2", "c1", gatewaytest.Echo, `{"text":"<b>hi</b>"}`).Key)
	w.A.Propose("other", "r1", "c1", gatewaytest.Echo, `{}`)
	b.goTo("/timeline")
	b.see("run <1>", "other", "echo")
	if eval[bool](b, `document.body.innerText.includes("sessions that changed last")`) {
		t.Error("the page describes two sessions as the last 100")
	}
	b.accessible("sessions")
	b.click(`a[href*="run"]`)
	b.see("Calls over time", "Waiting for people", "Asking", "Denied")
	if rows := eval[int](b, `document.querySelectorAll(".g-row").length`); rows != 3 {
		t.Errorf("the chart has %d rows, want 3", rows)
	}
	w.A.Approve(gatewaytest.Bob, k)
	w.A.Finished(k)
	b.until(`!document.body.innerText.includes("Asking")`)
	b.until(`[...document.querySelectorAll(".g-dot title")].some((d) => d.textContent.startsWith("approved by bob"))`)
	if cut := eval[bool](b, `(() => { const who = document.querySelector(".g-who"); who.textContent = "approved by bob.example · ".repeat(4) + "worker wk-1"; return who.scrollWidth > who.clientWidth })()`); cut {
		t.Error("the names of the approvers are cut off")
	}
	b.click("#g-table summary")
	b.see("approved")
	b.accessible("session")
	b.click(".g-row a")
	b.see("Decided: approved by bob")
	b.goTo("/timeline?" + url.Values{"session": {"run <1>"}, "reply": {"r2"}, "scale": {"compact"}}.Encode())
	b.see("show the whole session")
	if rows := eval[int](b, `document.querySelectorAll(".g-row").length`); rows != 1 {
		t.Errorf("the chart of a reply has %d rows, want 1", rows)
	}
	b.expect("404")
	b.goTo("/timeline?session=nope")
	b.see("Session nope has no calls.")
}

// The reasons of a decision have a heading that says what was decided.
func TestWhyTitle(t *testing.T) {
	w := world(t)
	open := w.A.Ask("s1", "r1", "c1")
	allowed := w.A.Propose("s1", "r2", "c1", gatewaytest.Echo, `{"text":"hi"}`).Key
	denied := w.A.Propose("s1", "r3", "c1", gatewaytest.Drop, `{}`).Key
	for _, tc := range []struct {
		k    toolcall.Key
		want string
	}{{open, "needs approval"}, {allowed, "was allowed"}, {denied, "was denied"}} {
		_, page := ask(t, w, "alpha.ann", http.MethodGet, callPath(tc.k), nil)
		if !strings.Contains(page, ">Why it "+tc.want+"</h2>") {
			t.Errorf("the page of %s has no heading Why it %s", tc.k.Reply, tc.want)
		}
	}
	w.A.Approve(gatewaytest.Bob, open)
	w.A.Finished(open)
	if _, page := ask(t, w, "alpha.ann", http.MethodGet, callPath(open), nil); !strings.Contains(page, ">Why it needed approval</h2>") {
		t.Error("the page of an approved call does not say why it needed approval")
	}
}

// Names in every script are readable on every page, and always spelled the same.
func TestNamesInOtherScripts(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	k := w.A.Ask("агент", "r1", "mрус")
	for _, path := range []string{"/inbox", "/inbox?group=session", callPath(k), "/timeline", "/timeline?session=" + url.QueryEscape("агент")} {
		b.goTo(path)
		b.see("агент")
		if odd := eval[string](b, `[...document.querySelectorAll("mark.odd")].map((m) => m.parentElement.textContent).join(", ")`); odd != "" {
			t.Errorf("%s marks letters in names: %s", path, odd)
		}
	}
}
