// Package plainfile reads and replaces the files that operators name: policies, keys, tokens,
// settings. Such a file must be a regular one, or a link to one. A named pipe would make a
// server wait forever, a device has no end, and a folder is a mistake; each is refused at
// once, with a [KindError] that says what it is. A file is not read beyond what its reader
// can use. A [Reloader] follows files that change.
//
// A file that a shell passes by number, such as <(…) or /dev/stdin, may be a pipe if it is
// read only once: [HandedOver], [ReadHanded], [OpenHanded].
package plainfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// KindError says that a path leads to something other than a file.
type KindError struct {
	Path string
	Kind string // such as "a folder"
}

// Error names the path and what it leads to.
func (e *KindError) Error() string { return e.Path + " is " + e.Kind + ", not a file" }

// Is makes it match fs.ErrInvalid.
func (e *KindError) Is(target error) bool { return target == fs.ErrInvalid }

// Open opens a regular file for reading. Errors are *KindError or those of the system, which
// name the path.
func Open(path string) (*os.File, os.FileInfo, error) { return open(path, regular) }

// Read reads a regular file: at most one byte more than most, so that the reader can tell
// that it is longer.
func Read(path string, most int) ([]byte, os.FileInfo, error) {
	f, info, err := Open(path)
	if err != nil {
		return nil, nil, err
	}
	data, err := bounded(f, most)
	return data, info, err
}

// ReadHanded is Read that also reads a pipe that a shell passed. It waits until the writer has
// finished, and the path can be read only once.
func ReadHanded(path string, most int) ([]byte, error) {
	f, err := OpenHanded(path)
	if err != nil {
		return nil, err
	}
	return bounded(f, most)
}

// OpenHanded is Open that also opens a pipe that a shell passed.
func OpenHanded(path string) (*os.File, error) {
	fits := regular
	if HandedOver(path) {
		fits = func(m fs.FileMode) bool { return regular(m) || m&fs.ModeNamedPipe != 0 }
	}
	f, _, err := open(path, fits)
	return f, err
}

// HandedOver reports whether a path stands for an open file of the process: what <(…)
// becomes in a shell, or /dev/stdin.
func HandedOver(path string) bool {
	path = filepath.Clean(path)
	return path == "/dev/stdin" || strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/self/fd/")
}

// bounded reads a file and closes it.
func bounded(f *os.File, most int) ([]byte, error) {
	defer func() { _ = f.Close() }() // only read
	return io.ReadAll(io.LimitReader(f, int64(most)+1))
}

func regular(m fs.FileMode) bool { return m.IsRegular() }

// open checks the file before it opens it, because opening can already have an effect, and
// again afterwards. Without O_NONBLOCK it would wait for the writer of a pipe that was put in
// place between.
func open(path string, fits func(fs.FileMode) bool) (*os.File, os.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, cannotOpen(path, err)
	}
	if !fits(info.Mode()) {
		return nil, nil, &KindError{path, kind(info.Mode())}
	}
	flags := os.O_RDONLY
	if runtime.GOOS != "windows" { // Windows has no such pipes
		flags |= syscall.O_NONBLOCK
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil && !fits(info.Mode()) {
		err = &KindError{path, kind(info.Mode())}
	}
	if err != nil {
		_ = f.Close() // only opened
		return nil, nil, err
	}
	return f, info, nil
}

// cannotOpen distinguishes a dangling link from a path that does not exist.
func cannotOpen(path string, err error) error {
	at, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return err
	}
	if to, linkErr := os.Readlink(path); linkErr == nil && errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "follow the link to " + to + " at", Path: path, Err: fs.ErrNotExist}
	}
	return &fs.PathError{Op: "open", Path: at.Path, Err: at.Err}
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}

// Unfinished is the prefix of a file that Replace has not finished.
const Unfinished = ".new-"

// Replace writes a file, replacing an existing one, completely or not at all. Only its owner
// can read it. A killed process may leave an unfinished file in the folder.
func Replace(path string, data []byte) error { return Publish(path, data, 0o600, os.Rename) }

