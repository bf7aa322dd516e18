//go:build unix

package plainfile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/askance-dev/askance/internal/plainfile"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("file"), "12345")
	for from, to := range map[string]string{"link": "file", "loop": "loop", "dangling": "nowhere", "to-pipe": "pipe"} {
		if err := os.Symlink(at(to), at(from)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tc := range []struct {
		path string
		most int
		want string // the data, or part of the error
	}{
		{at("file"), 5, "12345"},
		{at("file"), 9, "12345"},
		{at("link"), 3, "1234"}, // one byte more than the limit
		{dir, 5, " is a folder, not a file"},
		{at("pipe"), 5, "/pipe is a pipe, not a file"},
		{at("to-pipe"), 5, "/to-pipe is a pipe, not a file"},
		{at("socket"), 5, " is a socket, not a file"},
		{"/dev/zero", 5, "/dev/zero is a device, not a file"},
		{at("dangling"), 5, "follow the link to " + at("nowhere") + " at " + at("dangling") + ": file does not exist"},
		{at("loop"), 5, "too many levels"},
		{at("none"), 5, "no such file"},
	} {
		data, info, err := plainfile.Read(tc.path, tc.most)
		got := string(data)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasSuffix(got, tc.want) && (err == nil || !strings.Contains(got, tc.want)) || (info == nil) != (err != nil) {
			t.Errorf("Read(%s, %d) = %q, want %q", tc.path, tc.most, got, tc.want)
		}
		if _, odd := errors.AsType[*plainfile.KindError](err); odd != errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Read(%s) = %v, a *KindError: %v", tc.path, err, odd)
		}
		f, _, openErr := plainfile.Open(tc.path)
		if (openErr == nil) != (err == nil) {
			t.Errorf("Open(%s) = %v, Read %v", tc.path, openErr, err)
		}
		if openErr == nil && f.Close() != nil {
			t.Errorf("Open(%s) returns a file that cannot be closed", tc.path)
		}
	}
}

// TestReadHanded: a shell passes a pipe as a numbered descriptor. A named pipe is not accepted.
func TestReadHanded(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := plainfile.ReadHanded(filepath.Join(dir, "pipe"), 5); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a pipe with a name: %v", err)
	}
	if _, err := plainfile.ReadHanded("/dev/zero", 5); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a device: %v", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		_, _ = w.WriteString("text") // if this fails, so does the test
		_ = w.Close()
	}()
	path := fmt.Sprintf("/dev/fd/%d", r.Fd())
	if _, _, err := plainfile.Read(path, 5); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a pipe that must be read repeatedly: %v", err)
	}
	if data, err := plainfile.ReadHanded(path, 5); err != nil || string(data) != "text" {
		t.Errorf("%s: %q, %v", path, data, err)
	}
	write(t, filepath.Join(dir, "file"), "text")
	if data, err := plainfile.ReadHanded(filepath.Join(dir, "file"), 2); err != nil || string(data) != "tex" {
		t.Errorf("a file: %q, %v", data, err)
	}
	for path, want := range map[string]bool{"/dev/fd/3": true, "/dev/../dev/fd/3": true, "/dev/stdin": true, "/proc/self/fd/3": true, "/dev/zero": false, "-": false, "fd/3": false} {
		if plainfile.HandedOver(path) != want {
			t.Errorf("HandedOver(%s) = %v", path, !want)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What root adds to a folder of another user belongs to that user.
func TestKeepOwner(t *testing.T) {
	dir := t.TempDir()
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, 12345, 12346); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "a", "b", "file")
	if err := errors.Join(plainfile.MkdirAll(filepath.Dir(file)), plainfile.MkdirAll(filepath.Dir(file)), plainfile.Replace(file, []byte("text"))); err != nil {
		t.Fatal(err)
	}
	want, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	for path := file; path != dir; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		owner := func(i os.FileInfo) uint32 { return i.Sys().(*syscall.Stat_t).Uid } //nolint:forcetypeassert // of this system
		if owner(info) != owner(want) || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s belongs to %d with %v, want %d", path, owner(info), info.Mode(), owner(want))
		}
	}
}

// The owner of a folder gets no file of root that was linked into it.
func TestKeepOwnerOfALinkedFile(t *testing.T) {
	dir := t.TempDir()
	own, secret := filepath.Join(dir, "own"), filepath.Join(dir, "secret")
	write(t, secret, "")
	if err := errors.Join(os.Mkdir(own, 0o700), os.Link(secret, filepath.Join(own, "file"))); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // others give no files away
		if err := os.Chown(own, 12345, 12346); err != nil {
			t.Fatal(err)
		}
	}
	plainfile.KeepOwner(filepath.Join(own, "file"))
	info, err := os.Stat(secret)
	if err != nil {
		t.Fatal(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; int(uid) != os.Geteuid() { //nolint:forcetypeassert // of this system
		t.Errorf("the linked file belongs to %d", uid)
	}
}

// A path that its owner makes lead to another folder meanwhile gives that folder's file to no one.
func TestKeepOwnerOfAMovingPath(t *testing.T) {
	dir := t.TempDir()
	own, other, at := filepath.Join(dir, "own"), filepath.Join(dir, "other"), filepath.Join(dir, "at")
	if err := errors.Join(os.Mkdir(own, 0o700), os.Mkdir(other, 0o700), os.Symlink(own, at)); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // others give no files away
		if err := os.Chown(own, 12345, 12346); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(own, "file"), "")
	write(t, filepath.Join(other, "file"), "")
	var moving sync.WaitGroup
	done := make(chan struct{})
	moving.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			link := filepath.Join(dir, "link")
			if err := errors.Join(os.Symlink([]string{own, other}[i%2], link), os.Rename(link, at)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	defer moving.Wait()
	defer close(done)
	for range 2_000 {
		plainfile.KeepOwner(filepath.Join(at, "file"))
		info, err := os.Stat(filepath.Join(other, "file"))
		if err != nil {
			t.Fatal(err)
		}
		if uid := info.Sys().(*syscall.Stat_t).Uid; int(uid) != os.Geteuid() { //nolint:forcetypeassert // of this system
			t.Fatalf("the file of the other folder belongs to %d", uid)
		}
	}
}

// A file that its owner replaces meanwhile, by a second name of a file of root, stays that of root.
func TestKeepOwnerOfAReplacedFile(t *testing.T) {
	dir := t.TempDir()
	own, secret := filepath.Join(dir, "own"), filepath.Join(dir, "secret")
	write(t, secret, "")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // others give no files away
		if err := os.Chown(own, 12345, 12346); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(own, "file")
	write(t, file, "")
	var replacing sync.WaitGroup
	done := make(chan struct{})
	replacing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			next := filepath.Join(dir, "next")
			if i%2 == 0 {
				if err := os.Link(secret, next); err != nil {
					t.Error(err)
					return
				}
			} else if err := os.WriteFile(next, nil, 0o600); err != nil {
				t.Error(err)
				return
			}
			if err := os.Rename(next, file); err != nil {
				t.Error(err)
				return
			}
		}
	})
	defer replacing.Wait()
	defer close(done)
	for range 5_000 {
		plainfile.KeepOwner(file)
		info, err := os.Stat(secret)
		if err != nil {
			t.Fatal(err)
		}
		if uid := info.Sys().(*syscall.Stat_t).Uid; int(uid) != os.Geteuid() { //nolint:forcetypeassert // of this system
			t.Fatalf("the linked file belongs to %d", uid)
		}
	}
}
