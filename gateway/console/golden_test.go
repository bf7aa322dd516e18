package console_test

import (
	"bytes"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/api"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/gateway/console"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/toolcall"
)

var update = flag.Bool("update", false, "write the golden pictures of the pages")

// look is a page whose screenshot is compared, as seen by who (no one, if who is ""). wide and
// phone are its heights, in screens of a desktop and of a phone.
type look struct {
	name, path, see string
	who             string
	wide, phone     int64
}

// looks are the pages that are compared with golden screenshots.
var looks = []look{
	{"inbox", "/inbox", "o-77231", gatewaytest.Ann, 1, 1},
	{"selection", "/inbox/bulk?all=1&do=approve", "Approve all", gatewaytest.Ann, 1, 1},
	{"request", "release", "1 of 2 from group ops", gatewaytest.Ann, 1, 1},
	{"edit", "edit", "These arguments run instead", gatewaytest.Ann, 1, 1},
	{"overview", "/", "o-77231", gatewaytest.Ann, 3, 5},
	{"insights", "/insights", "refunds-over-limit", gatewaytest.Ann, 3, 5},
	{"timeline", "/timeline?session=support-4711", "o-77231", gatewaytest.Ann, 2, 3},
	{"history", "/history", "o-77184", gatewaytest.Ann, 2, 4},
	{"policy", "/policy", "refunds-over-limit", gatewaytest.Ann, 1, 2},
	{"playground", "/policy?view=try", "Nothing is proposed", gatewaytest.Ann, 1, 2},
	{"workers", "/workers", "build_report", gatewaytest.Olga, 2, 4},
	{"standing", "/standing", "19 of 20 uses left", gatewaytest.Ann, 1, 1},
	{"audit", "/audit", "Complete", gatewaytest.Audie, 1, 2},
	{"login", "/login", "Token", "", 1, 1},
	{"error", "/none", "Page not found", gatewaytest.Ann, 1, 1},
	{"docs", "/docs", "Propose tool calls", gatewaytest.Ann, 1, 1},
}

// The viewports of the golden screenshots, and by how much they are reduced. Reduced glyphs
// become grey, so another font rasteriser gives the same picture.
var views = []struct {
	width, height int64
	reduce        int
}{{1440, 900, 6}, {390, 844, 3}}

// goldenFile returns the name of a page's golden screenshot.
func goldenFile(name string, width int64, dark bool) string {
	return filepath.Join("testdata", "looks", fmt.Sprintf("%s-%d-%s.png", name, width, map[bool]string{true: "dark", false: "light"}[dark]))
}

// still makes a page look the same at every time and with the same fonts. It replaces or hides
// only what changes from run to run: times, random ids, and charts.
const still = `(() => {
	for (let i = 0; i < 10000; i++) clearTimeout(i);
	for (const s of document.styleSheets) for (const rule of [
		':root { --sans: "DejaVu Sans Condensed", "DejaVu Sans"; --mono: "DejaVu Sans Mono" }', 'body { font-family: "DejaVu Sans Condensed", "DejaVu Sans" }',
		'*, *::before, *::after { animation: none !important; transition: none !important; caret-color: transparent !important }',
		'svg.chart *, .g-bars *, .g-ticks *, .meter, input[type="datetime-local"] { visibility: hidden !important }']) s.insertRule(rule, s.cssRules.length);
	document.activeElement?.blur();
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (texts.nextNode()) texts.currentNode.nodeValue = texts.currentNode.nodeValue
		.replace(/\b(\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d\b/g, (_, year) => (year ? '2026-' : '') + '01-01 00:00:00')
		.replace(/\b\d+(\.\d+)? ?(ms|s|m|h|d)( \d\d?[smh])?\b/g, '5ms').replace(/\beng_[0-9a-f]+/g, 'eng_0').replace(/\/\S+\/(\w+\.yaml)/g, '$1').replace(/\b[0-9a-f]{12}\b/g, '0'.repeat(12));
	for (const e of document.querySelectorAll('.feed-meta, #proof :is(b, dd), #run-chart .tile b, .g-end .g-span, .policy-rules td[data-label="Hits"] a')) e.textContent = e.textContent.replace(/[\w.]*\d[\w.]*/g, '0');
	for (const e of document.querySelectorAll('#proof small')) e.textContent = '0';
	for (const e of document.querySelectorAll('td[data-label="Last heard"] .pill')) e.remove(); // it appears after two minutes of silence
	for (const e of document.querySelectorAll('.queues td[data-label="Workers"]')) e.textContent = '0';
	for (const e of document.querySelectorAll('[data-since]')) e.textContent = '5m ago';
	for (const e of document.querySelectorAll('[data-until]')) e.textContent = '20m left';
	for (const e of document.querySelectorAll('code, .id')) if (/^(sha256:)?[0-9a-f]{32,}$/.test(e.textContent)) e.textContent = 'sha256:' + '0'.repeat(64);
	return true;
})()`

