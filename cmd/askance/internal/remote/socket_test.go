package remote_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/remote"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// TestSocketFolder: a client sends nothing to a socket that another user could have put there.
func TestSocketFolder(t *testing.T) {
	root, err := os.MkdirTemp("", "askance") //nolint:usetesting // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	parent, folder := filepath.Join(root, "parent"), filepath.Join(root, "parent", "folder")
	socket, link := filepath.Join(folder, "s"), filepath.Join(root, "link")
	hop := filepath.Join(root, "open", "link") // others can point it elsewhere
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.Symlink(parent, link), os.Mkdir(filepath.Dir(hop), 0o700), os.Chmod(filepath.Dir(hop), 0o777), os.Symlink("../parent", hop), os.Symlink(hop, filepath.Join(root, "far")), os.Mkdir(filepath.Join(root, "open", "inner"), 0o700), os.Symlink("open/inner", filepath.Join(root, "near"))); err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var served atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { served.Add(1); _, _ = io.WriteString(w, "{}") }))
	_ = s.Listener.Close() // it has another
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	for _, row := range []struct {
		root, parent, folder fs.FileMode
		owner                int // of parent
		path                 string
		refused              string
	}{
		{0o700, 0o700, 0o700, 0, socket, ""},
		{0o755, 0o755, 0o755, 0, socket, ""},
		{0o755, 0o755, 0o777, 0, socket, folder},
		{0o755, 0o755, 0o775, 0, socket, folder},
		{0o755, 0o755, 0o777 | fs.ModeSticky, 0, socket, folder},
		{0o755, 0o777, 0o755, 0, socket, parent},
		{0o777, 0o755, 0o755, 0, socket, root},
		{0o777 | fs.ModeSticky, 0o755, 0o755, 0, socket, ""},
		{0o777 | fs.ModeSticky, 0o755, 0o755, 1, socket, root},
		{0o755, 0o777, 0o755, 0, filepath.Join(link, "folder", "s"), parent},
		{0o755, 0o755, 0o755, 0, filepath.Join(root, "far", "folder", "s"), filepath.Join(root, "open")},
		{0o755, 0o755, 0o755, 0, root + "/near/../link/folder/s", filepath.Join(root, "open")}, // not root/link
		{0o755, 0o755, 0o755, 0, root + "/./parent//../link/folder/s", ""},
		{0o755, 0o755, 0o755, 0, filepath.Join(link, "folder", "s"), ""},
	} {
		if row.owner != 0 && os.Geteuid() != 0 {
			continue // only root can give a folder away
		}
		if err := errors.Join(os.Chmod(folder, row.folder), os.Chmod(parent, row.parent), os.Chmod(root, row.root), os.Lchown(parent, os.Geteuid()+row.owner, -1)); err != nil {
			t.Fatal(err)
		}
		before := served.Load()
		_, err := remote.New("unix://"+row.path, func() (string, error) { return "secret", nil }).Whoami(t.Context())
		if sent := served.Load() > before; sent != (row.refused == "") {
			t.Errorf("%+v: sent = %v", row, sent)
		}
		if row.refused != "" && (!errors.Is(err, message.ErrForbidden) || !strings.Contains(err.Error(), "other users can write to "+row.refused+", ")) {
			t.Errorf("%+v: %v", row, err)
		}
	}
}

// Without a socket nothing is sent, so the outcome of a request is known.
func TestNoSocket(t *testing.T) {
	_, err := remote.New("unix://"+filepath.Join(t.TempDir(), "s"), func() (string, error) { return "", nil }).Interrupt(t.Context(), toolcall.InterruptRequest{})
	if !errors.Is(err, message.ErrUnavailable) {
		t.Errorf("interrupt: %v, want %v", err, message.ErrUnavailable)
	}
}