// Publish is [Replace] with a mode and a function that gives the file its name: os.Rename, or
// os.Link, which fails with fs.ErrExist if path exists.
func Publish(path string, data []byte, mode fs.FileMode, publish func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), Unfinished+"*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // fails if it was renamed
	_, err = f.Write(data)
	KeepOwner(f.Name())
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = publish(f.Name(), path)
	}
	return err
}

// MkdirAll makes a folder, and those above it, that only its owner can read; see [KeepOwner].
func MkdirAll(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := MkdirAll(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	KeepOwner(dir)
	return nil
}

// KeepOwner gives what root has made to the owner of the folder that it is in, if the system
// permits it. Otherwise a service could not read what an administrator adds to its data folder.
// Only a file of this very folder changes, even if path or file are replaced meanwhile, and no file
// with a second name, which can be elsewhere.
func KeepOwner(path string) {
	if os.Geteuid() != 0 {
		return
	}
	folder, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return
	}
	defer func() { _ = folder.Close() }() // only read
	named, err := folder.Lstat(filepath.Base(path))
	if err != nil || !named.IsDir() && !named.Mode().IsRegular() {
		return
	}
	f, err := folder.OpenFile(filepath.Base(path), os.O_RDONLY|syscall.O_NONBLOCK, 0) // what is examined is what changes
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }() // only read
	file, err := f.Stat()
	info, err2 := statAfterChanges(folder)
	if err != nil || err2 != nil || !os.SameFile(named, file) {
		return
	}
	if at, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); strings.HasSuffix(at, " (deleted)") { // the one name was another
		return
	}
	owner, own := reflect.Indirect(reflect.ValueOf(info.Sys())), reflect.Indirect(reflect.ValueOf(file.Sys())) // a syscall.Stat_t, where root is user 0
	if file.IsDir() || own.FieldByName("Nlink").Uint() <= 1 {
		_ = f.Chown(int(owner.FieldByName("Uid").Uint()), int(owner.FieldByName("Gid").Uint()))
	}
}

// statAfterChanges returns the state of a folder after the changes that had begun: reading waits for them.
func statAfterChanges(folder *os.Root) (os.FileInfo, error) {
	dir, err := folder.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // only read
	if _, err := dir.Readdirnames(1); err != nil {
		return nil, err
	}
	return dir.Stat()
}

// Reloader follows files that change while a program runs. It runs one reload at a time,
// remembers the last error, and reports changes. The caller decides what a reload puts in
// force. The zero value reports nothing.
type Reloader struct {
	// Report is called with each error that differs from the previous one, and with nil when
	// a reload succeeds after an error. It must not reload.
	Report func(error)

	reload sync.Mutex // serializes reloads and their reports

	mu    sync.Mutex // guards what follows
	fault error
	since time.Time
}

// Reload calls a function that reads the files again, and returns its error. An error after
// ctx has ended is not the fault of the files and is not remembered.
func (r *Reloader) Reload(ctx context.Context, reload func(context.Context) error) error {
	r.reload.Lock()
	defer r.reload.Unlock()
	err := reload(ctx)
	if err != nil && ctx.Err() != nil {
		return err
	}
	if r.record(err) && r.Report != nil {
		r.Report(err)
	}
	return err
}

// record reports whether the outcome of a reload differs from the previous one.
func (r *Reloader) record(err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.fault
	if err != nil && before == nil {
		r.since = time.Now()
	}
	r.fault = err
	return (before == nil) != (err == nil) || err != nil && before.Error() != err.Error()
}

// Watch calls Reload at each interval until ctx ends.
func (r *Reloader) Watch(ctx context.Context, every time.Duration, reload func(context.Context) error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = r.Reload(ctx, reload) // remembered for Fault
		}
	}
}

// Fault returns why the last reload failed, and since when reloads have failed, or nil if it
// succeeded.
func (r *Reloader) Fault() (since time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since, r.fault
}
