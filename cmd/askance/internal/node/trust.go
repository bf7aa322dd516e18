package node

import (
	"context"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/plainfile"
)

// serverOptions are those of the embedded server, with the logins of a
// credentials folder if there is one.
func (n *Node) serverOptions() embed.Options {
	o := embed.Options{StoreDir: n.cfg.Dir.Store(), Listen: n.cfg.Listen, Durability: n.cfg.Durability, Logger: n.cfg.Log, Reopen: n.cfg.Reopen, TLSCert: n.cfg.Cert, TLSKey: n.cfg.Key, PlainText: n.cfg.PlainText}
	if n.trust != nil {
		o.Trust, o.Login = n.trust, creds.EngineLogin(n.cfg.CredsDir)
	}
	return o
}

func (n *Node) openServer(ctx context.Context) error {
	server, err := embed.Start(ctx, n.serverOptions())
	if err != nil {
		return err
	}
	n.server = server
	n.onClose(func() error { n.server.Close(); return nil })
	return nil
}

// watchTrust tells the server who was revoked, until ctx ends. What cannot be
// read changes nothing: the last good one stays in force.
func (n *Node) watchTrust(ctx context.Context) {
	if n.trust == nil {
		return
	}
	present := n.trust
	folder := plainfile.Reloader{Report: func(err error) {
		if err != nil {
			n.cfg.Log.Error("the credentials folder cannot be used; those in force stay", "err", err)
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

// Auth is how the names of those who send requests are established; see
// toolcall.Principal.
func (n *Node) Auth() string {
	switch {
	case n.trust != nil:
		return bus.AuthJWT
	case n.server != nil:
		return bus.AuthSubject
	}
	return bus.AuthOf(n.conn)
}

// watchKeys follows rotations of the signing key until ctx ends. Workers get the
// new public key before anything is signed with it.
func (n *Node) watchKeys(ctx context.Context) {
	file := plainfile.Reloader{Report: func(err error) {
		if err != nil {
			n.cfg.Log.Error("the key file cannot be used; the keys in force stay", "error", err)
			return
		}
		n.cfg.Log.Info("the key file is in order again")
	}}
	file.Watch(ctx, reloadEvery, func(context.Context) error {
		changed, err := n.signing.Reload(func(k *keyfile.Keys) error { return k.WritePublic(n.cfg.Dir.PublicKeys()) })
		if changed {
			n.cfg.Log.Info("the signing keys have changed", "signing", n.KeyID())
			n.engine.Renew()
		}
		return err
	})
}
