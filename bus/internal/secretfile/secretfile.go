// Package secretfile reads and replaces small files, which may hold secrets.
//
// A secret file that other users can read is refused; a group can read one of root. A file is written
// completely or not at all, and survives a power loss.
package secretfile

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
	"syscall"
	"time"

	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/message"
	"github.com/gofrs/flock"
)

// MaxBytes is the maximum size of a file that Read accepts.
const MaxBytes = 4 << 20

// Read reads a whole file. If secret is set, it refuses a file that other users can read.
func Read(op, path string, secret bool) ([]byte, error) {
	b, info, err := plainfile.Read(path, MaxBytes)
	if err != nil {
		return nil, Error(op, path, err)
	}
	if secret && runtime.GOOS != "windows" && info.Mode().Perm()&closedModes(info) != 0 {
		return nil, &message.Error{Code: message.CodeForbidden, Op: op, What: "other users can read " + path + " (mode " + info.Mode().Perm().String() + ")", Hint: "chmod 600 " + spelling.ShellWord(path)}
	}
	if len(b) > MaxBytes {
		return nil, &message.Error{Code: message.CodeInvalid, Op: op, What: fmt.Sprintf("%s is longer than %d MiB", path, MaxBytes>>20), Hint: "check the path"}
	}
	return b, nil
}

// closedModes returns the permissions that a secret must not have. What root owns, a group can
// read: another user gets the secrets of Kubernetes only so.
func closedModes(info fs.FileInfo) fs.FileMode {
	owner := reflect.Indirect(reflect.ValueOf(info.Sys())) // a syscall.Stat_t
	if os.Geteuid() != 0 && owner.FieldByName("Uid").Uint() == 0 {
		return 0o037
	}
	return 0o077
}

// WriteOnce writes a new file and fails with fs.ErrExist if path exists: a link, unlike
// a rename, does not replace.
func WriteOnce(path string, b []byte, mode os.FileMode) error {
	return writeThroughTemp(path, b, mode, os.Link)
}

// Replace writes a file and replaces an existing one.
func Replace(path string, b []byte, mode os.FileMode) error {
	return writeThroughTemp(path, b, mode, os.Rename)
}

func writeThroughTemp(path string, b []byte, mode os.FileMode, publish func(from, to string) error) error {
	dir := filepath.Dir(path)
	err := plainfile.MkdirAll(dir)
	if err == nil {
		err = plainfile.Publish(path, b, mode, publish)
	}
	if err == nil {
		err = SyncFolder(dir)
	}
	return err
}

// Unfinished is the suffix of a file that Write has not finished.
const Unfinished = ".new"

// Write replaces a file that can be large. It first writes to the same temporary name each
// time, so that killed processes leave at most one such file.
func Write(op, path string, write func(io.Writer) error) error {
	dir := filepath.Dir(path)
	err := MkdirAll(dir)
	if err == nil {
		err = SyncFolder(filepath.Dir(dir))
	}
	if err != nil {
		return Error(op, path, err)
	}
	_ = os.Remove(path + Unfinished) // of a killed process; a link that replaces it is not followed
	f, err := os.OpenFile(path+Unfinished, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return Error(op, path, err)
	}
	plainfile.KeepOwner(f.Name())
	if err = errors.Join(write(f), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err == nil {
		err = SyncFolder(dir)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // free its space
		return Error(op, path, err)
	}
	return nil
}

// SyncFolder makes a new name in the folder durable: a journal whose keys a power loss
// removed cannot be continued.
func SyncFolder(dir string) error {
	if runtime.GOOS == "windows" { // cannot sync a folder
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// MkdirAll makes a folder that only its owner can read.
func MkdirAll(dir string) error { return plainfile.MkdirAll(dir) }

// KeepOwners gives what root has made in a folder, or a file, to its owner; see [plainfile.KeepOwner].
func KeepOwners(root string) {
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && (path != root || !e.IsDir()) {
			plainfile.KeepOwner(path)
		}
		return nil // the rest can be readable
	})
}

// Lock runs f while no other process holds the lock file.
func Lock(ctx context.Context, op, lock string, f func() error) error {
	l := flock.New(lock, flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ok, err := l.TryLockContext(ctx, 10*time.Millisecond)
	if err != nil || !ok {
		return Error(op, lock, errors.Join(errors.New("another process holds the lock"), err))
	}
	defer func() { _ = l.Unlock() }() // the end of the process also unlocks
	plainfile.KeepOwner(lock)
	return f()
}

// Error describes a failed file operation and wraps its cause.
func Error(op, path string, err error) error {
	code, hint := message.CodeInvalid, ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code, hint = message.CodeNotFound, "check the path"
	case errors.Is(err, fs.ErrInvalid):
		hint = "name a file"
	case errors.Is(err, fs.ErrPermission):
		code, hint = message.CodeForbidden, "give this user access to it, or choose another path"
	case IsDiskFull(err):
		code, hint = message.CodeFull, "free disk space"
	}
	if odd, ok := errors.AsType[*plainfile.KindError](err); ok {
		return &message.Error{Code: code, Op: op, What: odd.Error(), Hint: hint}
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok && at.Path == path {
		err = at.Err // What has the path already
	}
	return &message.Error{Code: code, Op: op, What: path, Hint: hint, Err: err}
}

// IsDiskFull reports whether a write failed because the disk or quota is full.
func IsDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
