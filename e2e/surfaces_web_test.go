package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// webSurface is the web inbox, in a real Chromium.
type webSurface struct {
	h     *house
	token string
	ctx   context.Context   //nolint:containedctx // the tab, as chromedp identifies it
	forms map[string]string // the form with which the page would approve, by session
}

func newWebSurface(h *house, token string) *webSurface {
	t := h.t
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil && path == "" {
			path = p
		}
	}
	if path == "" {
		t.Fatal("Chromium is needed: apt-get install -y chromium")
	}
	profile, err := os.MkdirTemp("", "askance-chromium-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(profile) }) // a process of the browser may still write into it
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(profile), chromedp.NoSandbox, chromedp.WSURLReadTimeout(patience), chromedp.Flag("disable-dev-shm-usage", true))
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, end := chromedp.NewContext(alloc)
	t.Cleanup(func() { end(); stop() })
	s := &webSurface{h: h, token: token, ctx: ctx, forms: map[string]string{}}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 900)); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	s.login()
	return s
}

func (s *webSurface) do(actions ...chromedp.Action[chromedp.Void]) {
	s.h.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, soon)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		s.h.t.Fatalf("the browser: %v\n%s", err, s.text())
	}
}

// eval evaluates an expression, and awaits a promise.
func (s *webSurface) eval(js string) string {
	s.h.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, soon)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[string](js, chromedp.EvalAwaitPromise))
	if err != nil {
		s.h.t.Fatalf("evaluate %s: %v", js, err)
	}
	return v
}

// until waits for a condition of the page.
func (s *webSurface) until(js string) {
	s.h.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, soon)
	defer cancel()
	poll := chromedp.Poll[bool]("(() => { try { return Boolean("+js+"); } catch { return false; } })()", chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(soon))
	for {
		_, err := chromedp.Run(ctx, poll)
		if err == nil {
			return
		}
		if ctx.Err() != nil || !strings.Contains(err.Error(), "context") { // the page that was evaluated is gone
			s.h.t.Fatalf("waiting for %s: %v\n%s", js, err, s.text())
		}
	}
}

func (s *webSurface) see(text string) {
	s.h.t.Helper()
	s.until(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

func (s *webSurface) text() string {
	ctx, cancel := context.WithTimeout(s.ctx, soon)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body?.innerText`)) // for a message
	return text
}

// goTo loads a page and waits until it is connected.
func (s *webSurface) goTo(path string) {
	s.h.t.Helper()
	s.do(chromedp.Navigate("http://" + s.h.http + path))
	s.until(`document.querySelector("#live").dataset.live === "on"`)
}

func (a approval) page(do string) string {
	v := url.Values{"session": {a.session}, "reply": {a.reply}, "call": {a.call}}
	if do != "" {
		v.Set("do", do)
	}
	return "/inbox/call?" + v.Encode()
}

func (s *webSurface) login() {
	s.h.t.Helper()
	s.do(chromedp.Navigate("http://"+s.h.http+"/login"), chromedp.Focus(chromedp.CSS("#token")))
	ctx, cancel := context.WithTimeout(s.ctx, soon)
	defer cancel()
	if _, err := chromedp.Call(ctx, input.InsertText, input.InsertTextParams{Text: s.token}); err != nil {
		s.h.t.Fatal(err)
	}
	s.do(chromedp.Click(chromedp.CSS("main button")), chromedp.WaitVisible(chromedp.CSS("#live")))
	s.until(`document.querySelector("#live").dataset.live === "on"`)
}

func (*webSurface) who() string { return "wes" }

// shown finds the approval request in the list and opens it and its approval form.
func (s *webSurface) shown(q approval) {
	s.h.t.Helper()
	s.goTo("/inbox")
	s.see(q.text())
	s.goTo(q.page("approve"))
	s.see(q.text())
	s.see(q.digest)
	s.forms[q.session] = s.eval(`(() => { const f = document.querySelector("#panel"); return JSON.stringify([f.getAttribute("action"), new URLSearchParams(new FormData(f)).toString()]); })()`)
}

// answer rejects with feedback for the model.
func (s *webSurface) answer(q approval) {
	s.h.t.Helper()
	s.goTo(q.page("reject"))
	s.do(chromedp.Focus(chromedp.CSS("#feedback")))
	ctx, cancel := context.WithTimeout(s.ctx, soon)
	defer cancel()
	if _, err := chromedp.Call(ctx, input.InsertText, input.InsertTextParams{Text: "not today"}); err != nil {
		s.h.t.Fatal(err)
	}
	s.do(chromedp.Click(chromedp.CSS("#panel .main-action")))
	s.see("You rejected")
}

var (
	webVerdict = regexp.MustCompile(`(?:Closed|Decided): (?:edited and )?(approv|reject|respond)ed[a-z ]* by ([a-z]+)`)
	verdicts   = map[string]string{"approv": "approve", "reject": "reject", "respond": "respond"}
)

func (s *webSurface) waitForOutcome(q approval, now bool) ending {
	s.h.t.Helper()
	if !now {
		s.goTo(q.page(""))
	}
	s.until(`document.querySelector("#over") && !document.querySelector("#bar") && !document.querySelector("#panel .main-action")`)
	text := s.text()
	m := webVerdict.FindStringSubmatch(text)
	if m == nil {
		s.h.t.Fatalf("the web inbox does not say who resolved it:\n%s", text)
	}
	return ending{Verdict: verdicts[m[1]], By: m[2]}
}

func (*webSurface) tells(e ending, _ bool) ending { return ending{Verdict: e.Verdict, By: e.By} }

// late sends the form that was on the page, like a page that has not been updated.
func (s *webSurface) late(q approval) conflict {
	s.h.t.Helper()
	raw := s.eval(fmt.Sprintf(`(async () => {
		const [action, body] = JSON.parse(%q);
		const r = await fetch(action, {method: "POST", body, headers: {"Content-Type": "application/x-www-form-urlencoded"}});
		return JSON.stringify({Status: r.status, Text: (await r.text()).replace(/<[^>]*>/g, "")});
	})()`, s.forms[q.session]))
	var got struct {
		Status int
		Text   string
	}
	if err := json.Unmarshal([]byte(raw), &got); err != nil {
		s.h.t.Fatal(err)
	}
	_, by, ok := strings.Cut(got.Text, "too late, it was ")
	_, by, _ = strings.Cut(by, " by ")
	if !ok || got.Status != 409 {
		s.h.t.Errorf("too late, the web inbox gets %d\n%s", got.Status, got.Text)
	}
	return conflict{Code: fmt.Sprint(got.Status), By: regexp.MustCompile(`^[a-z]+`).FindString(by)}
}

func (*webSurface) tooLate() conflict { return conflict{Code: "409", By: "yes"} }

// reconnect opens the console again; a login survives a restart of the server.
func (s *webSurface) reconnect() { s.goTo("/inbox") }
