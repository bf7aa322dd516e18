package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/askance-dev/askance/e2e/internal/effect"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// smallFileSystem runs engines on file systems of 32 MB that are really full. It needs the right to
// mount them; without it only the file size limit is tested.
func smallFileSystem(t *testing.T) {
	t.Parallel()
	t.Run("full of other files", fullOfOtherFiles)
	t.Run("full of calls", fullOfCalls)
}

// onSmallDisk returns an engine whose data folder is its own file system; nil if none can be
// mounted here.
func onSmallDisk(t *testing.T) (s *stage, data string) {
	t.Helper()
	w := newWorld(t)
	data = w.file("data-engine")
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=32m"); err != nil {
		t.Logf("no small file system can be mounted here (%v): only the file size limit is tested", err)
		return nil, ""
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(data, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return newStageIn(w, w.embedded()), data
}

// fullOfOtherFiles fills the disk of a running engine, first almost and then to the last byte, so
// that the store breaks. The same process continues once the files are gone.
func fullOfOtherFiles(t *testing.T) {
	t.Parallel()
	s, data := onSmallDisk(t)
	if s == nil {
		return
	}
	s.begun()
	asked, err := s.bot.propose(proposal("full", "asked", s.block("c", allTools[0], effect.Input{N: 3, Ask: true, Pad: strings.Repeat("x", 100_000)})))
	s.must(err)
	if err := fillDisk(filepath.Join(data, "ballast"), 1<<20); err != nil {
		t.Fatal(err)
	}
	refused := s.untilFull()
	if err := fillDisk(filepath.Join(data, "more"), 0); err != nil {
		t.Fatal(err)
	}
	edited := s.block("c", allTools[0], effect.Input{N: 4, Ask: true, Pad: strings.Repeat("y", 100_000)}).Input // an approval without an edit may fit in the last block
	if err := s.approver.answer(asked[0], toolcall.Response{Kind: toolcall.ResponseApprove, Input: &edited}); !errors.Is(err, message.ErrFull) {
		t.Errorf("an answer on a full disk: %v, want an error with code %s", err, message.CodeFull)
	}
	for _, name := range []string{"ballast", "more"} {
		if err := os.Remove(filepath.Join(data, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.resumes(refused)
}

// fullOfCalls fills the store up to its own limit. Every open approval request can still be
// answered and every call completed.
func fullOfCalls(t *testing.T) {
	t.Parallel()
	s, _ := onSmallDisk(t)
	if s == nil {
		return
	}
	s.begun()
	s.untilFull()
	s.engine.kill() // the limit is not lower after a restart
	s.engine.start()
	s.finish()
}

// fillDisk writes a file until no more than left bytes are free.
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
		if int64(st.Bavail)*st.Bsize <= left {
			return nil
		}
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			return nil
		} else if err != nil {
			return fmt.Errorf("fill the disk: %w", err)
		}
	}
}

// storeSize is the size of the disk of each server in a cluster.
const storeSize = "size=192m"

// smallDisks gives each server of a cluster its own disk, if one can be mounted here.
func smallDisks(w *world) bool {
	w.t.Helper()
	for i := range clusterSize {
		dir := w.file(fmt.Sprintf("store-%d", i))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			w.t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, storeSize); err != nil {
			w.t.Logf("no small file system can be mounted here (%v): no disk gets full", err)
			return false
		}
		w.t.Cleanup(func() {
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				w.t.Errorf("unmount: %v", err)
			}
		})
	}
	return true
}

// fullDisk leaves a server no room for a record. The server is restarted when there is room,
// because a NATS server does not use a store again after a failed write.
func (r *faultRun) fullDisk(on int) (end func()) {
	if !r.disks {
		return func() {}
	}
	ballast := filepath.Join(r.file(fmt.Sprintf("store-%d", on)), "ballast")
	if err := fillDisk(ballast, 0); err != nil {
		r.t.Fatal(err)
	}
	return func() {
		if err := os.Remove(ballast); err != nil {
			r.t.Fatal(err)
		}
		r.nats[on].kill()
		r.nats[on].start()
	}
}
