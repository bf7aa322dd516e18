package console_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/console"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/toolcall"
)

// patience is how long a test waits for a result.
const patience = gatewaytest.Patience

// chromium is the one browser that all tests share.
var chromium context.Context

func TestMain(m *testing.M) {
	os.Exit(withBrowser(m))
}

func withBrowser(m *testing.M) int {
	path, err := findChromium()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "askance-chromium-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", false), chromedp.WSURLReadTimeout(patience))
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	defer stop()
	var end context.CancelFunc
	chromium, end = chromedp.NewContext(alloc) //nolint:fatcontext // made once
	defer end()
	if err := chromedp.Do(chromium); err != nil {
		fmt.Fprintln(os.Stderr, "start Chromium:", err)
		return 1
	}
	return m.Run()
}

func findChromium() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			return p, nil
		}
	}
	return "", errors.New("these tests need Chromium: apt-get install -y chromium")
}

// world returns a gateway with the inbox.
func world(t *testing.T, opts ...gatewaytest.Option) *gatewaytest.World {
	t.Helper()
	opts = append([]gatewaytest.Option{gatewaytest.Auth(gatewaytest.Cookies{}), gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface {
		return []gateway.Surface{console.New()}
	})}, opts...)
	return gatewaytest.New(t, opts...)
}

// page is a tab of the browser, with its own cookies. Tests use it one after the other, because a
// new one costs a window with all its processes.
type page struct {
	ctx  context.Context //nolint:containedctx // it is the tab: what chromedp knows of it
	user atomic.Pointer[tab]
}

// idle are the pages that no test uses. The tests of this package run one after the other.
var idle []*page

// tab is a page while one test uses it.
type tab struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // that of its page
	w   *gatewaytest.World

	mu       sync.Mutex // guards the fields below
	requests []string
	trouble  []string // what the console reports
	allowed  []string // reports that a test expects
}

// open opens a tab for a person of space A, 1280 pixels wide.
func open(t *testing.T, w *gatewaytest.World, who string) *tab {
	t.Helper()
	b := &tab{t: t, w: w}
	p := b.idlePage()
	b.ctx = p.ctx
	p.user.Store(b)
	command(b, network.SetCookie, network.SetCookieParams{Name: "who", Value: "alpha." + who, URL: w.URL})
	b.do(chromedp.EmulateViewport(1280, 900))
	t.Cleanup(func() {
		b.quiet()
		if !t.Failed() {
			b.leave()
			p.user.Store(nil)
			idle = append(idle, p)
		}
	})
	return b
}

// idlePage returns a page that no test uses, in front of all others.
func (b *tab) idlePage() *page {
	b.t.Helper()
	if n := len(idle); n > 0 {
		p := idle[n-1]
		idle = idle[:n-1]
		b.ctx = p.ctx
		command(b, cdppage.BringToFront, cdp.Empty{})
		return p
	}
	p := &page{}
	var cancel context.CancelFunc
	p.ctx, cancel = chromedp.NewContext(chromium, chromedp.WithNewBrowserContext(), chromedp.WithListener(func(ev any) {
		if b := p.user.Load(); b != nil {
			b.hear(ev)
		}
	}))
	_ = cancel                                 // the browser ends all its tabs
	if err := chromedp.Do(p.ctx); err != nil { // the tab lives as long as this context
		b.t.Fatal("open a tab: ", err)
	}
	b.ctx = p.ctx
	command(b, network.Enable, network.EnableParams{})
	command(b, cdplog.Enable, cdp.Empty{})
	return p
}

// leave undoes what a test did to its page.
func (b *tab) leave() {
	b.t.Helper()
	b.do(chromedp.Navigate("about:blank"))
	command(b, network.ClearBrowserCookies, cdp.Empty{})
	command(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{})
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{})
}

func (b *tab) hear(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, ev.Request.URL)
	case *cdplog.EventEntryAdded:
		b.trouble = append(b.trouble, string(ev.Entry.Source)+": "+ev.Entry.Text+" "+ev.Entry.URL)
	case *runtime.EventExceptionThrown:
		b.trouble = append(b.trouble, "exception: "+ev.ExceptionDetails.Text+" "+ev.ExceptionDetails.Exception.Description)
	case *runtime.EventConsoleAPICalled:
		if ev.Type == "error" || ev.Type == "warning" {
			b.trouble = append(b.trouble, fmt.Sprintf("console: %s", ev.Args[0].Value))
		}
	}
}

// expect allows the console to report this.
func (b *tab) expect(trouble string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.allowed = append(b.allowed, trouble)
}

// quiet fails if the tab sent a request to another server or the console reported an error, such
// as a violation of the content security policy.
func (b *tab) quiet() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.requests {
		if !strings.HasPrefix(r, b.w.URL+"/") && r != "about:blank" && !strings.HasPrefix(r, "data:") {
			b.t.Errorf("a request to another server: %s", r)
		}
	}
next:
	for _, s := range b.trouble {
		for _, a := range b.allowed {
			if strings.Contains(s, a) {
				continue next
			}
		}
		b.t.Errorf("the console reports: %s", s)
	}
}

