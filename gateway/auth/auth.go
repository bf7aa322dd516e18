// Package auth says who sends a request to the gateway. Four ways are known,
// and each vote records which one it was:
//
//   - "http-token": a bearer token from a file that holds only hashes of tokens,
//     with a name, a space and roles ([Tokens]);
//   - "oidc:<issuer>": a log-in at an OpenID Connect provider, or a JWT that the
//     provider signed for this audience ([OIDC]);
//   - "unix-peer:<uid>": the user of the process that connected to a Unix socket,
//     as the kernel names it ([UnixPeers]);
//   - "http-loopback": none at all, from the same machine, as the one local user,
//     for as long as no credentials exist ([Loopback]).
//
// What a request's body says about its sender is never looked at. A credential
// that is there and wrong is refused, whatever else would be let in.
package auth

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
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

// ViaLoopback is how a vote records that nobody had to prove anything: the
// request came from the machine itself.
const ViaLoopback = "http-loopback"

// Loopback takes every request for that of one local user, in all roles: no
// request can choose another name. It is for a listener on loopback alone. It
// implements gateway.Authenticator.
type Loopback struct {
	Name  string
	Space toolcall.SpaceID
}

// allRoles is what one person on their own machine may do.
var allRoles = []toolcall.Role{toolcall.RoleRuntime, toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor}

// forwarding are the headers by which a proxy says that it passes a request on.
var forwarding = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"}

// checkDirect refuses a request that a sender elsewhere may have made, where only
// its connection says who sends it. A browser that was led here by the name of
// another site (DNS rebinding) still says that name; a proxy hides its client.
func checkDirect(r *http.Request, hint string) error {
	if !LoopbackHost(r.Host) {
		return refused("the request is for the host "+quote(r.Host)+", which is not this machine's own", hint)
	}
	for _, name := range forwarding {
		if len(r.Header.Values(name)) > 0 {
			return refused("a proxy passed the request on (header "+name+"), so the connection does not say who sends it", "send a token through the proxy (askance token create NAME --role approver), or connect without it")
		}
	}
	return nil
}

// Authenticate implements gateway.Authenticator.
func (l Loopback) Authenticate(r *http.Request) (*gateway.Identity, error) {
	if err := checkDirect(r, "use http://127.0.0.1 or http://localhost"); err != nil {
		return nil, err
	}
	if r.Header.Get("Authorization") != "" {
		return nil, refused("no tokens are set up here", "leave out Authorization, or make tokens with askance token create")
	}
	return &gateway.Identity{Name: l.Name, Space: l.Space, Roles: allRoles, Auth: ViaLoopback, Ambient: true}, nil
}

// Token implements gateway.Authenticator: there are none.
func (l Loopback) Token(*http.Request, string) (*gateway.Identity, error) {
	return nil, refused("no tokens are set up here", "send none, or make some with askance token create")
}

// LoopbackHost reports whether a Host header names this machine: localhost or a
// loopback address, with or without a port.
func LoopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Zone() == "" && ip.Unmap().IsLoopback()
}

func refused(what, hint string) error {
	return &message.Error{Code: message.CodeForbidden, Op: "authenticate", What: what, Hint: hint}
}

// quote shows text of a stranger.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strconv.Quote(s)
}
