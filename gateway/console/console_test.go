package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
)

// An approval request appears without a reload, is read and approved, and the call runs.
func TestApprove(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	b.goTo("/inbox")
	b.see("No open approval requests")
	k := w.A.Ask("s1", "r1", "c1")
	b.see("Pay 42 to acme?", "Open 1")
	b.until(`document.querySelector("#said").textContent.includes("New approval request: Pay 42 to acme?")`)
	b.until(`document.title.startsWith("(1) ")`)
	b.click(".row")
	b.see("What runs if approved", "acme", "Required approvals", "any approver", "money")
	b.click(`[data-do="approve"]`)
	b.see("Exactly the arguments above run", w.A.Show(k).Digest)
	b.click("#panel .main-action")
	b.see("You approved", "Decided: approved by ann", "success")
	if c := w.A.Finished(k); c.Result.State != message.ToolResultSuccess || len(c.Votes) != 1 || c.Votes[0].By.Auth != "test-cookie" {
		t.Errorf("the call ended as %+v with %+v", c.Result, c.Votes)
	}
	b.gone("#bar")
}

// While a person edits the arguments, the page validates them and shows the changes.
func TestEdit(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	k := w.A.Ask("s1", "r1", "c1")
	b.goTo(callPath(k))
	b.press("e")
	b.see("Edit and approve", "No changes yet.")
	b.write("#input", `{"to":"acme","amount":-1}`)
	b.see("The arguments do not match the tool's schema", "/amount")
	b.until(`document.querySelector("#panel .main-action").disabled`)
	b.write("#input", `{"to":"acme","amount":`)
	b.see("The new arguments are not a JSON object: ", "unexpected end of input")
	b.gone("#verdict code")
	b.shot("invalid")
	b.write("#input", "{\n  \"to\": \"acme\",\n  \"amount\": 7\n}")
	b.see("Runs when you approve it.")
	b.until(`document.querySelector("#verdict .minus").innerText.includes("42") && document.querySelector("#verdict .plus").innerText.includes("7")`)
	b.until(`!document.querySelector("#panel .main-action").disabled`)
	b.shot("valid")
	b.click("#panel .main-action")
	b.see("edited and approved by ann")
	if c := w.A.Finished(k); !strings.Contains(c.Input, "7") || strings.Contains(c.Result.Output.String(), "42") {
		t.Errorf("the input that ran is %s: %s", c.Input, c.Result.Output)
	}
}

func TestReject(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	k := w.A.Ask("s1", "r1", "c1")
	b.goTo(callPath(k))
	b.press("r")
	b.see("Feedback for the model")
	b.until(`new Set([true, false].map((off) => { const b = document.querySelector("#panel .main-action"); b.disabled = off; return getComputedStyle(b).backgroundColor; })).size === 2`)
	b.write("#feedback", "too much <b>for</b> today")
	b.click("#panel .main-action")
	b.see("You rejected", "Decided: rejected by ann (test-cookie): too much <b>for</b> today")
	if c := w.A.Finished(k); c.Result.State != message.ToolResultDenied || !strings.Contains(c.Result.Output.String(), "too much <b>for</b> today") {
		t.Errorf("the call ended as %+v", c.Result)
	}
}

func TestResponseForTool(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	k := w.A.Ask("s1", "r1", "c1")
	b.goTo(callPath(k))
	b.press("t")
	b.see("Nothing runs.")
	b.write("#output", "paid by hand")
	b.click("#panel .main-action")
	b.see("responded with a result by ann", "paid by hand")
	if c := w.A.Finished(k); c.Result.Output.String() != "paid by hand" {
		t.Errorf("the result is %q", c.Result.Output)
	}
}

