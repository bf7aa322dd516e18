package engine

import (
	"crypto/ed25519"
	"time"

	"github.com/askance-dev/askance/message"
)

// Signer has the keys that grants are signed with. Its methods are called from
// many goroutines and must not block.
type Signer interface {
	// SigningKey is the key that signs now.
	SigningKey() ed25519.PrivateKey
	// InForce reports whether grants of the key with this id are good: nobody may
	// start a call by any other grant.
	InForce(id string) bool
}

// oneKey is a Signer whose key never changes. Grants of other keys it leaves to
// the workers to judge.
type oneKey ed25519.PrivateKey

// SigningKey implements Signer.
func (k oneKey) SigningKey() ed25519.PrivateKey { return ed25519.PrivateKey(k) }

// InForce implements Signer.
func (oneKey) InForce(string) bool { return true }

// stale reports whether the call waits for a worker with a grant that is not
// good any more.
func (e *Engine) stale(c *message.Call) bool {
	return c.Phase() == message.PhaseQueued && c.Placement == message.PlaceRemote && c.Attempt.Grant != nil && !e.cfg.signer.InForce(c.Attempt.Grant.KeyID)
}

// Renew offers calls anew whose grants are not good any more, with grants of the
// key that signs now. Calls that have been started are not touched.
func (e *Engine) Renew() {
	for _, c := range e.view.OpenCalls() {
		if e.stale(c) {
			e.timers.Set(time.Now(), c.Key, c.Seq)
		}
	}
}
