package console_test

import (
	"testing"

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
