package console_test

import (
	"testing"

	"github.com/chromedp/cdproto/network"

	"github.com/askance-dev/askance/gateway/gatewaytest"
)

// Another person logs in in another tab. The page then shows that person, and does not send what
// the first one prepared under the new name.
func TestPersonChanges(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	k := w.A.Ask("s1", "r1", "c1")
	b.goTo(callPath(k) + "&do=approve")
	b.until(`document.querySelector("#panel [name=csrf]").value === "proof-of-ann" && document.querySelector(".who-name").innerText === "ann"`)
	eval[bool](b, `window.first = true`)
	command(b, network.SetCookie, network.SetCookieParams{Name: "who", Value: "alpha." + gatewaytest.Bob, URL: w.URL})
	w.A.Ask("s1", "r1", "c2")
	b.until(`document.querySelector("#panel [name=csrf]").value === "proof-of-bob"`)
	if who := eval[string](b, `document.querySelector(".who-name").innerText`); who != gatewaytest.Bob {
		t.Errorf("the page names %s, and its form responds as bob", who)
	}
	if kept := eval[bool](b, `Boolean(window.first)`); kept {
		t.Error("the form that ann opened responds as bob")
	}

	b.goTo(callPath(k) + "&do=reject")
	b.write("#feedback", "not today")
	command(b, network.SetCookie, network.SetCookieParams{Name: "who", Value: "alpha." + gatewaytest.Cy, URL: w.URL})
	eval[bool](b, `dispatchEvent(new Event("online"))`) // the stream of the ended login reconnects
	b.see("log in in another tab")
	if text := eval[string](b, `document.querySelector("#feedback").value`); text != "not today" {
		t.Errorf("the text that was not sent is now %q", text)
	}
	if can := eval[bool](b, `!document.querySelector("#panel .main-action").disabled || document.querySelector("#panel [name=csrf]").value !== "proof-of-bob"`); can {
		t.Error("the form that bob wrote can be sent as cy")
	}
}
