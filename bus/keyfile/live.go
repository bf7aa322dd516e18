package keyfile

import (
	"context"
	"crypto/ed25519"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Live has the keys of a file that can be rotated while an engine runs. It implements
// engine.Signer. Its methods are safe for concurrent use.
type Live struct {
	path string
	now  atomic.Pointer[Keys]
}

// NewLive returns a Live for the file at path, from which k was read.
func NewLive(path string, k *Keys) *Live {
	l := &Live{path: path}
	l.now.Store(k)
	return l
}

// Now returns the current keys.
func (l *Live) Now() *Keys { return l.now.Load() }

// SigningKey returns the key that currently signs grants.
func (l *Live) SigningKey() ed25519.PrivateKey { return l.Now().Signer() }

// InForce reports whether grants of a signing key are valid.
func (l *Live) InForce(id string) bool { return l.Now().InForce(id) }

// Ring returns every signing key, for workers to follow.
func (l *Live) Ring() toolcall.KeyRing { return l.Now().Ring() }

// Reload reads the file again. If the keys changed, it calls before with the new keys
// before they sign anything. It refuses keys of another space. After an error the current
// keys stay in use.
func (l *Live) Reload(before func(*Keys) error) (changed bool, err error) {
	k, err := Load(l.path)
	if err != nil {
		return false, err
	}
	now := l.Now()
	switch {
	case k.id != now.id || k.mac != now.mac:
		return false, &message.Error{Code: message.CodeInvalid, Op: "reload engine keys", What: l.path + " has the keys " + k.id + ", but this engine runs with " + now.id, Hint: "restore the space's own file"}
	case k.sameRing(now):
		return false, nil
	}
	if err := before(k); err != nil {
		return false, err
	}
	l.now.Store(k)
	return true, nil
}

func (k *Keys) sameRing(other *Keys) bool {
	return slices.EqualFunc(k.ring, other.ring, func(a, b toolcall.EngineKey) bool {
		return a.ID == b.ID && a.Retired.Equal(b.Retired)
	})
}

// Follower returns the engine keys that a worker trusts: those in files, and their
// successors, announced over NATS, that a trusted key vouches for. It implements
// executor.KeySource. Its methods are safe for concurrent use.
type Follower struct {
	paths []string
	ring  func(context.Context) (toolcall.KeyRing, error)

	mu      sync.Mutex      // guards what follows
	learned toolcall.KeySet // in addition to those in files
	retired map[string]bool
}

// NewFollower returns a Follower that reads files (see [LoadPublic]) and, if ring is not
// nil, calls it for the keys that engines announce: normally [bus.Worker.Keys].
func NewFollower(paths []string, ring func(context.Context) (toolcall.KeyRing, error)) *Follower {
	return &Follower{paths: paths, ring: ring}
}

// Keys returns the keys that are trusted now. Without a reply from engines, the earlier
// keys stay trusted. A retired key is never trusted again.
func (f *Follower) Keys(ctx context.Context) (toolcall.KeySet, error) {
	known, err := LoadPublic(f.paths...)
	if err != nil {
		return nil, err
	}
	var ring toolcall.KeyRing
	if f.ring != nil {
		ring, _ = f.ring(ctx) // after an error there is just nothing new
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	files := maps.Clone(known)
	maps.Copy(known, f.learned)
	known, f.retired = ring.Follow(known, f.retired)
	f.learned = maps.Clone(known)
	maps.DeleteFunc(f.learned, func(id string, _ ed25519.PublicKey) bool { return files[id] != nil })
	return known, nil
}
