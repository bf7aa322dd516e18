package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/plainfile"
)

// connection is the way to the NATS server: the embedded one, which the first node of a
// process owns, or an existing one.
type connection struct {
	cfg    *Config
	server *embed.Server // nil with an existing NATS
	trust  *creds.Trust  // nil without a credentials folder
	conn   *nats.Conn
}

// openBus starts the embedded server, if the node needs one, and connects.
func (c *connection) openBus(ctx context.Context) (err error) {
	switch first := c.cfg.First; {
	case first != nil:
		c.server, c.trust = first.server, first.trust
	case c.cfg.NATS == "":
		if c.server, err = embed.Start(ctx, c.serverOptions()); err != nil {
			return err
		}
	}
	c.conn, err = c.Connect(ctx, creds.EngineName)
	return err
}

// close ends the connection, and then the embedded server.
func (c *connection) close() error {
	if c.conn != nil {
		c.conn.Close()
	}
	if c.server != nil && c.cfg.First == nil {
		c.server.Close()
	}
	return nil
}

const (
	// lookAtStore is how often the embedded server is asked whether it can write.
	lookAtStore = time.Second
	// maxRecoverPause bounds the pause before a store that broke again right after a
	// restart is restarted once more.
	maxRecoverPause = time.Minute
)

// connecting says who connects to the server, and how.
func (c *connection) connecting(principal string) bus.ConnectOptions {
	o := bus.ConnectOptions{Principal: principal, CredsFile: c.cfg.Creds, Logger: c.cfg.Log}
	if c.server == nil {
		o.CAFile, o.PlainText = c.cfg.CA, c.cfg.PlainText
	}
	return o
}

// serverOptions returns the options of the embedded server, with the logins of a
// credentials folder if there is one.
func (c *connection) serverOptions() embed.Options {
	o := embed.Options{StoreDir: c.cfg.Dir.Store(), AddressFiles: c.cfg.Dir.Addresses(), Listen: c.cfg.Listen, Durability: c.cfg.Durability, Logger: c.cfg.Log, Reopen: c.cfg.Reopen, TLSCert: c.cfg.Cert, TLSKey: c.cfg.Key, PlainText: c.cfg.PlainText}
	if c.trust != nil {
		o.Trust, o.Login = c.trust, creds.EngineLogin(c.cfg.CredsDir)
	}
	return o
}

func (c *connection) connectToSystem(ctx context.Context) (*nats.Conn, error) {
	o := c.connecting(creds.EngineName)
	o.CredsFile = c.cfg.SystemCreds
	nc, err := bus.Connect(ctx, c.cfg.NATS, o)
	if err != nil {
		return nil, fmt.Errorf("log in to the system account of NATS: %w", err)
	}
	return nc, nil
}

// watchTrust tells the server which logins were revoked, until ctx ends. If the folder
// cannot be read, the last good state stays in force.
func (c *connection) watchTrust(ctx context.Context) {
	if c.trust == nil {
		return
	}
	present := c.trust
	folder := plainfile.Reloader{Report: func(err error) {
		if err != nil {
			c.cfg.Log.Error("the credentials folder cannot be used; the credentials in force stay", "err", err)
		}
	}}
	folder.Watch(ctx, reloadEvery, func(context.Context) error {
		next, err := creds.LoadTrust(c.cfg.CredsDir)
		if err != nil || next.Same(present) {
			return err
		}
		if err := c.server.UseTrust(next); err != nil {
			return err
		}
		present = next
		c.cfg.Log.Info("the credentials have changed", "revoked", present.Revoked())
		return nil
	})
}

// watchCertificate lets the embedded server use a renewed certificate, and stores it for commands on
// the data folder, until ctx ends.
func (c *connection) watchCertificate(ctx context.Context) {
	if c.cfg.Cert == "" {
		return
	}
	stored := c.server.Certificate()
	files := plainfile.Reloader{Report: func(err error) {
		if err != nil {
			c.cfg.Log.Error("the certificate for NATS cannot be renewed; clients may see the last good one", "err", err)
		}
	}}
	files.Watch(ctx, reloadEvery, func(context.Context) error {
		err := c.server.RenewCertificate()
		if now := c.server.Certificate(); err == nil && !bytes.Equal(now, stored) {
			if err = plainfile.Replace(c.cfg.Dir.Certificate(), now); err == nil {
				stored = now
				c.cfg.Log.Info("the certificate for NATS was renewed")
			}
		}
		return err
	})
}

// Auth says how the names of those who send requests are authenticated; see toolcall.Principal.
func (c *connection) Auth() string {
	switch {
	case c.trust != nil:
		return bus.AuthJWT
	case c.server != nil:
		return bus.AuthSubject
	}
	return bus.AuthOf(c.conn)
}

// watchStore restarts the embedded server once a store that could not be written
// has room again, until ctx ends. A server that does not come back ends the node.
func (c *connection) watchStore(ctx context.Context, fail func(error)) {
	if c.server == nil {
		return
	}
	var again time.Time // no restart before
	broken, pause := false, lookAtStore
	for range gateway.Every(ctx, lookAtStore) {
		if err := c.server.RaiseLimit(); err != nil {
			c.cfg.Log.Warn("the store does not use the free disk space", "err", err)
		}
		h, bad := errors.AsType[*journal.HealthError](c.server.Health())
		bad = bad && len(h.Broken) > 0
		switch {
		case bad && !broken:
			c.cfg.Log.Error("the journal cannot be written: nothing is decided or started until there is room; free disk space, and the engine continues", "store", c.cfg.Dir.Store(), "err", h)
		case !bad && time.Since(again) > maxRecoverPause:
			pause = lookAtStore
		}
		if broken = bad; !bad || time.Now().Before(again) {
			continue
		}
		restarted, err := c.server.Recover(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			fail(fmt.Errorf("the NATS server does not start again after its disk was full: %w", err))
			return
		case restarted:
			c.cfg.Log.Warn("there is room again: the NATS server was restarted, and the engine continues", "store", c.cfg.Dir.Store())
			again, pause, broken = time.Now().Add(pause), min(2*pause, maxRecoverPause), false
		}
	}
}

// URL is where others connect; "" for an embedded server without a socket.
func (c *connection) URL() string {
	if c.server != nil {
		return c.server.URL()
	}
	return bus.RedactURL(c.cfg.NATS)
}

// Connect opens another connection to the same server, within the process if
// the server is the embedded one.
func (c *connection) Connect(ctx context.Context, principal string) (*nats.Conn, error) {
	o := c.connecting(principal)
	if c.server != nil {
		return c.server.Connect(ctx, o)
	}
	return bus.Connect(ctx, c.cfg.NATS, o)
}

// Messages counts what the embedded server received from clients and delivered to
// them since its start.
func (c *connection) Messages() (in, out int64, err error) {
	if c.server == nil {
		return 0, 0, errors.New("only an embedded NATS server counts its messages")
	}
	return c.server.Messages()
}

// Conn is the connection on which the journal writes.
func (c *connection) Conn() *nats.Conn { return c.conn }

func (c *connection) readServer() (err error) {
	if c.cfg.NATS != "" || c.cfg.First != nil {
		return nil
	}
	if c.cfg.CredsDir != "" {
		if c.trust, err = creds.LoadTrust(c.cfg.CredsDir); err != nil {
			return err
		}
	}
	return c.serverOptions().Check()
}
