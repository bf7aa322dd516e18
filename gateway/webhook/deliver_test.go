package webhook_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// An approval request and its outcome are delivered, signed, with what a person needs. Votes on a
// request that stays open are not.
func TestDelivery(t *testing.T) {
	w := gatewaytest.New(t)
	_, rc := shorten(t, w, nil)
	k := w.A.Propose("s1", "r1", "c1", gatewaytest.Deploy, `{"version":"1.2"}`).Key
	q := rc.next()
	n := q.notice
	if n.Type != webhook.TypeRequestOpened || n.Call.Key != k || n.Call.Input != `{"version":"1.2"}` || n.Waiting == nil || n.Waiting.Parts[0].Quorum != 2 || n.ID != q.id || n.Space != "alpha" || n.Seq != n.Call.Seq || n.Seq == 0 {
		t.Errorf("the approval request was delivered as %s", q.body)
	}
	if !verify(secretBytes, q) || verify([]byte("another"), q) {
		t.Errorf("the signature %q is not verified as expected", q.signatures)
	}
	if n.Links == nil || !strings.HasPrefix(n.Links.Approve, "https://askance.example/inbox/link?token=") || n.Links.Approve == n.Links.Reject || !strings.Contains(n.Links.Request, "call=c1") {
		t.Errorf("links: %+v", n.Links)
	}
	w.A.Approve(gatewaytest.Ann, k)
	w.A.Approve(gatewaytest.Bob, k)
	w.A.Finished(k)
	if o := rc.next(); o.notice.Type != webhook.TypeCallFinished || o.notice.Call.Result == nil || len(o.notice.Call.Votes) != 2 || o.notice.Links.Approve != "" || !verify(secretBytes, o) {
		t.Errorf("then received %s", o.body)
	}
	w.B.Ask("s1", "r1", "elsewhere") // in another space
	w.A.Ask("s1", "r1", "c2")
	if g := rc.next(); g.notice.Call.Call != "c2" {
		t.Errorf("then received %s", g.body)
	}
}

// Values that rules redact are never sent.
func TestRedacted(t *testing.T) {
	w := gatewaytest.New(t)
	_, rc := shorten(t, w, nil)
	k := w.A.Propose("s1", "r1", "c1", gatewaytest.Login, `{"user":"u","password":"hunter2"}`).Key
	for range 2 {
		g := rc.next()
		if strings.Contains(string(g.body), "hunter2") || g.notice.Call.Request.Salt != "" || !strings.Contains(g.notice.Call.Input, "[redacted") {
			t.Errorf("a secret was sent: %s", g.body)
		}
		if g.notice.Type == webhook.TypeRequestOpened {
			w.A.Approve(gatewaytest.Ann, k)
		}
	}
}

// A destination receives only what it asked for.
func TestFilter(t *testing.T) {
	w := gatewaytest.New(t)
	_, rc := shorten(t, w, func(d *webhook.Destination) {
		d.Events, d.Tools = []webhook.Event{webhook.EventRequest}, []string{"pay", "sh*"}
	})
	w.A.Propose("s1", "r1", "c1", gatewaytest.Echo, `{}`)
	w.A.Propose("s1", "r1", "c2", gatewaytest.Deploy, `{}`)
	k := w.A.Propose("s1", "r1", "c3", gatewaytest.Ship, `{}`).Key
	w.A.Reject(gatewaytest.Ann, k, "")
	w.A.Ask("s1", "r1", "c4")
	for _, want := range []message.CallID{"c3", "c4"} {
		if g := rc.next(); g.notice.Call.Call != want && want == "c4" { // c3 may be resolved before it is sent
			t.Errorf("received %s, want %s", g.body, want)
		} else if g.notice.Call.Call == "c4" {
			return
		}
	}
}