func TestHandOver(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	w.A.Approve(gatewaytest.Bob, w.A.Ask("s1", "r1", "c0"))
	w.A.Approve(gatewaytest.Ann, w.A.Ask("s1", "r1", "c00"))
	k := w.A.Ask("s1", "r1", "c1")
	b.goTo(callPath(k))
	b.press("h")
	b.until(`[...document.querySelector("#to").list.options].map((o) => o.value).join() === "bob"`)
	b.write("#to", "bob")
	b.write("#note", "you know them")
	b.click("#panel .main-action")
	b.see("delegated to bob", "you know them")
	c := w.A.Show(k)
	if c.State != message.ToolCallAsking || len(c.Votes) != 1 || c.Votes[0].To != "bob" {
		t.Errorf("the call is %s with %+v", c.State, c.Votes)
	}
	b.see("You delegated to bob", "Waiting for other approvers")
	b.gone("#bar")
	b.click("#head .mine a")
	b.until(`[...document.querySelectorAll("#bar [data-do]")].map((a) => a.dataset.do).join() === "reject"`)
}

// A standing approval is made with other terms than suggested, listed, and ended.
func TestRemember(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	k := w.A.Ask("s1", "r1", "c1")
	b.goTo(callPath(k) + "&do=approve")
	b.click(`[name=remember][value=terms]`)
	b.see("The policy permits a standing approval for at most 30d, with the same args.to.")
	b.write("#uses", "3")
	b.write("#budget_path", "args.amount")
	b.write("#budget_limit", "100")
	b.choose("#last", "1h")
	b.click("#panel .main-action")
	b.see("You approved")
	w.A.Finished(k)
	if c := w.A.Propose("s1", "r2", "c1", gatewaytest.Pay, gatewaytest.PayInput); c.State == message.ToolCallAsking {
		t.Errorf("the standing approval does not apply: the call is %s", c.State)
	}
	b.goTo("/standing")
	b.see("2 of 3 uses left", "58 of 100 left of args.amount", "ann")
	b.shot("standing")
	b.accessible("standing")
	b.click(`.standing_approval td a[href*="id="]`)
	b.see("s1 / r2 / c1", "42")
	b.click(".standing_approval summary")
	b.see("Later calls need approval again")
	b.click(".standing_approval form .btn.bad")
	b.see("revoked", "Revoked by ann")
	if c := w.A.Propose("s1", "r3", "c1", gatewaytest.Pay, gatewaytest.PayInput); c.State != message.ToolCallAsking {
		t.Errorf("an ended standing approval still applies: the call is %s", c.State)
	}
}

// Standing approvals that are made with an edit are compared with the edited call.
func TestRememberWithEdit(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	k := w.A.Ask("s1", "r1", "c1")
	b.goTo(callPath(k) + "&do=edit")
	b.write("#input", `{"to":"acme","amount":7}`)
	b.see("Runs when you approve it.")
	b.click(`[name=remember][value=terms]`)
	b.write("#uses", "2")
	b.click("#panel .main-action")
	b.see("edited and approved by ann")
	w.A.Finished(k)
	if c := w.A.Propose("s1", "r2", "c1", gatewaytest.Pay, `{"to":"acme","amount":8}`); c.State == message.ToolCallAsking {
		t.Errorf("the standing approval does not apply: the call is %s", c.State)
	}
}

// If two people must agree, each page shows live who has approved and who is still needed.
func TestQuorum(t *testing.T) {
	w := world(t)
	ann, bob, cy := open(t, w, gatewaytest.Ann), open(t, w, gatewaytest.Bob), open(t, w, gatewaytest.Cy)
	k := w.A.Propose("s1", "r1", "c1", gatewaytest.Deploy, `{"version":"2"}`).Key
	cy.goTo("/inbox")
	cy.see("You are not an approver")
	cy.gone("[data-mine], .pick")
	ann.goTo("/inbox")
	ann.until(`document.querySelector("[data-mine] .pick")`)
	for _, b := range []*tab{ann, bob, cy} {
		b.goTo(callPath(k))
		b.see("0 of 2 from group ops")
	}
	cy.see("You cannot respond: only group ops can.")
	cy.gone("#bar")
	ann.press("a")
	ann.click("#panel .main-action")
	ann.see("You approved, 1 more approval needed", "1 of 2 from group ops", "Waiting for other approvers")
	ann.gone("#bar")
	bob.see("1 of 2 from group ops", "ann approved")
	bob.press("a")
	bob.click("#panel .main-action")
	for _, b := range []*tab{ann, bob, cy} {
		b.see("Decided: approved by ann (test-cookie) and bob (test-cookie)")
	}
	w.A.Finished(k)
}

