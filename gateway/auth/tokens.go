package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Tokens checks bearer tokens against a file that it watches. A token that is removed, revoked or
// changed ends at once, with the streams that it opened. It implements gateway.Authenticator and
// is safe for concurrent use.
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

// held is a token of the file.
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
		if h := t.byID[token.ID]; h != nil && h.grant() == token.grant() {
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

// Authenticate implements gateway.Authenticator.
func (t *Tokens) Authenticate(r *http.Request) (*gateway.Identity, error) {
	token, err := bearerToken(r)
	if err != nil {
		return nil, err
	}
	return t.Token(r, token)
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

// Token implements gateway.Authenticator.
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
	return &gateway.Identity{Name: h.Name, Space: h.Space, Roles: h.Roles, Queues: toolcall.Queues(h.Tools, h.Subjects), Auth: viaToken, Credential: h.ID, Grant: h.grant(), Expires: h.Expires, Revoked: h.over}
}

// granted returns a token's identity by its id, or nil if it is not valid or its grant has changed.
func (t *Tokens) granted(id, grant string) *gateway.Identity {
	t.mu.RLock()
	defer t.mu.RUnlock()
	h := t.byID[id]
	if h == nil || !h.InForce(time.Now()) || h.grant() != grant {
		return nil
	}
	return h.identity()
}
