package keyfile

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/secretfile"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// keyFile is the file with an engine's secrets. Version 1 has one signing key,
// which was never rotated; version 2 all of them.
type keyFile struct {
	V    int         `json:"v"`
	ID   string      `json:"id"`
	MAC  string      `json:"mac_key"`               // base64url, 32 bytes
	Seed string      `json:"signing_seed,omitzero"` // of version 1; base64url, 32 bytes
	Keys []secretKey `json:"signing_keys,omitzero"` // of version 2; oldest first, the last one signs
}

// secretKey is a signing key; a retired one has no secret any more.
type secretKey struct {
	toolcall.EngineKey
	Seed string `json:"seed,omitzero"` // base64url, 32 bytes
}

// publicKeyFile is the file that workers get.
type publicKeyFile struct {
	V    int         `json:"v"` // 1
	Keys []publicKey `json:"keys"`
}

type publicKey struct {
	ID      string    `json:"id"`
	Public  string    `json:"public_key"`       // base64url, 32 bytes
	Retired time.Time `json:"retired,omitzero"` // zero: grants that it signed are good
}

// Load reads an engine's key file. A file that others may read is refused.
func Load(path string) (*Keys, error) {
	const op = "load engine keys"
	b, err := secretfile.Read(op, path, true)
	if err != nil {
		return nil, err
	}
	var f keyFile
	if strictjson.Unmarshal(b, &f) != nil || f.V != 1 && f.V != 2 { // the decoder's text could repeat a secret
		return nil, badKeyFile(op, path, "it is not an askance key file of version 1 or 2")
	}
	k, why := f.keys()
	if why != "" {
		return nil, badKeyFile(op, path, why)
	}
	return k, nil
}

// LoadOrCreate reads the key file, or makes one with mode 0600 if there is
// none. Of several processes that do so at once, all get the same keys.
func LoadOrCreate(path string) (*Keys, error) {
	k, err := Load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	if k, err = New(); err != nil {
		return nil, err
	}
	b, err := strictjson.Marshal(k.file())
	if err != nil {
		return nil, message.Errorf(message.CodeInternal, "create engine keys", "encode: %w", err)
	}
	if err := secretfile.WriteOnce(path, b, 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, secretfile.Error("create engine keys", path, err)
	}
	return Load(path) // the file of whoever was first
}

// WritePublic writes the file that workers need to check grants, and auditors
// to check what is past, replacing an older one.
func (k *Keys) WritePublic(path string) error {
	f := publicKeyFile{V: 1}
	for _, e := range k.ring {
		f.Keys = append(f.Keys, publicKey{ID: e.ID, Public: strings.TrimPrefix(e.Public, "ed25519:"), Retired: e.Retired})
	}
	b, err := strictjson.Marshal(f)
	if err == nil {
		err = secretfile.Replace(path, b, 0o644)
	}
	if err != nil {
		return secretfile.Error("write public key", path, err)
	}
	return nil
}

// LoadPublic reads files made by WritePublic and gives their keys whose grants
// are good. Of a folder it reads every file whose name ends in .pub.
func LoadPublic(paths ...string) (toolcall.KeySet, error) { return loadPublic(nil, paths) }

// LoadPublicEver is LoadPublic with the keys that were retired, and when, to
// check what was signed in the past: never a grant.
func LoadPublicEver(paths ...string) (toolcall.KeySet, proof.Retired, error) {
	retired := proof.Retired{}
	keys, err := loadPublic(retired, paths)
	return keys, retired, err
}

// loadPublic reads keys: retired ones, too, if there is a place for when.
func loadPublic(retired proof.Retired, paths []string) (toolcall.KeySet, error) {
	const op = "load public key"
	var all []ed25519.PublicKey
	paths, err := publicFiles(paths)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		b, err := secretfile.Read(op, path, false)
		if err != nil {
			return nil, err
		}
		var f publicKeyFile
		if err := strictjson.Unmarshal(b, &f); err != nil || f.V != 1 || len(f.Keys) == 0 {
			return nil, badPublicFile(op, path, "it is not an askance public key file of version 1")
		}
		for _, p := range f.Keys {
			var pub [32]byte
			if !decode32(&pub, p.Public) || toolcall.KeyID(pub[:]) != p.ID {
				return nil, badPublicFile(op, path, "the key "+errtext.Quote(p.ID)+" is not 32 bytes in base64url, or not the one of that id")
			}
			if !p.Retired.IsZero() && retired == nil {
				continue
			}
			if before, is := retired[p.ID]; !p.Retired.IsZero() && (!is || p.Retired.Before(before)) {
				retired[p.ID] = p.Retired
			}
			all = append(all, pub[:])
		}
	}
	return toolcall.NewKeySet(all...), nil
}

// publicFiles puts the files of folders in their place.
func publicFiles(paths []string) ([]string, error) {
	const op = "load public key"
	var out []string
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			out = append(out, path) // what cannot be read is told when it is
			continue
		}
		found, err := filepath.Glob(filepath.Join(path, "*.pub"))
		if err != nil || len(found) == 0 {
			return nil, &message.Error{Code: message.CodeNotFound, Op: op, What: "the folder " + path + " has no file that ends in .pub", Hint: "put the engines' public key files there", Err: err}
		}
		out = append(out, found...)
	}
	return out, nil
}

func badKeyFile(op, path, why string) error {
	return &message.Error{Code: message.CodeInvalid, Op: op, What: path + ": " + why, Hint: "restore the file from a copy; a new one cannot read the journal of the old one"}
}

func badPublicFile(op, path, why string) error {
	return &message.Error{Code: message.CodeInvalid, Op: op, What: path + ": " + why, Hint: "name engine.pub of the engine's data folder, or a copy"}
}

func decode32(into *[32]byte, text string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && copy(into[:], b) == 32 && len(b) == 32
}
