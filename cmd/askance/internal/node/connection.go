package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/internal/plainfile"
)

// connection is the way to the NATS server: the embedded one, which the first node of a
// process owns, or an existing one.
type connection struct {
	cfg    *Config
	server *embed.Server // nil with an existing NATS
	trust  *creds.Trust  // nil without a credentials folder
	conn   *nats.Conn
	lock   io.Closer // of the data folder, with an existing NATS; the store of an embedded server has its own
}

// openBus starts the embedded server, if the node needs one, and connects.
func (n *connection) openBus(ctx context.Context) (err error) {
	switch first := n.cfg.First; {
	case first != nil:
		n.server, n.trust = first.server, first.trust
	case n.cfg.NATS == "":
		if n.server, err = embed.Start(ctx, n.serverOptions()); err != nil {
			return err
		}
	case !n.cfg.Offline: // two engines would write to one anchor
		if n.lock, err = embed.Lock(string(n.cfg.Dir)); err != nil {
			return err
		}
	}
	n.conn, err = n.Connect(ctx, creds.EngineName)
	return err
}

// close ends the connection, and then the embedded server.
func (n *connection) close() error {
	if n.conn != nil {
		n.conn.Close()
	}
	if n.server != nil && n.cfg.First == nil {
		n.server.Close()
	}
	if n.lock != nil {
		return n.lock.Close()
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
func (n *connection) connecting(principal string) bus.ConnectOptions {
	o := bus.ConnectOptions{Principal: principal, CredsFile: n.cfg.Creds, Logger: n.cfg.Log}
	if n.server == nil {
		o.CAFile, o.PlainText = n.cfg.CA, n.cfg.PlainText
	}
	return o
}

// serverOptions returns the options of the embedded server, with the logins of a
// credentials folder if there is one.
func (n *connection) serverOptions() embed.Options {
	o := embed.Options{StoreDir: n.cfg.Dir.Store(), AddressFiles: n.cfg.Dir.Addresses(), Listen: n.cfg.Listen, Durability: n.cfg.Durability, Logger: n.cfg.Log, Reopen: n.cfg.Reopen, TLSCert: n.cfg.Cert, TLSKey: n.cfg.Key, PlainText: n.cfg.PlainText}
	if n.trust != nil {
		o.Trust, o.Login = n.trust, creds.EngineLogin(n.cfg.CredsDir)
	}
	return o
}

func (n *connection) connectToSystem(ctx context.Context) (*nats.Conn, error) {
	o := n.connecting(creds.EngineName)
	o.CredsFile = n.cfg.SystemCreds
	nc, err := bus.Connect(ctx, n.cfg.NATS, o)
	if err != nil {
		return nil, fmt.Errorf("log in to the system account of NATS: %w", err)
	}
	return nc, nil
}

// watchTrust tells the server which logins were revoked, until ctx ends. If the folder
// cannot be read, the last good state stays in force.
func (n *connection) watchTrust(ctx context.Context) {
	if n.trust == nil {
		return
	}
	present := n.trust
	folder := plainfile.Reloader{Report: func(err error) {
		if err != nil {
			n.cfg.Log.Error("the credentials folder cannot be used; the credentials in force stay", "err", err)
		}
	}}
	folder.Watch(ctx, reloadEvery, func(context.Context) error {
		next, err := creds.LoadTrust(n.cfg.CredsDir)
		if err != nil || next.Same(present) {
			return err
		}
		if err := n.server.UseTrust(next); err != nil {
			return err
		}
		present = next
		n.cfg.Log.Info("the credentials have changed", "revoked", present.Revoked())
		return nil
	})
}

// Auth says how the names of those who send requests are authenticated; see toolcall.Principal.
func (n *connection) Auth() string {
	switch {
	case n.trust != nil:
		return bus.AuthJWT
	case n.server != nil:
		return bus.AuthSubject
	}
	return bus.AuthOf(n.conn)
}

// watchStore restarts the embedded server once a store that could not be written
// has room again, until ctx ends. A server that does not come back ends the node.
func (n *connection) watchStore(ctx context.Context, fail func(error)) {
	if n.server == nil {
		return
	}
	tick := time.NewTicker(lookAtStore)
	defer tick.Stop()
	var again time.Time // no restart before
	broken, pause := false, lookAtStore
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		h, bad := errors.AsType[*bus.HealthError](n.server.Health())
		bad = bad && len(h.Broken) > 0
		switch {
		case bad && !broken:
			n.cfg.Log.Error("the journal cannot be written: nothing is decided or started until there is room; free disk space, and the engine continues", "store", n.cfg.Dir.Store(), "err", h)
		case !bad && time.Since(again) > maxRecoverPause:
			pause = lookAtStore
		}
		if broken = bad; !bad || time.Now().Before(again) {
			continue
		}
		restarted, err := n.server.Recover(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			fail(fmt.Errorf("the NATS server does not start again after its disk was full: %w", err))
			return
		case restarted:
			n.cfg.Log.Warn("there is room again: the NATS server was restarted, and the engine continues", "store", n.cfg.Dir.Store())
			again, pause, broken = time.Now().Add(pause), min(2*pause, maxRecoverPause), false
		}
	}
}

// URL is where others connect; "" for an embedded server without a socket.
func (n *connection) URL() string {
	if n.server != nil {
		return n.server.URL()
	}
	return bus.RedactURL(n.cfg.NATS)
}

// Connect opens another connection to the same server, within the process if
// the server is the embedded one.
func (n *connection) Connect(ctx context.Context, principal string) (*nats.Conn, error) {
	o := n.connecting(principal)
	if n.server != nil {
		return n.server.Connect(ctx, o)
	}
	return bus.Connect(ctx, n.cfg.NATS, o)
}

// Messages counts what the embedded server received from clients and delivered to
// them since its start.
func (n *connection) Messages() (in, out int64, err error) {
	if n.server == nil {
		return 0, 0, errors.New("only an embedded NATS server counts its messages")
	}
	return n.server.Messages()
}

// Conn is the connection on which the journal writes.
func (n *connection) Conn() *nats.Conn { return n.conn }

func (n *connection) readServer() (err error) {
	if n.cfg.NATS != "" || n.cfg.First != nil {
		return nil
	}
	if n.cfg.CredsDir != "" {
		if n.trust, err = creds.LoadTrust(n.cfg.CredsDir); err != nil {
			return err
		}
	}
	return n.serverOptions().Check()
}
