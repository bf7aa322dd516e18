package node

import (
	"context"
	"time"

	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/keyfile"

	"github.com/askance-dev/askance/bus"
)

// lookForTrust is how often the credentials folder is looked at.
const lookForTrust = time.Second

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
	tick := time.NewTicker(lookForTrust)
	defer tick.Stop()
	present, bad := n.trust, ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		next, err := creds.LoadTrust(n.cfg.CredsDir)
		if err == nil && !next.Same(present) {
			if err = n.server.UseTrust(next); err == nil {
				present = next
				n.cfg.Log.Info("the credentials have changed", "revoked", present.Revoked())
			}
		}
		switch {
		case err == nil:
			bad = ""
		case err.Error() != bad:
			bad = err.Error()
			n.cfg.Log.Error("the credentials folder cannot be used; those in force stay", "err", err)
		}
	}
}

// Auth is how the names of those who send requests are established; see
// message.Principal.
func (n *Node) Auth() string {
	switch {
	case n.trust != nil:
		return bus.AuthJWT
	case n.server != nil:
		return bus.AuthSubject
	}
	return bus.AuthOf(n.conn)
}

// lookForKeys is how often the key file is looked at.
const lookForKeys = time.Second

// watchKeys follows rotations of the signing key until ctx ends. Workers get the
// new public key before anything is signed with it.
func (n *Node) watchKeys(ctx context.Context) {
	tick := time.NewTicker(lookForKeys)
	defer tick.Stop()
	bad := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := n.signing.Reload(func(k *keyfile.Keys) error { return k.WritePublic(n.cfg.Dir.PublicKeys()) })
		switch {
		case err != nil && err.Error() != bad:
			bad = err.Error()
			n.cfg.Log.Error("the key file cannot be used; the keys in force stay", "error", err)
		case err == nil && bad != "":
			bad = ""
			n.cfg.Log.Info("the key file is in order again")
		}
		if changed {
			n.cfg.Log.Info("the signing keys have changed", "signing", n.KeyID())
			n.engine.Renew()
		}
	}
}
