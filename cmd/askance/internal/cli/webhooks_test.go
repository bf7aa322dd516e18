package cli_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/toolcall"
)

// patience is how long a test waits for something that must happen soon.
const patience = 2 * time.Minute

// told contains what these tests read of a message of a webhook.
type told struct {
	Type  string        `json:"type"`
	Call  toolcall.Call `json:"call"`
	Links struct {
		Approve string `json:"approve"`
	} `json:"links"`
}

// listenFor starts a receiver and returns the file that names it.
func listenFor(t *testing.T) (file string, news chan told) {
	t.Helper()
	news = make(chan told, 1000)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var n told
		b, err := io.ReadAll(r.Body)
		if err == nil {
			err = strictjson.UnmarshalOpen(b, &n)
		}
		if err != nil || r.Header.Get("webhook-signature") == "" {
			t.Errorf("read a message: %v", err)
		}
		news <- n
	}))
	t.Cleanup(srv.Close)
	t.Setenv("HOOK_SECRET", "whsec_"+base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef")))
	file = filepath.Join(t.TempDir(), "hooks.yaml")
	write(t, file, "version: 1\ndestinations:\n  - {name: bot, url: "+srv.URL+", events: [request, outcome], secrets: [{env: HOOK_SECRET}]}\n")
	return file, news
}

func hear(t *testing.T, news chan told, call string) told {
	t.Helper()
	for {
		select {
		case n := <-news:
			if strings.HasPrefix(string(n.Call.Call), call) {
				return n
			}
		case <-time.After(patience):
			t.Fatalf("no message about %s arrived", call)
		}
	}
}

// TestServeWebhooks: approval requests are sent, and a link leads to the inbox. After a restart,
// requests from the meantime are sent and the link is still valid.
func TestServeWebhooks(t *testing.T) {
	cleanEnvironment(t)
	file, news := listenFor(t)
	data, tools := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "tools.yaml")
	write(t, tools, "version: 1\ntools:\n  - {name: pay, placement: external}\n  - {name: warm, placement: external}\n")
	s := serveOn(t, data, "--tools", tools, "--webhooks", file)
	for i, end := 0, time.Now().Add(patience); len(news) == 0 && time.Now().Before(end); i++ { // the destination may start a little later
		s.propose("w"+strconv.Itoa(i), "warm"+strconv.Itoa(i), "warm", `{}`)
		<-time.After(50 * time.Millisecond)
	}
	s.propose("r1", "c1", "pay", `{"cents":5}`)
	n := hear(t, news, "c1")
	if n.Type != "request.opened" || n.Call.Input != `{"cents":5}` {
		t.Errorf("received %+v", n)
	}
	s.stop()
	s = serveOn(t, data, "--tools", tools, "--webhooks", file)
	_, query, _ := strings.Cut(n.Links.Approve, "?")
	if code, page := fetch(t, s.http+"/inbox/link?"+query); code != http.StatusOK || !strings.Contains(page, "Approve: run exactly this") {
		t.Errorf("the link leads to %d\n%s", code, page)
	}
	ok(t, "reject", "c1", "--yes", "--data", data)
	then := hear(t, news, "c1")
	for then.Type == n.Type { // the stop may have interrupted the delivery, which is then repeated
		then = hear(t, news, "c1")
	}
	if then.Type != "call.finished" {
		t.Errorf("then received %s", then.Type)
	}
}

func TestServeWebhooksRefused(t *testing.T) {
	cleanEnvironment(t)
	data, file := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "hooks.yaml")
	write(t, file, "version: 1\ndestinations:\n  - {name: bot, url: https://x.example, events: [request]}\n")
	fails(t, cli.ExitUsage, "secrets: none", "serve", "--data", data, "--listen", "127.0.0.1:0", "--webhooks", file)
	fails(t, cli.ExitUsage, "--http off", "serve", "--data", data, "--listen", "127.0.0.1:0", "--webhooks", file, "--http", "off")
	fails(t, cli.ExitNotFound, "no such file", "serve", "--data", data, "--listen", "127.0.0.1:0", "--webhooks", file+"x")
}

