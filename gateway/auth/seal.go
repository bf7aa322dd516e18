package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
)

// sealer keeps what a browser carries for us from being read or made up. Its
// key lives as long as the process: what was begun before a restart is begun
// again.
type sealer struct{ aead cipher.AEAD }

func newSealer() *sealer {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	block, err := aes.NewCipher(key[:])
	if err == nil {
		var aead cipher.AEAD
		if aead, err = cipher.NewGCMWithRandomNonce(block); err == nil {
			return &sealer{aead}
		}
	}
	panic("auth: AES-256-GCM: " + err.Error()) // a key of 32 bytes is always good
}

// attempt is a log-in at the provider that was begun.
type attempt struct {
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Next     string    `json:"next"`
	Until    time.Time `json:"until"`
}

func (s *sealer) seal(a attempt) (string, error) {
	b, err := strictjson.Marshal(a)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, b, nil)), nil //nolint:gosec // G407: this AEAD makes random nonces itself
}

var errSeal = errors.New("the log-in was not begun in this browser, or too long ago")

func (s *sealer) open(text string, now time.Time) (a attempt, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		b, err = s.aead.Open(nil, nil, b, nil)
	}
	if err == nil {
		err = strictjson.Unmarshal(b, &a)
	}
	if err != nil || now.After(a.Until) {
		return attempt{}, errSeal
	}
	return a, nil
}
