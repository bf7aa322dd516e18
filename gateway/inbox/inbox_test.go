package inbox_test

import (
	"testing"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
)

// A question appears without a reload, is read, approved, and runs.
func TestApprove(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	b.goTo("/")
	b.see("Nothing waits for an answer")
	k := w.A.Ask("s1", "r1", "c1")
	b.see("Pay 42 to acme?", "1 open question")
	b.until(`document.querySelector("#said").textContent.includes("New question: Pay 42 to acme?")`)
	b.click(".row")
	b.see("What would run", "acme", "Who must agree", "any approver", "money")
	b.shot("card")
	b.press("a")
	b.see("Exactly the arguments above run")
	b.shot("approve")
	b.click("#panel .main-action")
	b.see("You approved", "approved by ann")
	if c := w.A.Finished(k); c.Result.State != message.ToolResultSuccess || len(c.Votes) != 1 || c.Votes[0].By.Auth != "test-cookie" {
		t.Errorf("the call ended as %+v with %+v", c.Result, c.Votes)
	}
	b.see("success")
	b.gone("#bar")
	b.shot("done")
}
