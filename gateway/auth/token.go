package auth

import (
	"bytes"
	"cmp"
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
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/internal/spelling"
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

func (t Token) grantDigest() string {
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
		return errors.New("the hash is not sha256: and 64 hex digits")
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
		return nil, &message.Error{Code: message.CodeForbidden, Op: "read tokens", What: "other users can write to " + path, Hint: "chmod 600 " + spelling.ShellWord(path)}
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

// RevokeTokens revokes the tokens with these ids, and all tokens with these names. It revokes none
// if one of them has no token in force.
func RevokeTokens(ctx context.Context, path string, idsOrNames ...string) (revoked []Token, err error) {
	err = changeFile(ctx, path, func(all []Token) ([]Token, error) {
		now := time.Now().UTC().Truncate(time.Second)
		unknown := slices.Clone(idsOrNames)
		for i, t := range all {
			if t.Revoked.IsZero() && (slices.Contains(idsOrNames, t.ID) || slices.Contains(idsOrNames, t.Name)) {
				all[i].Revoked = now
				revoked = append(revoked, all[i])
				unknown = slices.DeleteFunc(unknown, func(s string) bool { return s == t.ID || s == t.Name })
			}
		}
		if len(unknown) > 0 {
			return nil, &message.Error{Code: message.CodeNotFound, Op: "revoke token", What: "no valid token has the id or the name " + quote(unknown[0]), Hint: "askance token list shows the tokens"}
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
	if _, err := lock.TryLockContext(ctx, lockFor/100); err != nil && ctx.Err() == nil {
		return fmt.Errorf("change tokens: %w", err)
	} else if err != nil {
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

// Tokens checks bearer tokens against a file that it watches. A token that is removed, revoked or
// changed ends at once, with the streams that it opened. It is safe for concurrent use.
type Tokens struct {
	path string
	log  *slog.Logger
	file plainfile.Reloader

	mu      sync.RWMutex // guards what follows
	missing bool         // no file has existed since AwaitTokens
	byID    map[string]*held
	gone    bool      // the file did not exist at the last check
	over    bool      // no token is valid until the file can be read
	again   time.Time // when an unknown token last caused a read of the file
}

// rereadPause limits how often unknown tokens cause a read of the file.
const rereadPause = 100 * time.Millisecond

// keepUnread is how long the previous tokens stay valid while the file cannot be read: time to
// fix a mistake. Any of them may have been revoked since.
const keepUnread = time.Minute

type held struct {
	Token
	over chan struct{} // closed when it is no longer valid
}

// OpenTokens reads a token file.
func OpenTokens(path string, log *slog.Logger) (*Tokens, error) { return openTokens(path, log, false) }

// AwaitTokens is OpenTokens for a file that need not exist yet.
func AwaitTokens(path string, log *slog.Logger) (*Tokens, error) { return openTokens(path, log, true) }

func openTokens(path string, log *slog.Logger, mayMiss bool) (*Tokens, error) {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	t := &Tokens{path: path, log: log, missing: mayMiss}
	t.file.Report = t.logFault
	if err := t.load(); err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	return t, nil
}

// Missing reports whether the file has not existed since AwaitTokens.
func (t *Tokens) Missing() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.missing
}

// hasFile reports whether there is a token file, even an unreadable one.
func (t *Tokens) hasFile() bool {
	if !t.Missing() {
		return true
	}
	_, err := os.Lstat(t.path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Reload reads the file again. On an error the previous tokens stay valid; see Watch.
func (t *Tokens) Reload() error {
	return t.file.Reload(context.Background(), func(context.Context) error { return t.load() })
}

func (t *Tokens) load() error {
	all, err := readFile(t.path)
	if errors.Is(err, fs.ErrNotExist) && t.Missing() {
		return nil
	}
	if err != nil {
		return err
	}
	next := make(map[string]*held, len(all))
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, token := range all {
		if h := t.byID[token.ID]; h != nil && h.grantDigest() == token.grantDigest() {
			next[token.ID] = h
			continue
		}
		next[token.ID] = &held{token, make(chan struct{})}
	}
	for id, h := range t.byID {
		if next[id] != h {
			close(h.over)
		}
	}
	t.byID, t.missing, t.gone, t.over = next, false, false, false
	return nil
}

// Watch reloads the file until ctx ends, and logs errors. If the file is missing, all tokens end
// after a second check, because some editors remove a file for a moment. If it cannot be read for
// another reason, they end after a minute.
func (t *Tokens) Watch(ctx context.Context, every time.Duration) {
	t.file.Watch(ctx, every, func(context.Context) error {
		err := t.load()
		if err != nil {
			t.endUnread(err, time.Now())
		}
		return err
	})
}

// endUnread ends all tokens once the file could not be read for too long.
func (t *Tokens) endUnread(err error, now time.Time) {
	since, fault := t.file.Fault()
	gone := errors.Is(err, fs.ErrNotExist)
	t.mu.Lock()
	defer t.mu.Unlock()
	over := gone && t.gone || fault != nil && now.Sub(since) >= keepUnread
	t.gone = gone
	if t.over || !over {
		return
	}
	t.log.Error("no token is in force until the token file can be read; restore it", "file", t.path, "err", err)
	for _, h := range t.byID {
		close(h.over)
	}
	t.byID, t.over = nil, true
}

func (t *Tokens) logFault(err error) {
	t.mu.RLock()
	over := t.over
	t.mu.RUnlock()
	since, _ := t.file.Fault()
	switch {
	case err == nil:
		t.log.Warn("the token file can be read again", "file", t.path)
	case !over:
		t.log.Error("the token file cannot be read; the previous tokens stay valid for a minute", "file", t.path, "until", since.Add(keepUnread).Format(time.TimeOnly), "err", err)
	}
}

// Trouble returns why the file cannot be read, or "" if it can.
func (t *Tokens) Trouble() string {
	if _, err := t.file.Fault(); err != nil {
		return err.Error()
	}
	return ""
}

func (t *Tokens) find(token string) (h *held, lost bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return findToken(t.byID, token), t.over && !t.gone
}

// reread reads the file for an unknown token, and reports whether it did.
func (t *Tokens) reread() bool {
	now := time.Now()
	t.mu.Lock()
	early := now.Sub(t.again) < rereadPause
	if !early {
		t.again = now
	}
	t.mu.Unlock()
	return !early && t.Reload() == nil
}

// Token returns the identity of a token, as gateway.Authenticator has it.
func (t *Tokens) Token(_ *http.Request, token string) (*gateway.Identity, error) {
	h, lost := t.find(token)
	if h == nil && t.reread() { // the token may be newer than the last check
		h, lost = t.find(token)
	}
	if h == nil && lost {
		return nil, &message.Error{Code: message.CodeUnavailable, Op: "authenticate", What: "this server cannot read its token file, so no token is valid", Hint: "ask the server's operator"}
	}
	if h == nil {
		return nil, refusal("the token is unknown", "use the whole token that askance token create printed")
	}
	if !h.InForce(time.Now()) {
		return nil, refusal("the token of "+quote(h.Name)+" has expired or was revoked", "ask for a new one")
	}
	return h.identity(), nil
}

func (h *held) identity() *gateway.Identity {
	return &gateway.Identity{Name: h.Name, Space: h.Space, Roles: h.Roles, Queues: toolcall.Queues(h.Tools, h.Subjects), Auth: viaToken, Credential: h.ID, Grant: h.grantDigest(), Expires: h.Expires, Revoked: h.over}
}

// granted returns a token's identity by its id, or nil if it is not valid or its grant has changed.
func (t *Tokens) granted(id, grant string) *gateway.Identity {
	t.mu.RLock()
	defer t.mu.RUnlock()
	h := t.byID[id]
	if h == nil || !h.InForce(time.Now()) || h.grantDigest() != grant {
		return nil
	}
	return h.identity()
}