// A message that is not accepted is sent again with the same id, and secrets can be replaced.
func TestRetry(t *testing.T) {
	old := []byte("an older secret of 24 bytes or more")
	for name, refuse := range map[string]func(http.ResponseWriter, *http.Request){
		"error":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"refused": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"silence": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"cut":     func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"busy": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := gatewaytest.New(t)
			_, rc := shorten(t, w, func(d *webhook.Destination) {
				d.Timeout = time.Second
				d.Secrets = append(d.Secrets, secret(t, old))
			})
			var (
				mu      sync.Mutex // guards refused and since: the next request may come before the first handler returns
				refused got
				since   time.Time
			)
			rc.answer(func(w http.ResponseWriter, r *http.Request, g got) {
				if r.URL.Path == "/elsewhere" {
					t.Error("a redirection was followed")
				}
				mu.Lock()
				refuses := refused.id == "" && g.notice.Call.Session == "s1"
				if refuses {
					refused, since = g, time.Now()
				}
				mu.Unlock()
				if refuses {
					refuse(w, r)
				}
			})
			k := w.A.Ask("s1", "r1", "c1")
			g := rc.next()
			mu.Lock()
			first, at := refused, since
			mu.Unlock()
			if first.id != "" && g.stamp == first.stamp && name != "cut" && name != "silence" && g.id == first.id && string(g.body) == string(first.body) {
				g = rc.next() // the receiver records the first after its response
			}
			if g.id != first.id || string(g.body) != string(first.body) || !verify(secretBytes, g) || !verify(old, g) || g.notice.Call.Key != k {
				t.Errorf("first %s %s\nthen %s %s", first.id, first.body, g.id, g.body)
			}
			if name == "busy" && time.Since(at) < time.Second {
				t.Error("Retry-After was not respected")
			}
		})
	}
}

// If an approval request was resolved in the meantime, no late notice about it is sent.
func TestStale(t *testing.T) {
	w := gatewaytest.New(t)
	h, rc := shorten(t, w, func(d *webhook.Destination) { d.Attempts = 1 })
	_ = h
	seen := 0
	rc.answer(func(rw http.ResponseWriter, _ *http.Request, g got) {
		if g.notice.Type == webhook.TypeRequestOpened && g.notice.Call.Session == "s1" {
			seen++
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	k := w.A.Ask("s1", "r1", "c1")
	rc.next()
	letters := deadLetters(t, w, 1)
	rc.answer(nil)
	w.A.Reject(gatewaytest.Ann, k, "no")
	if g := rc.next(); g.notice.Type != webhook.TypeCallFinished {
		t.Errorf("then received %s", g.body)
	}
	fate, err := h.Retry(t.Context(), "bot", letters[0].Seq)
	if err != nil || fate != webhook.FateStale || seen != 1 {
		t.Errorf("a dead letter about a resolved approval request: %s, %v; it was sent %d times", fate, err, seen)
	}
	deadLetters(t, w, 0)
}

// deadLetters waits until there are n dead letters.
func deadLetters(t *testing.T, w *gatewaytest.World, n int) []toolcall.DeadLetter {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), gatewaytest.Patience)
	defer cancel()
	for o := w.A.Outbox(); ; <-time.After(10 * time.Millisecond) {
		all, err := o.DeadLetters(ctx)
		if err != nil {
			t.Fatalf("there are not %d dead letters: %v", n, err)
		}
		if len(all) == n {
			return all
		}
	}
}

// After the last attempt a dead letter is kept until an operator retries or drops it. A status of
// 410 makes any attempt the last.
func TestDeadLetters(t *testing.T) {
	w := gatewaytest.New(t)
	h, rc := shorten(t, w, func(d *webhook.Destination) { d.Attempts = 3 })
	status := http.StatusBadGateway
	rc.answer(func(rw http.ResponseWriter, _ *http.Request, _ got) { rw.WriteHeader(status) })
	k := w.A.Ask("s1", "r1", "c1")
	l := deadLetters(t, w, 1)[0]
	if l.Destination != "bot" || l.Attempts != 3 || l.Error != "the receiver answered 502" || l.At.IsZero() {
		t.Errorf("the dead letter is %+v", l)
	}
	for range 3 {
		rc.next()
	}
	_, err := h.Retry(t.Context(), "bot", l.Seq)
	if !errors.Is(err, message.ErrUnavailable) || deadLetters(t, w, 1)[0].Attempts != 4 {
		t.Errorf("a manual retry that fails: %v", err)
	}
	rc.next()
	rc.answer(nil)
	if fate, err := h.Retry(t.Context(), "bot", l.Seq); err != nil || fate != webhook.FateDelivered {
		t.Errorf("a manual retry: %s, %v", fate, err)
	}
	if g := rc.next(); g.notice.Call.Key != k || g.notice.Seq != l.Seq {
		t.Errorf("then received %s", g.body)
	}
	if _, err := h.Retry(t.Context(), "bot", l.Seq); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("a second manual retry: %v", err)
	}
	rc.answer(func(rw http.ResponseWriter, _ *http.Request, _ got) { rw.WriteHeader(http.StatusGone) })
	w.A.Ask("s1", "r1", "c2")
	if l = deadLetters(t, w, 1)[0]; l.Attempts != 1 {
		t.Errorf("after 410 the dead letter is %+v", l)
	}
	if _, err := h.Drop(t.Context(), "bot", l.Seq); err != nil {
		t.Error(err)
	}
	deadLetters(t, w, 0)
}

