package auth

import (
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
	"github.com/askance-dev/askance/message"
)

// Tokens judges bearer tokens by a file that is looked at again and again. A
// token that was taken out of it, revoked or changed ends at once, with the
// streams that it has opened. It implements gateway.Authenticator; its methods
// may be called from many goroutines.
type Tokens struct {
	path string
	log  *slog.Logger

	mu      sync.RWMutex // guards what follows
	missing bool         // no file has existed since AwaitTokens
	byID    map[string]*held
	bad     trouble
}

// keepUnread is how long the tokens of before are good while the file cannot be
// read: time to mend a slip, and no more, since whom it does not let in any more
// is not known.
const keepUnread = time.Minute

// trouble is that the file cannot be read.
type trouble struct {
	said  string    // the fault that was logged last; "": there is none
	since time.Time // the first look that failed
	gone  bool      // at the last look there was no file
	over  bool      // no token is in force any more
}

// held is a token in force, or not any more.
type held struct {
	Token
	over chan struct{} // closed when it is not
}

// OpenTokens reads a token file.
func OpenTokens(path string, log *slog.Logger) (*Tokens, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t := &Tokens{path: path, log: log}
	if err := t.Reload(); err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	return t, nil
}

// AwaitTokens is OpenTokens for a file that need not exist yet: no token is in
// force until it does.
func AwaitTokens(path string, log *slog.Logger) (*Tokens, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t := &Tokens{path: path, log: log, missing: true}
	if err := t.Reload(); err != nil {
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

// exist reports whether there is a token file, also one that cannot be read.
func (t *Tokens) exist() bool {
	if !t.Missing() {
		return true
	}
	_, err := os.Lstat(t.path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Reload reads the file again. On an error what was in force stays; see Watch.
func (t *Tokens) Reload() error {
	all, err := readFile(t.path)
	if errors.Is(err, fs.ErrNotExist) && t.Missing() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.bad = trouble{}
		return nil
	}
	if err != nil {
		return err
	}
	next := make(map[string]*held, len(all))
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, token := range all {
		if h := t.byID[token.ID]; h != nil && h.same(token) {
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
	t.byID, t.missing = next, false
	if t.bad.said != "" {
		t.log.Info("the tokens are in order again", "file", t.path)
	}
	t.bad = trouble{}
	return nil
}

// Watch reloads until ctx ends and logs what is wrong. A file that was deleted
// takes back all tokens, as soon as a second look has not found it either: some
// editors take a file away for a moment. One that cannot be read for another
// reason does so after a minute.
func (t *Tokens) Watch(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := t.Reload(); err != nil {
			t.failed(err, time.Now())
		}
	}
}

// failed notes that a look at the file has failed.
func (t *Tokens) failed(err error, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bad.said == "" {
		t.bad.since = now
	}
	gone := errors.Is(err, fs.ErrNotExist)
	over := t.bad.over || gone && t.bad.gone || now.Sub(t.bad.since) >= keepUnread
	switch {
	case over && !t.bad.over:
		t.log.Error("no token is in force any more until there is a token file that can be read", "file", t.path, "err", err)
	case err.Error() != t.bad.said && !over:
		t.log.Error("the token file cannot be read; the tokens of before are good for a short time", "file", t.path, "until", t.bad.since.Add(keepUnread).Format(time.TimeOnly), "err", err)
	}
	t.bad.said, t.bad.gone, t.bad.over = err.Error(), gone, over
	if !over {
		return
	}
	for _, h := range t.byID {
		close(h.over)
	}
	t.byID = nil
}

// Trouble says why the file cannot be read; "" if it can.
func (t *Tokens) Trouble() string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.bad.said
}

// Authenticate implements gateway.Authenticator.
func (t *Tokens) Authenticate(r *http.Request) (*gateway.Identity, error) {
	token, err := bearer(r)
	if err != nil {
		return nil, err
	}
	return t.Token(r, token)
}

// Token implements gateway.Authenticator.
func (t *Tokens) Token(_ *http.Request, token string) (*gateway.Identity, error) {
	t.mu.RLock()
	h, lost := find(t.byID, token), t.bad.over && !t.bad.gone
	t.mu.RUnlock()
	if h == nil && lost {
		return nil, &message.Error{Code: message.CodeUnavailable, Op: "authenticate", What: "the token file of this server cannot be read, so that no token is in force", Hint: "ask its operator"}
	}
	if h == nil {
		return nil, refused("the token is not known here", "use one of askance token create, whole and as it was printed")
	}
	if !h.InForce(time.Now()) {
		return nil, refused("the token of "+quote(h.Name)+" has expired or was revoked", "ask for another one")
	}
	return &gateway.Identity{Name: h.Name, Space: h.Space, Roles: h.Roles, Auth: ViaToken, Expires: h.Expires, Revoked: h.over}, nil
}
