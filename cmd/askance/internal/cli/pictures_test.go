package cli_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/askance-dev/askance/internal/clitest"
)

const (
	// maxPicture is the maximum size of a picture in the documents.
	maxPicture = 150 << 10
	// minColours is fewer than the picture of a page has, but more than an empty page has.
	minColours = 40
)

// picture is a picture that README.md shows.
type picture struct {
	name, path    string
	width, height int64
	see           string // text on the page
}

const picturedCall = "/inbox/call?session=support-7&reply=turn-9&call=call-9"

var pictures = []picture{
	{"console", "/", 1280, 800, "refund"},
	{"request", picturedCall, 1280, 800, "large-refunds"},
	{"phone", picturedCall, 390, 780, "Approve"},
}

// TestPictures takes the pictures of the documents from a server with a worker and checks the
// existing ones. Pixels may differ; -update (make pictures) writes new ones.
func TestPictures(t *testing.T) {
	folder := filepath.Join(clitest.Testdata, "../../../../../docs/images")
	cleanEnvironment(t)
	s := shopWithRequests(t)
	b := openBrowser(t)
	ann := strings.TrimSpace(ok(t, "token", "create", "ann", "--role", "approver", "--role", "operator", "--data", s.data))
	b.login(s.http, ann)
	for _, p := range pictures {
		t.Run(p.name, func(t *testing.T) {
			got := b.take(t, s.http, p)
			checkPicture(t, "the new picture", got, p)
			file := filepath.Join(folder, p.name+".png")
			if *clitest.Update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			kept, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			checkPicture(t, file, kept, p)
		})
	}
}

func checkPicture(t *testing.T, what string, raw []byte, p picture) {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if size := img.Bounds().Size(); int64(size.X) != p.width || int64(size.Y) != p.height {
		t.Errorf("%s is %v, want %d by %d", what, size, p.width, p.height)
	}
	if len(raw) > maxPicture {
		t.Errorf("%s has %d bytes, at most %d", what, len(raw), maxPicture)
	}
	if n := countColours(img); n < minColours {
		t.Errorf("%s has %d colours, so the page is empty", what, n)
	}
}

// paletted reduces a picture to its 256 most frequent colours.
func paletted(img image.Image) image.Image {
	count := map[color.Color]int{}
	bounds := img.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			count[img.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	out := image.NewPaletted(bounds, color.Palette(colours[:min(len(colours), 256)]))
	nearest := map[color.Color]uint8{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c := img.At(x, y)
			if _, known := nearest[c]; !known {
				nearest[c] = uint8(out.Palette.Index(c))
			}
			out.SetColorIndex(x, y, nearest[c])
		}
	}
	return out
}

func countColours(img image.Image) int {
	seen := map[color.Color]bool{}
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y += 3 {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
			seen[img.At(x, y)] = true
		}
	}
	return len(seen)
}

// shopWithRequests returns a server with finished, denied and open calls.
func shopWithRequests(t *testing.T) *served {
	t.Helper()
	example := filepath.Join(clitest.Testdata, "pictures")
	data := filepath.Join(t.TempDir(), "data")
	tokens := map[string]string{}
	for _, agent := range []string{"support-bot", "release-bot"} {
		tokens[agent] = strings.TrimSpace(ok(t, "token", "create", agent, "--role", "runtime", "--data", data))
	}
	s := serveOn(t, data, "--policy", filepath.Join(example, "rules.yaml"), "--tools", filepath.Join(example, "tools.yaml"), "--http-tokens", filepath.Join(data, "tokens.json"))
	work(t, s)
	for i := range 8 {
		propose(t, s, tokens["support-bot"], i, "support-7", "lookup_order", fmt.Sprintf(`{"order":"A-%d"}`, 1040+i))
	}
	for i, c := range []struct{ agent, session, tool, input string }{
		{"support-bot", "support-7", "refund", `{"order":"A-1042","cents":19900,"currency":"EUR","reason":"parcel lost in transit"}`},
		{"support-bot", "support-8", "refund", `{"order":"A-1044","cents":900,"currency":"EUR","reason":"late delivery"}`},
		{"support-bot", "support-9", "refund", `{"order":"A-1047","cents":250000,"currency":"EUR","reason":"customer insists"}`},
		{"support-bot", "support-9", "refund", `{"order":"A-1047","cents":64000,"currency":"EUR","reason":"double charge"}`},
		{"release-bot", "release-31", "shell", `{"command":"go test ./..."}`},
		{"release-bot", "release-31", "shell", `{"command":"git push --force origin main"}`},
		{"release-bot", "release-31", "shell", `{"command":"kubectl rollout restart deploy/checkout -n prod"}`},
		{"release-bot", "release-31", "deploy", `{"service":"checkout","version":"4.12.0","env":"staging"}`},
		{"release-bot", "release-31", "deploy", `{"service":"checkout","version":"4.12.0","env":"prod"}`},
		{"support-bot", "support-8", "send_mail", `{"to":["kim@example.com","lee@example.com"],"subject":"Your parcel is on its way","text":"Dear customer, …"}`},
	} {
		propose(t, s, tokens[c.agent], 9+i, c.session, c.tool, c.input)
	}
	mia := strings.TrimSpace(ok(t, "token", "create", "mia", "--role", "approver", "--data", data))
	post(t, s.http+"/v1/calls/release-31/turn-17/call-17/response", mia, fmt.Sprintf(`{"kind":"approve","digest":%q}`, digestOf(t, s, mia, "release-31/turn-17/call-17")))
	return s
}