// picture returns a reduced screenshot of the page in its viewport.
func (b *tab) picture(reduce int) *image.RGBA {
	b.t.Helper()
	eval[bool](b, still)
	fast := true
	data := command(b, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{FromSurface: &fast, OptimizeForSpeed: &fast}).Data
	full, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		b.t.Fatalf("decode a screenshot: %v", err)
	}
	return shrink(full.(image.RGBA64Image), reduce)
}

// shrink averages squares of pixels. It keeps five bits of each colour to keep files small.
func shrink(full image.RGBA64Image, n int) *image.RGBA {
	size := full.Bounds().Size().Div(n)
	out := image.NewRGBA(image.Rectangle{Max: size})
	for y := range size.Y {
		for x := range size.X {
			var sum [3]uint32
			for dy := range n {
				for dx := range n {
					c := full.RGBA64At(x*n+dx, y*n+dy)
					sum[0], sum[1], sum[2] = sum[0]+uint32(c.R>>8), sum[1]+uint32(c.G>>8), sum[2]+uint32(c.B>>8)
				}
			}
			of := func(v uint32) uint8 { return uint8(v/uint32(n*n)) & 0xf8 }
			out.SetRGBA(x, y, color.RGBA{of(sum[0]), of(sum[1]), of(sum[2]), 255})
		}
	}
	return out
}

// Pictures look the same if each pixel differs at most a little, and only a few by more.
const (
	littleOf = 40    // out of 255
	fewOf    = 0.004 // share of all pixels
)

