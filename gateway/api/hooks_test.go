package api_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway/api"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// hooksOf returns webhooks of space A with a receiver, whose status code can be set.
func hooksOf(t *testing.T, g *gatewaytest.World) (*webhook.Webhooks, *atomic.Int32) {
	t.Helper()
	status := &atomic.Int32{}
	status.Store(http.StatusBadGateway)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	t.Cleanup(srv.Close)
	secret, err := webhook.ParseSecret("whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef")))
	if err != nil {
		t.Fatal(err)
	}
	h, err := webhook.New(webhook.Config{Space: g.A.Gateway(), Outbox: g.A.Outbox(), Destinations: []webhook.Destination{
		{Name: "bot", URL: srv.URL, Secrets: []webhook.Secret{secret}, Events: []webhook.Event{webhook.EventRequest}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return h, status
}

// addDeadLetter creates a dead letter about an open approval request.
func addDeadLetter(t *testing.T, w *world, call string) (path string, seq uint64) {
	t.Helper()
	seq = w.A.Show(w.A.Ask("s1", "r1", call)).Seq
	err := w.A.Outbox().AddDeadLetter(t.Context(), toolcall.DeadLetter{Destination: "bot", Seq: seq, Attempts: 8, Error: "the receiver answered 502", At: time.Now().UTC()})
	if err != nil {
		t.Fatal(err)
	}
	return "/v1/webhooks/dead/bot/" + strconv.FormatUint(seq, 10), seq
}

// Only operators of the space can see dead letters, retry them and drop them.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	var status *atomic.Int32
	w := newWorldWith(t, func(g *gatewaytest.World, cfg *api.Config) { cfg.Webhooks, status = hooksOf(t, g) })
	const list = "/v1/webhooks/dead"
	path, seq := addDeadLetter(t, w, "c1")
	for _, name := range []string{gatewaytest.Bot, gatewaytest.Ann, gatewaytest.Audie, gatewaytest.Wendy} {
		c := w.A.HTTP(name)
		w.refused(c, http.MethodGet, list, "", http.StatusForbidden, message.CodeForbidden)
		w.refused(c, http.MethodPost, path+"/retry", "", http.StatusForbidden, message.CodeForbidden)
		w.refused(c, http.MethodDelete, path, "", http.StatusForbidden, message.CodeForbidden)
	}
	elsewhere := w.B.HTTP(gatewaytest.Olga)
	w.refused(elsewhere, http.MethodGet, list, "", http.StatusNotFound, message.CodeNotFound)
	w.refused(elsewhere, http.MethodPost, path+"/retry", "", http.StatusNotFound, message.CodeNotFound)
	w.refused(elsewhere, http.MethodDelete, path, "", http.StatusNotFound, message.CodeNotFound)

	olga := w.A.HTTP(gatewaytest.Olga)
	w.refused(olga, http.MethodPost, path+"/retry", `{"to":"https://elsewhere.example"}`, http.StatusBadRequest, message.CodeInvalid)
	w.refused(olga, http.MethodPost, list+"/bot/x/retry", "", http.StatusBadRequest, message.CodeInvalid)
	w.refused(olga, http.MethodPost, list+"/another/1/retry", "", http.StatusNotFound, message.CodeNotFound)
	w.refused(olga, http.MethodPost, path+"/retry", "", http.StatusServiceUnavailable, message.CodeUnavailable)
	var all api.DeadLettersReply
	w.ok(olga, http.MethodGet, list, "", &all)
	if len(all.DeadLetters) != 1 || all.DeadLetters[0].Seq != seq || all.DeadLetters[0].Attempts != 9 {
		t.Fatalf("the dead letters are %+v", all)
	}
	status.Store(http.StatusNoContent)
	fate := func(method, path, want string, header ...string) {
		t.Helper()
		var f api.FateReply
		if w.ok(olga, method, path, "", &f, header...); string(f.Fate) != want {
			t.Errorf("%s %s: %s", method, path, f.Fate)
		}
	}
	fate(http.MethodPost, path+"/retry", "delivered", "Idempotency-Key", "k1")
	fate(http.MethodPost, path+"/retry", "delivered", "Idempotency-Key", "k1") // the reply to the first request
	w.refused(olga, http.MethodPost, path+"/retry", "", http.StatusNotFound, message.CodeNotFound)

	path, _ = addDeadLetter(t, w, "c2")
	fate(http.MethodDelete, path, "dropped")
	w.ok(olga, http.MethodGet, list, "", &all)
	if len(all.DeadLetters) != 0 {
		t.Errorf("the remaining dead letters are %+v", all)
	}
}

func TestNoWebhooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.refused(w.A.HTTP(gatewaytest.Olga), http.MethodGet, "/v1/webhooks/dead", "", http.StatusNotFound, message.CodeNotFound)
	if p.Detail == "" || p.Hint == "" {
		t.Errorf("the refusal is %+v", p)
	}
}