// work starts a worker for the tools of the shop.
func work(t *testing.T, s *served) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], "worker", "--as", "shop-worker", "--data", s.data, "--tool", "lookup_order", "--tool", "refund", "--tool", "shell", "--tool", "deploy", "--", "sh", "-c", "cat >/dev/null; echo done")
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Wait() }) // the process was interrupted
}

func propose(t *testing.T, s *served, token string, n int, session, tool, arguments string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"agent":      strings.SplitN(session, "-", 2)[0],
		"tool_calls": []any{map[string]any{"type": "tool_call", "id": fmt.Sprint("call-", n), "name": tool, "input": arguments}},
	})
	if err != nil {
		t.Fatal(err)
	}
	post(t, fmt.Sprintf("%s/v1/sessions/%s/replies/turn-%d/calls", s.http, session, n), token, string(body))
}

func digestOf(t *testing.T, s *served, token, call string) string {
	t.Helper()
	return decode[struct{ Call struct{ Digest string } }](t, request(t, http.MethodGet, s.http+"/v1/calls/"+call, token, "")).Call.Digest
}

func post(t *testing.T, url, token, body string) {
	t.Helper()
	request(t, http.MethodPost, url, token, body)
}

func request(t *testing.T, method, url, token, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s %v\n%s", method, url, res.Status, err, b)
	}
	return string(b)
}

// browser is a tab of Chromium.
type browser struct {
	ctx context.Context //nolint:containedctx // it is the tab: what chromedp knows of it
}

func openBrowser(t *testing.T) browser {
	t.Helper()
	path := ""
	for _, name := range []string{"google-chrome", "chromium-browser", "chromium"} {
		found, _ := exec.LookPath(name)
		path = cmp.Or(found, path)
	}
	if path == "" {
		t.Fatal("this test needs Chromium: apt-get install -y chromium")
	}
	profile, err := os.MkdirTemp("", "askance-chromium-") //nolint:usetesting // a process of the browser may still write into it when the test ends
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(profile) })
	alloc, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(profile), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(tutorialPatience))...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(alloc)
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return browser{ctx}
}

func (b browser) login(server, token string) {
	_ = chromedp.Do(b.ctx, chromedp.Navigate(server+"/login")) // if this fails, so does take
	_, _ = chromedp.Run(b.ctx, chromedp.Poll[bool](`Boolean(document.querySelector("#token"))`, chromedp.WithPollingTimeout(tutorialPatience)))
	_ = chromedp.Do(b.ctx, chromedp.Focus(chromedp.CSS("#token")))
	_, _ = chromedp.Call(b.ctx, input.InsertText, input.InsertTextParams{Text: token})
	_, _ = chromedp.Run(b.ctx, chromedp.Evaluate[bool](`(document.querySelector("#token").form.requestSubmit(), true)`))
	_, _ = chromedp.Run(b.ctx, chromedp.Poll[bool](`location.pathname !== "/login"`, chromedp.WithPollingTimeout(tutorialPatience)))
}

// take returns a screenshot of a page.
func (b browser) take(t *testing.T, server string, p picture) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, tutorialPatience)
	defer cancel()
	light := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, light); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(p.width, p.height), chromedp.Navigate(server+p.path)); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](fmt.Sprintf(`document.body.innerText.includes(%q) && document.querySelector("#live")?.dataset.live !== "off"`, p.see), chromedp.WithPollingTimeout(tutorialPatience))); err != nil {
		text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("location.href + document.body.innerText")) // for the error message
		t.Fatalf("%s does not show %q: %v\n%s", p.path, p.see, err, text)
	}
	raw, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	var small bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, paletted(img)); err != nil {
		t.Fatal(err)
	}
	return small.Bytes()
}