// Another approver responds while a form is open. The card shows who responded and how, the
// button disappears, and what was written stays readable.
func TestAnotherWins(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	k := w.A.Ask("s1", "r1", "c1")
	b.goTo(callPath(k))
	b.press("r")
	b.write("#feedback", "a draft of mine")
	w.A.Reject(gatewaytest.Bob, k, "mine was first")
	b.see("Decided meanwhile: rejected by bob (in process): mine was first. Nothing was sent.", "Decided: rejected by bob")
	b.gone("#panel .main-action")
	b.until(`document.querySelector("#panel details pre").textContent === "a draft of mine"`)
	b.shot("lost")
	b.click("[data-close]")
	b.gone("#panel")
	b.gone("#bar")
}

// The engine refuses a response from a page that could not know of another response, and the card
// shows the other response.
func TestLateResponse(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	k := w.A.Ask("s1", "r1", "c1")
	command(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.do(chromedp.Navigate(w.URL+callPath(k)+"&do=approve"), chromedp.WaitVisible(chromedp.CSS("#panel .main-action")))
	w.A.Reject(gatewaytest.Bob, k, "no")
	b.expect("409")
	b.do(chromedp.Click(chromedp.CSS("#panel .main-action")), chromedp.WaitVisible(chromedp.CSS("#gone")))
	text := b.text()
	for _, want := range []string{"too late, it was rejected by bob (in process): no", "Decided meanwhile: rejected by bob (in process): no. Nothing was sent."} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not contain %q:\n%s", want, text)
		}
	}
}

// When the countdown ends, the buttons disappear and the card says so.
func TestExpires(t *testing.T) {
	w := world(t, gatewaytest.Policy(strings.Replace(gatewaytest.Rules, "behavior: ask\n", "behavior: ask\n    expiry: 2s\n", 1)))
	b := open(t, w, gatewaytest.Ann)
	k := w.A.Ask("s1", "r1", "c1")
	b.goTo(callPath(k))
	b.see("Decided: expired: no decision in time", "Expired")
	b.gone("#bar")
}

// A running call shows its output as it arrives.
func TestProgress(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	b.goTo("/inbox?show=running")
	c := w.A.Propose("s1", "r1", "c1", gatewaytest.Slow, `{}`)
	b.see("slow", "Active 1")
	b.click(".row")
	b.see("Running", "step 1")
	b.accessibleIn("running", "#run")
	b.until(`document.querySelector(".kicker").innerText.startsWith("Running") && !/Settled|Decided|Done/.test(document.querySelector("#main").innerText)`)
	w.A.Release()
	b.see("step 2", "Done")
	w.A.Finished(c.Key)
	b.see("Execution", "done")
}

// Without JavaScript the inbox can list, show, approve and reject.
func TestWithoutScript(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	command(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	first, second := w.A.Ask("s1", "r1", "c1"), w.A.Ask("s1", "r1", "c2")
	step := func(click, wait string) {
		t.Helper()
		b.do(chromedp.Click(chromedp.CSS(click)), chromedp.WaitVisible(chromedp.CSS(wait)))
	}
	b.do(chromedp.Navigate(w.URL + "/inbox"))
	step(".row", "#bar")
	b.shot("card")
	step(`[data-do="approve"]`, "#panel .main-action")
	step("#panel .main-action", ".flash.good")
	if c := w.A.Finished(first); c.Result.State != message.ToolResultSuccess {
		t.Errorf("the call ended as %+v", c.Result)
	}
	step("#next", "#bar")
	step(`[data-do="reject"]`, "#feedback")
	b.do(chromedp.SendKeys(chromedp.CSS("#feedback"), "no"))
	step("#panel .main-action", ".flash.good")
	if c := w.A.Finished(second); c.Result.State != message.ToolResultDenied {
		t.Errorf("the call ended as %+v", c.Result)
	}
}
