package console_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/input"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/toolcall"
)

// TestAskedAnew: if an approval request is replaced while its form is open, the form never
// becomes one for the new request, which the person who is about to press the button has not
// seen.
func TestAskedAnew(t *testing.T) {
	for _, way := range []string{"by its button", "by its address"} {
		t.Run(way, func(t *testing.T) {
			w := world(t)
			b := open(t, w, gatewaytest.Ann)
			k := w.A.Propose("s1", "r1", "c1", gatewaytest.Deploy, `{"version":"1"}`).Key
			if way == "by its button" {
				b.goTo(callPath(k))
				b.click(`[data-do="approve"]`)
			} else {
				b.goTo(callPath(k) + "&do=approve")
			}
			b.see("Exactly the arguments above run", w.A.Show(k).Digest)
			input := `{"version":"666"}`
			w.A.SubmitResponse(gatewaytest.Bob, toolcall.Response{Key: k, Kind: toolcall.ResponseApprove, Input: &input})
			b.see("This request changed after you opened it")
			b.gone("#panel .main-action")
			b.click("#panel [data-close]")
			b.click(`[data-do="approve"]`)
			b.see("Exactly the arguments above run", w.A.Show(k).Digest, "666")
			b.click("#panel .main-action")
			b.see("You approved")
			if c := w.A.Finished(k); c.Input != input {
				t.Errorf("the input that ran is %s", c.Input)
			}
		})
	}
}

// A person who goes back to a form that they sent reads what became of it.
func TestBackToSentForm(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	k := w.A.Ask("s1", "r1", "c1")
	b.goTo(callPath(k) + "&do=reject")
	b.send()
	b.see("You rejected, the call is finished.")
	w.A.Finished(k)
	eval[bool](b, `(history.back(), true)`)
	b.until(`document.querySelector("#gone").innerText === "You rejected, the call is finished."`)
}

// Until the page that a person asked for is there, the form of the page before it sends nothing: on a
// slow network the keys for the next request approved the one before.
func TestSlowPage(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	first, second := w.A.Ask("s1", "r1", "c1"), w.A.Ask("s1", "r1", "c2")
	b.goTo(callPath(first) + "&do=approve")
	b.until(`!document.querySelector("#panel .main-action").disabled`)
	eval[bool](b, `((f) => { window.sent = 0; window.fetch = (u, o) => o?.method ? (window.sent++, f(u, o)) : new Promise((go) => { window.arrive = () => { window.fetch = f; go(f(u, o)); }; }); })(window.fetch), true`)
	b.press("j") // a request that never gets a reply
	b.until(`window.arrive && document.querySelector("#panel .main-action").disabled`)
	eval[bool](b, `(delete window.arrive, true)`)
	b.do(chromedp.Focus(chromedp.CSS(".rows li:nth-child(2) .row")))
	b.press("a")
	b.until(`window.arrive && document.querySelector("#panel .main-action").disabled`)
	b.send()
	if sent := eval[int](b, `window.sent`); sent != 0 {
		t.Errorf("%d responses were sent before the page arrived", sent)
	}
	eval[bool](b, `(window.arrive(), true)`)
	b.until(`document.querySelector(".strip").innerText.includes("call c2") && !document.querySelector("#panel .main-action").disabled`)
	b.send()
	b.see("You approved")
	w.A.Finished(second)
	if c := w.A.Show(first); len(c.Votes) != 0 {
		t.Errorf("the request before has the votes %+v", c.Votes)
	}
}

// A filter that is set while a page loads does not give the form of the page before it back.
func TestFilterDuringALoad(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	first, _ := w.A.Ask("s1", "r1", "c1"), w.A.Ask("s1", "r1", "c2")
	b.goTo(callPath(first) + "&do=approve")
	b.until(`!document.querySelector("#panel .main-action").disabled`)
	eval[bool](b, `((f) => { window.sent = 0; window.asked = []; window.fetch = (u, o) => o?.method ? (window.sent++, f(u, o)) : new Promise((go) => { window.asked.push(() => { const reply = f(u, o); go(reply); return reply; }); }); })(window.fetch), true`)
	b.do(chromedp.Focus(chromedp.CSS(".rows li:nth-child(2) .row")))
	b.press("a")
	b.until(`window.asked.length === 1`)
	b.press("m")
	b.until(`window.asked.length === 2`)
	eval[bool](b, `(window.asked[0]().then(() => setTimeout(() => { window.arrived = true; }, 50)), true)`)
	b.until(`window.arrived`)
	b.send()
	if eval[bool](b, `!document.querySelector("#panel .main-action").disabled || window.sent > 0`) {
		t.Error("the form of the page before can be sent while the filter loads")
	}
}

