package creds

import (
	"slices"

	"github.com/askance-dev/askance/bus/internal/secretfile"

	"github.com/askance-dev/askance/message"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// makeAccount writes a fresh operator, its system account (without which a
// cluster cannot be administered) and the account of all spaces.
func (c *Folder) makeAccount() error {
	operator, err := nkeys.CreateOperator()
	if err != nil {
		return err
	}
	account, err := nkeys.CreateAccount()
	if err != nil {
		return err
	}
	system, err := nkeys.CreateAccount()
	if err != nil {
		return err
	}
	defer func() { operator.Wipe(); account.Wipe(); system.Wipe() }()
	if err := c.writeSeed(operatorSeed, operator); err != nil {
		return err
	}
	if err := c.writeSeed(accountSeed, account); err != nil {
		return err
	}
	if err := c.writeAccounts(operator, account, system); err != nil {
		return err
	}
	return c.writeOperator(operator, system)
}

func (c *Folder) writeSeed(name string, pair nkeys.KeyPair) error {
	seed, err := pair.Seed()
	if err != nil {
		return err
	}
	return secretfile.Replace(c.path(name), append(slices.Clone(seed), '\n'), 0o600)
}

func (c *Folder) writeAccounts(operator, account, system nkeys.KeyPair) error {
	pub, err := account.PublicKey()
	if err != nil {
		return err
	}
	claims := jwt.NewAccountClaims(pub)
	claims.Name = "askance"
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
	if err := c.writeJWT(accountJWT, claims, operator); err != nil {
		return err
	}
	if pub, err = system.PublicKey(); err != nil {
		return err
	}
	claims = jwt.NewAccountClaims(pub)
	claims.Name = "SYS"
	return c.writeJWT(systemJWT, claims, operator)
}

// writeOperator is the last step: its file says that the folder is complete.
func (c *Folder) writeOperator(operator, system nkeys.KeyPair) error {
	pub, err := operator.PublicKey()
	if err != nil {
		return err
	}
	claims := jwt.NewOperatorClaims(pub)
	claims.Name = "askance"
	if claims.SystemAccount, err = system.PublicKey(); err != nil {
		return err
	}
	return c.writeJWT(operatorJWT, claims, operator)
}

func (c *Folder) writeJWT(name string, claims jwt.Claims, by nkeys.KeyPair) error {
	token, err := claims.Encode(by)
	if err != nil {
		return err
	}
	return secretfile.Replace(c.path(name), []byte(token+"\n"), 0o644)
}

// changeAccount signs the account anew.
func (c *Folder) changeAccount(change func(*jwt.AccountClaims)) error {
	operator, err := c.seed(operatorSeed)
	if err != nil {
		return err
	}
	defer operator.Wipe()
	token, err := c.fileOf(accountJWT)
	if err != nil {
		return err
	}
	claims, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		return &message.Error{Code: message.CodeInvalid, Op: opReadFolder, What: c.path(accountJWT) + " is no account", Hint: "restore it from a copy", Err: err}
	}
	change(claims)
	if err := c.writeJWT(accountJWT, claims, operator); err != nil {
		return secretfile.Error("write the account", c.path(accountJWT), err)
	}
	return nil
}
