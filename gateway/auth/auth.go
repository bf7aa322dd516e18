package auth

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/gateway"
)

// Config says who is let in. At least one of Tokens, OIDC, Unix and Local is
// needed. Local goes with Tokens whose file does not exist yet, and with nothing else.
type Config struct {
	Tokens *Tokens
	OIDC   *OIDC
	Unix   *UnixPeers
	Local  *Loopback
	// HasCredentials reports whether credentials exist elsewhere that Local must
	// not undercut, such as NATS logins. It is asked at each request until it says
	// yes; nil: none exist.
	HasCredentials func() bool
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

	closing sync.Once
	closed  chan struct{} // closed when Local lets in no requests any more
}

var (
	_ gateway.Authenticator = (*Auth)(nil)
	_ gateway.Background    = (*Auth)(nil)
)

// reloadEvery is how often the token file is looked at.
const reloadEvery = time.Second

// New checks the configuration.
func New(cfg Config) (*Auth, error) {
	if cfg.Tokens == nil && cfg.OIDC == nil && cfg.Unix == nil && cfg.Local == nil {
		return nil, errors.New("auth: there is no way to be let in")
	}
	if cfg.Local != nil && (cfg.Tokens != nil && !cfg.Tokens.Missing() || cfg.OIDC != nil || cfg.Unix != nil) {
		return nil, errors.New("auth: where there are credentials, nobody is let in without")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Auth{cfg: cfg, sessions: newSessions(cfg.Session, cfg.Secure), sealer: newSealer(), closed: make(chan struct{})}, nil
}

// Run implements gateway.Background.
func (a *Auth) Run(ctx context.Context, _ *gateway.Server) {
	defer a.sessions.close()
	var wg sync.WaitGroup
	if a.cfg.Tokens != nil {
		wg.Go(func() { a.cfg.Tokens.Watch(ctx, reloadEvery) })
	}
	if a.cfg.Local != nil {
		wg.Go(func() { a.watchCredentials(ctx) })
	}
	wg.Wait()
	<-ctx.Done()
}

// watchCredentials ends the open streams of the local user soon after the first
// credentials exist, also when no request asks.
func (a *Auth) watchCredentials(ctx context.Context) {
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	for a.IsOpen() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// IsOpen reports whether requests without credentials come from the local user.
//
// Invariant: once it has returned false, it never returns true.
func (a *Auth) IsOpen() bool {
	if a.cfg.Local == nil {
		return false
	}
	select {
	case <-a.closed:
		return false
	default:
	}
	if !a.hasCredentials() {
		return true
	}
	a.closing.Do(func() {
		a.cfg.Log.Warn("credentials exist: from now on every HTTP request needs a token (askance token create NAME --role approver)")
		close(a.closed)
	})
	return false
}

func (a *Auth) hasCredentials() bool {
	return a.cfg.Tokens != nil && a.cfg.Tokens.exist() || a.cfg.HasCredentials != nil && a.cfg.HasCredentials()
}

// Authenticate implements gateway.Authenticator. A bearer token takes precedence
// over a cookie, and a valid cookie over the user of a Unix socket.
func (a *Auth) Authenticate(r *http.Request) (*gateway.Identity, error) {
	uid, unix := peerOf(r.Context())
	if !unix && a.IsOpen() {
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
	if unix && a.cfg.Unix != nil {
		return a.cfg.Unix.identify(uid, r)
	}
	return nil, gateway.ErrNoCredentials
}

// local is the local user, for as long as there are no credentials.
func (a *Auth) local(r *http.Request) (*gateway.Identity, error) {
	id, err := a.cfg.Local.Authenticate(r)
	if err != nil {
		return nil, err
	}
	id.Revoked, id.InForce = a.closed, a.IsOpen
	return id, nil
}

// Token implements gateway.Authenticator.
func (a *Auth) Token(r *http.Request, token string) (*gateway.Identity, error) {
	switch {
	case a.IsOpen():
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
