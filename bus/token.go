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

// Token is an id as it stands between two dots of a subject. Only [Encode],
// [EncodeQueue] and [ParseToken] make one, so a Token never holds a dot, a wildcard or white
// space and never equals "-", the place-holder of the reply and session entities.
//
// There are three forms, and no two ids share a token:
//
//	abc_1-X     the id itself: 1 to 64 of A-Z a-z 0-9 _ -, not beginning with -
//	~cmVhZA     "~" and unpadded base64url of any other id up to 180 bytes
//	~~5c3e…     "~~" and the hex SHA-256 of a longer one: it cannot be read back
type Token string

const (
	maxPlainBytes   = 64
	maxEncodedBytes = 180 // 241 characters, so that "w_" and a token fit a consumer name (255)
	hashPrefix      = "~~"
	textPrefix      = "~"
)

// strictBase64 refuses stray bits after the last character, which would be a
// second spelling of the same id.
var strictBase64 = base64.RawURLEncoding.Strict()

// MaxNameBytes bounds what must be read back from a subject: the names of
// principals and of tools that workers run.
const MaxNameBytes = maxEncodedBytes

// Encode gives the one token of an id. The empty id has none; it gives "".
func Encode(id string) Token {
	switch {
	case id == "":
		return ""
	case plain(id):
		return Token(id)
	case len(id) <= maxEncodedBytes:
		return Token(textPrefix + strictBase64.EncodeToString([]byte(id)))
	default:
		sum := sha256.Sum256([]byte(id))
		return Token(hashPrefix + hex.EncodeToString(sum[:]))
	}
}

// plain reports whether the id is its own token.
func plain(id string) bool {
	if len(id) == 0 || len(id) > maxPlainBytes || id[0] == '-' {
		return false
	}
	for i := range len(id) {
		if !plainByte(id[i]) {
			return false
		}
	}
	return true
}

func plainByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// ID reads the id back. It is false for a hashed token: the id itself then has
// to come from the message and be checked with Is.
func (t Token) ID() (id string, ok bool) {
	s := string(t)
	switch {
	case plain(s):
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

// Is reports whether t is the token of id.
func (t Token) Is(id string) bool { return t != "" && Encode(id) == t }

// ParseToken accepts exactly the texts that Encode gives.
func ParseToken(s string) (Token, error) {
	t := Token(s)
	if _, ok := t.ID(); ok || hashed(s) {
		return t, nil
	}
	return "", badToken(s)
}

func badToken(s string) error {
	return &message.Error{Code: message.CodeInvalid, Op: "parse subject token", What: errtext.Quote(s) + " is not the token of any id", Hint: "build subjects as bus/PROTOCOL.md says"}
}

func hashed(s string) bool {
	hexPart, ok := strings.CutPrefix(s, hashPrefix)
	if !ok || len(hexPart) != 2*sha256.Size {
		return false
	}
	for i := range len(hexPart) {
		if c := hexPart[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// CheckName says whether a principal or tool can be named in a subject from
// which it must be read back. what is "runtime", "tool" and so on.
func CheckName(what, name string) error {
	switch {
	case name == "":
		return &message.Error{Code: message.CodeInvalid, Op: "check name", What: "the " + what + " has no name", Hint: "give it one"}
	case len(name) > MaxNameBytes:
		return &message.Error{Code: message.CodeTooLarge, Op: "check name", What: what + " name " + errtext.Quote(name) + " is too long", Hint: "use at most 180 bytes"}
	}
	return nil
}

// CheckSpace says whether a space may be called so: 1 to 32 of a-z 0-9 _ -.
// The name stands in subjects and in the stream's name as it is.
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
