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

// Live has the keys of a file that can be rotated while an engine runs. It is an
// engine.Signer. Its methods may be called from several goroutines.
type Live struct {
	path string
	now  atomic.Pointer[Keys]
}

// NewLive begins with keys that were read from a file.
func NewLive(path string, k *Keys) *Live {
	l := &Live{path: path}
	l.now.Store(k)
	return l
}

// Now returns the current keys.
func (l *Live) Now() *Keys { return l.now.Load() }

// SigningKey is the key that signs grants now.
func (l *Live) SigningKey() ed25519.PrivateKey { return l.Now().Signer() }

// InForce reports whether grants of a signing key are valid.
func (l *Live) InForce(id string) bool { return l.Now().InForce(id) }

// Ring has every signing key, for workers to follow.
func (l *Live) Ring() toolcall.KeyRing { return l.Now().Ring() }

// Reload reads the file again and calls before with changed keys before they sign
// anything. It refuses keys of another space. After an error the current keys
// stay.
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

// Follower knows which engine keys a worker trusts: those in files, and successors
// that a trusted key vouches for over NATS. It is an executor.KeySource. Its
// methods may be called from several goroutines.
type Follower struct {
	paths []string
	ring  func(context.Context) (toolcall.KeyRing, error)

	mu      sync.Mutex      // guards what follows
	learned toolcall.KeySet // beyond those in files
	retired map[string]bool
}

// NewFollower reads files (see [LoadPublic]) and asks ring, if not nil, for the
// keys that engines announce: normally [bus.Worker.Keys].
func NewFollower(paths []string, ring func(context.Context) (toolcall.KeyRing, error)) *Follower {
	return &Follower{paths: paths, ring: ring}
}

// Keys returns the keys that are trusted now. Without a reply from engines,
// earlier keys stay. A retired key never returns.
func (f *Follower) Keys(ctx context.Context) (toolcall.KeySet, error) {
	known, err := LoadPublic(f.paths...)
	if err != nil {
		return nil, err
	}
	var ring toolcall.KeyRing
	if f.ring != nil {
		ring, _ = f.ring(ctx) // nothing new then
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
