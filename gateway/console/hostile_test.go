package console_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Text that a model writes into arguments is only displayed, and misleading characters are made
// visible.
func TestHostileArguments(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	evil := "</script><script>window.hit=1</script><img src=x onerror='window.hit=2'>{{.CSRF}}\"'`"
	args, err := json.Marshal(map[string]any{
		"markup": evil, evil: "a name", "bidi": "safe\u202e\u2066gpj.exe", "alike": "p\u0430ypal.com", "zero": "a\u200bb\u00adc", "ctl": "a\u001b[2K\rb",
		"link": "javascript:alert(1)", "lines": "a\nb</textarea><script>window.hit=3</script>", "mark": "‹U+0041›",
	})
	if err != nil {
		t.Fatal(err)
	}
	k := w.A.Propose("s<b>1</b>", "r/../1", "c?&#\"1", gatewaytest.Ship, string(args)).Key
	b.goTo("/inbox")
	b.click(".row")
	if title := eval[string](b, `document.title + document.querySelector(".row").closest("li").querySelector("input").ariaLabel`); strings.Count(title, "p‹U+0430›ypal.com") != 2 {
		t.Errorf("the title of the tab and the label of the row are %q", title)
	}
	b.see(evil, "U+202E", "U+2066", "p‹U+0430›ypal"[:1], "U+0430", "U+200B", "U+00AD", "U+001B", "U+000D", "U+2039", "s<b>1</b>")
	b.press("e")
	b.until(`document.querySelector("#input").value.includes("\\u202e") && document.querySelector("#input").value.includes("p\\u0430ypal")`)
	b.shot("card")
	big := w.A.Propose("s2", "r1", "c1", gatewaytest.Ship, `{"big":"`+strings.Repeat("x<i>", 40_000)+`","deep":`+strings.Repeat("[", 60)+strings.Repeat("]", 60)+`}`).Key
	many := w.A.Propose("s2", "r1", "c2", gatewaytest.Ship, `{"all":[`+strings.Repeat("1,", 20_000)+`1]}`).Key
	for _, k := range []toolcall.Key{big, many} {
		b.goTo(callPath(k) + "&do=approve")
		b.see("Scroll to the end of the arguments first")
		b.until(`document.querySelector("#panel .main-action").disabled`)
		eval[bool](b, `(document.querySelector("#args-end").scrollIntoView(), true)`)
		await[bool](b, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
		if tall := eval[float64](b, `document.querySelector("#args").offsetHeight`); tall > 6000 {
			t.Errorf("the arguments are %v pixels high", tall)
		}
		if eval[bool](b, `!document.querySelector("#panel .main-action").disabled`) {
			t.Error("a call can be approved before its folded arguments were opened")
		}
		eval[bool](b, `(document.querySelectorAll("#args .fold").forEach((d) => { d.open = true }), document.querySelector("#args-end").scrollIntoView(), true)`)
		b.until(`(document.querySelector("#args-end").scrollIntoView(), !document.querySelector("#panel .main-action").disabled)`)
	}
	if hit := eval[bool](b, `"hit" in window`); hit {
		t.Error("part of the arguments was executed")
	}
	if found := eval[int](b, `document.querySelectorAll("#args img, #args script, #args i, .row script, .row img").length`); found != 0 {
		t.Errorf("%d elements were created from arguments", found)
	}
	w.A.Reject(gatewaytest.Bob, k, evil)
	b.goTo("/inbox?show=done")
	b.see(evil)
}

// What runs is on the screen: spaces take their place, deep values stay within the page, lines that
// the text breaks have numbers, and the first letter does not turn a command around.
func TestNothingOutOfSight(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	propose := func(id, input string) toolcall.Key {
		return w.A.Propose("s1", "r1", id, gatewaytest.Ship, input).Key
	}
	numbers := `[...document.querySelectorAll("#args .l")].map((l) => getComputedStyle(l, "::before").content).filter((c) => c.startsWith("counter"))`
	b.goTo(callPath(propose("c1", `{"command":"ls `+strings.Repeat(" ", 4000)+`; rm -rf /"}`)))
	if tall := eval[float64](b, `document.querySelector("#args .l").offsetHeight`); tall < 400 {
		t.Errorf("4000 spaces in a command are %v pixels high", tall)
	}
	if n := eval[[]string](b, numbers); len(n) != 0 {
		t.Errorf("one line has the numbers %q", n)
	}
	b.goTo(callPath(propose("c2", `{"command":"# \u05e9\nrm -rf ./* > /dev/null","notes":"a\nb"}`)))
	if n := eval[[]string](b, numbers); len(n) != 4 {
		t.Errorf("the four lines have the numbers %q", n)
	}
	end := `(() => { const r = document.createRange(), n = document.querySelector(%q).firstChild; r.setStart(n, n.length - 1); r.setEnd(n, n.length); const all = document.createRange(); all.selectNode(n); return r.getBoundingClientRect().right >= all.getBoundingClientRect().right - 1; })()`
	for _, at := range []string{"#args .l:nth-child(2)", ".row.selected bdi"} {
		if !eval[bool](b, fmt.Sprintf(end, at)) {
			t.Errorf("the last letter of %s is not its rightmost", at)
		}
	}
	toEdit := callPath(propose("c4", `{"path":"/srv/אבג/123/x","list":["אבג","1 אבג 2"]}`))
	b.goTo(toEdit + "&do=edit")
	if is := eval[string](b, `(({ unicodeBidi, direction }) => unicodeBidi + " " + direction)(getComputedStyle(document.querySelector("#input")))`); is != "bidi-override ltr" {
		t.Errorf("the characters of the edit field have the order %s", is)
	}
	b.goTo(toEdit)
	order := `[...document.querySelectorAll("#tree .value")].map((v) => [...v.childNodes].map((n) => { const r = document.createRange(); r.selectNodeContents(n); return r.getBoundingClientRect().left; }))`
	for _, lefts := range eval[[][]float64](b, order) {
		if len(lefts) > 1 && !slices.IsSorted(lefts) {
			t.Errorf("the parts of a value begin at %v", lefts)
		}
	}
	if parts := eval[int](b, `document.querySelectorAll("#tree bdi[dir=rtl]").length`); parts != 3 {
		t.Errorf("%d parts from right to left are isolated", parts)
	}
	b.goTo(callPath(propose("c3", `{"deep":`+strings.Repeat("[", 60)+`{"path":"/home/everything"}`+strings.Repeat("]", 60)+`}`)))
	for _, width := range []int64{1280, 320} {
		b.do(chromedp.EmulateViewport(width, 900))
		if wide := eval[float64](b, `Math.max(...[...document.querySelectorAll("#args *")].map((e) => e.getBoundingClientRect().right)) - innerWidth`); wide > 0 {
			t.Errorf("deep arguments leave a screen of %d pixels by %v", width, wide)
		}
	}
}

// A browser searches all of an element with an automatic direction again for each of its children:
// the page of a call with 20,000 lines or invisible characters took minutes.
func TestLongTextsHaveNoOwnDirection(t *testing.T) {
	w := world(t)
	for i, input := range []string{`{"content":"` + strings.Repeat(`1\n`, 20_000) + `"}`, `{"notes":"` + strings.Repeat(`1\n`, 20_000) + `"}`, `{"text":"` + strings.Repeat(`a\u200b`, 20_000) + `"}`, `{"old":"","new":"` + strings.Repeat(`a\u200b`, 20_000) + `"}`, `{"all":[` + strings.Repeat(`"\u200b",`, 20_000) + `1]}`} {
		k := w.A.Propose("s1", "r1", fmt.Sprintf("c%d", i), gatewaytest.Ship, input).Key
		code, page := ask(t, w, "alpha."+gatewaytest.Ann, "GET", callPath(k), nil)
		if code != 200 || len(page) < 100_000 {
			t.Fatalf("status %d, %d bytes", code, len(page))
		}
		for _, part := range strings.Split(page, "<bdi")[1:] {
			if inside, _, _ := strings.Cut(part, "</bdi>"); len(inside) > 10_000 {
				t.Fatalf("call %d: a bdi element has %d bytes", i, len(inside))
			}
		}
	}
}

// Enter after a move opens the call and moves the focus, although its page comes after the moment
// at which the preview of the move begins.
func TestEnterBeforeThePreview(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	w.A.Ask("s1", "r1", "c1")
	w.A.Ask("s1", "r1", "c2")
	b.goTo("/inbox")
	b.until(`document.querySelector(".strip").innerText.includes("call c1")`)
	eval[bool](b, `(() => {
		const real = window.fetch;
		const previewed = new Promise((resolve) => { setTimeout(resolve, 200); });
		window.asked = 0;
		window.fetch = async (...args) => {
			if (String(args[0]).includes("/inbox/call")) { window.asked++; await previewed; }
			return real(...args);
		};
		document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "j", bubbles: true }));
		document.activeElement.click();
		return true;
	})()`)
	b.until(`document.activeElement.id === "title" || window.asked > 1`)
	if asked := eval[int](b, `window.asked`); asked != 1 {
		t.Errorf("Enter and the preview requested %d pages, want 1", asked)
	}
	b.until(`document.querySelector(".strip").innerText.includes("call c2")`)
}

// Everything can be done without a mouse.
func TestKeyboard(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	first, second := w.A.Ask("s1", "r1", "c1"), w.A.Ask("s1", "r1", "c2")
	third := w.A.Propose("s1", "r1", "c3", gatewaytest.Deploy, `{"version":"7"}`).Key
	b.goTo("/inbox")
	b.press("?")
	b.see("Keyboard shortcuts")
	b.press(kb.Escape)
	b.until(`!document.querySelector("#help").open`)
	b.until(`document.querySelector(".strip").innerText.includes("call c1")`)
	b.press("j", "j", "k", "k", kb.Enter)
	b.until(`document.activeElement.id === "title"`)
	b.press("a")
	b.until(`document.activeElement.closest("#panel")`)
	b.press(kb.Escape)
	b.gone("#panel")
	b.press("r")
	b.until(`document.activeElement.id === "feedback"`)
	b.press("n", "o", "a") // no shortcuts in a text field
	b.send()
	b.see("You rejected")
	if c := w.A.Finished(first); !strings.Contains(c.Result.Output.String(), "noa") {
		t.Errorf("the feedback is %q", c.Result.Output)
	}
	b.press("n")
	b.until(`document.querySelector(".strip").innerText.includes("call c2")`)
	b.press("a")
	b.until(`document.activeElement.closest("#panel") && !document.querySelector(".main-action").disabled`)
	b.send()
	b.see("You approved")
	w.A.Finished(second)
	b.press("/")
	b.until(`document.activeElement.id === "q"`)
	b.press("d", "e", "p")
	b.until(`document.querySelectorAll(".row").length === 1 && location.search.includes("q=dep")`)
	b.press(kb.Escape)
	b.until(`document.querySelector(".strip").innerText.includes("call c3")`)
	b.press("v")
	b.until(`document.querySelector("#raw").open`)
	b.press(kb.Escape)
	b.until(`document.activeElement.classList.contains("row")`)
	if c := w.A.Show(third); len(c.Votes) != 0 {
		t.Errorf("a response was sent: %+v", c.Votes)
	}
}

// Without the stream nothing can be sent, and the page says so. The stream reconnects
// automatically, and the page catches up.
func TestOffline(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	k := w.A.Ask("s1", "r1", "c1")
	b.goTo(callPath(k))
	b.press("r")
	b.write("#feedback", "kept")
	b.expect("ERR_INTERNET_DISCONNECTED")
	b.network(true)
	b.see("Not connected. The page may be out of date, so you cannot send a response.")
	b.until(`document.querySelector("#panel .main-action").disabled && document.querySelector("#said").textContent.startsWith("Not connected.")`)
	b.accessible("down")
	other := w.A.Ask("s1", "r1", "c2")
	b.network(false)
	b.until(`document.querySelector("#live").dataset.live === "on" && document.querySelectorAll(".row").length === 2`)
	b.until(`!document.querySelector("#panel .main-action").disabled && document.querySelector("#feedback").value === "kept"`)
	b.until(`document.querySelector("#said").textContent === "Connected again."`)
	w.A.Approve(gatewaytest.Bob, other)
	b.until(`document.querySelectorAll(".row").length === 1`)
	eval[bool](b, `(window.fetch = () => new Promise(() => {}), true)`) // a slow network
	b.click("#panel .main-action")
	b.until(`getComputedStyle(document.querySelector("#panel .buttons"), "::after").content.includes("Sending")`)
}

// When the login ends, text that a person typed stays, and can be sent after a login in another tab.
func TestLoginEnds(t *testing.T) {
	tokens, err := auth.AwaitTokens(filepath.Join(t.TempDir(), "tokens"), nil)
	if err != nil {
		t.Fatal(err)
	}
	login, err := auth.New(auth.Config{Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	w := world(t, gatewaytest.With(func(c *gateway.Config) { c.Login, c.Surfaces = auth.LoginPath, append(c.Surfaces, login) }))
	b := open(t, w, gatewaytest.Ann)
	b.expect("401")
	k := w.A.Ask("s1", "r1", "c1")
	b.goTo(callPath(k))
	b.press("r")
	b.write("#feedback", "kept")
	logIn := func(cookie string) {
		eval[bool](b, `(document.cookie = "`+cookie+`; path=/", dispatchEvent(new Event("online")))`)
	}
	logIn("who=; max-age=0")
	b.see("Your login ended.")
	b.until(`document.querySelector("#said").textContent.includes("Your login ended.")`)
	logIn("who=alpha." + gatewaytest.Ann)
	b.until(`document.querySelector("#live").dataset.live === "on" && document.querySelector("#ended").hidden`)
	eval[bool](b, `(document.cookie = "who=; max-age=0; path=/", true)`) // the stream goes on: sending finds out
	b.expect("inline style")                                             // of the error
	b.send()
	b.see("Your login ended.")
	b.expect("403")
	logIn("who=alpha." + gatewaytest.Ann)
	b.until(`document.querySelector("#live").dataset.live === "on" && document.querySelector("#ended").hidden`)
	eval[bool](b, `((f) => { window.fetch = (u, o) => (o?.body?.set("csrf", "no"), window.fetch = f, f(u, o)); })(window.fetch), true`)
	b.send()
	b.see("Not accepted: ")
	b.send()
	b.see("You rejected", "kept")
}

func (b *tab) network(down bool) {
	b.t.Helper()
	command(b, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: []*network.Conditions{{DownloadThroughput: -1, UploadThroughput: -1, Offline: down}}})
	command(b, network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: down, DownloadThroughput: -1, UploadThroughput: -1})
}

// send presses the keys that send a form.
func (b *tab) send() {
	b.t.Helper()
	b.do(chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(2)))
}