// TestWebhooksCommands lists, retries and drops dead letters.
func TestWebhooksCommands(t *testing.T) {
	cleanEnvironment(t)
	var status atomic.Int32
	status.Store(http.StatusGone)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	t.Cleanup(srv.Close)
	data, tools, file := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "tools.yaml"), filepath.Join(t.TempDir(), "hooks.yaml")
	write(t, tools, "version: 1\ntools:\n  - {name: pay, placement: external}\n")
	write(t, file, "version: 1\ndestinations:\n  - {name: bot, url: "+srv.URL+", events: [request], format: slack}\n")
	s := serveOn(t, data, "--tools", tools, "--webhooks", file, "--metrics", "127.0.0.1:0")
	var list struct {
		DeadLetters []toolcall.DeadLetter `json:"dead_letters"`
	}
	if text := ok(t, "webhooks", "list", "--url", s.http); text != "No dead letters.\n" {
		t.Errorf("without dead letters: %q", text)
	}
	for i, end := 0, time.Now().Add(patience); len(list.DeadLetters) == 0 && time.Now().Before(end); i++ {
		s.propose("w"+strconv.Itoa(i), "w"+strconv.Itoa(i), "pay", `{"n":`+strconv.Itoa(i)+`}`)
		list = decode[struct {
			DeadLetters []toolcall.DeadLetter `json:"dead_letters"`
		}](t, ok(t, "webhooks", "list", "--json", "--url", s.http))
		ok(t, "reject", "w"+strconv.Itoa(i), "--yes", "--data", data)
	}
	if len(list.DeadLetters) == 0 {
		t.Fatal("there is no dead letter")
	}
	l := list.DeadLetters[0]
	found, r := regexp.MustCompile(`warning +webhooks +\d+ dead letters?: .*\n.* webhooks list --data `+data), result{}
	for end := time.Now().Add(patience); !found.MatchString(r.out) && time.Now().Before(end); { // a slow disk may make it stop at "ready"
		r = run(t, "doctor", "--data", data)
	}
	if !found.MatchString(r.out) {
		t.Errorf("doctor prints\n%s", r.out)
	}
	if text := scrapeAll(t, s.metrics); !regexp.MustCompile(`(?m)^askance_dead_letters [1-9]`).MatchString(text) || !strings.Contains(text, `askance_webhook_waiting_records{destination="bot"} `) {
		t.Errorf("no dead letter in\n%s", text)
	}
	if text := ok(t, "webhooks", "list", "--url", s.http); !strings.Contains(text, "the receiver answered 410") {
		t.Errorf("list:\n%s", text)
	}
	seq := strconv.FormatUint(l.Seq, 10)
	for words, want := range map[string]string{"retry": "bot\n", "drop bot": seq + "\n", "drop other": ":4\n", "test --webhooks " + file: "bot\n"} {
		args := append([]string{"__complete", "webhooks"}, strings.Fields(words)...)
		if args[2] != "test" {
			args = append(args, "--data", data)
		}
		if out := ok(t, append(args, "")...); !strings.HasPrefix(out, want) {
			t.Errorf("completion of webhooks %s:\n%s", words, out)
		}
	}
	if out := ok(t, "webhooks", "drop", "bot", seq, "--data", data); out != "Dropped.\n" {
		t.Errorf("drop: %s", out)
	}
	for _, verb := range []string{"retry", "drop"} {
		fails(t, cli.ExitNotFound, "there is no dead letter "+seq+` for "bot"`, "webhooks", verb, "bot", seq, "--url", s.http)
	}
	fails(t, cli.ExitUsage, "is not a message number", "webhooks", "retry", "bot", "x", "--url", s.http)
	fails(t, cli.ExitUnavailable, "does not answer: connection refused\nhint:", "webhooks", "list", "--url", "http://127.0.0.1:1")
	fails(t, cli.ExitUsage, "has no TLS, so the token", "webhooks", "list", "--url", "http://192.0.2.1:8787")
	fails(t, cli.ExitUnavailable, "not as askance does", "webhooks", "list", "--url", srv.URL)
}