// A response that failed after the person opened another request says so, and its text is kept.
func TestResponseFailsLater(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	first, _ := w.A.Ask("s1", "r1", "c1"), w.A.Ask("s1", "r1", "c2")
	b.goTo(callPath(first))
	b.press("r")
	b.write("#feedback", "a long text")
	eval[bool](b, `((f) => { window.fetch = (u, o) => o?.method ? new Promise((_, no) => { window.fail = () => no(new Error("gone")); }) : f(u, o); })(window.fetch), true`)
	b.send()
	b.until(`window.fail`)
	b.click(".rows li:nth-child(2) .row")
	b.until(`document.querySelector(".strip").innerText.includes("call c2")`)
	eval[bool](b, `(window.fail(), true)`)
	b.see("The response may not have arrived")
	b.click(".rows li:nth-child(1) .row")
	b.until(`document.querySelector(".strip").innerText.includes("call c1")`)
	b.press("r")
	b.until(`document.querySelector("#feedback")?.value === "a long text"`)
}

// A browser whose clock is wrong, or set while the page is open, shows the time left by the server's
// clock: requests looked expired, and could not be approved.
func TestWrongClock(t *testing.T) {
	w := seeded(t)
	b := open(t, w, gatewaytest.Ann)
	id := command(b, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: `window.fast = 7200_000; Date.now = ((now) => () => now() + window.fast)(Date.now)`}).Identifier
	defer command(b, cdppage.RemoveScriptToEvaluateOnNewDocument, cdppage.RemoveScriptToEvaluateOnNewDocumentParams{Identifier: id})
	b.goTo(callPath(openOf(w, "refund")[0]))
	right := `document.querySelector("#head [data-until]").innerText.startsWith("24m") && document.querySelector(".row .ends").innerText.startsWith("24m") && !document.querySelector("#bar [data-do=approve]").hasAttribute("aria-disabled")`
	b.until(right)
	eval[int](b, `window.fast *= 2`)
	b.until(`document.querySelector(".clock").matches(".over.urgent") && document.querySelector("#bar [data-do=approve]").hasAttribute("aria-disabled")`)
	eval[bool](b, `dispatchEvent(new Event("online"))`) // after a sleep the stream connects again
	b.until(right)
	b.until(`document.querySelector(".clock").matches(".soon:not(.over, .urgent)")`)
}

// A text that was not sent is there when the person opens the form again, until they send it.
func TestUnsentText(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	w.A.Ask("s1", "r1", "c1")
	second := w.A.Ask("s1", "r1", "c2")
	b.goTo(callPath(second))
	b.press("r")
	b.write("#feedback", "not today")
	b.press(kb.Escape)
	b.gone("#panel")
	b.press("e")
	b.write("#input", `{"to":"acme","amount":7}`)
	b.click(".rows li:nth-child(1) .row")
	b.until(`document.querySelector(".strip").innerText.includes("call c1")`)
	b.press("r")
	b.until(`document.querySelector("#feedback").value === ""`)
	b.click(".rows li:nth-child(2) .row")
	b.until(`document.querySelector(".strip").innerText.includes("call c2")`)
	b.press("e")
	b.see("Runs when you approve it.")
	b.press(kb.Escape)
	b.gone("#panel")
	b.press("r")
	b.until(`document.querySelector("#feedback").value === "not today"`)
	b.send()
	b.see("You rejected", "not today")
}

// The second click of a double click on the button that opens a form does not send the form, which
// has its button in the same place on a phone. Nor does Enter that is held down.
func TestDoubleClick(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	k := w.A.Ask("s1", "r1", "c1")
	b.goTo(callPath(k))
	click := func(selector string, count int64) {
		t.Helper()
		b.until(fmt.Sprintf(`!document.querySelector(%q).disabled`, selector))
		at := eval[[]float64](b, fmt.Sprintf(`(() => { const r = document.querySelector(%q).getBoundingClientRect(); return [r.x + 9, r.y + 9]; })()`, selector))
		for _, kind := range []input.DispatchMouseEventType{"mousePressed", "mouseReleased"} {
			command(b, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: kind, X: at[0], Y: at[1], Button: "left", ClickCount: count})
		}
	}
	click(`[data-do="approve"]`, 1)
	b.until(`document.querySelector("#panel")`)
	eval[bool](b, `((f) => { window.sent = 0; window.fetch = (u, o) => (o?.method && window.sent++, f(u, o)); })(window.fetch), true`)
	click("#panel .main-action", 2)
	b.do(chromedp.Focus(chromedp.CSS("#panel .main-action")))
	command(b, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: "keyDown", Key: "Enter", Code: "Enter", Text: "\r", WindowsVirtualKeyCode: 13, AutoRepeat: new(true)})
	if sent := eval[int](b, `window.sent`); sent != 0 {
		t.Fatal("a double click, or Enter that is held down, opens the form and sends it")
	}
	click("#panel .main-action", 1)
	b.see("You approved")
	w.A.Finished(k)
}
