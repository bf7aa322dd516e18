package console_test

import (
	"bytes"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/askance-dev/askance/gateway/gatewaytest"
)

var update = flag.Bool("update", false, "write the golden pictures of the pages")

// looks are the pages whose looks are compared with golden pictures.
var looks = []struct {
	name, path, see string
	who             string
}{
	{"inbox", "/inbox", "o-77231", gatewaytest.Ann},
	{"selection", "/inbox/bulk?all=1&do=approve", "Approve all", gatewaytest.Ann},
	{"request", "release", "1 of 2 from group ops", gatewaytest.Ann},
	{"edit", "edit", "These arguments run instead", gatewaytest.Ann},
}

// The viewports of the golden pictures, and how many pixels of the screen are one of
// theirs: glyphs become grey, so other rasterisers of fonts give the same picture.
var views = []struct {
	width, height int64
	reduce        int
}{{1440, 900, 6}, {390, 844, 3}}

// goldenFile is the picture of a page.
func goldenFile(name string, width int64, dark bool) string {
	return filepath.Join("testdata", "looks", fmt.Sprintf("%s-%d-%s.png", name, width, map[bool]string{true: "dark", false: "light"}[dark]))
}

// still makes a page show the same at every time and with the same fonts. Only text that
// changes from run to run is replaced, so what is not text stays as it is.
const still = `(() => {
	for (const s of document.styleSheets) { s.insertRule(':root { --sans: "DejaVu Sans Condensed", "DejaVu Sans"; --mono: "DejaVu Sans Mono" }', s.cssRules.length); s.insertRule('*, *::before, *::after { animation: none !important; transition: none !important; caret-color: transparent !important }', s.cssRules.length); }
	document.activeElement?.blur();
	for (const e of document.querySelectorAll('[data-since], time')) e.textContent = '5m00s ago';
	for (const e of document.querySelectorAll('[data-until]')) e.textContent = '20m00s left';
	for (const e of document.querySelectorAll('code, .id')) if (/^(sha256:)?[0-9a-f]{32,}$/.test(e.textContent)) e.textContent = 'sha256:' + '0'.repeat(64);
	return true;
})()`

// picture is the page in its viewport, reduced.
func (b *tab) picture(reduce int) *image.RGBA {
	b.t.Helper()
	eval[bool](b, still)
	data, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatalf("take a picture: %v", err)
	}
	full, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		b.t.Fatalf("decode a picture: %v", err)
	}
	return shrink(full, reduce)
}

// shrink averages squares of pixels. Five bits of a colour are kept: the files are small.
func shrink(full image.Image, n int) *image.RGBA {
	size := full.Bounds().Size().Div(n)
	out := image.NewRGBA(image.Rectangle{Max: size})
	for y := range size.Y {
		for x := range size.X {
			var sum [3]uint32
			for dy := range n {
				for dx := range n {
					r, g, b, _ := full.At(x*n+dx, y*n+dy).RGBA()
					sum[0], sum[1], sum[2] = sum[0]+r>>8, sum[1]+g>>8, sum[2]+b>>8
				}
			}
			of := func(v uint32) uint8 { return uint8(v/uint32(n*n)) & 0xf8 }
			out.SetRGBA(x, y, color.RGBA{of(sum[0]), of(sum[1]), of(sum[2]), 255})
		}
	}
	return out
}

// Bounds of what is the same look: a pixel may differ a little, and a few pixels much.
const (
	littleOf = 40    // of 255
	fewOf    = 0.004 // of all pixels
)

// differs says how a picture differs from the golden one; "": it does not.
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

// TestLooks compares the pages with golden pictures; -update writes them. A picture that
// differs is in artifacts, next to the whole screen.
func TestLooks(t *testing.T) {
	w := seeded(t)
	tabs := map[string]*tab{}
	for _, p := range looks {
		b := tabs[p.who]
		if b == nil {
			b = open(t, w, p.who)
			tabs[p.who] = b
		}
		for _, v := range views {
			b.do(chromedp.EmulateViewport(v.width, v.height))
			for _, dark := range []bool{false, true} {
				b.dark(dark)
				b.goTo(lookPath(w, p.path))
				b.until(fmt.Sprintf("document.documentElement.textContent.includes(%q)", p.see))
				b.compare(p.name, v.width, v.reduce, dark)
			}
		}
	}
}

// lookPath is the address of a page; the pages of calls depend on the seed.
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
		b.shot(filepath.Base(file))
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

// TestLooksNotice: a style sheet with a mistake gives another picture, and one that
// draws glyphs a little differently does not.
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
			t.Errorf("with %s: %q, noticed: want %v", rule, diff, noticed)
		}
	}
}