// Images of a result are shown from their own bytes, if browsers can draw them safely.
func TestPictures(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	picture := func(width, height int) []byte {
		var out bytes.Buffer
		if err := png.Encode(&out, image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.Black})); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	drawn := picture(40, 30)
	var moving bytes.Buffer
	if err := gif.Encode(&moving, image.NewPaletted(image.Rect(0, 0, 1, 1), color.Palette{color.Black}), nil); err != nil {
		t.Fatal(err)
	}
	name := "p\u0430y\"><b>.png"
	data := func(kind string, data []byte) message.Block {
		return &message.DataBlock{Name: &name, Source: &message.Base64Source{MediaType: kind, Data: base64.StdEncoding.EncodeToString(data)}}
	}
	svg := []byte(`<svg xmlns="http://www.w3.org/2000/svg" onload="window.hit=1"><image href="https://evil.example/a.png"/></svg>`)
	output := message.Content{Blocks: []message.Block{
		data("image/png", drawn), data("image/svg+xml", drawn), data("image/svg+xml", svg), data("image/png", svg), data("image/gif", moving.Bytes()), data("image/png", picture(8000, 8000)), data("image/png", picture(5000, 5000)), data("image/png", picture(5000, 5000)),
		&message.DataBlock{Source: &message.URLSource{URL: "https://evil.example/b.png", MediaType: "image/png"}},
	}}
	bot := w.A.Client(gatewaytest.Bot)
	call := message.ToolCallBlock{ID: "c1", Name: "look", Input: `{}`, State: message.ToolCallPending}
	if _, err := bot.Propose(t.Context(), toolcall.ProposeRequest{V: 1, Session: "s1", Reply: "r1", Calls: []message.ToolCallBlock{call}, External: []string{"look"}}); err != nil {
		t.Fatal(err)
	}
	k := toolcall.Key{Space: w.A.ID, Session: "s1", Reply: "r1", Call: "c1"}
	w.A.Approve(gatewaytest.Ann, k)
	if _, err := bot.Report(t.Context(), toolcall.ReportRequest{V: 1, Key: k, Result: message.ToolResultBlock{ID: "c1", Name: "look", State: message.ToolResultSuccess, Output: output}}); err != nil {
		t.Fatal(err)
	}
	b.goTo(callPath(k))
	b.see("image/svg+xml", "at https://evil.example/b.png")
	b.until(`[...document.querySelectorAll(".picture img")].every((i) => i.complete)`)
	got := eval[string](b, `[...document.querySelectorAll("#result img")].map((i) => i.naturalWidth + "x" + i.naturalHeight + " " + i.src.slice(0, 15) + " " + i.alt).join("; ")`)
	want := `40x30 data:image/png; p‹U+0430›y"><b>.png, image/png, `
	if strings.Count(got, "data:") != 3 || strings.Count(got, "5000x5000") != 1 || !strings.HasPrefix(got, want) {
		t.Errorf("the images are %s, want two like %s and a large one", got, want)
	}
	b.accessibleIn("pictures", "#result")
}
