package console_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	cdppage "github.com/chromedp/cdproto/page"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// A page says that it is not up to date if its stream only ticks and never gets ready.
func TestStreamThatIsNeverReady(t *testing.T) {
	b := open(t, world(t), gatewaytest.Ann)
	b.goTo("/inbox")
	got := await[map[string]bool](b, `(async () => {
		const live = await import(performance.getEntriesByType("resource").map((e) => e.name).find((n) => n.includes("live")));
		const timers = new Map();
		let last = 0, stream;
		window.EventSource = class extends EventTarget { constructor() { super(); stream = this; } close() {} };
		window.setTimeout = (f) => { timers.set(++last, f); return last; };
		window.clearTimeout = (id) => timers.delete(id);
		const begin = () => live.open({ changed() {}, progress() {}, told() {}, back: async () => true });
		const tick = () => { const watchdog = last; stream.dispatchEvent(new Event("tick")); return timers.get(watchdog); };
		begin();
		stream.dispatchEvent(new Event("ready"));
		const ready = !tick();
		begin();
		tick()?.();
		return { ready, stale: !document.getElementById("stale").hidden };
	})()`)
	if !got["ready"] || !got["stale"] {
		t.Errorf("a tick after ready keeps the stream: %v; without ready the page is marked as stale: %v", got["ready"], got["stale"])
	}
}

// A tab that is not visible gives up its stream, because a browser has six connections for all tabs:
// seven tabs could neither load a page nor send a response. When the tab is visible again it is up to
// date, and does not say that the connection was lost.
func TestHiddenTab(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	b.goTo("/inbox")
	visible := func(is bool) {
		eval[bool](b, fmt.Sprintf(`(Object.defineProperty(document, "hidden", { value: %v, configurable: true }), document.dispatchEvent(new Event("visibilitychange")))`, !is))
	}
	eval[bool](b, `((real) => { window.setTimeout = (f, ms) => real(f, ms === 5000 ? 0 : ms); window.ended = 0; const close = EventSource.prototype.close; EventSource.prototype.close = function () { window.ended++; close.call(this); }; })(window.setTimeout), true`)
	visible(false)
	b.until(`window.ended === 1`)
	w.A.Ask("s1", "r1", "c1")
	visible(true)
	b.until(`document.querySelector("#live").dataset.live === "on" && document.querySelectorAll(".row").length === 1`)
	if said := eval[string](b, `document.querySelector("#said").textContent`); strings.Contains(said, "onnected") {
		t.Errorf("the page says %q", said)
	}
	eval[bool](b, `(window.Notification = class { static permission = "granted"; }, localStorage.setItem("askance-notify", "1"), window.ended = 0, true)`)
	visible(false)
	w.A.Ask("s1", "r1", "c2")
	b.until(`document.querySelectorAll(".row").length === 2`)
	if closed := eval[int](b, `(localStorage.clear(), window.ended)`); closed != 0 {
		t.Error("a tab that is to notify gave up its stream")
	}
}

// Of the tabs that are to notify, only the oldest keeps its stream. When it is closed, the next one
// opens its stream.
func TestHiddenTabs(t *testing.T) {
	w := world(t)
	b := open(t, w, gatewaytest.Ann)
	id := command(b, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: `
		navigator.locks.request("askance-stream", () => new Promise((close) => { window.closeOlder = close; }));
		window.Notification = class { static permission = "granted"; };
		localStorage.setItem("askance-notify", "1");
		window.streams = [];
		window.EventSource = class extends EventSource { constructor(url) { super(url); window.streams.push(this); } };
		window.setTimeout = ((real) => (f, ms) => real(f, ms === 5000 ? 0 : ms))(window.setTimeout);
		window.setInterval = ((real) => (f, ms) => real(f, ms === 15000 ? 20 : ms))(window.setInterval);`}).Identifier
	defer command(b, cdppage.RemoveScriptToEvaluateOnNewDocument, cdppage.RemoveScriptToEvaluateOnNewDocumentParams{Identifier: id})
	b.goTo("/inbox")
	defer eval[bool](b, `(localStorage.clear(), true)`)
	eval[bool](b, `(Object.defineProperty(document, "hidden", { value: true }), document.dispatchEvent(new Event("visibilitychange")))`)
	b.until(`window.streams.every((s) => s.readyState === EventSource.CLOSED)`)
	eval[bool](b, `(window.closeOlder(), true)`)
	b.until(`window.streams.at(-1).readyState === EventSource.OPEN && document.querySelector("#live").dataset.live === "on"`)
}

