package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/toolcall"
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

// small returns what a finger hits badly: what is less than 44 pixels high or wide, except links within a
// sentence and cells of a chart that has more columns than a phone has room for.
const small = `[...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")].filter((e) => {
	if (e.matches(".skip, .visually-hidden") || !e.checkVisibility() || getComputedStyle(e).display === "inline") return false;
	const r = (e.closest("label.check") ?? e).getBoundingClientRect();
	return r.width < 43.5 && !e.closest(".heat") || r.height < 43.5;
}).map((e) => e.tagName + "#" + e.id + "." + e.className + " " + e.textContent.trim().slice(0, 30) + " " + Math.round(e.offsetWidth) + "x" + Math.round(e.offsetHeight))`

// Fingers hit every target of every page, and no page scrolls sideways.
func TestTouch(t *testing.T) {
	w := portal(t)
	b := open(t, w, gatewaytest.Ann)
	b.do(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateTouch))
	paths := []string{callPath(openOf(w, "refund")[0]), callPath(openOf(w, "Bash")[0]) + "&do=approve", "/inbox?show=done", "/find?q=refund", "/policy?view=shadow", "/policy?view=versions"}
	for _, p := range looks {
		if p.who != "" && p.name != "docs" && p.name != "error" {
			paths = append(paths, lookPath(w, p.path))
		}
	}
	for _, path := range paths {
		b.goTo(path)
		b.shot(strings.NewReplacer("/", "-", "?", "-", "&", "-").Replace(path))
		if found := eval[[]string](b, small); len(found) > 0 {
			t.Errorf("%s: small targets: %q", path, found)
		}
		if wide := eval[bool](b, `document.documentElement.scrollWidth > innerWidth || [...document.querySelectorAll(".scroll")].filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth).length > 0`); wide {
			t.Errorf("%s is wider than the screen", path)
		}
	}
}

// A form says which call it is for, also where the title of the page is off the screen.
func TestFormNamesItsCall(t *testing.T) {
	w := seeded(t)
	b := open(t, w, gatewaytest.Ann)
	b.do(chromedp.EmulateViewport(390, 844))
	k := openOf(w, "refund")[0]
	for _, do := range []string{"approve", "edit", "reject", "respond", "delegate", "skip", "interrupt"} {
		b.goTo(callPath(k) + "&do=" + do)
		b.until(`document.querySelector("#panel-call").innerText === document.querySelector("#title").innerText`)
	}
}

// Live updates leave the focus where it is: on the same link, on the button of the same row, and on the
// row that took the place of one that is gone.
func TestFocusStays(t *testing.T) {
	w := portal(t)
	b := open(t, w, gatewaytest.Ann)
	focus := func(selector string) {
		t.Helper()
		b.until(fmt.Sprintf(`document.querySelector(%q)`, selector))
		eval[bool](b, fmt.Sprintf(`(window.was = document.querySelector(%q), window.was.focus(), true)`, selector))
	}
	b.goTo("/")
	focus(`#waiting tbody a[href*="call-17"]`)
	k := w.A.ProposeAs("other-bot", "other", "r1", "c1", "refund", `{"order_id":"o-1","amount_cents":9900,"currency":"EUR","reason":"x"}`).Key
	b.until(`!window.was.isConnected && document.activeElement.href === window.was.href`)
	b.goTo("/standing")
	focus(".confirm summary")
	b.press(kb.Enter)
	b.until(`document.querySelector(".confirm").open && document.activeElement === window.was && window.was.checkVisibility()`)
	focus(".confirm button")
	w.A.SubmitResponse(gatewaytest.Bob, toolcall.Response{Key: k, Kind: toolcall.ResponseApprove, Remember: &toolcall.StandingTerms{Scope: toolcall.ScopeAgent, Uses: 20}})
	b.until(`!window.was.isConnected && document.querySelectorAll(".standing_approval").length === 2 && document.activeElement.closest(".confirm")?.id === window.was.closest(".confirm").id`)
	b.goTo("/inbox")
	focus(`.rows li:nth-child(2) .row`)
	gone := openOf(w, "refund")[1]
	w.A.Reject(gatewaytest.Bob, gone, "no")
	b.until(`!window.was.isConnected && document.activeElement === document.querySelector(".rows li:nth-child(2) .row")`)
	focus(`.rows li:nth-child(2) .pick`)
	w.A.SubmitResponse(gatewaytest.Bob, toolcall.Response{Key: openOf(w, "deploy_service")[0], Kind: toolcall.ResponseDelegate, To: gatewaytest.Ann})
	b.until(`!window.was.isConnected && document.activeElement.id === "" && document.activeElement.closest("li").id === window.was.closest("li").id`)
}

