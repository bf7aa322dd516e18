package bustest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// SmallDisk returns a folder on its own file system of 32 MB. Without the right to mount one the
// test is skipped.
func SmallDisk(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=32m"); err != nil {
		t.Skipf("no small file system can be mounted here: %v", err) //nolint:forbidigo // mounting needs root
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// Occupy fills a disk except for left bytes.
func Occupy(t testing.TB, dir string, left int64) (file string) {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "ballast")
	f, err := os.Create(file)
	if err == nil {
		err = errors.Join(syscall.Fallocate(int(f.Fd()), 0, 0, int64(st.Bavail)*st.Bsize-left), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}
