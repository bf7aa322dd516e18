package e2e_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// smallFileSystem fills a file system of 64 MB. It needs the right to mount
// one; who lacks it has the file size limit alone.
func smallFileSystem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	data := w.file("data-engine")
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=64m"); err != nil {
		t.Logf("no small file system can be mounted here (%v): the file size limit speaks for it", err)
		return
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(data, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	s := newStageIn(w, w.embedded("engine"))
	s.begun()
	ballast := w.file("data-engine/ballast")
	if err := fillDisk(ballast, 1<<20); err != nil {
		t.Fatal(err)
	}
	refused := s.untilFull()
	s.engine.kill()
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	s.engine.start()
	s.resumes(refused)
}

// fillDisk writes a file until only left bytes are free.
func fillDisk(path string, left int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for {
		var st syscall.Statfs_t
		if err := syscall.Fstatfs(int(f.Fd()), &st); err != nil {
			return err
		}
		if int64(st.Bavail)*st.Bsize <= left+int64(len(block)) {
			return nil
		}
		if _, err := f.Write(block); err != nil {
			return fmt.Errorf("fill the disk: %w", err)
		}
	}
}
