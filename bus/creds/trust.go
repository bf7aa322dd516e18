package creds

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/message"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
)

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
