package node

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/plainfile"
)

type keyring struct {
	cfg     *Config
	files   Dir           // with the keys and the anchor
	keys    *keyfile.Keys // as they were at the start: event records need no others
	signing *keyfile.Live // as they are now
}

func (n *keyring) openKeys(context.Context) (err error) {
	path := cmp.Or(n.cfg.Keys, n.files.Keys())
	if n.cfg.Offline {
		if err := n.cfg.Dir.Exists(); err != nil {
			return err
		}
		n.keys, err = keyfile.Load(path)
	} else {
		if err := os.MkdirAll(string(n.files), 0o700); err != nil {
			return fmt.Errorf("make the data folder: %w", err)
		}
		if n.cfg.Anchor == "" && n.files.hasAnchors() { // of another space: this one is new, if it has none
			if err := bus.CreateAnchor(n.anchorPath()); err != nil {
				return err
			}
		}
		n.keys, err = bus.LoadOrCreateSpaceKeys(path, n.anchorPath())
	}
	if err != nil {
		return err
	}
	n.signing = keyfile.NewLive(path, n.keys)
	return nil
}

func (n *keyring) anchorPath() string {
	return cmp.Or(n.cfg.Anchor, n.files.Anchor(n.cfg.Space))
}

// writePublic writes the public key for workers, now that the folder is locked and the key matches
// the stream: an engine that cannot run must not replace the file of one that does.
func (n *keyring) writePublic(context.Context) error {
	if n.cfg.Offline {
		return nil
	}
	return n.keys.WritePublic(n.files.PublicKeys())
}

// watchKeys follows rotations of the signing key until ctx ends. Workers get the
// new public key before anything is signed with it.
func (n *keyring) watchKeys(ctx context.Context, renew func()) {
	file := plainfile.Reloader{Report: func(err error) {
		if err != nil {
			n.cfg.Log.Error("the key file cannot be used; the keys in force stay", "error", err)
			return
		}
		n.cfg.Log.Warn("the key file is valid again")
	}}
	file.Watch(ctx, reloadEvery, func(context.Context) error {
		changed, err := n.signing.Reload(func(k *keyfile.Keys) error { return k.WritePublic(n.files.PublicKeys()) })
		if changed {
			n.cfg.Log.Info("the signing keys have changed", "signing", n.KeyID())
			renew()
		}
		return err
	})
}

// KeyID names the key that grants are signed with.
func (n *keyring) KeyID() string { return n.signing.Now().SigningID() }

// LinkKey is the key that authenticates links in webhooks: the same for all engines of the space.
func (n *keyring) LinkKey() [32]byte { return n.keys.Derive("webhook links") }

// LoginKey is the key that seals the cookies of browsers: the same for all engines of the space.
func (n *keyring) LoginKey() [32]byte { return n.keys.Derive("browser logins") }
