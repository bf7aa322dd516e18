package embed

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/secretfile"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/message"
	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
)

// Reasons why an embedded server cannot use its folder, for errors.Is.
var (
	ErrStoreLocked     = errors.New("another process uses it")
	ErrStoreUnwritable = errors.New("store folder cannot be written")
)

// lockName is the file that a running server locks; the operating system unlocks it
// when the process dies. Two servers on one folder would destroy the store, and NATS does
// not prevent that.
const lockName = "askance.lock"

// lockPatience is how long a folder may stay locked before it counts as in use.
const lockPatience = time.Second

// Lock locks the file at path for this process, or returns an error that wraps [ErrStoreLocked],
// names what the file guards, and says what to do.
func Lock(path, what, hint string) (io.Closer, error) {
	dir := filepath.Dir(path)
	if err := secretfile.MkdirAll(dir); err != nil {
		return nil, unwritableError(dir, err)
	}
	if err := probeFolder(dir); err != nil {
		return nil, unwritableError(dir, err)
	}
	l := flock.New(path, flock.SetPermissions(0o600))
	// A child process that a killed owner was just starting holds the lock until exec.
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	ok, err := l.TryLockContext(ctx, lockPatience/100)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, unwritableError(dir, err)
	}
	if !ok {
		return nil, &message.Error{Code: message.CodeUnavailable, Op: opStore, What: what, Hint: hint, Err: ErrStoreLocked}
	}
	secretfile.KeepOwners(path)
	return l, nil
}

// LockFolder locks a data folder for one engine. [InUse] reports it.
func LockFolder(dir string) (io.Closer, error) {
	return Lock(filepath.Join(dir, lockName), "the data folder "+dir, "stop that engine, or choose another data folder; askance serve --spaces serves several spaces")
}

// LockAnchor locks an anchor file for one engine.
func LockAnchor(path string) (io.Closer, error) {
	return Lock(path+".lock", "the anchor file "+path, "stop that engine, or choose another data folder or --anchor-file")
}

// InUse reports whether a process uses the folder. It says yes if this user cannot read the lock.
func InUse(dir string) bool {
	path := filepath.Join(dir, lockName)
	if _, err := os.Stat(path); err != nil {
		return false
	}
	l := flock.New(path, flock.SetPermissions(0o600))
	free, err := l.TryRLock() // shared, so that two askers do not see each other
	_ = l.Close()             // the end of the process also unlocks
	return errors.Is(err, fs.ErrPermission) || err == nil && !free
}

// probeFolder writes a file, because permission bits do not show a read-only file
// system.
func probeFolder(dir string) error {
	f, err := os.CreateTemp(dir, ".askance-probe-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func unwritableError(dir string, err error) error {
	code, hint := message.CodeInvalid, "make it writable for this user, or choose another folder"
	switch {
	case errors.Is(err, fs.ErrPermission):
		code = message.CodeForbidden
	case secretfile.IsDiskFull(err):
		code, hint = message.CodeFull, "free disk space"
	}
	return &message.Error{Code: code, Op: opStore, What: dir + " cannot be written", Hint: hint, Err: errtext.Because(ErrStoreUnwritable, err)}
}

// ErrStoreTrust means that a store that was served with credentials needs them.
var ErrStoreTrust = errors.New("the store was served with credentials")

const (
	// openAccount is the account of servers without logins.
	openAccount = "$G"
	// trustMark is the file that marks a store as served with credentials.
	trustMark = "askance.trust"
)

// moveJournals moves the journals of a store to an account. NATS keeps streams in a folder
// per account; a store of askance has one account at a time, and a change of credentials
// must not lose its journals.
func moveJournals(store, account string) error {
	root := filepath.Join(store, "jetstream")
	others, err := otherAccounts(root, account)
	switch {
	case err != nil:
		return unwritableError(root, err)
	case len(others) == 0:
		return nil
	case len(others) > 1:
		return &message.Error{Code: message.CodeInvalid, Op: opStore, What: root + " has journals of several accounts", Hint: "leave only one of " + strings.Join(others, ", ") + " there"}
	}
	to := filepath.Join(root, account)
	err = os.RemoveAll(to) // has no journals
	if err == nil {
		err = os.Rename(filepath.Join(root, others[0]), to)
	}
	if err == nil {
		err = secretfile.SyncFolder(root)
	}
	if err != nil {
		return unwritableError(to, err)
	}
	return nil
}

const opStore = "open store folder"

// otherAccounts returns the accounts with journals if this one has none.
func otherAccounts(root, account string) ([]string, error) {
	found, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var others []string
	for _, e := range found {
		streams, err := os.ReadDir(filepath.Join(root, e.Name(), "streams"))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case len(streams) == 0: // an account without journals
		case e.Name() == account:
			return nil, nil
		default:
			others = append(others, e.Name())
		}
	}
	return others, err
}

