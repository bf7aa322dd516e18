// Package keyfile keeps the keys of engines and approvers in files.
//
// [Keys] holds the secrets of a space's engines: one key authenticates event
// records and never changes, the other signs grants and can be rotated. [Live]
// reads the file again while an engine runs, and [Follower] gives a worker the
// public keys that it trusts.
//
// A file with secrets is refused if other users can read it, and every file is
// written completely or not at all. No method prints, logs or encodes a secret.
//
// # Files
//
// engine.key, mode 0600, is {"v":1,"id":…,"mac_key":…,"signing_seed":…} with keys of 32
// bytes in base64url; after a rotation of the signing key {"v":2,"id":…,"mac_key":…,
// "signing_keys":[…]}, oldest first; the last one signs. id and mac_key never change.
// All engines of a space share it; without it none can continue the journal.
// anchors/<space> has the last checkpoint and the highest record that was acknowledged
// or delivered, each with a MAC by these keys. nats/askance.lock is locked while an
// embedded server runs on its store.
package keyfile

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/secretfile"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// Keys are the secrets of a space's engines, the same in all replicas: the MAC key
// that authenticates event records and never changes, and the Ed25519 key that
// signs grants and can be rotated. Keys are immutable: see [Live].
type Keys struct {
	id   string
	mac  [32]byte
	sign ed25519.PrivateKey // the last of ring
	// ring has every key that ever signed, oldest first; secrets has those that
	// are not retired.
	ring    toolcall.KeyRing
	secrets map[string]ed25519.PrivateKey
	macs    sync.Pool // of *recordMAC
}

// New creates keys.
func New() (*Keys, error) {
	var mac, seed [32]byte
	for _, b := range [][]byte{mac[:], seed[:]} {
		if _, err := rand.Read(b); err != nil {
			return nil, message.Errorf(message.CodeInternal, "make keys", "read random bytes: %w", err)
		}
	}
	return keysOf(mac, seed), nil
}

func keysOf(mac, seed [32]byte) *Keys {
	k := &Keys{mac: mac, sign: ed25519.NewKeyFromSeed(seed[:])}
	k.id = toolcall.KeyID(k.Public())
	k.ring = toolcall.KeyRing{{ID: k.id, Public: toolcall.FormatPublicKey(k.Public())}}
	k.secrets = map[string]ed25519.PrivateKey{k.id: k.sign}
	return k
}

// ID returns the name of the keys in the stream's metadata and in every event record: the
// KeyID of the first signing key. It survives rotations.
func (k *Keys) ID() string { return k.id }

// SigningID returns the KeyID of the current signing key.
func (k *Keys) SigningID() string { return toolcall.KeyID(k.Public()) }

// Ring returns every signing key, oldest first, for workers to follow from one that they
// trust.
func (k *Keys) Ring() toolcall.KeyRing { return slices.Clone(k.ring) }

// HasRetired reports whether a signing key was retired.
func (k *Keys) HasRetired(id string) bool {
	return slices.ContainsFunc(k.ring, func(e toolcall.EngineKey) bool { return e.ID == id && !e.Retired.IsZero() })
}

// Signer returns the private key that signs grants.
func (k *Keys) Signer() ed25519.PrivateKey { return k.sign }

// Public returns the key with which workers check new grants.
func (k *Keys) Public() ed25519.PublicKey { return k.sign.Public().(ed25519.PublicKey) }

// recordMAC is a hash that is used again, with room for what it hashes before the body.
type recordMAC struct {
	hash.Hash
	buf []byte
}

// recordDomain separates MACs of event records from all other MACs.
const recordDomain = "askance-record-v1\x00"

// RecordMAC authenticates an event record's body, its subject and its predecessor.
// Length prefixes keep the parts apart.
func (k *Keys) RecordMAC(subject string, prev uint64, body []byte) [sha256.Size]byte {
	h, ok := k.macs.Get().(*recordMAC)
	if !ok {
		h = &recordMAC{Hash: hmac.New(sha256.New, k.mac[:])}
	}
	defer k.macs.Put(h)
	h.Reset()
	h.buf = append(h.buf[:0], recordDomain...)
	h.buf = binary.BigEndian.AppendUint64(h.buf, uint64(len(subject)))
	h.buf = append(h.buf, subject...)
	h.buf = binary.BigEndian.AppendUint64(h.buf, prev)
	h.Write(h.buf)
	h.Write(body)
	return [sha256.Size]byte(h.Sum(h.buf[:0]))
}

// derivedDomain separates derived keys from MACs.
const derivedDomain = "askance-derived-v1\x00"