// differs describes how a picture differs from the golden one, or returns "" if it does not.
func differs(is, want image.Image) string {
	if is.Bounds() != want.Bounds() {
		return fmt.Sprintf("its size is %v, want %v", is.Bounds().Size(), want.Bounds().Size())
	}
	n := 0
	var box image.Rectangle
	for y := range is.Bounds().Dy() {
		for x := range is.Bounds().Dx() {
			if distance(is.At(x, y), want.At(x, y)) > littleOf {
				n++
				box = box.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	all := is.Bounds().Dx() * is.Bounds().Dy()
	if float64(n) <= fewOf*float64(all) {
		return ""
	}
	return fmt.Sprintf("%d of %d pixels differ, within %v of the reduced picture", n, all, box)
}

func distance(a, b color.Color) uint32 {
	ar, ag, ab, _ := a.RGBA()
	br, bg, bb, _ := b.RGBA()
	return max(ar>>8, br>>8) - min(ar>>8, br>>8) + max(ag>>8, bg>>8) - min(ag>>8, bg>>8) + max(ab>>8, bb>>8) - min(ab>>8, bb>>8)
}

// portal returns a seeded world with every page of the product: a policy from files with a
// shadow, a standing approval, the login page and the API reference.
func portal(t *testing.T) *gatewaytest.World {
	t.Helper()
	live, _, opts := livePolicy(t)
	tokens, err := auth.AwaitTokens(filepath.Join(t.TempDir(), "tokens"), nil)
	if err != nil {
		t.Fatal(err)
	}
	login, err := auth.New(auth.Config{Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	reference, err := api.New(api.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := seeded(t, gatewaytest.LivePolicy(live, opts...), gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface {
		return []gateway.Surface{console.New(), reference, login}
	}))
	refund := func(run string) toolcall.Key {
		return w.A.ProposeAs("support-bot", "support-4702", run, "call-chf", "refund", `{"order_id":"o-76990","amount_cents":7300,"currency":"CHF","reason":"late"}`).Key
	}
	first := refund("run-a")
	w.A.SubmitResponse(gatewaytest.Ann, toolcall.Response{Key: first, Kind: toolcall.ResponseApprove, Remember: &toolcall.StandingTerms{Scope: toolcall.ScopeAgent, Uses: 20}})
	w.A.Finished(first)
	w.A.Finished(refund("run-b"))
	receiptOf(t, w, url.Values{"session": {"support-4702"}, "reply": {"run-b"}, "call": {"call-chf"}}) // signs the journal
	return w
}

// show opens a page of the portal.
func (b *tab) show(w *gatewaytest.World, p look) {
	b.t.Helper()
	b.do(chromedp.Navigate(w.URL + lookPath(w, p.path)))
	b.until(fmt.Sprintf("document.readyState === 'complete' && document.documentElement.textContent.includes(%q) && document.querySelector('#live')?.dataset.live !== 'off'", p.see))
}

// TestLooks compares the pages with golden screenshots; -update writes them. A screenshot that
// was written or differs is saved in artifacts, with the full-size screenshot.
func TestLooks(t *testing.T) {
	w := portal(t)
	tabs := map[string]*tab{}
	for _, p := range looks {
		b := tabs[p.who]
		if b == nil {
			b = open(t, w, p.who)
			b.expect("404")
			b.expect("Password forms")
			tabs[p.who] = b
		}
		if p.who == "" {
			command(b, network.ClearBrowserCookies, cdp.Empty{})
		}
		for _, v := range views {
			screens := p.wide
			if v.width < 800 {
				screens = p.phone
			}
			b.do(chromedp.EmulateViewport(v.width, v.height*screens))
			b.dark(false)
			b.show(w, p)
			for _, dark := range []bool{false, true} {
				b.dark(dark)
				b.compare(p.name, v.width, v.reduce, dark)
			}
		}
	}
}

// Pages outside the console are also accessible.
func TestPortalAccessible(t *testing.T) {
	w := portal(t)
	for _, p := range looks {
		if p.name != "login" && p.name != "docs" {
			continue
		}
		b := open(t, w, p.who)
		b.expect("Password forms")
		if p.who == "" {
			command(b, network.ClearBrowserCookies, cdp.Empty{})
		}
		b.show(w, p)
		b.do(chromedp.EmulateViewport(320, 800))
		if n := eval[int](b, `[...document.querySelectorAll(".wide")].filter((e) => e.scrollWidth > e.clientWidth).length`); n > 0 {
			t.Errorf("%d tables of %s are wider than a phone", n, p.name)
		}
		eval[bool](b, `([...document.querySelectorAll("section")].slice(8).forEach((e) => e.remove()), true)`) // the rest is similar
		b.accessible(p.name)
	}
}

// lookPath returns the address of a page; the seed determines the pages of calls.
func lookPath(w *gatewaytest.World, path string) string {
	for _, c := range w.A.Open() {
		switch {
		case path == "release" && c.Tool == "deploy_service":
			return callPath(c.Key)
		case path == "edit" && c.Tool == "Bash":
			return callPath(c.Key) + "&do=edit"
		}
	}
	return path
}

func (b *tab) compare(name string, width int64, reduce int, dark bool) {
	b.t.Helper()
	file, is := goldenFile(name, width, dark), b.picture(reduce)
	if *update {
		writePicture(b.t, file, is)
		b.save(filepath.Base(file))
		return
	}
	data, err := os.ReadFile(file)
	if err != nil {
		b.t.Errorf("%v; run go test -update", err)
		return
	}
	want, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		b.t.Fatalf("%s: %v", file, err)
	}
	if diff := differs(is, want); diff != "" {
		b.t.Errorf("%s looks different: %s. If that is intended, look at artifacts and run go test -update. The pictures need the fonts of fonts-dejavu", file, diff)
		writePicture(b.t, filepath.Join(artifacts, "looks-"+filepath.Base(file)), is)
		b.save(filepath.Base(file))
	}
}

func writePicture(t *testing.T, file string, p image.Image) {
	t.Helper()
	var data bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&data, p); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestLooksNotice: a mistake in the style sheet is noticed, but slightly different glyphs are
// not.
func TestLooksNotice(t *testing.T) {
	w := seeded(t)
	b := open(t, w, gatewaytest.Ann)
	b.do(chromedp.EmulateViewport(views[0].width, views[0].height))
	b.goTo("/inbox")
	b.see("o-77231")
	want := b.picture(views[0].reduce)
	for rule, noticed := range map[string]bool{
		"body { -webkit-text-stroke: .15px }":     false,
		".row { padding-left: 5rem }":             true,
		".side { display: none }":                 true,
		"#bar { position: static; margin: 3rem }": true,
		".box { background: var(--work) }":        true,
		".request h1 { font-size: 3rem }":         true,
	} {
		b.goTo("/inbox")
		b.see("o-77231")
		eval[bool](b, fmt.Sprintf("(document.styleSheets[0].insertRule(%q, document.styleSheets[0].cssRules.length), true)", rule))
		if diff := differs(b.picture(views[0].reduce), want); (diff != "") != noticed {
			t.Errorf("with %s the difference is %q, want a difference: %v", rule, diff, noticed)
		}
	}
}
