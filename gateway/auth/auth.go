// Package auth authenticates requests to the gateway in four ways, and each vote
// records which one it was:
//
//   - "http-token": a bearer token from a file that holds only hashes of tokens,
//     with a name, a space and roles ([Tokens]);
//   - "oidc:<issuer>": a login at an OpenID Connect provider, or a JWT that the
//     provider signed for this audience ([OIDC]);
//   - "unix-peer:<uid>": the user of the process that connected to a Unix socket,
//     as the kernel names it ([UnixPeers]);
//   - "http-loopback": no credentials, from the same machine, as the one local user,
//     as long as no credentials exist ([Loopback]).
//
// A request's body never says who sends it. A wrong credential is refused, even
// where a request without one would be admitted.
//
// # Access tokens and ID tokens
//
// An ID token says who logged in, and others see it, so it is refused. The first of these rules
// that applies decides about a JWT of the provider:
//
//   - Its header has typ at+jwt (RFC 9068): accepted. Another type than JWT: refused, a
//     logout token or a proof.
//   - It has nonce, at_hash, c_hash, s_hash or events: refused.
//   - It has token_use or a claim typ: accepted if that is access or Bearer, else refused.
//   - It has scope, scp or client_id: accepted.
//   - The client id is one of its audiences: refused, because every ID token has that
//     audience. Another audience: accepted.
package auth

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Config says who is admitted. At least one of Tokens, OIDC, Unix and Local is needed. Local can
// be combined only with Tokens whose file does not exist yet.
type Config struct {
	Tokens *Tokens
	OIDC   *OIDC
	Unix   *UnixPeers
	Local  *Loopback
	// HasCredentials reports whether other credentials exist, such as NATS logins:
	// then Local admits no one. Each request calls it until it is true; may be nil.
	HasCredentials func() bool
	// TokenCommand is named in the log when a token becomes necessary; default askance token create.
	TokenCommand string
	// Session is how long a browser stays logged in; default 12 h.
	Session time.Duration
	// Key seals the cookies of logins: servers with the same key accept each other's logins. Zero
	// means a random key, so a restart ends all logins.
	Key [32]byte
	// Secure: browsers reach the server over TLS, so cookies are sent over TLS only.
	Secure bool
	Log    *slog.Logger
}

// Auth is the gateway.Authenticator of all four ways, and the surface on which
// people log in and out.
type Auth struct {
	cfg      Config
	sessions *sessions
	sealer   *sealer

	closing sync.Once
	closed  chan struct{} // closed when Local admits no more requests
}

var (
	_ gateway.Authenticator = (*Auth)(nil)
	_ gateway.Background    = (*Auth)(nil)
)

// reloadEvery is how often the token file is read.
const reloadEvery = time.Second

// New checks the configuration.
func New(cfg Config) (*Auth, error) {
	if cfg.Tokens == nil && cfg.OIDC == nil && cfg.Unix == nil && cfg.Local == nil {
		return nil, errors.New("auth: no authentication is configured, so no request could be admitted: set Tokens, OIDC, Unix or Local")
	}
	if cfg.Local != nil && (cfg.Tokens != nil && !cfg.Tokens.Missing() || cfg.OIDC != nil || cfg.Unix != nil) {
		return nil, errors.New("auth: Local admits requests without credentials, but credentials exist: remove Local, or the credentials")
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	a := &Auth{cfg: cfg, sealer: newSealer(cfg.Key), closed: make(chan struct{})}
	a.sessions = newSessions(cfg.Session, cfg.Secure, a.sealer, a.restore)
	return a, nil
}

// Run implements gateway.Background.
func (a *Auth) Run(ctx context.Context, _ *gateway.Server) {
	defer a.sessions.close()
	var wg sync.WaitGroup
	if a.cfg.Tokens != nil {
		wg.Go(func() { a.cfg.Tokens.Watch(ctx, reloadEvery) })
	}
	if o := a.cfg.OIDC; o != nil {
		go func() { // not in wg: a provider that hangs must not delay the end
			if _, err := o.discover(ctx); err != nil && ctx.Err() == nil {
				a.cfg.Log.Warn("logins at the identity provider fail", "issuer", o.cfg.Issuer, "error", err)
			}
		}()
	}
	if a.cfg.Local != nil {
		wg.Go(func() { a.watchCredentials(ctx) })
	}
	wg.Wait()
	<-ctx.Done()
}

// watchCredentials ends the streams of the local user soon after the first credentials exist,
// even if no request comes.
func (a *Auth) watchCredentials(ctx context.Context) {
	for range gateway.Every(ctx, reloadEvery) {
		if !a.IsOpen() {
			return
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
		a.cfg.Log.Warn("credentials exist: from now on every HTTP request needs a token (" + cmp.Or(a.cfg.TokenCommand, "askance token create NAME --role approver") + ")")
		close(a.closed)
	})
	return false
}

func (a *Auth) hasCredentials() bool {
	return a.cfg.Tokens != nil && a.cfg.Tokens.hasFile() || a.cfg.HasCredentials != nil && a.cfg.HasCredentials()
}

// Authenticate implements gateway.Authenticator. A bearer token takes precedence
// over a cookie, and a valid cookie over the user of a Unix socket.
func (a *Auth) Authenticate(r *http.Request) (*gateway.Identity, error) {
	uid, unix := r.Context().Value(peerKey{}).(uint32)
	if !unix && a.IsOpen() {
		return a.authenticateLocal(r)
	}
	if len(r.Header.Values("Authorization")) > 0 {
		token, err := bearerToken(r)
		if err != nil {
			return nil, err
		}
		return a.Token(r, token)
	}
	if s, _ := a.sessions.find(r); s != nil {
		return &s.id, nil
	}
	if unix && a.cfg.Unix != nil {
		id, err := a.cfg.Unix.identify(uid, r)
		if e, is := errors.AsType[*message.Error](err); is {
			e.Err = gateway.ErrNoCredentials // so the person can log in: over ssh, or through a proxy
		}
		return id, err
	}
	return nil, gateway.ErrNoCredentials
}

// authenticateLocal admits the local user, as long as no credentials exist.
func (a *Auth) authenticateLocal(r *http.Request) (*gateway.Identity, error) {
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
		return a.cfg.OIDC.authenticate(r.Context(), token)
	}
	return nil, refusal("the token has an unknown form", "use a token that askance token create printed")
}