// Derive returns a secret for another purpose, which does not reveal the keys and
// survives rotations.
func (k *Keys) Derive(purpose string) [32]byte {
	h := hmac.New(sha256.New, k.mac[:])
	h.Write([]byte(derivedDomain + purpose))
	return [32]byte(h.Sum(nil))
}

// String returns only the id.
func (k *Keys) String() string { return "engine keys " + k.id }

// GoString returns only the id.
func (k *Keys) GoString() string { return k.String() }

// Format prints only the id.
func (k *Keys) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.String())) }

// LogValue returns only the id.
func (k *Keys) LogValue() slog.Value { return slog.StringValue(k.id) }

// MarshalJSON returns only the id; file.go has the file format.
func (k *Keys) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%q", k.String()), nil }

// RetirementTimes returns when keys of the ring were retired.
func (k *Keys) RetirementTimes() proof.Retired {
	out := proof.Retired{}
	for _, e := range k.ring {
		if !e.Retired.IsZero() {
			out[e.ID] = e.Retired
		}
	}
	return out
}

// VerificationKeys returns all keys that ever signed, so that old signatures can be verified.
func (k *Keys) VerificationKeys() toolcall.KeySet {
	out := toolcall.KeySet{}
	for _, e := range k.ring {
		if pub, err := e.Key(); err == nil { // it was checked when it was read
			out[e.ID] = pub
		}
	}
	return out
}

// decodeKeys decodes a key file, or returns why it cannot.
func (f keyFile) decodeKeys() (k *Keys, why string) {
	var mac, seed [32]byte
	const notKeys = "its keys are not 32 bytes in base64url"
	if !decodeKey(&mac, f.MAC) {
		return nil, notKeys
	}
	if f.V == 1 {
		if !decodeKey(&seed, f.Seed) || len(f.Keys) > 0 {
			return nil, notKeys
		}
		if k = keysOf(mac, seed); k.id != f.ID {
			return nil, "its id does not match its keys"
		}
		return k, ""
	}
	k = &Keys{id: f.ID, mac: mac, secrets: map[string]ed25519.PrivateKey{}}
	for _, s := range f.Keys {
		pub, err := s.Key()
		if err != nil {
			return nil, "the signing key " + errtext.Quote(s.ID) + " does not match its id"
		}
		k.ring = append(k.ring, s.EngineKey)
		if s.Seed == "" && !s.Retired.IsZero() {
			continue
		}
		if !decodeKey(&seed, s.Seed) {
			return nil, notKeys
		}
		key := ed25519.NewKeyFromSeed(seed[:])
		if !pub.Equal(key.Public()) {
			return nil, "the secret of the signing key " + errtext.Quote(s.ID) + " belongs to another key"
		}
		k.secrets[s.ID], k.sign = key, key
	}
	if len(k.ring) == 0 || k.ring[0].ID != f.ID || f.Seed != "" {
		return nil, "its id does not match its first signing key"
	}
	if last := k.ring[len(k.ring)-1]; !last.Retired.IsZero() || k.secrets[last.ID] == nil {
		return nil, "its last signing key is retired"
	}
	return k, ""
}

// encodeFile encodes the keys, in version 1 while there is one signing key.
func (k *Keys) encodeFile() keyFile {
	f := keyFile{V: 2, ID: k.id, MAC: base64.RawURLEncoding.EncodeToString(k.mac[:])}
	if len(k.ring) == 1 {
		f.V, f.Seed = 1, base64.RawURLEncoding.EncodeToString(k.sign.Seed())
		return f
	}
	for _, e := range k.ring {
		s := secretKey{EngineKey: e}
		if key := k.secrets[e.ID]; key != nil && e.Retired.IsZero() {
			s.Seed = base64.RawURLEncoding.EncodeToString(key.Seed())
		}
		f.Keys = append(f.Keys, s)
	}
	return f
}

func (k *Keys) clone() *Keys {
	return &Keys{id: k.id, mac: k.mac, sign: k.sign, ring: slices.Clone(k.ring), secrets: maps.Clone(k.secrets)}
}

// Rotated returns keys with a new signing key, for which the previous one vouches.
// Grants of the previous key stay valid until it is retired.
func (k *Keys) Rotated(now time.Time) (*Keys, error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, message.Errorf(message.CodeInternal, "rotate keys", "make a key: %w", err)
	}
	e := toolcall.EngineKey{ID: toolcall.KeyID(pub), Public: toolcall.FormatPublicKey(pub), Since: now.UTC().Truncate(time.Second)}
	if err := e.Introduce(k.sign); err != nil {
		return nil, err
	}
	out := k.clone()
	out.ring, out.secrets[e.ID], out.sign = append(out.ring, e), key, key
	return out, nil
}

