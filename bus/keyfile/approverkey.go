package keyfile

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io/fs"

	"github.com/askance-dev/askance/bus/internal/secretfile"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

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
	const op = "make approver key"
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

// LoadApproverKey reads a file of CreateApproverKey and refuses one that other
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
	if strictjson.Unmarshal(b, &f) != nil || f.V != 1 || !decode32(&seed, f.Seed) { // the decoder's text could repeat the secret
		return nil, bad
	}
	key := ed25519.NewKeyFromSeed(seed[:])
	if pub := key.Public().(ed25519.PublicKey); toolcall.KeyID(pub) != f.ID || toolcall.FormatPublicKey(pub) != f.Public {
		return nil, bad
	}
	return key, nil
}