// What happens while no gateway or no receiver runs is delivered later.
func TestDownForAWhile(t *testing.T) {
	w := gatewaytest.New(t)
	rc := newReceiver(t)
	d := everything(t, rc.url)
	stop := run(t, newHooks(t, w.A, nil, d))
	w.A.Followed(d.Name)
	stop()
	k := w.A.Ask("s1", "r1", "c1")
	refused := make(chan struct{}, 100)
	rc.answer(func(rw http.ResponseWriter, _ *http.Request, g got) {
		rw.WriteHeader(http.StatusBadGateway)
		refused <- struct{}{}
	})
	stop = run(t, newHooks(t, w.A, nil, d))
	<-refused
	stop()
	rc.answer(nil)
	run(t, newHooks(t, w.A, nil, d))
	for g := rc.next(); ; g = rc.next() {
		if g.notice.Call.Key != k || g.notice.Type != webhook.TypeRequestOpened {
			t.Errorf("received %s", g.body)
		}
		if len(rc.news) == 0 {
			break
		}
	}
	if shown, err := w.A.Outbox().DeadLetters(t.Context()); err != nil || len(shown) > 0 {
		t.Errorf("dead letters: %v, %v", shown, err)
	}
}

// Errors say what is wrong and contain neither the address nor the receiver's reply.
func TestErrorsKeepSecrets(t *testing.T) {
	odd, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer odd.Close()
	go func() {
		for {
			c, err := odd.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "private-reply\r\n\r\n")
			c.Close()
		}
	}()
	stranger := httptest.NewUnstartedServer(http.NotFoundHandler())
	stranger.Config.ErrorLog = log.New(io.Discard, "", 0)
	stranger.StartTLS()
	defer stranger.Close()
	unknown := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "private.example"}}
	}}
	for _, tt := range []struct {
		url  string
		by   http.RoundTripper
		want string
	}{
		{"http://" + odd.Addr().String() + "/private", nil, "does not speak HTTP"},
		{"http://127.0.0.1:1/private", nil, "refused"},
		{stranger.URL + "/private", nil, "certificate"},
		{"https://private.example/private", unknown, "resolved"},
	} {
		d := everything(t, tt.url)
		_, err := webhook.Try(t.Context(), d, tt.by)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "private") || strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: %v, want %q without the address and the reply", tt.url, err, tt.want)
		}
	}
}

// Two gateways share the work.
func TestTwoGateways(t *testing.T) {
	w := gatewaytest.New(t)
	rc := newReceiver(t)
	d := everything(t, rc.url)
	run(t, newHooks(t, w.A, nil, d))
	run(t, newHooks(t, w.A, nil, d))
	w.A.Followed(d.Name)
	const n = 20
	for i := range n {
		w.A.Ask("s1", "r1", "c"+string(rune('a'+i)))
	}
	ids := map[string]int{}
	for range n {
		ids[rc.next().id]++
	}
	w.A.Ask("s1", "r1", "last")
	if g := rc.next(); g.notice.Call.Call != "last" || len(ids) != n {
		t.Errorf("%d messages about %d approval requests, then %s", len(ids), n, g.body)
	}
}