// do runs actions.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.save("failed")
		b.t.Fatalf("the browser failed: %v\n%s", err, b.text())
	}
}

// command runs one command of the DevTools protocol.
func command[P, R any](b *tab, c cdp.Command[P, R], params P) R {
	b.t.Helper()
	r, err := chromedp.Call(b.ctx, c, params)
	if err != nil {
		b.t.Fatalf("the browser failed: %v", err)
	}
	return r
}

// goTo loads a page and waits until its live updates are connected.
func (b *tab) goTo(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.w.URL + path))
	b.until(`document.querySelector("#live").dataset.live === "on"`)
}

// callPath returns the path of a call's page.
func callPath(k toolcall.Key) string {
	q := url.Values{"session": {string(k.Session)}, "reply": {string(k.Reply)}, "call": {string(k.Call)}}
	return "/inbox/call?" + q.Encode()
}

// until waits for a condition in JavaScript.
func (b *tab) until(js string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	poll := chromedp.Poll[bool]("(() => { try { return Boolean("+js+"); } catch { return false; } })()", chromedp.WithPollingInterval(30*time.Millisecond), chromedp.WithPollingTimeout(patience))
	for {
		_, err := chromedp.Run(ctx, poll)
		if err == nil {
			return
		}
		if ctx.Err() != nil || !strings.Contains(err.Error(), "context") && !strings.Contains(err.Error(), "navigated") { // the page that was evaluated is gone
			b.save("failed")
			b.t.Fatalf("waiting for %s: %v\n%s", js, err, b.text())
		}
	}
}

// see waits until the page shows the texts.
func (b *tab) see(texts ...string) {
	b.t.Helper()
	for _, s := range texts {
		b.until(fmt.Sprintf("document.body.innerText.includes(%q)", s))
	}
}

// gone waits until a selector matches nothing.
func (b *tab) gone(selector string) {
	b.t.Helper()
	b.until(fmt.Sprintf("!document.querySelector(%q)", selector))
}

// text returns the text of the page.
func (b *tab) text() string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	s, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + "\n" + (document.activeElement?.id ?? "") + "\n" + [...document.querySelectorAll("input, textarea")].map((i) => i.name + "=" + i.value).join(" ") + "\n" + document.body?.innerText`)) // for a message
	return s
}

// eval evaluates an expression.
func eval[T any](b *tab, js string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](js))
	if err != nil {
		b.t.Fatalf("evaluate %s: %v", js, err)
	}
	return v
}

func (b *tab) click(selector string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

// press presses keys as a person does.
func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		if len(k) > 1 || k < " " { // a named key of package kb
			b.do(chromedp.KeyEvent(k))
			continue
		}
		command(b, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: "keyDown", Key: k, Text: k})
		command(b, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: "keyUp", Key: k})
	}
}

// dark sets the preferred colour scheme.
func (b *tab) dark(on bool) {
	b.t.Helper()
	scheme := "light"
	if on {
		scheme = "dark"
	}
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// artifacts is the folder for screenshots, outside of git.
const artifacts = "artifacts"

var shots = flag.Bool("shots", false, "save screenshots of all pages in "+artifacts)

// shot saves a screenshot of the page if the flag shots is set.
func (b *tab) shot(name string) {
	b.t.Helper()
	if *shots {
		b.save(name)
	}
}

// save saves a screenshot of the page.
func (b *tab) save(name string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Logf("no screenshot of %s: %v", name, err)
		return
	}
	if err := os.MkdirAll(artifacts, 0o755); err != nil {
		b.t.Fatal(err)
	}
	file := strings.ReplaceAll(b.t.Name(), "/", "-") + "-" + name + ".png"
	if err := os.WriteFile(filepath.Join(artifacts, file), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// await evaluates a promise and returns its value.
func await[T any](b *tab, js string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("evaluate: %v", err)
	}
	return v
}

// write replaces the text of a field, as a person does who selects all and types.
func (b *tab) write(selector, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.querySelector(%q)?.offsetParent", selector))
	b.do(chromedp.Focus(chromedp.CSS(selector)))
	eval[bool](b, fmt.Sprintf("(document.querySelector(%q).select(), true)", selector))
	command(b, input.InsertText, input.InsertTextParams{Text: text})
	b.until(fmt.Sprintf("document.querySelector(%q).value === %q", selector, text))
}

// choose selects an option of a list.
func (b *tab) choose(selector, value string) {
	b.t.Helper()
	b.do(chromedp.SetValue(chromedp.CSS(selector), value))
}

// whole saves a screenshot of the whole page, regardless of its length, if the flag shots is set.
func (b *tab) whole(name string) {
	b.t.Helper()
	if !*shots {
		return
	}
	height := eval[int64](b, "document.documentElement.scrollHeight")
	b.do(chromedp.EmulateViewport(1440, height))
	b.save(name + "-whole")
	b.do(chromedp.EmulateViewport(1280, 900))
}
