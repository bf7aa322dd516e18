package web

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/webhook"
)

// A server warns at its start of a socket that its clients will refuse.
func TestSocketFolderWarning(t *testing.T) {
	root, err := os.MkdirTemp("", "askance") //nolint:usetesting // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	for mode, warned := range map[os.FileMode]bool{0o755: false, 0o775: true} {
		if err := os.Chmod(root, mode); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		l, err := ListenSocket(t.Context(), Config{Socket: Socket{Path: filepath.Join(root, "s")}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close() // nothing was served
		if got := strings.Contains(log.String(), "other users can write to "+root) && strings.Contains(log.String(), "mode 755"); got != warned {
			t.Errorf("mode %o: warned %v, the log is %q", mode, got, &log)
		}
	}
}

// No browser can open a link to a server that has only a socket. Messages of webhooks then have none.
func TestNoPublicAddress(t *testing.T) {
	if got := new(Web).publicOf("default"); got != "" {
		t.Errorf("browsers are sent to %q", got)
	}
	for public, want := range map[string]bool{"": false, "https://x.example": true} {
		w := &Web{cfg: Config{
			Space: &gateway.Space{ID: "default"}, Public: public, LinkKey: [32]byte{1}, Webhooks: make([]webhook.Destination, 1),
			Outbox: func(context.Context) (Outbox, error) { return struct{ Outbox }{}, nil },
		}}
		if err := w.openWebhooks(t.Context()); err != nil || (w.links != nil) != want {
			t.Errorf("with the address %q: links %v, %v", public, w.links, err)
		}
	}
}
