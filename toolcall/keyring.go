package toolcall

import (
	"crypto/ed25519"
	"encoding/base64"
	"maps"
	"time"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/message"
)

// EngineKey is one of the keys with which the engines of a space have signed grants, as
// they announce it. A new key is signed by the key before it, and the end of a key by its
// successor, so a worker that knows one key can follow the others, regardless of who sends them.
type EngineKey struct {
	ID     string    `json:"id"`
	Public string    `json:"public_key"`     // as FormatPublicKey writes it
	Since  time.Time `json:"since,omitzero"` // zero if from the beginning
	By     string    `json:"by,omitzero"`    // id of the key that vouches for it, if any
	Sig    string    `json:"sig,omitzero"`   // base64url Ed25519 of By

	Retired    time.Time `json:"retired,omitzero"` // zero while its grants are valid
	RetiredBy  string    `json:"retired_by,omitzero"`
	RetiredSig string    `json:"retired_sig,omitzero"` // base64url Ed25519 of RetiredBy
}

// KeyRing are a space's signing keys, oldest first.
type KeyRing []EngineKey

// These domains separate signatures over keys from all other signatures.
const (
	keyDomain     = "askance-key-v1\n"
	retiredDomain = "askance-key-retired-v1\n"
)

func (k EngineKey) introductionText() ([]byte, error) {
	return inDomain(keyDomain, EngineKey{ID: k.ID, Public: k.Public, Since: k.Since, By: k.By})
}

func (k EngineKey) retirement() ([]byte, error) {
	return inDomain(retiredDomain, EngineKey{ID: k.ID, Public: k.Public, Retired: k.Retired, RetiredBy: k.RetiredBy})
}

func inDomain(domain string, v any) ([]byte, error) {
	b, err := jcs.Marshal(v)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInternal, Op: "sign", What: "no canonical form", Err: err}
	}
	return append([]byte(domain), b...), nil
}

// Introduce signs k with the key before it, which thereby vouches for k.
func (k *EngineKey) Introduce(before ed25519.PrivateKey) error {
	k.By = KeyID(before.Public().(ed25519.PublicKey))
	b, err := k.introductionText()
	if err == nil {
		k.Sig = base64.RawURLEncoding.EncodeToString(ed25519.Sign(before, b))
	}
	return err
}

// Retire signs the end of k with its successor.
func (k *EngineKey) Retire(at time.Time, successor ed25519.PrivateKey) error {
	k.Retired, k.RetiredBy = at, KeyID(successor.Public().(ed25519.PublicKey))
	b, err := k.retirement()
	if err == nil {
		k.RetiredSig = base64.RawURLEncoding.EncodeToString(ed25519.Sign(successor, b))
	}
	return err
}

// Key returns the public key, or an error if it does not match the id.
func (k EngineKey) Key() (ed25519.PublicKey, error) {
	pub, err := ParsePublicKey(k.Public)
	if err == nil && KeyID(pub) != k.ID {
		err = &message.Error{Code: message.CodeInvalid, Op: "read public key", What: "the id does not match the key", Hint: "get the key from the engines again"}
	}
	return pub, err
}

// InForce returns the keys that are not retired. The ring itself must be trusted.
func (r KeyRing) InForce() (KeySet, error) {
	out := KeySet{}
	for _, k := range r {
		pub, err := k.Key()
		if err != nil {
			return nil, err
		}
		if k.Retired.IsZero() {
			out[k.ID] = pub
		}
	}
	return out, nil
}

// Follow applies a ring of unknown origin to the trusted keys and retired key ids that a
// reader already has. It returns the keys that are now trusted, and all ids that are known to
// be retired, which never come back. A key is added if a trusted key vouches for it, and
// removed if a trusted key declares its end. Statements of untrusted keys have no effect.
func (r KeyRing) Follow(trusted KeySet, retired map[string]bool) (KeySet, map[string]bool) {
	known, gone := maps.Clone(trusted), maps.Clone(retired)
	if gone == nil {
		gone = map[string]bool{}
	}
	for _, k := range r { // oldest first: the key that vouches comes before
		pub, err := k.Key()
		if err != nil || known[k.ID] != nil || gone[k.By] {
			continue
		}
		if msg, err := k.introductionText(); err == nil && signedBy(known[k.By], msg, k.Sig) {
			known[k.ID] = pub
		}
	}
	for _, k := range r {
		msg, err := k.retirement()
		if err == nil && !k.Retired.IsZero() && k.RetiredBy != k.ID && !gone[k.RetiredBy] && signedBy(known[k.RetiredBy], msg, k.RetiredSig) {
			gone[k.ID] = true
		}
	}
	for id := range gone {
		delete(known, id)
	}
	return known, gone
}

func signedBy(key ed25519.PublicKey, msg []byte, sig string) bool {
	b, err := base64.RawURLEncoding.DecodeString(sig)
	return err == nil && len(key) == ed25519.PublicKeySize && ed25519.Verify(key, msg, b)
}
