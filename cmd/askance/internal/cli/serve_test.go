package cli_test

import (
	"path/filepath"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
)

// TestServeStaysOnLoopback: the embedded server proves nobody's name, so that
// other machines reach it only if somebody said so.
func TestServeStaysOnLoopback(t *testing.T) {
	clean(t)
	data := filepath.Join(t.TempDir(), "data")
	for _, listen := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "server.example:0"} {
		fails(t, cli.ExitUsage, "may act as anybody", "serve", "--data", data, "--listen", listen)
	}
	// These get further, to a tools file that is not there.
	none := filepath.Join(t.TempDir(), "none.yaml")
	for _, args := range [][]string{
		{"--listen", "127.0.0.2:0"}, {"--listen", "[::1]:0"}, {"--listen", "localhost:0"}, {"--listen", "0.0.0.0:0", "--insecure"},
		{"--listen", "0.0.0.0:0", "--nats", "nats://127.0.0.1:1"},
	} {
		fails(t, cli.ExitNotFound, "none.yaml", append([]string{"serve", "--data", data, "--tools", none}, args...)...)
	}
}

// TestServeSaysThatItIsOpen starts a server beyond loopback on purpose.
func TestServeSaysThatItIsOpen(t *testing.T) {
	clean(t)
	s := serveOn(t, filepath.Join(t.TempDir(), "data"), "--listen", "0.0.0.0:0", "--insecure")
	if !s.open {
		t.Error("serve does not say that it is open beyond loopback")
	}
}
