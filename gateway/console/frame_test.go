package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/askance-dev/askance/gateway/gatewaytest"
)

// The palette opens pages and finds calls; g and a letter open a page.
func TestPalette(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	w.A.Ask("s1", "r1", "c1")
	w.A.Propose("s1", "r1", "c2", gatewaytest.Deploy, `{"version":"1.4.2"}`)
	b.goTo("/standing")
	b.until(`document.querySelector("#to-inbox .count").textContent === "(2 open)"`)
	b.until(`document.title === "(2) Standing approvals – askance"`)
	b.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(2)))
	b.until(`document.querySelector("#find").open && document.querySelectorAll("#found a").length > 2`)
	b.write("#find-words", "1.4.2")
	b.until(`document.querySelector("#found a.at").innerText.includes("deploy")`)
	b.press(kb.Enter)
	b.until(`document.querySelector(".strip").innerText.includes("call c2") && !document.querySelector("#find").open`)
	b.press("g", "n")
	b.until(`location.pathname === "/insights" && document.querySelector("#to-insights").hasAttribute("aria-current")`)
	b.press("/")
	b.until(`document.querySelector("#find").open`)
	b.write("#find-words", "no such thing")
	b.see("No page or call matches.")
}

// On a phone the pages are in a bar and under More, even without a script.
func TestPhone(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	b.do(chromedp.EmulateViewport(390, 844))
	b.goTo("/inbox")
	b.until(`getComputedStyle(document.querySelector("#rail")).display === "none"`)
	b.click(`.dock [popovertarget="rail"]`)
	b.until(`document.querySelector("#rail").matches(":popover-open")`)
	b.shot("rail")
	b.click("#to-standing")
	b.until(`location.pathname === "/standing" && !document.querySelector("#rail").matches(":popover-open")`)
	w.A.Ask("s1", "r1", "c1")
	b.until(`document.querySelector("#dock .count").textContent === "(1 open)"`)
}

// The overview shows activity live and links to what it shows.
func TestOverview(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	b.goTo("/")
	b.see("No open requests", "No decisions yet", "Workers and queues")
	k := w.A.Ask("s1", "r1", "c1")
	b.until(`document.querySelector("#tiles .tile b").innerText === "1"`)
	b.until(`document.querySelector("#waiting tbody a").innerText.includes("pay")`)
	w.A.Reject(gatewaytest.Bob, k, "no")
	b.until(`document.querySelector(".latest").innerText.includes("bob rejected")`)
	b.until(`document.querySelector(".heat .of-rejected a").getAttribute("href").includes("outcome=reject")`)
	w.A.Lose("s1", "r1", "lost")
	b.click(`#tiles a`)
	b.until(`location.pathname === "/inbox"`)
	b.goTo("/insights?last=1h")
	b.see("Last hour", "By rule", "money", "bob")
	b.click(`.chips a[href="/insights?last=7d"]`)
	b.see("Last 7 days")
	b.goTo("/insights?from=2026-11-20T08:00&to=2026-11-19T08:00")
	b.see("The period ends before it begins")
}
