package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// ViaToken is how a vote records that its name came from a token.
const ViaToken = "http-token"

// Token is what is kept of a token: everything but the token itself.
type Token struct {
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Space   message.SpaceID `json:"space"`
	Roles   []message.Role  `json:"roles"`
	Hash    string          `json:"hash"` // "sha256:" and hex, of the whole token
	Created time.Time       `json:"created"`
	Expires time.Time       `json:"expires,omitzero"` // zero: never
	Revoked time.Time       `json:"revoked,omitzero"` // zero: it is not
}

// InForce reports whether the token is good at a time.
func (t Token) InForce(at time.Time) bool {
	return t.Revoked.IsZero() && (t.Expires.IsZero() || at.Before(t.Expires))
}

// same reports whether whoever holds the token may do the same as before.
func (t Token) same(o Token) bool {
	return t.Hash == o.Hash && t.Name == o.Name && t.Space == o.Space && t.Expires.Equal(o.Expires) && t.Revoked.Equal(o.Revoked) && slices.Equal(t.Roles, o.Roles)
}

// file is a token file.
type file struct {
	V      int     `json:"version"`
	Tokens []Token `json:"tokens"`
}

const (
	tokenPrefix  = "askance_"
	secretBytes  = 32
	maxTokenFile = 4 << 20
)

var tokenForm = regexp.MustCompile(`^askance_([0-9a-f]{16})_[A-Za-z0-9_-]{43}$`)

// newToken makes a token of 256 random bits, and what is kept of it.
//
// A plain SHA-256 is the right hash for it: slow and salted ones protect what a
// person could think of, and nobody guesses 256 random bits. A fast one leaves
// strangers no way to make the server work by sending wrong tokens.
func newToken() (secret, id, hash string) {
	var b [8 + secretBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	id = hex.EncodeToString(b[:8])
	secret = tokenPrefix + id + "_" + base64.RawURLEncoding.EncodeToString(b[8:])
	return secret, id, hashOf(secret)
}

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// find gives the token that a secret stands for.
func find(byID map[string]*held, secret string) *held {
	m := tokenForm.FindStringSubmatch(secret)
	if m == nil {
		return nil
	}
	h := byID[m[1]]
	if h == nil || subtle.ConstantTimeCompare([]byte(h.Hash), []byte(hashOf(secret))) != 1 {
		return nil
	}
	return h
}

// roles are those that a token may have.
var roles = []message.Role{message.RoleRuntime, message.RoleApprover, message.RoleWorker, message.RoleOperator, message.RoleAuditor}

func parseFile(data []byte) ([]Token, error) {
	var f file
	if err := strictjson.Unmarshal(data, &f, strictjson.MaxBytes(maxTokenFile)); err != nil {
		return nil, err
	}
	if f.V != 1 {
		return nil, fmt.Errorf("version is %d, write 1", f.V)
	}
	seen := map[string]bool{}
	for i, t := range f.Tokens {
		err := t.check()
		if seen[t.ID] {
			err = fmt.Errorf("the id %q is there twice", t.ID)
		}
		if err != nil {
			return nil, fmt.Errorf("tokens[%d]: %w", i, err)
		}
		seen[t.ID] = true
	}
	return f.Tokens, nil
}

var (
	idForm    = regexp.MustCompile(`^[0-9a-f]{16}$`)
	hashForm  = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	spaceForm = regexp.MustCompile(`^[a-z0-9_-]{1,32}$`)
)

// check refuses a token that says less or more than it may.
func (t Token) check() error {
	switch {
	case !idForm.MatchString(t.ID):
		return fmt.Errorf("the id %s is not 16 hex digits", quote(t.ID))
	case !hashForm.MatchString(t.Hash):
		return fmt.Errorf("the hash is not sha256: and 64 hex digits")
	case !spaceForm.MatchString(string(t.Space)):
		return fmt.Errorf("the space %s is not 1 to 32 of a-z, 0-9, _ and -", quote(string(t.Space)))
	case len(t.Roles) == 0:
		return fmt.Errorf("%s has no roles", quote(t.Name))
	}
	for _, r := range t.Roles {
		if !slices.Contains(roles, r) {
			return fmt.Errorf("%s is no role; use runtime, approver, worker, operator or auditor", quote(string(r)))
		}
	}
	return checkName(t.Name)
}

// checkName refuses names that nobody could tell from others.
func checkName(name string) error {
	switch {
	case name == "" || len(name) > message.MaxIDBytes:
		return fmt.Errorf("a name has 1 to %d bytes", message.MaxIDBytes)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unseen) || strings.TrimSpace(name) != name:
		return fmt.Errorf("the name %s has characters that nobody sees, or space around it", quote(name))
	case name == agent.Principal:
		return fmt.Errorf("the name %s is askance's own", quote(name))
	}
	return nil
}

// unseen reports whether a character is not seen, looks like a plain space, or
// changes how others are shown: two names could look the same.
func unseen(r rune) bool {
	switch {
	case r == ' ':
		return false
	case !unicode.IsGraphic(r), unicode.IsSpace(r), r == unicode.ReplacementChar:
		return true
	}
	return unicode.Is(unicode.Variation_Selector, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}
