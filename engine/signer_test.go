package engine_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
)

// rotating is a Signer that a test rotates.
type rotating struct {
	mu      sync.Mutex // guards what follows
	key     ed25519.PrivateKey
	retired map[string]bool
}

func (r *rotating) SigningKey() ed25519.PrivateKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.key
}

func (r *rotating) InForce(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.retired[id]
}

// rotate signs with key n from now on, and gives the id of the key before.
func (r *rotating) rotate(n byte) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.key
	r.key = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
	return message.KeyID(before.Public().(ed25519.PublicKey))
}

func (r *rotating) retire(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retired[id] = true
}

func newRotating() *rotating {
	r := &rotating{retired: map[string]bool{}}
	r.key = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	return r
}

// A grant of a rotated key starts its call. A grant of a retired key starts
// nothing, and the call is offered anew at once, also by an engine that was not
// there when the key was retired.
func TestGrantsAcrossRotation(t *testing.T) {
	for _, restart := range []bool{false, true} {
		keys := newRotating()
		synctest.Test(t, func(t *testing.T) {
			h := &hours{T: t, journal: engine.NewMemory(), opts: []engine.Option{engine.WithSigner(keys)}}
			h.eng = h.engine(remoteTool, allow, nil)
			c := h.propose()
			first := keys.rotate(2)
			if c.Attempt.Grant.KeyID != first {
				t.Fatalf("signed by %s, want %s", c.Attempt.Grant.KeyID, first)
			}
			if c = h.after(time.Second); c.Attempt.Offers != 1 {
				t.Error("a rotation alone offers anew")
			}
			if restart {
				_ = h.eng.Close()
			}
			keys.retire(first)
			if restart {
				h.eng = h.engine(remoteTool, allow, nil)
			} else if _, err := h.as(message.RoleWorker, "w").Start(t.Context(), message.StartRequest{Key: key, Attempt: 1, Claim: "early"}); !errors.Is(err, message.ErrSuperseded) {
				t.Errorf("a start with a retired grant: %v", err)
			}
			h.eng.Renew()
			if c = h.after(2 * time.Second); c.Attempt.Grant.KeyID == first || c.Attempt.Number != 1 || c.Attempt.Offers != 2 {
				t.Fatalf("after the retirement: key %s, attempt %d, %d offers", c.Attempt.Grant.KeyID, c.Attempt.Number, c.Attempt.Offers)
			}
			h.start(1)
			keys.retire(keys.rotate(3))
			h.eng.Renew()
			if c = h.after(2 * time.Second); !c.Started() || c.Attempt.Offers != 2 {
				t.Error("a started call was touched")
			}
		})
	}
}
