package keyfile

import (
	"crypto/ed25519"
	"crypto/rand"
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

// keyFile is the file with an engine's secrets. Version 1 has one signing key, which was
// never rotated; version 2 has all signing keys.
type keyFile struct {
	V    int         `json:"v"`
	ID   string      `json:"id"`
	MAC  string      `json:"mac_key"`               // base64url, 32 bytes
	Seed string      `json:"signing_seed,omitzero"` // of version 1; base64url, 32 bytes
	Keys []secretKey `json:"signing_keys,omitzero"` // of version 2; oldest first, the last one signs
}

// secretKey is a signing key, without its secret if it is retired.
type secretKey struct {
	toolcall.EngineKey
	Seed string `json:"seed,omitzero"` // base64url, 32 bytes
}

// publicKeyFile is the file for workers.
type publicKeyFile struct {
	V    int         `json:"v"` // 1
	Keys []publicKey `json:"keys"`
}

type publicKey struct {
	ID      string    `json:"id"`
	Public  string    `json:"public_key"`       // base64url, 32 bytes
	Retired time.Time `json:"retired,omitzero"` // zero: its grants are valid
}

// Load reads an engine's key file and refuses one that other users can read.
func Load(path string) (*Keys, error) {
	const op = "load engine keys"
	b, err := secretfile.Read(op, path, true)
	if err != nil {
		if e, ok := errors.AsType[*message.Error](err); ok && errors.Is(err, fs.ErrNotExist) {
			e.Hint = "check the path; askance serve creates the file when it first starts"
		}
		return nil, err
	}
	var f keyFile
	if strictjson.Unmarshal(b, &f) != nil || f.V != 1 && f.V != 2 { // the decoder's text could repeat a secret
		return nil, badKeyFile(op, path, "it is not an askance key file of version 1 or 2")
	}
	k, why := f.decodeKeys()
	if why != "" {
		return nil, badKeyFile(op, path, why)
	}
	return k, nil
}

// LoadOrCreate reads the key file, or creates it with mode 0600. Several processes that
// call it at the same time get the same keys.
func LoadOrCreate(path string) (*Keys, error) {
	k, err := Load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	if k, err = New(); err != nil {
		return nil, err
	}
	b, err := strictjson.Marshal(k.encodeFile())
	if err != nil {
		return nil, message.Errorf(message.CodeInternal, "create engine keys", "encode: %w", err)
	}
	if err := secretfile.WriteOnce(path, b, 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, secretfile.Error("create engine keys", path, err)
	}
	return Load(path) // another process may have been faster
}

// WritePublic writes or replaces the public key file, with which workers check grants
// and auditors check old signatures.
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

// LoadPublic reads files that WritePublic wrote and returns the keys whose grants are
// valid. In a folder it reads every file whose name ends in .pub. A key that one file
// lists as retired is retired.
func LoadPublic(paths ...string) (toolcall.KeySet, error) {
	keys, retired, err := LoadPublicEver(paths...)
	for id := range retired {
		delete(keys, id)
	}
	return keys, err
}

// LoadPublicEver also returns retired keys, and when they were retired: for checking old
// signatures, never for grants.
func LoadPublicEver(paths ...string) (toolcall.KeySet, proof.Retired, error) {
	const op = "load public key"
	var all []ed25519.PublicKey
	retired := proof.Retired{}
	paths, err := expandFolders(paths)
	if err != nil {
		return nil, nil, err
	}
	for _, path := range paths {
		b, err := secretfile.Read(op, path, false)
		if err != nil {
			return nil, nil, err
		}
		var f publicKeyFile
		if err := strictjson.Unmarshal(b, &f); err != nil || f.V != 1 || len(f.Keys) == 0 {
			return nil, nil, badPublicFile(op, path, "it is not an askance public key file of version 1")
		}
		for _, p := range f.Keys {
			var pub [32]byte
			if !decodeKey(&pub, p.Public) || toolcall.KeyID(pub[:]) != p.ID {
				return nil, nil, badPublicFile(op, path, "the key "+errtext.Quote(p.ID)+" is not 32 bytes in base64url, or does not match its id")
			}
			if before, is := retired[p.ID]; !p.Retired.IsZero() && (!is || p.Retired.Before(before)) {
				retired[p.ID] = p.Retired
			}
			all = append(all, pub[:])
		}
	}
	return toolcall.NewKeySet(all...), retired, nil
}

// expandFolders replaces folders with their files.
func expandFolders(paths []string) ([]string, error) {
	const op = "load public key"
	var out []string
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			out = append(out, path) // reading reports the error
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
	return &message.Error{Code: message.CodeInvalid, Op: op, What: path + ": " + why, Hint: "restore the file from a copy; new keys cannot read the journal"}
}

func badPublicFile(op, path, why string) error {
	return &message.Error{Code: message.CodeInvalid, Op: op, What: path + ": " + why, Hint: "name engine.pub of the engine's data folder, or a copy"}
}

func decodeKey(into *[32]byte, text string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && copy(into[:], b) == 32 && len(b) == 32
}

// approverKeyFile is the file with an approver's own signing key.
type approverKeyFile struct {
	V      int    `json:"v"` // 1
	ID     string `json:"id"`
	Public string `json:"approver_public_key"` // as toolcall.FormatPublicKey writes it
	Seed   string `json:"approver_seed"`       // base64url, 32 bytes
}

// CreateApproverKey creates a signing key for an approver in a new file with mode
// 0600 and returns its public part. It refuses an existing file with CodeConflict.
func CreateApproverKey(path string) (ed25519.PublicKey, error) {
	const op = "create approver key"
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, message.Errorf(message.CodeInternal, op, "make a key: %w", err)
	}
	b, err := strictjson.Marshal(approverKeyFile{V: 1, ID: toolcall.KeyID(pub), Public: toolcall.FormatPublicKey(pub), Seed: base64.RawURLEncoding.EncodeToString(key.Seed())})
	if err != nil {
		return nil, message.Errorf(message.CodeInternal, op, "encode: %w", err)
	}
	switch err := secretfile.WriteOnce(path, b, 0o600); {
	case errors.Is(err, fs.ErrExist):
		return nil, &message.Error{Code: message.CodeConflict, Op: op, What: path + " already exists", Hint: "choose another name"}
	case err != nil:
		return nil, secretfile.Error(op, path, err)
	}
	return pub, nil
}

// LoadApproverKey reads a file that CreateApproverKey wrote. It refuses a file that other
// users can read.
func LoadApproverKey(path string) (ed25519.PrivateKey, error) {
	const op = "load approver key"
	b, err := secretfile.Read(op, path, true)
	if err != nil {
		return nil, err
	}
	bad := &message.Error{Code: message.CodeInvalid, Op: op, What: path + " is not an approver key of version 1", Hint: "create one with askance keys approver"}
	var f approverKeyFile
	var seed [32]byte
	if strictjson.Unmarshal(b, &f) != nil || f.V != 1 || !decodeKey(&seed, f.Seed) { // the decoder's text could repeat the secret
		return nil, bad
	}
	key := ed25519.NewKeyFromSeed(seed[:])
	if pub := key.Public().(ed25519.PublicKey); toolcall.KeyID(pub) != f.ID || toolcall.FormatPublicKey(pub) != f.Public {
		return nil, bad
	}
	return key, nil
}
