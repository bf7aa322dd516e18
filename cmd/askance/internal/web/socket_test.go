package web

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
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

// No browser can open a link to a server that has only a socket.
func TestNoPublicAddress(t *testing.T) {
	if got := new(Web).publicOf("default"); got != "" {
		t.Errorf("browsers are sent to %q", got)
	}
}