// Retired returns keys in which the grants of the signing key id are invalid and its
// secret is removed. The current signing key cannot be retired.
func (k *Keys) Retired(id string, now time.Time) (*Keys, error) {
	const op = "retire key"
	i := slices.IndexFunc(k.ring, func(e toolcall.EngineKey) bool { return e.ID == id })
	switch {
	case i < 0:
		return nil, &message.Error{Code: message.CodeNotFound, Op: op, What: "there is no signing key " + errtext.Quote(id), Hint: "list the keys with askance keys list"}
	case id == k.SigningID():
		return nil, &message.Error{Code: message.CodeConflict, Op: op, What: id + " is the current signing key", Hint: "rotate the keys first"}
	case !k.ring[i].Retired.IsZero():
		return nil, &message.Error{Code: message.CodeConflict, Op: op, What: id + " is already retired", Hint: "no action is needed"}
	}
	out := k.clone()
	if err := out.ring[i].Retire(now.UTC().Truncate(time.Second), k.sign); err != nil {
		return nil, err
	}
	delete(out.secrets, id)
	return out, nil
}

// Change changes a key file while it holds a lock against other processes.
func Change(ctx context.Context, path string, change func(*Keys) (*Keys, error)) (changed *Keys, err error) {
	const op = "change engine keys"
	if _, err := Load(path); err != nil {
		return nil, err
	}
	err = secretfile.Lock(ctx, op, path+".lock", func() error {
		k, err := Load(path)
		if err == nil {
			changed, err = change(k)
		}
		if err != nil {
			return err
		}
		b, err := strictjson.Marshal(changed.encodeFile())
		if err == nil {
			err = secretfile.Replace(path, b, 0o600)
		}
		if err != nil {
			return secretfile.Error(op, path, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return changed, nil
}

// Live has the keys of a file that can be rotated while an engine runs. It implements
// engine.Signer. Its methods are safe for concurrent use.
type Live struct {
	path string
	now  atomic.Pointer[Keys]

	reload sync.Mutex  // serializes reloads
	seen   os.FileInfo // of the file with these keys; nil before the first reload
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

// HasRetired reports whether a signing key was retired.
func (l *Live) HasRetired(id string) bool { return l.Now().HasRetired(id) }

// Ring returns every signing key, for workers to follow.
func (l *Live) Ring() toolcall.KeyRing { return l.Now().Ring() }

// Reload reads the file again if its time or size changed. If the keys changed, it calls before
// with the new keys before they sign anything. It refuses keys of another space. After an error
// the current keys stay in use.
func (l *Live) Reload(before func(*Keys) error) (changed bool, err error) {
	l.reload.Lock()
	defer l.reload.Unlock()
	info, err := os.Stat(l.path)
	if old := l.seen; err == nil && os.SameFile(old, info) && old.ModTime().Equal(info.ModTime()) && old.Size() == info.Size() && old.Mode() == info.Mode() {
		return false, nil
	}
	k, err := Load(l.path)
	if err != nil {
		return false, err
	}
	now := l.Now()
	switch {
	case k.id != now.id || k.mac != now.mac:
		return false, &message.Error{Code: message.CodeInvalid, Op: "reload engine keys", What: l.path + " has the keys " + k.id + ", but this engine runs with " + now.id, Hint: "restore the space's own file"}
	case k.sameRing(now):
		l.seen = info
		return false, nil
	}
	if err := before(k); err != nil {
		return false, err
	}
	l.now.Store(k)
	l.seen = info
	return true, nil
}

// Publish writes the public keys as the file has them now, even if it changes meanwhile; see [Keys.WritePublic].
func (l *Live) Publish(path string) error {
	write := func(k *Keys) error { return k.WritePublic(path) }
	if _, err := l.Reload(write); err != nil {
		return err
	}
	if err := write(l.Now()); err != nil { // which may replace newer ones that another process wrote
		return err
	}
	_, err := l.Reload(write)
	return err
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
	return &Follower{paths: paths, ring: ring, retired: map[string]bool{}}
}

// Keys returns the keys that are trusted now. Without a reply from engines, the earlier
// keys stay trusted. A retired key is never trusted again.
func (f *Follower) Keys(ctx context.Context) (toolcall.KeySet, error) {
	known, ended, err := LoadPublicEver(f.paths...)
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
	for id := range ended {
		f.retired[id] = true
	}
	known, f.retired = ring.Follow(known, f.retired)
	f.learned = maps.Clone(known)
	maps.DeleteFunc(f.learned, func(id string, _ ed25519.PublicKey) bool { return files[id] != nil })
	return known, nil
}