// checkTrust makes sure that a store that was served with credentials is not opened to
// clients without a login.
func (o Options) checkTrust() error {
	mark := filepath.Join(o.StoreDir, trustMark)
	_, err := os.Stat(mark)
	marked, opens := err == nil, o.Trust == nil && len(o.Users) == 0 && o.Listen != ""
	switch {
	case o.Trust != nil && !marked:
		err = secretfile.Replace(mark, []byte("served with credentials\n"), 0o600)
	case marked && opens && !o.Reopen:
		return &message.Error{Code: message.CodeForbidden, Op: opStore, What: o.StoreDir + " was served with credentials, without which any client could act under any name", Hint: "name the credentials folder", Err: ErrStoreTrust}
	case marked && opens:
		err = os.Remove(mark)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return unwritableError(mark, err)
	}
	return nil
}

// removeInStore removes all files and folders that match the patterns below the folder of
// JetStream.
func removeInStore(store string, patterns ...string) error {
	var err error
	for _, pattern := range patterns {
		found, gerr := filepath.Glob(filepath.Join(store, "jetstream", pattern))
		err = errors.Join(err, gerr)
		for _, path := range found {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	if err != nil {
		return unwritableError(store, err)
	}
	return nil
}

// setAsideMeta renames the description of every stream that the server refused to load, so
// that a new stream in its place can have its own.
func (s *Server) setAsideMeta(store string) error {
	z, err := s.runningServer().Jsz(&server.JSzOptions{Accounts: true, Streams: true})
	if err != nil {
		return &message.Error{Code: message.CodeInternal, Op: opStore, What: "the server cannot list its streams", Hint: "check its log", Err: err}
	}
	taken := map[string]bool{}
	for _, account := range z.AccountDetails {
		for _, stream := range account.Streams {
			taken[filepath.Join(account.Id, "streams", stream.Name)] = true
		}
	}
	root := filepath.Join(store, "jetstream")
	found, err := filepath.Glob(filepath.Join(root, "*", "streams", "*", server.JetStreamMetaFile))
	for _, path := range found {
		if folder, ferr := filepath.Rel(root, filepath.Dir(path)); ferr != nil || !taken[folder] {
			err = errors.Join(err, ferr, os.Rename(path, path+".damaged"))
		}
	}
	if err != nil {
		return unwritableError(store, err)
	}
	return nil
}

// storeLimit returns how large a store may become. It includes the used space, so that
// a restart at the limit does not lower it.
func storeLimit(o Options) (int64, error) {
	free, known := FreeDisk(o.StoreDir)
	if o.MaxStore > 0 || !known {
		return o.MaxStore, nil
	}
	used, err := bytesIn(filepath.Join(o.StoreDir, "jetstream"))
	if err != nil {
		return 0, unwritableError(o.StoreDir, err)
	}
	return max(1, used+free/4*3), nil
}

// RaiseLimit raises the limit of a store on a disk that has more room than at the start, as after
// other files filled it. NATS cannot lower a limit while it runs.
func (s *Server) RaiseLimit() error {
	s.changing.Lock()
	defer s.changing.Unlock()
	free, known := FreeDisk(s.opts.StoreDir)
	if s.closed || s.fixedLimit || !known {
		return nil
	}
	info, err := s.runningServer().Jsz(&server.JSzOptions{})
	if err != nil || info.Disabled {
		return nil
	}
	now, limit := s.opts.JetStreamMaxStore, (int64(info.Store)+free)/4*3
	if limit <= now+now/64 { // not for every file that another program deletes
		return nil
	}
	s.opts.JetStreamMaxStore = limit // also if it fails: then a restart raises it
	if err := s.runningServer().ReloadOptions(s.opts.Clone()); err != nil {
		return &message.Error{Code: message.CodeInternal, Op: opStore, What: "the limit of " + s.opts.StoreDir + " cannot be raised", Hint: "restart the engine", Err: err}
	}
	return nil
}

// bytesIn returns the size of the files in a folder, or 0 if it is missing.
func bytesIn(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return sum, err
}

// Room returns how much can be stored within the limit and the free disk space.
func (s *Server) Room() journal.Room {
	info, err := s.runningServer().Jsz(&server.JSzOptions{})
	if err != nil || info.Disabled {
		return journal.Room{} // unknown
	}
	r := journal.Room{Free: info.Config.MaxStore - int64(info.Store), Bound: info.Config.MaxStore}
	if free, known := FreeDisk(s.opts.StoreDir); known {
		r.Free, r.Disk = min(r.Free, free), free
	}
	return r
}
