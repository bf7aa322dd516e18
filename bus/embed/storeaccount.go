package embed

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/askance-dev/askance/bus/internal/secretfile"

	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats-server/v2/server"
)

// ErrStoreTrust is why a server without credentials does not open to others a
// store that was served with them; errors.Is finds it in errors of Start.
var ErrStoreTrust = errors.New("the store was served with credentials")

const (
	// openAccount is the account of servers that let everybody in.
	openAccount = "$G"
	// trustMark is the file that says that a store was served with credentials.
	trustMark = "askance.trust"
)

// adopt makes the journals in a store those of an account. NATS keeps streams
// in a folder by account; a store of askance has one account at a time, so that
// turning credentials on, or to another folder of them, loses no journal.
func adopt(store, account string) error {
	root := filepath.Join(store, "jetstream")
	others, err := strangers(root, account)
	switch {
	case err != nil:
		return unwritable(root, err)
	case len(others) == 0:
		return nil
	case len(others) > 1:
		return &message.Error{Code: message.CodeInvalid, Op: opStore, What: root + " has journals of several accounts", Hint: "leave one of " + strings.Join(others, ", ") + " there"}
	}
	to := filepath.Join(root, account)
	err = os.RemoveAll(to) // it has no journals
	if err == nil {
		err = os.Rename(filepath.Join(root, others[0]), to)
	}
	if err == nil {
		err = secretfile.SyncFolder(root)
	}
	if err != nil {
		return unwritable(to, err)
	}
	return nil
}

const opStore = "open store folder"

// strangers are the accounts that have journals, if this one has none.
func strangers(root, account string) ([]string, error) {
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

// guard keeps a store that was served with credentials from being opened to
// anybody by an option that was forgotten. reachable: others can connect.
func guard(store string, trusted, reachable, reopen bool) error {
	mark := filepath.Join(store, trustMark)
	_, err := os.Stat(mark)
	marked := err == nil
	switch {
	case trusted && !marked:
		err = secretfile.Replace(mark, []byte("served with credentials\n"), 0o600)
	case marked && !trusted && reachable && !reopen:
		return &message.Error{Code: message.CodeForbidden, Op: opStore, What: store + " was served with credentials, and without them anybody could act as anybody", Hint: "name the credentials folder", Err: ErrStoreTrust}
	case marked && !trusted && reachable:
		err = os.Remove(mark)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return unwritable(mark, err)
	}
	return nil
}

// dropIndexes deletes what the server noted about its streams when it stopped, and
// their consumers: engines make those again from the records.
func dropIndexes(store string) error {
	streams := filepath.Join(store, "jetstream", "*", "streams", "*")
	var err error
	for _, pattern := range []string{filepath.Join(streams, "msgs", "index.db"), filepath.Join(streams, "obs")} {
		found, gerr := filepath.Glob(pattern)
		err = errors.Join(err, gerr)
		for _, path := range found {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	if err != nil {
		return unwritable(store, err)
	}
	return nil
}

// setAsideMeta renames the description of every stream that the server refused. A
// stream that is made again in that folder needs a description of its own.
func (s *Server) setAsideMeta(store string) error {
	z, err := s.now().Jsz(&server.JSzOptions{Accounts: true, Streams: true})
	if err != nil {
		return &message.Error{Code: message.CodeInternal, Op: opStore, What: "the server does not tell its streams", Err: err}
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
		return unwritable(store, err)
	}
	return nil
}
