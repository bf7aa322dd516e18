package console_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
)

// axeFile is the accessibility checker that make node installs.
const axeFile = "../testdata/node/node_modules/axe-core/axe.min.js"

// accessible checks the page against the rules of WCAG 2.2 AA, in light and dark mode, on a
// desktop and on a phone.
func (b *tab) accessible(name string) {
	b.t.Helper()
	b.accessibleIn(name, "html")
}

// accessibleIn checks one element, if the rest of the page was checked before.
func (b *tab) accessibleIn(name, selector string) {
	b.t.Helper()
	axe, err := os.ReadFile(axeFile)
	if err != nil {
		b.t.Fatalf("the accessibility checks need axe-core; run make node: %v", err)
	}
	for _, width := range []int64{1440, 390} {
		height := int64(900)
		if width == 390 {
			height = 844
		}
		b.do(chromedp.EmulateViewport(width, height))
		for _, dark := range []bool{false, true} {
			b.dark(dark)
			look := fmt.Sprintf("%s-%d-%s", name, width, map[bool]string{true: "dark", false: "light"}[dark])
			b.shot(look)
			if wide := eval[bool](b, `document.documentElement.scrollWidth > innerWidth + 1`); wide {
				b.t.Errorf("%s is wider than the screen", look)
			}
			rules := `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]`
			if dark { // only the colours differ
				rules = `{type: "rule", values: ["color-contrast", "link-in-text-block"]}`
			}
			if !eval[bool](b, `"axe" in window`) {
				eval[bool](b, string(axe)+"\ntrue")
			}
			found := await[[]string](b, `(async () => {
				const r = await axe.run(document.querySelector("`+selector+`"), {runOnly: `+rules+`, resultTypes: ["violations"]});
				return r.violations.flatMap((v) => v.nodes.map((n) => v.id + " (" + v.help + "): " + n.target + " " + n.failureSummary)); })()`)
			for _, v := range found {
				b.t.Errorf("%s: %s", look, v)
			}
			if len(found) > 0 {
				b.save(look)
			}
		}
	}
	b.dark(false)
	b.do(chromedp.EmulateViewport(1280, 900))
}

// Every page is accessible in every state.
func TestAccessible(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	b.goTo("/inbox")
	b.accessible("empty")
	h := func() message.EventHeader { return message.NewHeader("r1") }
	w.A.Say("s1", "r1", &message.ReplyStart{EventHeader: h(), Session: "s1", Name: "helper"},
		&message.ThinkingBlockDelta{EventHeader: h(), BlockID: "b1", Delta: "They want the new version on both hosts."},
		&message.TextBlockDelta{EventHeader: h(), BlockID: "b2", Delta: "I pay the invoice, then I put 1.4.2 into production."},
		&message.ToolCallStart{EventHeader: h(), ToolCallID: "c1", ToolCallName: gatewaytest.Pay},
		&message.ToolCallDelta{EventHeader: h(), ToolCallID: "c1", Delta: gatewaytest.PayInput},
		&message.ToolCallStart{EventHeader: h(), ToolCallID: "c2", ToolCallName: gatewaytest.Deploy},
		&message.ToolCallDelta{EventHeader: h(), ToolCallID: "c2", Delta: `{"version":"1.4.2"}`})
	k := w.A.Ask("s1", "r1", "c1")
	d := w.A.Propose("s1", "r1", "c2", gatewaytest.Deploy, `{"version":"1.4.2","hosts":["web-1","web-2"],"script":"set -e\n\tsystemctl restart app\n","options":{"canary":true,"percent":5,"note":null}}`)
	w.A.Propose("s2", "r1", "c1", gatewaytest.Login, `{"user":"p\u0430ypal\u202e","password":"secret-1234"}`)
	b.see("Pay 42 to acme?")
	b.accessible("list")
	b.do(chromedp.EmulateViewport(390, 844))
	b.goTo("/inbox")
	b.accessible("phone-list")
	b.goTo(callPath(d.Key))
	b.click("#explained summary")
	b.see("with the current policy: rule release")
	b.accessible("card")
	b.goTo(callPath(k))
	for _, do := range []string{"approve", "edit", "reject", "respond", "delegate", "skip", "interrupt"} {
		b.click(`[data-do="` + do + `"]`)
		b.see("Cancel")
		if do == "approve" {
			b.click(`[name=remember][value=terms]`)
			b.accessible(do)
		} else {
			b.accessibleIn(do, "#panel")
		}
		b.click(`[data-close]`)
		b.gone("#panel")
	}
	w.A.Approve(gatewaytest.Bob, d.Key)
	b.goTo(callPath(d.Key))
	b.see("1 of 2")
	b.whole("half")
	b.accessible("half")
	w.A.Approve(gatewaytest.Ann, d.Key)
	w.A.Finished(d.Key)
	b.see("Decided: approved by bob")
	b.whole("resolved")
	b.accessible("resolved")
	for _, page := range []string{"/inbox?show=done", "/standing", "/insights", "/inbox/call?session=no&reply=no&call=no"} {
		if strings.Contains(page, "no") && strings.Contains(page, "call=") {
			b.expect("404")
		}
		b.goTo(page)
		b.accessible(strings.Trim(strings.NewReplacer("/", "-", "?", "-", "=", "-", "&", "-").Replace(page), "-"))
	}
}

// On paper the text is dark in every theme, and the inbox has its rows. Without grounds, what is
// selected has an edge. A narrow phone shows problems of a queue whole.
func TestMedia(t *testing.T) {
	w := seeded(t)
	b := open(t, w, gatewaytest.Ann)
	media := func(name string, features ...*emulation.MediaFeature) {
		command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: name, Features: features})
	}
	b.do(chromedp.EmulateViewport(794, 1123))
	b.goTo("/inbox")
	eval[bool](b, `(document.documentElement.dataset.theme = "dark", true)`)
	media("print")
	if text := eval[string](b, `getComputedStyle(document.querySelector(".row")).color`); text != "rgb(21, 23, 30)" {
		t.Errorf("the text on paper is %s", text)
	}
	if rows := eval[int](b, `[...document.querySelectorAll(".row")].filter((r) => r.offsetParent).length`); rows != 6 {
		t.Errorf("paper has %d rows of the inbox, want 6", rows)
	}
	b.do(chromedp.EmulateViewport(1280, 900))
	media("", &emulation.MediaFeature{Name: "forced-colors", Value: "active"})
	b.goTo(callPath(openOf(w, "Bash")[0]))
	if edges := eval[[]string](b, `[getComputedStyle(document.querySelector(".rail-pages [aria-current]")).outlineStyle, getComputedStyle(document.querySelector(".row.selected")).borderLeftStyle]`); edges[0] != "solid" || edges[1] != "solid" {
		t.Errorf("the page and the row that are open have the edges %v", edges)
	}
	media("")
	b.do(chromedp.EmulateViewport(320, 640))
	b.goTo("/workers")
	if wide := eval[bool](b, `[...document.querySelectorAll(".queues .pill")].some((p) => p.getBoundingClientRect().right > p.closest(".box").getBoundingClientRect().right)`); wide {
		t.Error("the problem of a queue is wider than its table")
	}
}
