package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// Headers of the Standard Webhooks scheme.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// Bounds of a secret's length in bytes, as the scheme has them.
const (
	minSecret = 24
	maxSecret = 64
)

const secretPrefix = "whsec_"

// Secret is what a destination's messages are signed with. It never prints
// itself. The zero value is none.
type Secret struct{ key string }

// ParseSecret reads "whsec_" and the base64 of 24 to 64 bytes. Errors do not
// show the text.
func ParseSecret(text string) (Secret, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), secretPrefix)
	if !ok {
		return Secret{}, errors.New("the secret does not begin with whsec_")
	}
	key, err := base64.StdEncoding.DecodeString(rest)
	if err != nil {
		return Secret{}, errors.New("what follows whsec_ is no base64")
	}
	if len(key) < minSecret || len(key) > maxSecret {
		return Secret{}, fmt.Errorf("the secret has %d bytes and needs %d to %d", len(key), minSecret, maxSecret)
	}
	return Secret{string(key)}, nil
}

// Format writes nothing of the secret, whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("whsec_…")) }

// LogValue writes nothing of the secret.
func (Secret) LogValue() slog.Value { return slog.StringValue("whsec_…") }

// MarshalText writes nothing of the secret.
func (Secret) MarshalText() ([]byte, error) { return []byte("whsec_…"), nil }

// Sign is the value of the signature header for a message: one signature by
// each secret.
func Sign(secrets []Secret, id string, at time.Time, body []byte) string {
	out := make([]string, len(secrets))
	for i, s := range secrets {
		m := hmac.New(sha256.New, []byte(s.key))
		m.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		m.Write(body)
		out[i] = "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
	}
	return strings.Join(out, " ")
}
