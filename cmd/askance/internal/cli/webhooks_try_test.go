package cli_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
)

// A trial message is signed, comes once, and what came back is said.
func TestWebhooksTest(t *testing.T) {
	clean(t)
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
	write(t, file, "version: 1\ndestinations:\n  - {name: bot, url: "+srv.URL+"/secret, events: [question], secrets: [{env: HOOK_SECRET}]}\n  - {name: chat, url: "+srv.URL+", events: [question], format: slack}\n")
	out := decode[struct {
		ID    string
		Taken bool
	}](t, ok(t, "webhooks", "test", "bot", "--json", "--webhooks", file))
	if got := <-news; !out.Taken || !strings.HasPrefix(got, out.ID+" v1,") || !strings.Contains(got, `{"type":"ping","id":"`+out.ID+`"`) {
		t.Errorf("printed %+v, came %s", out, got)
	}
	if text := ok(t, "webhooks", "test", "chat", "--webhooks", file); !strings.HasPrefix(text, "Taken: msg_ping_") {
		t.Errorf("printed %s", text)
	}
	if got := <-news; !strings.Contains(got, `"blocks":[`) {
		t.Errorf("came %s", got)
	}
	status.Store(http.StatusForbidden)
	fails(t, cli.ExitUnavailable, "the receiver answered 403", "webhooks", "test", "bot", "--webhooks", file)
	fails(t, cli.ExitNotFound, "no destination other", "webhooks", "test", "other", "--webhooks", file)
	fails(t, cli.ExitUsage, "--webhooks FILE", "webhooks", "test", "bot")
	fails(t, cli.ExitUsage, "name of one destination", "webhooks", "test")
	if len(news) != 1 {
		t.Errorf("%d more messages came, want one", len(news))
	}
}
