package embed

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/secretfile"

	"github.com/askance-dev/askance/message"
	"github.com/gofrs/flock"
)

// Why an embedded server cannot use its folder; errors.Is finds them in the
// errors of [Start].
var (
	ErrStoreLocked     = errors.New("store folder is in use")
	ErrStoreUnwritable = errors.New("store folder cannot be written")
)

// lockName is the file that a running server holds locked. The operating
// system gives the lock back when the process dies, however it dies. (The
// NATS server itself does not guard its folder: two of them on one would
// destroy it.)
const lockName = "askance.lock"

// lockPatience is how long a folder may stay locked before it counts as in use.
const lockPatience = time.Second

func lockStore(dir string) (*flock.Flock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, unwritable(dir, err)
	}
	if err := probe(dir); err != nil {
		return nil, unwritable(dir, err)
	}
	l := flock.New(filepath.Join(dir, lockName), flock.SetPermissions(0o600))
	// A process that the last owner was just starting when it was killed holds
	// the lock until it executes its program.
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	ok, err := l.TryLockContext(ctx, lockPatience/100)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, unwritable(dir, err)
	}
	if !ok {
		return nil, &message.Error{Code: message.CodeUnavailable, Op: opStore, What: "another process uses " + dir, Hint: "stop it, or choose another folder", Err: ErrStoreLocked}
	}
	return l, nil
}

// probe writes a file: permission bits do not tell of a read-only file system.
func probe(dir string) error {
	f, err := os.CreateTemp(dir, ".askance-probe-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func unwritable(dir string, err error) error {
	code, hint := message.CodeInvalid, "make it writable for this user, or choose another folder"
	switch {
	case errors.Is(err, fs.ErrPermission):
		code = message.CodeForbidden
	case secretfile.IsDiskFull(err):
		code, hint = message.CodeFull, "free disk space"
	}
	return &message.Error{Code: code, Op: opStore, What: dir + " cannot be written", Hint: hint, Err: errtext.Because(ErrStoreUnwritable, err)}
}
