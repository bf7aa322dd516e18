package bus_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/askance-dev/askance/bus/embed"
)

// A service can use the lock that root has made in its folder.
func TestLockOfRoot(t *testing.T) {
	if os.Geteuid() != 0 { // others give no files away
		return
	}
	const user = 65532
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	lock, err := embed.Lock(path, "the folder", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(lock.Close(), os.Chown(dir, user, user)); err != nil {
		t.Fatal(err)
	}
	if lock, err = embed.Lock(path, "the folder", ""); err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; uid != user { //nolint:forcetypeassert // of this system
		t.Errorf("the lock belongs to %d", uid)
	}
}
