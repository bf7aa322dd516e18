package node

import (
	"context"
	"time"

	"github.com/askance-dev/askance/bus"
)

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
		changed, err := n.signing.Reload(func(k *bus.Keys) error { return k.WritePublic(n.cfg.Dir.PublicKeys()) })
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
