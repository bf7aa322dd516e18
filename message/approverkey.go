package message

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"
)

// ApproverKeys are the keys with which approvers sign, by their names.
type ApproverKeys map[string]KeySet

// publicKeyPrefix stands before a public key that people write into files.
const publicKeyPrefix = "ed25519:"

// FormatPublicKey gives a public key as people write it into files.
func FormatPublicKey(key ed25519.PublicKey) string {
	return publicKeyPrefix + base64.RawURLEncoding.EncodeToString(key)
}

// ParsePublicKey reads what FormatPublicKey gives.
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
	rest, ok := strings.CutPrefix(text, publicKeyPrefix)
	key, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	if !ok || err != nil || len(key) != ed25519.PublicKeySize || base64.RawURLEncoding.EncodeToString(key) != rest {
		return nil, &Error{Code: CodeInvalid, Op: "read public key", What: "it is not " + publicKeyPrefix + " and 32 bytes in base64url", Hint: "copy what askance keys approver prints"}
	}
	return key, nil
}
