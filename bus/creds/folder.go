// Package creds makes NATS logins with the minimal permissions of each role.
//
// A [Folder] holds a NATS operator, one account and the list of its users; it
// adds and revokes logins. [Trust] is its public part, with which an embedded or
// external NATS server admits the users of the folder and no one else.
// CREDENTIALS.md in package bus describes the folder.
//
// Several processes can change a folder at the same time: each change holds a
// lock. The package does not connect to a server.
package creds

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/secretfile"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// The files of a credentials folder. Servers need no secrets; the secrets that make
// logins are in a separate folder, which can be kept elsewhere.
const (
	operatorJWT  = "operator.jwt"
	accountJWT   = "account.jwt"
	systemJWT    = "system.jwt"
	usersFile    = "users.json"
	engineCreds  = "engine.creds"
	operatorSeed = "secrets/operator.nk"
	accountSeed  = "secrets/account.nk"
	credsLock    = "creds.lock"
)

const (
	opNewFolder  = "create credentials folder"
	opNewLogin   = "add a login"
	opEndLogin   = "revoke a login"
	opReadFolder = "read credentials folder"
)

// Folder issues logins: it has a NATS operator with one account and the list of
// its users. Every change locks the folder, so several processes can make changes.
// A Folder holds no secrets in memory.
type Folder struct{ dir string }

type userList struct {
	V     int    `json:"v"` // 1
	Users []User `json:"users"`
}

// Init creates a folder with a new operator and account, and a login for the engines. It
// refuses an existing folder with CodeConflict.
func Init(ctx context.Context, dir string) (*Folder, error) {
	c := &Folder{dir: dir}
	if err := secretfile.MkdirAll(filepath.Join(dir, filepath.Dir(accountSeed))); err != nil {
		return nil, secretfile.Error(opNewFolder, dir, err)
	}
	return c, c.runLocked(ctx, opNewFolder, func() error {
		if _, err := os.Stat(c.pathOf(operatorJWT)); err == nil {
			return &message.Error{Code: message.CodeConflict, Op: opNewFolder, What: dir + " already has credentials", Hint: "add users with askance creds add, or choose another folder"}
		}
		finish, err := c.makeAccount()
		if err != nil {
			return secretfile.Error(opNewFolder, dir, err)
		}
		if err := c.writeUsers(nil); err != nil { // without the logins of an interrupted try
			return err
		}
		if _, err := c.add(User{Role: toolcall.RoleEngine, Name: EngineName}, time.Now()); err != nil {
			return err
		}
		if err := finish(); err != nil {
			return secretfile.Error(opNewFolder, dir, err)
		}
		return nil
	})
}

// Open opens a folder that Init created.
func Open(dir string) (*Folder, error) {
	c := &Folder{dir: dir}
	_, err := c.Users()
	return c, err
}

// Users lists all logins that were ever issued, oldest first.
func (c *Folder) Users() ([]User, error) {
	b, err := secretfile.Read(opReadFolder, c.pathOf(usersFile), true)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, c.missingError(opReadFolder)
	}
	if err != nil {
		return nil, err
	}
	var l userList
	if err := strictjson.Unmarshal(b, &l, strictjson.MaxBytes(secretfile.MaxBytes)); err != nil || l.V != 1 {
		return nil, &message.Error{Code: message.CodeInvalid, Op: opReadFolder, What: c.pathOf(usersFile) + " is not a list of users of version 1", Hint: "restore it from a copy", Err: err}
	}
	return l.Users, nil
}

// Add creates a login with the minimal permissions of its role and returns the path of
// its file. If the user already has a login in force, Add fails with CodeConflict, or
// revokes that login if replace is set.
func (c *Folder) Add(ctx context.Context, u User, replace bool) (path string, err error) {
	err = c.runLocked(ctx, opNewLogin, func() error {
		now := time.Now()
		all, err := c.Users()
		if err != nil {
			return err
		}
		if err := cmp.Or(u.check(now), u.checkSameName(all, now)); err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(o User) bool { return o.isSame(u) && o.Revoked.IsZero() }) {
			if !replace {
				return &message.Error{Code: message.CodeConflict, Op: opNewLogin, What: u.String() + " already has a login", Hint: "replace it with --replace, or revoke it first"}
			}
			if err := c.revokeUser(u, now); err != nil {
				return err
			}
		}
		path, err = c.add(u, now)
		return err
	})
	return path, err
}

// Revoke revokes every login of a principal. A server that gets the new account refuses
// them and ends their connections. Revoke fails with CodeNotFound if none is in force.
func (c *Folder) Revoke(ctx context.Context, u User) error {
	return c.runLocked(ctx, opEndLogin, func() error { return c.revokeUser(u, time.Now()) })
}

func (c *Folder) pathOf(name string) string { return filepath.Join(c.dir, filepath.FromSlash(name)) }

