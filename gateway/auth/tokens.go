package auth

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/askance-dev/askance/gateway"
)

// Tokens judges bearer tokens by a file that is looked at again and again. A
// token that was taken out of it, revoked or changed ends at once, with the
// streams that it has opened. It implements gateway.Authenticator; its methods
// may be called from many goroutines.
type Tokens struct {
	path string
	log  *slog.Logger

	mu   sync.RWMutex // guards what follows
	byID map[string]*held
	bad  string // what was said last of a file that cannot be read
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

// Reload reads the file again. On an error what was in force stays.
func (t *Tokens) Reload() error {
	all, err := readFile(t.path)
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
	t.byID = next
	return nil
}

// Watch reloads until ctx ends and logs what is wrong.
func (t *Tokens) Watch(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch err := t.Reload(); {
		case err == nil && t.bad != "":
			t.log.Info("the tokens are in order again")
			t.bad = ""
		case err != nil && err.Error() != t.bad:
			t.bad = err.Error()
			t.log.Error("the token file is refused, the last good one stays in force", "err", err)
		}
	}
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
	h := find(t.byID, token)
	t.mu.RUnlock()
	if h == nil {
		return nil, refused("the token is not known here", "use one of askance token create, whole and as it was printed")
	}
	if !h.InForce(time.Now()) {
		return nil, refused("the token of "+quote(h.Name)+" has expired or was revoked", "ask for another one")
	}
	return &gateway.Identity{Name: h.Name, Space: h.Space, Roles: h.Roles, Auth: ViaToken, Expires: h.Expires, Revoked: h.over}, nil
}
