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

// TestServeRefusesAPolicyInOneDocument: at a cold start no last good policy
// stays in force, so nothing is logged beside the error.
func TestServeRefusesAPolicyInOneDocument(t *testing.T) {
	clean(t)
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	write(t, bad, "version: 1\nname: x\nrules: [{name: a, behavior: perhaps}]\n")
	for path, code := range map[string]int{bad: cli.ExitUsage, filepath.Join(dir, "none.yaml"): cli.ExitNotFound} {
		r := fails(t, code, filepath.Base(path), "serve", "--json", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--policy", path)
		doc := decode[struct {
			Error struct{ Exit int } `json:"error"`
		}](t, r.err)
		if doc.Error.Exit != code {
			t.Errorf("%s: the document says exit %d, want %d", path, doc.Error.Exit, code)
		}
	}
}