// runLocked runs f while no other process changes the folder.
func (c *Folder) runLocked(ctx context.Context, op string, f func() error) error {
	err := secretfile.Lock(ctx, op, c.pathOf(credsLock), f)
	if _, serr := os.Stat(c.dir); errors.Is(serr, fs.ErrNotExist) {
		return c.missingError(op)
	}
	return err
}

func (c *Folder) missingError(op string) error {
	return &message.Error{Code: message.CodeNotFound, Op: op, What: c.dir + " has no credentials", Hint: "create them with askance creds init", Err: fs.ErrNotExist}
}

// add writes the list before the login, because an unlisted login could not be revoked.
func (c *Folder) add(u User, now time.Time) (string, error) {
	account, err := c.readSeed(accountSeed)
	if err != nil {
		return "", err
	}
	defer account.Wipe()
	u.Issued = now.UTC().Truncate(time.Second)
	login, err := u.newLogin(account)
	if err != nil {
		return "", message.Errorf(message.CodeInternal, opNewLogin, "make a login: %w", err)
	}
	all, err := c.Users()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := c.writeUsers(append(all, u)); err != nil {
		return "", err
	}
	path := LoginFile(c.dir, u)
	if err := secretfile.Replace(path, login, 0o600); err != nil {
		return "", secretfile.Error(opNewLogin, path, err)
	}
	return path, nil
}

// forever is later than any login was issued. Each login has a key of its own.
var forever = time.Unix(1<<40, 0)

// revokeUser changes the account before the list, so that a login listed as revoked is
// revoked.
func (c *Folder) revokeUser(u User, now time.Time) error {
	all, err := c.Users()
	if err != nil {
		return err
	}
	var keys []string
	for i, o := range all {
		if o.isSame(u) && o.Revoked.IsZero() {
			keys = append(keys, o.Key)
			all[i].Revoked = now.UTC().Truncate(time.Second)
		}
	}
	if len(keys) == 0 {
		return &message.Error{Code: message.CodeNotFound, Op: opEndLogin, What: u.String() + " has no login", Hint: "askance creds list shows them"}
	}
	if err := c.changeAccount(func(a *jwt.AccountClaims) {
		for _, key := range keys {
			a.RevokeAt(key, forever) // not now: the clock that issued the login may have been ahead
		}
	}); err != nil {
		return err
	}
	if err := c.writeUsers(all); err != nil {
		return err
	}
	if err := os.Remove(LoginFile(c.dir, u)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return secretfile.Error(opEndLogin, LoginFile(c.dir, u), err)
	}
	return nil
}

func (c *Folder) writeUsers(users []User) error {
	b, err := strictjson.Marshal(userList{V: 1, Users: users})
	if err == nil {
		err = secretfile.Replace(c.pathOf(usersFile), b, 0o600)
	}
	if err != nil {
		return secretfile.Error("write the list of users", c.pathOf(usersFile), err)
	}
	return nil
}

// readSeed reads a secret key and clears its text.
func (c *Folder) readSeed(name string) (nkeys.KeyPair, error) {
	const op = "read the account's secret"
	b, err := secretfile.Read(op, c.pathOf(name), true)
	if err != nil {
		return nil, err
	}
	pair, err := nkeys.FromSeed(bytes.TrimSpace(b))
	clear(b)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: op, What: c.pathOf(name) + " is not a secret key", Hint: "restore it from a copy"}
	}
	return pair, nil
}