func bearerToken(r *http.Request) (string, error) {
	all := r.Header.Values("Authorization")
	if len(all) == 0 {
		return "", gateway.ErrNoCredentials
	}
	scheme, token, _ := strings.Cut(all[0], " ")
	if len(all) > 1 || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxBearer {
		return "", refusal("the Authorization header is not valid", "send Authorization: Bearer TOKEN once")
	}
	return token, nil
}

// maxBearer bounds a token: the JWTs of some providers are long.
const maxBearer = 16 << 10

// ViaLoopback is how a vote records a request without credentials from the same
// machine.
const ViaLoopback = "http-loopback"

// Loopback authenticates every request as one local user with all roles: no request
// can choose another name. It is only for a listener on loopback. It implements
// gateway.Authenticator.
type Loopback struct {
	Name  string
	Space toolcall.SpaceID
	// Further are other spaces; the host of a request chooses one, see SpaceHost.
	Further []toolcall.SpaceID
}

// allRoles are the roles of a person on their own machine.
var allRoles = []toolcall.Role{toolcall.RoleRuntime, toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor}

// forwarding are the headers of a forwarding proxy, besides those that begin with X-Forwarded.
var forwarding = []string{"Cf-Connecting-Ip", "Forwarded", "True-Client-Ip", "Via", "X-Client-Ip", "X-Original-Host", "X-Real-Ip"}

// checkDirect refuses a request from another machine where only the connection identifies the
// sender. After DNS rebinding a browser still sends the other site's name; a proxy hides its
// client. The host NAME.localhost selects one of the spaces, any other name of this machine the
// first.
func checkDirect(r *http.Request, spaces []toolcall.SpaceID, hint string) (toolcall.SpaceID, error) {
	space := spaces[0]
	if name, is := cutSpace(r.Host); is {
		space = toolcall.SpaceID(name)
		if !slices.Contains(spaces, space) {
			return "", refusal("this server has no space "+quote(name), "use http://localhost, or http://NAME.localhost with the name of a space")
		}
	} else if !LoopbackHost(r.Host) {
		return "", refusal("the host "+quote(r.Host)+" of the request does not name this machine", hint)
	}
	sign := ""
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Forwarded") || slices.Contains(forwarding, name) {
			sign = "header " + name
		}
	}
	if !r.ProtoAtLeast(1, 1) {
		sign = "HTTP/1.0, which nginx speaks unless told otherwise"
	}
	if sign != "" {
		return "", refusal("a proxy forwarded the request ("+sign+"), so the connection does not say who sends it", gateway.TokenHint(r)+" through the proxy, or connect without it")
	}
	return space, nil
}

// SpaceHost is the host by which a request without credentials names a space.
func SpaceHost(space toolcall.SpaceID) string { return string(space) + ".localhost" }

func cutSpace(host string) (name string, is bool) {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.CutSuffix(strings.ToLower(host), SpaceHost(""))
}

// Authenticate implements gateway.Authenticator.
func (l Loopback) Authenticate(r *http.Request) (*gateway.Identity, error) {
	space, err := checkDirect(r, append([]toolcall.SpaceID{l.Space}, l.Further...), "use http://127.0.0.1 or http://localhost")
	if err != nil {
		return nil, err
	}
	if r.Header.Get("Authorization") != "" {
		return nil, refusal("this server has no tokens", "leave out Authorization, or make tokens with askance token create")
	}
	return &gateway.Identity{Name: l.Name, Space: space, Roles: allRoles, Auth: ViaLoopback, Ambient: true}, nil
}

// Token implements gateway.Authenticator. It refuses every token.
func (l Loopback) Token(*http.Request, string) (*gateway.Identity, error) {
	return nil, refusal("this server has no tokens", "send none, or make one with askance token create")
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

func refusal(what, hint string) error {
	return &message.Error{Code: message.CodeForbidden, Op: "authenticate", What: what, Hint: hint}
}

// quote shows at most 64 bytes of untrusted text.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strconv.Quote(s)
}