// The cost of a change with 100 open inboxes does not grow with 1,000 more open requests.
// Allocated bytes are the measure, because they do not depend on what else the machine does.
func TestWatchers(t *testing.T) {
	const watchers, many = 100, 1000
	w := world(t)
	asked := 0
	measure := func() (size uint64, spent time.Duration) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ready, updated := make(chan error, watchers), make(chan error, watchers)
		for range watchers {
			go func() {
				if err := watchInbox(ctx, w.URL, ready, updated); ctx.Err() == nil {
					ready <- err
				}
			}()
		}
		wait := func(from chan error) {
			for range watchers {
				if err := <-from; err != nil {
					t.Fatal(err)
				}
			}
		}
		wait(ready)
		for range 3 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := processorTime()
			asked++
			w.A.Ask(fmt.Sprint("change", asked), "r1", "c1")
			wait(updated)
			took := processorTime() - began
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; size == 0 || n < size {
				size, spent = n, took
			}
		}
		return size, spent
	}
	few, fewTime := measure()
	for i := range many / 50 {
		calls := make([]message.ToolCallBlock, 50)
		for k := range calls {
			calls[k] = message.ToolCallBlock{ID: message.CallID(fmt.Sprint("c", k)), Name: gatewaytest.Pay, Input: gatewaytest.PayInput, State: message.ToolCallPending}
		}
		if _, err := w.A.Client(gatewaytest.Bot).Propose(t.Context(), toolcall.ProposeRequest{Session: message.SessionID(fmt.Sprint("s", i)), Reply: "r1", Calls: calls}); err != nil {
			t.Fatal(err)
		}
	}
	most, mostTime := measure()
	for try := 1; try < 3 && most > few+few/4; try++ { // other goroutines of the process allocate too
		most, mostTime = measure()
	}
	t.Logf("with %d inboxes, a change allocates %d kB (%v of processor time) with few open requests, and %d kB (%v) with %d", watchers, few>>10, fewTime, most>>10, mostTime, many)
	if most > few+few/4 {
		t.Errorf("a change allocates %d kB with %d open requests, and %d kB with few", most>>10, many, few>>10)
	}
}

func readPage(ctx context.Context, address string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	r.AddCookie(&http.Cookie{Name: "who", Value: "alpha." + gatewaytest.Ann})
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", address, res.Status)
	}
	return res.Body, nil
}

// watchInbox reads the row of each call that changes, as the script on the page does.
func watchInbox(ctx context.Context, server string, ready, updated chan<- error) error {
	stream, err := readPage(ctx, server+"/inbox/events")
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	lines := bufio.NewScanner(stream)
	for event := ""; lines.Scan(); {
		name, is := strings.CutPrefix(lines.Text(), "event: ")
		data, has := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case is:
			if event = name; event == "ready" {
				ready <- nil
			}
		case has && event == "changed":
			var c struct{ Key string }
			err := json.Unmarshal([]byte(data), &c)
			if err == nil {
				var rows io.ReadCloser
				if rows, err = readPage(ctx, server+"/inbox/rows?"+url.Values{"k": {c.Key}}.Encode()); err == nil {
					_, err = io.Copy(io.Discard, rows)
					_ = rows.Close()
				}
			}
			select {
			case updated <- err:
			case <-ctx.Done():
				return nil
			}
		}
	}
	return nil
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
