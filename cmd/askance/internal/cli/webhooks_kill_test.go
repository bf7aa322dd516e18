package cli_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// A server that is killed after the receiver has a message, and before that is
// on record, sends it again under the same id.
func TestWebhooksSurviveAKill(t *testing.T) {
	clean(t)
	dir := t.TempDir()
	ids, hold, held := make(chan string, 1000), make(chan struct{}), atomic.Bool{}
	held.Store(true)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ids <- r.Header.Get("webhook-id")
		if held.Load() {
			<-hold // no answer while the first server lives
		}
	}))
	t.Cleanup(srv.Close)
	t.Setenv("HOOK_URL", srv.URL)
	tools, file, data := filepath.Join(dir, "tools.yaml"), filepath.Join(dir, "hooks.yaml"), filepath.Join(dir, "data")
	write(t, tools, "version: 1\ntools:\n  - {name: pay, placement: external}\n")
	write(t, file, "version: 1\ndestinations:\n  - {name: bot, url_env: HOOK_URL, format: slack, events: [question], timeout: 60s}\n")
	s, kill := serveProcess(t, data, "--http", "127.0.0.1:0", "--tools", tools, "--webhooks", file)
	first := ""
	for i := 0; first == "" && i < 200; i++ { // a destination begins at some moment
		s.propose("w"+strconv.Itoa(i), "w"+strconv.Itoa(i), "pay", `{}`)
		select {
		case first = <-ids:
		case <-time.After(100 * time.Millisecond):
		}
	}
	kill()
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
			t.Fatalf("%s never came again", first)
		}
	}
}
