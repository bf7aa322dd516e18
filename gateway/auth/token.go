package auth

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// viaToken is how a vote records that a token named its author.
const viaToken = "http-token"

// Token is the stored form of a token: all but the secret.
type Token struct {
	ID    string           `json:"id"`
	Name  string           `json:"name"`
	Space toolcall.SpaceID `json:"space"`
	Roles []toolcall.Role  `json:"roles"`
	// Tools and Subjects are the ones for which a worker's token is valid. Subjects are routes of
	// rules; without any, the token is for calls that no rule routes.
	Tools    []string  `json:"tools,omitzero"`
	Subjects []string  `json:"subjects,omitzero"`
	Hash     string    `json:"hash"` // "sha256:" and hex, of the whole token
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires,omitzero"` // zero: never
	Revoked  time.Time `json:"revoked,omitzero"` // zero: not revoked
}

// InForce reports whether the token is valid at a time.
func (t Token) InForce(at time.Time) bool {
	return t.Revoked.IsZero() && (t.Expires.IsZero() || at.Before(t.Expires))
}

// grant returns a digest of what the token grants.
func (t Token) grant() string {
	t.ID, t.Created = "", time.Time{}
	b, _ := strictjson.Marshal(t) // it came from JSON
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

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

// newToken makes a token of 256 random bits, with its id and hash. Plain SHA-256 is
// the right hash: 256 random bits cannot be guessed, and a slow hash would let
// strangers load the server with wrong tokens.
func newToken() (secret, id, hash string) {
	var b [8 + secretBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	id = hex.EncodeToString(b[:8])
	secret = tokenPrefix + id + "_" + base64.RawURLEncoding.EncodeToString(b[8:])
	return secret, id, message.Digest([]byte(secret))
}

// findToken returns the token of a secret, or nil.
func findToken(byID map[string]*held, secret string) *held {
	m := tokenForm.FindStringSubmatch(secret)
	if m == nil {
		return nil
	}
	h := byID[m[1]]
	if h == nil || subtle.ConstantTimeCompare([]byte(h.Hash), []byte(message.Digest([]byte(secret)))) != 1 {
		return nil
	}
	return h
}

var roles = []toolcall.Role{toolcall.RoleRuntime, toolcall.RoleApprover, toolcall.RoleWorker, toolcall.RoleOperator, toolcall.RoleAuditor}

func parseFile(data []byte) ([]Token, error) {
	var f file
	if err := strictjson.Unmarshal(data, &f, strictjson.MaxBytes(maxTokenFile)); err != nil {
		return nil, err
	}
	if f.V != 1 {
		return nil, fmt.Errorf("version %d is unknown: write 1", f.V)
	}
	seen := map[string]bool{}
	for i, t := range f.Tokens {
		err := t.check()
		if seen[t.ID] {
			err = fmt.Errorf("the id %q occurs twice", t.ID)
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
	if err := checkRoles(t.Roles); err != nil {
		return err
	}
	if err := t.checkTools(); err != nil {
		return err
	}
	return toolcall.CheckName(t.Name)
}

// checkTools checks what a worker's token is bound to.
func (t Token) checkTools() error {
	switch {
	case len(t.Tools) > 0 && !slices.Contains(t.Roles, toolcall.RoleWorker):
		return fmt.Errorf("%s has tools without the role worker", quote(t.Name))
	case len(t.Subjects) > 0 && len(t.Tools) == 0:
		return fmt.Errorf("%s has subjects without tools", quote(t.Name))
	case slices.Contains(t.Tools, ""):
		return fmt.Errorf("%s has a tool without a name", quote(t.Name))
	}
	for _, s := range t.Subjects {
		if err := toolcall.CheckRoute(s); err != nil {
			return err
		}
	}
	return nil
}

func checkRoles(all []toolcall.Role) error {
	for _, r := range all {
		if !slices.Contains(roles, r) {
			return fmt.Errorf("%s is not a role: use runtime, approver, worker, operator or auditor", quote(string(r)))
		}
	}
	return nil
}

// readFile reads a token file. A file that others can write is refused.
func readFile(path string) ([]Token, error) {
	data, info, err := plainfile.Read(path, maxTokenFile)
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 {
		return nil, &message.Error{Code: message.CodeForbidden, Op: "read tokens", What: "other users can write to " + path, Hint: "chmod 600 " + path}
	}
	tokens, err := parseFile(data)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: "read tokens", What: path + ": " + err.Error(), Hint: "restore the file, or make tokens with askance token create"}
	}
	return tokens, nil
}

// ListTokens reads a token file; without a file there are none.
func ListTokens(path string) ([]Token, error) {
	tokens, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return tokens, err
}

// CreateToken adds a token to a file, and creates the file. The secret is not
// stored.
func CreateToken(ctx context.Context, path string, t Token) (secret string, kept Token, err error) {
	secret, t.ID, t.Hash = newToken()
	t.Created, t.Expires = time.Now().UTC().Truncate(time.Second), t.Expires.UTC().Truncate(time.Second)
	if err := t.check(); err != nil {
		return "", t, &message.Error{Code: message.CodeInvalid, Op: "create token", What: err.Error(), Hint: "correct it and try again"}
	}
	err = changeFile(ctx, path, func(all []Token) ([]Token, error) { return append(all, t), nil })
	if err != nil {
		return "", t, err
	}
	return secret, t, nil
}

// RevokeTokens revokes the token with the id, or all tokens with the name.
func RevokeTokens(ctx context.Context, path, idOrName string) (revoked []Token, err error) {
	err = changeFile(ctx, path, func(all []Token) ([]Token, error) {
		now := time.Now().UTC().Truncate(time.Second)
		for i, t := range all {
			if (t.ID == idOrName || t.Name == idOrName) && t.Revoked.IsZero() {
				all[i].Revoked = now
				revoked = append(revoked, all[i])
			}
		}
		if len(revoked) == 0 {
			return nil, &message.Error{Code: message.CodeNotFound, Op: "revoke token", What: "no valid token has the id or the name " + quote(idOrName), Hint: "askance token list shows the tokens"}
		}
		return all, nil
	})
	return revoked, err
}

// lockFor is how long a change waits for another.
const lockFor = 5 * time.Second

// changeFile replaces a file atomically; concurrent changes wait for each other.
func changeFile(ctx context.Context, path string, f func([]Token) ([]Token, error)) error {
	if err := plainfile.MkdirAll(filepath.Dir(path)); err != nil {
		return fmt.Errorf("change tokens: %w", err)
	}
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(ctx, lockFor)
	defer cancel()
	if ok, err := lock.TryLockContext(ctx, lockFor/100); err != nil || !ok {
		return &message.Error{Code: message.CodeUnavailable, Op: "change tokens", What: "another process changes " + path, Hint: "try again", Err: err}
	}
	defer func() { _ = lock.Unlock() }() // the end of the process also releases it
	plainfile.KeepOwner(lock.Path())
	all, err := ListTokens(path)
	if err == nil {
		all, err = f(slices.Clone(all))
	}
	if err != nil {
		return err
	}
	return writeFile(path, all)
}

func writeFile(path string, all []Token) error {
	var pretty bytes.Buffer
	b, err := strictjson.Marshal(file{V: 1, Tokens: all})
	if err == nil {
		err = json.Indent(&pretty, b, "", "  ")
	}
	if err == nil {
		pretty.WriteByte('\n')
		err = plainfile.Replace(path, pretty.Bytes())
	}
	if err != nil {
		return fmt.Errorf("write tokens: %w", err)
	}
	return nil
}