// A server that is killed after the receiver got a message, but before that was recorded, sends
// it again with the same id.
func TestWebhooksSurviveAKill(t *testing.T) {
	cleanEnvironment(t)
	dir := t.TempDir()
	ids, hold, held := make(chan string, 1000), make(chan struct{}), atomic.Bool{}
	held.Store(true)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ids <- r.Header.Get("webhook-id")
		if held.Load() {
			<-hold // no reply while the first server runs
		}
	}))
	t.Cleanup(srv.Close)
	t.Setenv("HOOK_URL", srv.URL)
	tools, file, data := filepath.Join(dir, "tools.yaml"), filepath.Join(dir, "hooks.yaml"), filepath.Join(dir, "data")
	write(t, tools, "version: 1\ntools:\n  - {name: pay, placement: external}\n")
	write(t, file, "version: 1\ndestinations:\n  - {name: bot, url_env: HOOK_URL, format: slack, events: [request], timeout: 60s}\n")
	s, kill := serveProcess(t, data, "--http", "127.0.0.1:0", "--tools", tools, "--webhooks", file)
	first := ""
	for i, end := 0, time.Now().Add(patience); first == "" && time.Now().Before(end); i++ { // the destination may start a little later
		s.propose("w"+strconv.Itoa(i), "w"+strconv.Itoa(i), "pay", `{}`)
		select {
		case first = <-ids:
		case <-time.After(100 * time.Millisecond):
		}
	}
	kill()
	if first == "" {
		t.Fatal("no message arrived")
	}
	held.Store(false)
	close(hold)
	serveOn(t, data, "--tools", tools, "--webhooks", file)
	for end := time.After(10 * time.Minute); ; {
		select {
		case id := <-ids:
			if id == first {
				return
			}
		case <-end:
			t.Fatalf("%s was not sent again", first)
		}
	}
}

