package auth

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/askance-dev/askance/gateway"
)

// Config says who is let in. At least one of Tokens, OIDC and Local is needed;
// Local does not go with the others.
type Config struct {
	Tokens *Tokens
	OIDC   *OIDC
	Local  *Loopback
	// Session is how long a browser stays logged in; default 12 h.
	Session time.Duration
	// Secure says that browsers reach the server over TLS: cookies go nowhere else.
	Secure bool
	Log    *slog.Logger
}

// Auth is a gateway.Authenticator for all ways together, and the surface by
// which people log in and out.
type Auth struct {
	cfg      Config
	sessions *sessions
	sealer   *sealer
}

var (
	_ gateway.Authenticator = (*Auth)(nil)
	_ gateway.Background    = (*Auth)(nil)
)

// reloadEvery is how often the token file is looked at.
const reloadEvery = time.Second

// New checks the configuration.
func New(cfg Config) (*Auth, error) {
	if cfg.Tokens == nil && cfg.OIDC == nil && cfg.Local == nil {
		return nil, errors.New("auth: there is no way to be let in")
	}
	if cfg.Local != nil && (cfg.Tokens != nil || cfg.OIDC != nil) {
		return nil, errors.New("auth: where there are credentials, nobody is let in without")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Auth{cfg: cfg, sessions: newSessions(cfg.Session, cfg.Secure), sealer: newSealer()}, nil
}

// Run implements gateway.Background.
func (a *Auth) Run(ctx context.Context, _ *gateway.Server) {
	defer a.sessions.close()
	if a.cfg.Tokens != nil {
		a.cfg.Tokens.Watch(ctx, reloadEvery)
	}
	<-ctx.Done()
}

// Authenticate implements gateway.Authenticator: a bearer token goes before a
// cookie, and a cookie that is good for nothing is none.
func (a *Auth) Authenticate(r *http.Request) (*gateway.Identity, error) {
	if a.cfg.Local != nil {
		return a.local(r)
	}
	if len(r.Header.Values("Authorization")) > 0 {
		token, err := bearer(r)
		if err != nil {
			return nil, err
		}
		return a.Token(r, token)
	}
	if s := a.sessions.find(r); s != nil {
		return &s.id, nil
	}
	return nil, gateway.ErrNoCredentials
}

// local is Authenticate on a machine of one's own.
func (a *Auth) local(r *http.Request) (*gateway.Identity, error) {
	id, err := a.cfg.Local.Authenticate(r)
	if err != nil {
		return nil, err
	}
	if s := a.sessions.find(r); s != nil && r.Header.Get(AsHeader) == "" {
		return &s.id, nil
	}
	return id, nil
}

// Token implements gateway.Authenticator.
func (a *Auth) Token(r *http.Request, token string) (*gateway.Identity, error) {
	switch {
	case a.cfg.Local != nil:
		return a.cfg.Local.Token(r, token)
	case a.cfg.Tokens != nil && strings.HasPrefix(token, tokenPrefix):
		return a.cfg.Tokens.Token(r, token)
	case a.cfg.OIDC != nil && strings.Count(token, ".") == 2:
		return a.cfg.OIDC.bearer(r.Context(), token)
	}
	return nil, refused("the token is of no kind that is known here", "use one of askance token create")
}

// bearer is the token of a request.
func bearer(r *http.Request) (string, error) {
	all := r.Header.Values("Authorization")
	if len(all) == 0 {
		return "", gateway.ErrNoCredentials
	}
	scheme, token, _ := strings.Cut(all[0], " ")
	if len(all) > 1 || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxBearer {
		return "", refused("the Authorization header cannot be read", "send Authorization: Bearer TOKEN, once")
	}
	return token, nil
}

// maxBearer bounds a token; JWTs of some providers are long.
const maxBearer = 16 << 10