func (c *Folder) readPublic(name string) (string, error) {
	b, err := secretfile.Read(opReadFolder, c.pathOf(name), false)
	if name == operatorJWT && errors.Is(err, fs.ErrNotExist) { // empty, or askance creds init was interrupted
		return "", c.missingError(opReadFolder)
	}
	if err != nil {
		return "", fmt.Errorf("credentials folder: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// makeAccount writes a new operator, its system account, which administers a
// cluster, and the account of all spaces. finish writes the file that marks a complete
// folder: until then Init can begin again.
func (c *Folder) makeAccount() (finish func() error, err error) {
	var pairs [3]nkeys.KeyPair
	var public [3]string
	for i, create := range []func() (nkeys.KeyPair, error){nkeys.CreateOperator, nkeys.CreateAccount, nkeys.CreateAccount} {
		var err error
		if pairs[i], err = create(); err == nil {
			public[i], err = pairs[i].PublicKey()
		}
		if err != nil {
			return nil, err
		}
	}
	defer func() {
		for _, pair := range pairs {
			pair.Wipe()
		}
	}()
	for i, name := range []string{operatorSeed, accountSeed} {
		seed, err := pairs[i].Seed()
		if err == nil {
			err = secretfile.Replace(c.pathOf(name), append(slices.Clone(seed), '\n'), 0o600)
		}
		if err != nil {
			return nil, err
		}
	}
	operator, account, system := jwt.NewOperatorClaims(public[0]), jwt.NewAccountClaims(public[1]), jwt.NewAccountClaims(public[2])
	operator.Name, account.Name, system.Name = "askance", "askance", "SYS"
	operator.SystemAccount = public[2]
	account.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
	for name, claims := range map[string]jwt.Claims{accountJWT: account, systemJWT: system} {
		if err := c.writeJWT(name, claims, pairs[0]); err != nil {
			return nil, err
		}
	}
	token, err := operator.Encode(pairs[0])
	return func() error { return secretfile.Replace(c.pathOf(operatorJWT), []byte(token+"\n"), 0o644) }, err
}

func (c *Folder) writeJWT(name string, claims jwt.Claims, by nkeys.KeyPair) error {
	token, err := claims.Encode(by)
	if err != nil {
		return err
	}
	return secretfile.Replace(c.pathOf(name), []byte(token+"\n"), 0o644)
}

// changeAccount changes the account and signs it again.
func (c *Folder) changeAccount(change func(*jwt.AccountClaims)) error {
	operator, err := c.readSeed(operatorSeed)
	if err != nil {
		return err
	}
	defer operator.Wipe()
	token, err := c.readPublic(accountJWT)
	if err != nil {
		return err
	}
	claims, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		return &message.Error{Code: message.CodeInvalid, Op: opReadFolder, What: c.pathOf(accountJWT) + " is not an account", Hint: "restore it from a copy", Err: err}
	}
	change(claims)
	if err := c.writeJWT(accountJWT, claims, operator); err != nil {
		return secretfile.Error("write the account", c.pathOf(accountJWT), err)
	}
	return nil
}

// Trust lets the users of a credentials folder, and no one else, log in to a
// server. It holds no secrets.
type Trust struct {
	operator, account, system string // the tokens as stored in the folder
	op                        *jwt.OperatorClaims
	acc, sys                  *jwt.AccountClaims
}

const opTrust = "load credentials"

// LoadTrust reads the public part of a credentials folder.
func LoadTrust(dir string) (*Trust, error) {
	c := &Folder{dir: dir}
	t := &Trust{}
	for _, f := range []struct {
		name string
		into *string
	}{{operatorJWT, &t.operator}, {accountJWT, &t.account}, {systemJWT, &t.system}} {
		var err error
		if *f.into, err = c.readPublic(f.name); err != nil {
			return nil, err
		}
	}
	var err error
	bad := func(name string, err error) error {
		return &message.Error{Code: message.CodeInvalid, Op: opTrust, What: c.pathOf(name) + " cannot be used", Hint: "restore it from a copy, or create a new folder with askance creds init", Err: err}
	}
	if t.op, err = jwt.DecodeOperatorClaims(t.operator); err != nil {
		return nil, bad(operatorJWT, err)
	}
	if t.acc, err = jwt.DecodeAccountClaims(t.account); err != nil || t.acc.Issuer != t.op.Subject {
		return nil, bad(accountJWT, errtext.Because(err, errors.New("the operator did not sign it")))
	}
	if t.sys, err = jwt.DecodeAccountClaims(t.system); err != nil || t.sys.Issuer != t.op.Subject || t.sys.Subject != t.op.SystemAccount {
		return nil, bad(systemJWT, errtext.Because(err, errors.New("it is not the operator's system account")))
	}
	return t, nil
}

// EngineLogin returns the path of the engines' credentials file in a credentials folder.
func EngineLogin(dir string) string { return filepath.Join(dir, engineCreds) }

// Account returns the public key that names the account of all spaces.
func (t *Trust) Account() string { return t.acc.Subject }

// AccountToken returns the signed token of that account.
func (t *Trust) AccountToken() string { return t.account }

// AccountClaims returns the decoded token.
func (t *Trust) AccountClaims() *jwt.AccountClaims { return t.acc }

// Revoked returns the number of revoked logins.
func (t *Trust) Revoked() int { return len(t.acc.Revocations) }

// Same reports whether both have the same content.
func (t *Trust) Same(other *Trust) bool {
	return other != nil && t.operator == other.operator && t.account == other.account && t.system == other.system
}

// ServerConfig returns the part of a nats-server configuration that lets these users, and
// no one else, log in. It holds no secrets.
func (t *Trust) ServerConfig() string {
	var b strings.Builder
	fmt.Fprintf(&b, "operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: {\n", t.operator, t.sys.Subject)
	fmt.Fprintf(&b, "  %s: %s\n  %s: %s\n}\n", t.sys.Subject, t.system, t.acc.Subject, t.account)
	return b.String()
}

// Configure changes the options of a server so that only these users can log in.
func (t *Trust) Configure(o *server.Options) error {
	resolver := &server.MemAccResolver{}
	for key, token := range map[string]string{t.acc.Subject: t.account, t.sys.Subject: t.system} {
		if err := resolver.Store(key, token); err != nil {
			return err
		}
	}
	o.TrustedOperators, o.SystemAccount, o.AccountResolver = []*jwt.OperatorClaims{t.op}, t.sys.Subject, resolver
	return nil
}