// A test message is signed and sent once, and the reply is printed.
func TestWebhooksTest(t *testing.T) {
	cleanEnvironment(t)
	var status atomic.Int32
	status.Store(http.StatusNoContent)
	news := make(chan string, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read a message: %v", err)
		}
		news <- r.Header.Get("webhook-id") + " " + r.Header.Get("webhook-signature") + " " + string(b)
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(srv.Close)
	t.Setenv("HOOK_SECRET", "whsec_"+base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef")))
	file := filepath.Join(t.TempDir(), "hooks.yaml")
	write(t, file, "version: 1\ndestinations:\n  - {name: bot, url: "+srv.URL+"/secret, events: [request], secrets: [{env: HOOK_SECRET}]}\n  - {name: chat, url: "+srv.URL+", events: [request], format: slack}\n")
	out := decode[struct {
		ID    string
		Taken bool
	}](t, ok(t, "webhooks", "test", "bot", "--json", "--webhooks", file))
	if got := <-news; !out.Taken || !strings.HasPrefix(got, out.ID+" v1,") || !strings.Contains(got, `{"type":"ping","id":"`+out.ID+`"`) {
		t.Errorf("printed %+v, received %s", out, got)
	}
	if text := ok(t, "webhooks", "test", "chat", "--webhooks", file); !strings.HasPrefix(text, "Accepted: msg_ping_") {
		t.Errorf("printed %s", text)
	}
	if got := <-news; !strings.Contains(got, `"blocks":[`) {
		t.Errorf("received %s", got)
	}
	status.Store(http.StatusForbidden)
	fails(t, cli.ExitUnavailable, "the receiver answered 403", "webhooks", "test", "bot", "--webhooks", file)
	fails(t, cli.ExitNotFound, "no destination other", "webhooks", "test", "other", "--webhooks", file)
	fails(t, cli.ExitUsage, "--webhooks is missing", "webhooks", "test", "bot")
	fails(t, cli.ExitUsage, "expected one destination", "webhooks", "test")
	if len(news) != 1 {
		t.Errorf("%d more messages came, want one", len(news))
	}
}

// A destination that was removed from the webhooks file keeps old replies in the journal. The archive
// names it, and it can be forgotten once no engine serves it.
func TestWebhooksForget(t *testing.T) {
	parallel(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(srv.Close)
	s := audited(t)
	s.stop()
	file := filepath.Join(t.TempDir(), "hooks.yaml")
	write(t, file, "version: 1\ndestinations:\n  - {name: bot, url: "+srv.URL+", events: [outcome], format: slack}\n")
	s = serveOn(t, s.data, "--webhooks", file)
	var r result
	for end := time.Now().Add(patience); !strings.Contains(r.err, "an engine serves the destination") && time.Now().Before(end); { // it may start a little later
		r = run(t, "webhooks", "forget", "bot", "--yes", "--data", s.data)
	}
	if r.code == cli.ExitOK || !strings.Contains(r.err, "restart the engines") {
		t.Fatalf("forget a destination that is served: %+v", r)
	}
	s.finish(3)
	s.stop()
	archive := []string{"journal", "archive", "--older-than", "0s", "--dry-run", "--data", s.data}
	if out := ok(t, archive...); !strings.Contains(out, "2 old replies stay: the destination bot of webhooks has not received ") || !strings.Contains(out, "webhooks forget bot --data "+s.data) || !strings.Contains(out, "Nothing can be archived.") {
		t.Errorf("archive printed\n%s", out)
	}
	done := decode[journal.Archiving](t, ok(t, append(archive, "--json")...))
	if h := done.HeldBack; len(h) != 1 || h[0].Name != "bot" || h[0].Replies != 2 || h[0].Waiting == 0 {
		t.Errorf("held back: %+v", h)
	}
	fails(t, cli.ExitNotFound, "NATS knows bot", "webhooks", "forget", "bt", "--yes", "--data", s.data)
	fails(t, cli.ExitUsage, "pass --yes to remove the destination and its undelivered messages", "webhooks", "forget", "bot", "--data", s.data)
	if out := ok(t, "webhooks", "forget", "bot", "--yes", "--data", s.data); !strings.Contains(out, "Removed bot. Messages about ") || !strings.Contains(out, " will never be sent to it.") {
		t.Errorf("forget printed %s", out)
	}
	if out := ok(t, archive...); !strings.Contains(out, "Would archive 2 replies, 2 calls") || strings.Contains(out, "webhooks") {
		t.Errorf("archive printed\n%s", out)
	}
}

// The Slack example works unchanged, and an approval request is sent.
func TestSlackExample(t *testing.T) {
	examples, err := filepath.Abs("../../../../examples")
	if err != nil {
		t.Fatal(err)
	}
	examples += "/"
	cleanEnvironment(t)
	news := make(chan string, 1000)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read a message: %v", err)
		}
		news <- string(b)
	}))
	t.Cleanup(srv.Close)
	t.Setenv("SLACK_WEBHOOK_URL", srv.URL)
	s := serveOn(t, filepath.Join(t.TempDir(), "data"), "--policy", examples+"policy-file/policy.yaml", "--tools", examples+"policy-file/tools.yaml", "--webhooks", examples+"slack-webhook/hooks.yaml")
	for i, end := 0, time.Now().Add(patience); time.Now().Before(end); i++ { // the destination may start a little later
		s.propose("r"+strconv.Itoa(i), "c"+strconv.Itoa(i), "refund", `{"order":"A-1042","cents":19900}`)
		select {
		case text := <-news:
			if !strings.Contains(text, "Approval needed: Refund order A-1042?") || !strings.Contains(text, "/inbox/link?token=") {
				t.Errorf("received %s", text)
			}
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Error("no message arrived")
}