// overlapping returns the names of tools that do not fit into their cell.
const overlapping = `[...document.querySelectorAll(".history tbody .tool")].filter((e) => e.offsetParent && e.offsetLeft + e.offsetWidth > e.closest("td").offsetLeft + e.closest("td").offsetWidth).map((e) => e.innerText)`

// At a large zoom no bars stay on the screen: they would cover what runs.
func TestLargeZoom(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	k := w.A.Ask("s1", "r1", "c1")
	w.A.Ask("s1", "r1", "c2")
	b.do(chromedp.EmulateViewport(320, 256)) // 400 % on a screen of 1280 by 1024
	for _, path := range []string{callPath(k), callPath(k) + "&do=approve", "/inbox", "/inbox/bulk?do=approve&all=1"} {
		b.goTo(path)
		if tall := eval[float64](b, `[...document.querySelectorAll("body *")].filter((e) => /fixed|sticky/.test(getComputedStyle(e).position)).reduce((sum, e) => sum + e.offsetHeight, 0)`); tall > 64 {
			t.Errorf("%s: bars of %v pixels do not scroll away", path, tall)
		}
	}
}

// At every width what would run is readable next to the responses, which are on one line on a desktop.
func TestWidths(t *testing.T) {
	w := world(t, gatewaytest.Policy(strings.Replace(gatewaytest.Rules, "behavior: ask\n", "behavior: ask\n    expiry: 2h\n", 1)))
	b := open(t, w, gatewaytest.Ann)
	w.A.Reject(gatewaytest.Bob, w.A.Ask("s0", "r1", "old"), "no")
	k := w.A.Ask("s1", "r1", "c1")
	for _, width := range []int64{360, 768, 853, 960, 961, 1024, 1100, 1101, 1180, 1260, 1261, 1280, 1366, 1401, 1920} {
		b.do(chromedp.EmulateViewport(width, 700))
		b.goTo(callPath(k))
		b.see("Skip", "left, then denied")
		if lines := eval[int](b, `new Set([...document.querySelectorAll("#bar .btn")].map((e) => e.offsetTop)).size`); lines != 1 && width > 960 {
			t.Errorf("at %d pixels the responses are on %d lines", width, lines)
		}
		if got := eval[int](b, `document.querySelector("#args").offsetWidth`); got < min(420, int(width)-50) {
			t.Errorf("at %d pixels the arguments have a width of %d", width, got)
		}
		alone := width <= 1100
		if shown := eval[bool](b, `document.querySelector("#side").offsetParent !== null`); shown == alone {
			t.Errorf("at %d pixels the list is shown: %v", width, shown)
		}
		if back := eval[bool](b, `document.querySelector("#back").offsetParent !== null`); back != alone {
			t.Errorf("at %d pixels the way back to the list is shown: %v", width, back)
		}
		b.goTo("/history")
		b.see("rejected by bob")
		if over := eval[[]string](b, overlapping); len(over) > 0 {
			t.Errorf("at %d pixels texts of the history cover others: %q", width, over)
		}
		if wide := eval[bool](b, `[...document.querySelectorAll(".scroll")].some((e) => e.scrollWidth > e.clientWidth)`); wide && width >= 1100 {
			t.Errorf("at %d pixels a table of the history scrolls sideways", width)
		}
		if narrow := eval[float64](b, `Math.min(...[...document.querySelectorAll("[type=datetime-local]")].map((e) => e.offsetWidth))`); narrow < 224 { // what Firefox needs
			t.Errorf("at %d pixels a date and time have a width of %v", width, narrow)
		}
	}
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