// lossy is an outbox that fails once between a delivery and its acknowledgement.
type lossy struct {
	webhook.Outbox
	died chan struct{}
}

func (l lossy) Follow(ctx context.Context, destination string, f func(context.Context, toolcall.Delivery)) error {
	return l.Outbox.Follow(ctx, destination, func(ctx context.Context, d toolcall.Delivery) {
		if c := d.Record.Record.Call; c != nil && c.Session == "s1" && d.Attempt == 1 {
			d.Done = func(context.Context) error { close(l.died); return errors.New("killed") }
		}
		f(ctx, d)
	})
}

// early is an outbox that delivers each record first before reads show it. Records of the call old
// are from long ago.
type early struct {
	webhook.Outbox
	paused, done chan message.CallID
}

func (e early) Follow(ctx context.Context, destination string, f func(context.Context, toolcall.Delivery)) error {
	return e.Outbox.Follow(ctx, destination, func(ctx context.Context, d toolcall.Delivery) {
		if c := d.Record.Record.Call; c != nil && d.Attempt == 1 {
			record, again, done := *d.Record.Record, d.Again, d.Done
			record.At = record.At.Add(-toolcall.ReadLag) // the clock of the engine is behind
			if c.Call == "old" {
				d.Record.Time = d.Record.Time.Add(-toolcall.ReadLag)
			}
			d.Record.Record, d.Record.Seq = &record, d.Record.Seq+1000
			d.Again = func(time.Duration) error { e.paused <- c.Call; return again(0) }
			d.Done = func(ctx context.Context) error { e.done <- c.Call; return done(ctx) }
		}
		f(ctx, d)
	})
}

// A request is not taken for resolved because its state was read as it was before.
func TestDeliveredBeforeItsStateCanBeRead(t *testing.T) {
	w := gatewaytest.New(t)
	rc := newReceiver(t)
	d := everything(t, rc.url)
	box := early{w.A.Outbox(), make(chan message.CallID, 8), make(chan message.CallID, 8)}
	run(t, newHooks(t, w.A, func(cfg *webhook.Config) { cfg.Outbox = box }, d))
	w.A.Followed(d.Name)
	w.A.Ask("s1", "r1", "old")
	select {
	case <-box.done:
	case <-box.paused:
		t.Error("a record from long ago was put off")
	}
	w.A.Ask("s1", "r1", "c1")
	select {
	case <-box.paused:
	case <-box.done:
		t.Fatal("a record was not put off, whose state could not be read yet")
	}
	if g := rc.next(); g.notice.Call.Call != "c1" {
		t.Errorf("received %s", g.body)
	}
}

// A receiver that does not answer delays no other destination, also not one at the same host.
func TestSilentReceiver(t *testing.T) {
	const atOnce = 64 // of one destination in the outbox
	asked := make(chan struct{}, atOnce)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // then the end of the connection is noticed
		if r.URL.Path == "/silent" {
			asked <- struct{}{}
			<-r.Context().Done()
		}
	}))
	defer srv.Close()
	silent, live := everything(t, srv.URL+"/silent"), everything(t, srv.URL+"/live")
	silent.Name = "silent"
	h, err := webhook.New(webhook.Config{Space: &gateway.Space{ID: "a"}, Outbox: struct{ webhook.Outbox }{}, Destinations: []webhook.Destination{silent, live}})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	notice := &webhook.Notice{Type: webhook.TypeCallFinished, ID: "msg_1", Call: &toolcall.Call{}}
	for range atOnce {
		wg.Go(func() { _ = h.Send(ctx, "silent", notice) }) // it ends with ctx
	}
	for range atOnce {
		<-asked
	}
	if err := h.Send(ctx, live.Name, notice); err != nil {
		t.Errorf("the live destination: %v", err)
	}
}
