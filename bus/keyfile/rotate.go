package keyfile

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"maps"
	"slices"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/secretfile"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// keys decodes a key file, or says why it cannot.
func (f keyFile) keys() (k *Keys, why string) {
	var mac, seed [32]byte
	const notKeys = "its keys are not 32 bytes in base64url"
	if !decode32(&mac, f.MAC) {
		return nil, notKeys
	}
	if f.V == 1 {
		if !decode32(&seed, f.Seed) || len(f.Keys) > 0 {
			return nil, notKeys
		}
		if k = keysOf(mac, seed); k.id != f.ID {
			return nil, "its id is not that of its keys"
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
		if !decode32(&seed, s.Seed) {
			return nil, notKeys
		}
		key := ed25519.NewKeyFromSeed(seed[:])
		if !pub.Equal(key.Public()) {
			return nil, "the secret of the signing key " + errtext.Quote(s.ID) + " belongs to another key"
		}
		k.secrets[s.ID], k.sign = key, key
	}
	if len(k.ring) == 0 || k.ring[0].ID != f.ID || f.Seed != "" {
		return nil, "its id is not that of its first signing key"
	}
	if last := k.ring[len(k.ring)-1]; !last.Retired.IsZero() || k.secrets[last.ID] == nil {
		return nil, "its last signing key is retired"
	}
	return k, ""
}

// file encodes the keys, in version 1 while there is one signing key.
func (k *Keys) file() keyFile {
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
	c := *k
	c.ring, c.secrets = slices.Clone(k.ring), maps.Clone(k.secrets)
	return &c
}

// Rotated returns keys with a new signing key, which the previous one vouches for.
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

// Retired returns keys in which the grants of the signing key id are invalid and
// its secret is deleted. The current signing key cannot be retired.
func (k *Keys) Retired(id string, now time.Time) (*Keys, error) {
	const op = "retire key"
	i := slices.IndexFunc(k.ring, func(e toolcall.EngineKey) bool { return e.ID == id })
	switch {
	case i < 0:
		return nil, &message.Error{Code: message.CodeNotFound, Op: op, What: "there is no signing key " + errtext.Quote(id), Hint: "askance keys list shows them"}
	case id == k.SigningID():
		return nil, &message.Error{Code: message.CodeConflict, Op: op, What: id + " is the current signing key", Hint: "rotate first"}
	case !k.ring[i].Retired.IsZero():
		return nil, &message.Error{Code: message.CodeConflict, Op: op, What: id + " is already retired", Hint: "there is nothing to do"}
	}
	out := k.clone()
	if err := out.ring[i].Retire(now.UTC().Truncate(time.Second), k.sign); err != nil {
		return nil, err
	}
	delete(out.secrets, id)
	return out, nil
}

// Change changes a key file while no other process does.
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
		b, err := strictjson.Marshal(changed.file())
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
