package bus

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Token is an id in a subject. Only [Encode], [EncodeQueue] and [ParseToken]
// create one: it has no dot, wildcard or white space and is never "-", the
// placeholder of reply and session entities.
//
// There are three forms, and no two ids share a token:
//
//	abc_1-X     the id itself: 1 to 64 of A-Z a-z 0-9 _ -, not beginning with -
//	~cmVhZA     "~" and unpadded base64url of any other id up to 180 bytes
//	~~5c3e…     "~~" and the hex SHA-256 of a longer id, which cannot be decoded
type Token string

const (
	maxPlainBytes   = 64
	maxEncodedBytes = 180 // 241 characters, so that "w_" and a token fit a consumer name (255)
	hashPrefix      = "~~"
	textPrefix      = "~"
)

// strictBase64 refuses stray bits in the last character, which would be a second
// spelling of the same id.
var strictBase64 = base64.RawURLEncoding.Strict()

// MaxNameBytes limits the names of principals and tools, which must be readable in
// a subject.
const MaxNameBytes = maxEncodedBytes

// Encode returns the token of an id, or "" for an empty id.
func Encode(id string) Token {
	switch {
	case id == "":
		return ""
	case isPlain(id):
		return Token(id)
	case len(id) <= maxEncodedBytes:
		return Token(textPrefix + strictBase64.EncodeToString([]byte(id)))
	default:
		sum := sha256.Sum256([]byte(id))
		return Token(hashPrefix + hex.EncodeToString(sum[:]))
	}
}

// isPlain reports whether the id is its own token.
func isPlain(id string) bool {
	if id == "" || len(id) > maxPlainBytes || id[0] == '-' {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// ID decodes the id. It returns false for a hashed token: in that case, check the id in
// the message with Is.
func (t Token) ID() (id string, ok bool) {
	s := string(t)
	switch {
	case isPlain(s):
		return s, true
	case strings.HasPrefix(s, hashPrefix), !strings.HasPrefix(s, textPrefix):
		return "", false
	}
	b, err := strictBase64.DecodeString(s[len(textPrefix):])
	if err != nil || Encode(string(b)) != t {
		return "", false
	}
	return string(b), true
}

// text returns the id, or the token itself if it is a hash.
func (t Token) text() string {
	if id, ok := t.ID(); ok {
		return id
	}
	return string(t)
}

// Is reports whether t is the token of id.
func (t Token) Is(id string) bool { return t != "" && Encode(id) == t }

// ParseToken accepts exactly what Encode returns.
func ParseToken(s string) (Token, error) {
	t := Token(s)
	if _, ok := t.ID(); ok || isHashed(s) {
		return t, nil
	}
	return "", badToken(s)
}

func badToken(s string) error {
	return &message.Error{Code: message.CodeInvalid, Op: "parse subject token", What: errtext.Quote(s) + " is not the token of an id", Hint: "build subjects as bus/PROTOCOL.md says"}
}

func isHashed(s string) bool {
	hexPart, ok := strings.CutPrefix(s, hashPrefix)
	return ok && len(hexPart) == 2*sha256.Size && strings.Trim(hexPart, "0123456789abcdef") == ""
}

// CheckName returns why a principal or tool cannot be named in a subject. what is
// "runtime", "tool" and so on, for the error.
func CheckName(what, name string) error {
	switch {
	case name == "":
		return &message.Error{Code: message.CodeInvalid, Op: "check name", What: "the " + what + " has no name", Hint: "give it one"}
	case len(name) > MaxNameBytes:
		return &message.Error{Code: message.CodeTooLarge, Op: "check name", What: what + " name " + errtext.Quote(name) + " is too long", Hint: "use at most 180 bytes"}
	}
	return nil
}

// CheckSpace returns why a space cannot have this name: it needs 1 to 32 of a-z 0-9 _ -.
func CheckSpace(space toolcall.SpaceID) error {
	ok := len(space) >= 1 && len(space) <= 32
	for i := range len(space) {
		c := space[i]
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-')
	}
	if ok {
		return nil
	}
	return &message.Error{Code: message.CodeInvalid, Op: "check space", What: "space " + errtext.Quote(string(space)) + " is not a valid name", Hint: "use 1 to 32 of a-z, 0-9, _ and -"}
}
