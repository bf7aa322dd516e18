package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/gateway/webhook"
)

func TestMain(m *testing.M) { gatewaytest.Main(m) }

// secretBytes is the signing key of these tests.
var secretBytes = []byte("0123456789abcdef0123456789abcdef")

func secret(t *testing.T, b []byte) webhook.Secret {
	t.Helper()
	s, err := webhook.ParseSecret("whsec_" + base64.StdEncoding.EncodeToString(b))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// got is one request that a receiver got.
type got struct {
	id, stamp, signatures string
	body                  []byte
	notice                webhook.Notice
}

// receiver is a program elsewhere. It accepts everything unless take says otherwise.
type receiver struct {
	t    *testing.T
	url  string
	news chan got

	mu   sync.Mutex // guards the fields below
	take func(w http.ResponseWriter, r *http.Request, g got)
}

// newReceiver listens on loopback.
func newReceiver(t *testing.T) *receiver {
	t.Helper()
	rc := &receiver{t: t, news: make(chan got, 1000)}
	srv := httptest.NewServer(rc)
	t.Cleanup(srv.Close)
	rc.url = srv.URL + "/hook/very-secret-path"
	return rc
}

func (rc *receiver) answer(f func(w http.ResponseWriter, r *http.Request, g got)) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.take = f
}

// ServeHTTP records each request.
func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		rc.t.Errorf("read a message: %v", err)
	}
	g := got{id: r.Header.Get("webhook-id"), stamp: r.Header.Get("webhook-timestamp"), signatures: r.Header.Get("webhook-signature"), body: b}
	if bytes.HasPrefix(b, []byte(`{"type"`)) {
		if err := json.NewDecoder(bytes.NewReader(b)).Decode(&g.notice); err != nil {
			rc.t.Errorf("a message is not a notice: %v\n%s", err, b)
		}
	}
	rc.mu.Lock()
	take := rc.take
	rc.mu.Unlock()
	if take != nil {
		take(w, r, g)
	}
	rc.news <- g
}

// next returns the next request.
func (rc *receiver) next() got {
	rc.t.Helper()
	select {
	case g := <-rc.news:
		return g
	case <-time.After(gatewaytest.Patience):
		rc.t.Fatal("the receiver got nothing")
		return got{}
	}
}

// verify checks a signature with code of its own, as a receiver does.
func verify(key []byte, g got) bool {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(g.id + "." + g.stamp + "." + string(g.body)))
	want := "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
	for s := range strings.FieldsSeq(g.signatures) {
		if hmac.Equal([]byte(s), []byte(want)) {
			return true
		}
	}
	return false
}

// everything returns a destination that receives everything.
func everything(t *testing.T, url string) webhook.Destination {
	return webhook.Destination{Name: "bot", URL: url, Secrets: []webhook.Secret{secret(t, secretBytes)}, Events: []webhook.Event{webhook.EventRequest, webhook.EventEscalation, webhook.EventOutcome}}
}

var linkKey = [32]byte{1, 2, 3}

func newLinks(t *testing.T, s *gatewaytest.Space) *webhook.Links {
	t.Helper()
	l, err := webhook.NewLinks(webhook.LinksConfig{Space: s.ID, Key: linkKey, Public: "https://askance.example/", UseOnce: s.Outbox().UseOnce})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// quick contains short pauses for tests with a real clock.
var quick = []time.Duration{10 * time.Millisecond}

func newHooks(t *testing.T, s *gatewaytest.Space, change func(*webhook.Config), all ...webhook.Destination) *webhook.Webhooks {
	t.Helper()
	cfg := webhook.Config{Space: s.Gateway(), Outbox: s.Outbox(), Destinations: all, Links: newLinks(t, s), Pauses: quick, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	h, err := webhook.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// run delivers until stop is called.
func run(t *testing.T, h *webhook.Webhooks) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { h.Run(ctx, nil); close(done) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// shorten runs webhooks with one destination and returns them with its receiver.
func shorten(t *testing.T, w *gatewaytest.World, change func(*webhook.Destination)) (*webhook.Webhooks, *receiver) {
	t.Helper()
	rc := newReceiver(t)
	d := everything(t, rc.url)
	if change != nil {
		change(&d)
	}
	h := newHooks(t, w.A, nil, d)
	run(t, h)
	w.A.Followed(d.Name)
	return h, rc
}
