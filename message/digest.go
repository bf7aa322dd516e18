package message

import (
	"crypto/sha256"
	"encoding/hex"
)

const digestPrefix = "sha256:"

// Digest returns "sha256:" and the SHA-256 of b in hexadecimal, the form of all digests.
func Digest(b []byte) string { return HashText(sha256.Sum256(b)) }

// HashText returns a SHA-256 in the form of all digests.
func HashText(sum [sha256.Size]byte) string {
	var out [len(digestPrefix) + 2*sha256.Size]byte
	hex.Encode(out[copy(out[:], digestPrefix):], sum[:])
	return string(out[:])
}
