package bus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/gofrs/flock"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// The files of a credentials folder. What servers need is no secret; what makes
// logins stands in a folder of its own, which can be kept elsewhere.
const (
	operatorJWT  = "operator.jwt"
	accountJWT   = "account.jwt"
	systemJWT    = "system.jwt"
	ledgerFile   = "users.json"
	engineCreds  = "engine.creds"
	operatorSeed = "secrets/operator.nk"
	accountSeed  = "secrets/account.nk"
	credsLock    = "creds.lock"
)

const (
	opNewFolder  = "make a credentials folder"
	opNewLogin   = "add a login"
	opEndLogin   = "revoke a login"
	opReadFolder = "read credentials folder"
)

// Creds is a folder that gives out logins: a NATS operator with one account,
// and a list of the users in it. Every change holds a lock on the folder, so
// that several processes may make them. It holds no secrets in memory.
type Creds struct{ dir string }

// ledger is the list of users.
type ledger struct {
	V     int        `json:"v"` // 1
	Users []CredUser `json:"users"`
}

// InitCreds makes a folder with a fresh operator and account and a login for
// the engines. A folder that has one already is refused with CodeConflict.
func InitCreds(ctx context.Context, dir string) (*Creds, error) {
	c := &Creds{dir: dir}
	if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(accountSeed)), 0o700); err != nil {
		return nil, fileError(opNewFolder, dir, err)
	}
	return c, c.locked(ctx, opNewFolder, func() error {
		if _, err := os.Stat(c.path(operatorJWT)); err == nil {
			return &message.Error{Code: message.CodeConflict, Op: opNewFolder, What: dir + " has credentials already", Hint: "add users with askance creds add, or choose another folder"}
		}
		if err := c.makeAccount(); err != nil {
			return fileError(opNewFolder, dir, err)
		}
		_, err := c.add(CredUser{Role: message.RoleEngine, Name: EngineName}, time.Now())
		return err
	})
}

// OpenCreds opens a folder that InitCreds made.
func OpenCreds(dir string) (*Creds, error) {
	c := &Creds{dir: dir}
	_, err := c.Users()
	return c, err
}

// Users lists everybody who was ever given a login, in the order of that.
func (c *Creds) Users() ([]CredUser, error) {
	b, err := readKeyFile(opReadFolder, c.path(ledgerFile), true)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &message.Error{Code: message.CodeNotFound, Op: opReadFolder, What: c.dir + " has no credentials", Hint: "make them with askance creds init", Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, err
	}
	var l ledger
	if err := strictjson.Unmarshal(b, &l, strictjson.MaxBytes(maxKeyFile)); err != nil || l.V != 1 {
		return nil, &message.Error{Code: message.CodeInvalid, Op: opReadFolder, What: c.path(ledgerFile) + " cannot be read as a list of users of version 1", Hint: "restore it from a copy", Err: err}
	}
	return l.Users, nil
}

// Add makes a login with the least rights of its role and gives the path of
// its file, which only its owner can read. Whoever has a login in force is
// refused with CodeConflict unless replace is set, which revokes that one.
func (c *Creds) Add(ctx context.Context, u CredUser, replace bool) (path string, err error) {
	err = c.locked(ctx, opNewLogin, func() error {
		now := time.Now()
		all, err := c.Users()
		if err != nil {
			return err
		}
		if err := u.check(all, now); err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(o CredUser) bool { return o.is(u) && o.Revoked.IsZero() }) {
			if !replace {
				return &message.Error{Code: message.CodeConflict, Op: opNewLogin, What: "there is a login of " + u.String() + " already", Hint: "replace it with --replace, or revoke it first"}
			}
			if err := c.revoke(u, now); err != nil {
				return err
			}
		}
		path, err = c.add(u, now)
		return err
	})
	return path, err
}

// Revoke ends every login of a principal: a server that is told the account
// anew lets none of them in and ends their connections. CodeNotFound if there
// is none in force.
func (c *Creds) Revoke(ctx context.Context, u CredUser) error {
	return c.locked(ctx, opEndLogin, func() error { return c.revoke(u, time.Now()) })
}

func (c *Creds) path(name string) string { return filepath.Join(c.dir, filepath.FromSlash(name)) }

// locked runs f while no other process changes the folder.
func (c *Creds) locked(ctx context.Context, op string, f func() error) error {
	l := flock.New(c.path(credsLock), flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ok, err := l.TryLockContext(ctx, 10*time.Millisecond)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &message.Error{Code: message.CodeNotFound, Op: op, What: c.dir + " has no credentials", Hint: "make them with askance creds init", Err: fs.ErrNotExist}
	case err != nil || !ok:
		return fileError(op, c.path(credsLock), errors.Join(errors.New("another process changes the folder"), err))
	}
	defer func() { _ = l.Unlock() }() // the process's end unlocks as well
	return f()
}

// add writes the list before the login: what is not listed could not be
// revoked.
func (c *Creds) add(u CredUser, now time.Time) (string, error) {
	account, err := c.seed(accountSeed)
	if err != nil {
		return "", err
	}
	defer account.Wipe()
	u.Issued = now.UTC().Truncate(time.Second)
	login, err := u.login(account)
	if err != nil {
		return "", message.Errorf(message.CodeInternal, opNewLogin, "make a login: %w", err)
	}
	all, err := c.Users()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := c.writeLedger(append(all, u)); err != nil {
		return "", err
	}
	path := u.file(c.dir)
	if err := replace(path, login, 0o600); err != nil {
		return "", fileError(opNewLogin, path, err)
	}
	return path, nil
}

// revoke changes the account before the list: what is listed as revoked is.
func (c *Creds) revoke(u CredUser, now time.Time) error {
	all, err := c.Users()
	if err != nil {
		return err
	}
	var keys []string
	for i, o := range all {
		if o.is(u) && o.Revoked.IsZero() {
			keys = append(keys, o.Key)
			all[i].Revoked = now.UTC().Truncate(time.Second)
		}
	}
	if len(keys) == 0 {
		return &message.Error{Code: message.CodeNotFound, Op: opEndLogin, What: "there is no login of " + u.String(), Hint: "askance creds list shows them"}
	}
	if err := c.changeAccount(func(a *jwt.AccountClaims) {
		for _, key := range keys {
			a.RevokeAt(key, now.Add(time.Second)) // the login's own time has no fractions
		}
	}); err != nil {
		return err
	}
	if err := c.writeLedger(all); err != nil {
		return err
	}
	if err := os.Remove(u.file(c.dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fileError(opEndLogin, u.file(c.dir), err)
	}
	return nil
}

func (c *Creds) writeLedger(users []CredUser) error {
	b, err := strictjson.Marshal(ledger{V: 1, Users: users})
	if err == nil {
		err = replace(c.path(ledgerFile), b, 0o600)
	}
	if err != nil {
		return fileError("write the list of users", c.path(ledgerFile), err)
	}
	return nil
}

// seed reads a secret key. Its text goes nowhere else.
func (c *Creds) seed(name string) (nkeys.KeyPair, error) {
	const op = "read the account's secret"
	b, err := readKeyFile(op, c.path(name), true)
	if err != nil {
		return nil, err
	}
	pair, err := nkeys.FromSeed([]byte(strings.TrimSpace(string(b))))
	clear(b)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: op, What: c.path(name) + " is no secret key", Hint: "restore it from a copy"}
	}
	return pair, nil
}

// fileOf gives what a public file of the folder holds.
func (c *Creds) fileOf(name string) (string, error) {
	b, err := readKeyFile(opReadFolder, c.path(name), false)
	if err != nil {
		return "", fmt.Errorf("credentials folder: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
