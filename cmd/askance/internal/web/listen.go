package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/net/netutil"

	"github.com/askance-dev/askance/cmd/askance/internal/remote"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// maxConns is how many connections are served at once; more wait.
const maxConns = 8192

const maxPEM = 1 << 20

func (c Config) hostPort() (host, port string, err error) {
	address := cmp.Or(c.Address, DefaultAddress)
	if host, port, err = net.SplitHostPort(address); err != nil {
		return "", "", &Error{"--http " + address + " is not host:port; write 127.0.0.1:8787, or 127.0.0.1:0 for a free port"}
	}
	return cmp.Or(host, "127.0.0.1"), port, nil
}

// certificate reads the files for TLS; nil if there are none.
func (c Config) certificate() (*tls.Certificate, error) {
	if (c.Cert == "") != (c.Key == "") {
		return nil, &Error{"only one of --http-cert and --http-key is set: pass both"}
	}
	if c.Cert == "" {
		return nil, nil //nolint:nilnil // documented
	}
	cert, err := textfile.Read("--http-cert", c.Cert, maxPEM)
	if err != nil {
		return nil, err
	}
	key, err := textfile.Read("--http-key", c.Key, maxPEM)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: "http", What: c.Cert + " and " + c.Key + " are not a certificate and its key", Hint: "pass a certificate chain and a private key in PEM", Err: err}
	}
	return &pair, nil
}

// Listen binds the address of the gateway, so that it is known to be free before
// anything else starts. Connections wait until [Serve].
func Listen(ctx context.Context, cfg Config) (net.Listener, error) {
	host, port, err := cfg.hostPort()
	if err != nil {
		return nil, err
	}
	cert, err := cfg.certificate()
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if cfg.Address == "" && errors.Is(err, syscall.EADDRINUSE) {
		cfg.Log.Warn("another program uses the usual address of the gateway, so this server takes another port: give its address to clients and hooks", "in_use", DefaultAddress)
		l, err = lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, cannotListen(cfg.Address, err)
	}
	l = limitListener(l)
	if cert == nil {
		return l, nil
	}
	return tls.NewListener(l, &tls.Config{GetCertificate: cfg.renewed(cert), MinVersion: tls.VersionTLS12}), nil
}

// renewed returns a function that reads the certificate again for each new connection, because it is
// renewed while the server runs. Files that do not fit leave the last good one.
func (c Config) renewed(first *tls.Certificate) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	var last atomic.Pointer[tls.Certificate]
	last.Store(first)
	files := plainfile.Reloader{Report: func(err error) {
		if err != nil {
			c.Log.Error("the certificate for HTTP cannot be used; the last good one stays", "error", err)
		}
	}}
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		_ = files.Reload(hello.Context(), func(context.Context) error { // reported
			now, err := c.certificate()
			if err == nil {
				last.Store(now)
			}
			return err
		})
		return last.Load(), nil
	}
}

func limitListener(l net.Listener) net.Listener { return netutil.LimitListener(l, maxConns) }

func cannotListen(address string, err error) error {
	e := &message.Error{Code: message.CodeUnavailable, Op: "http", What: "cannot listen at " + address, Hint: "choose another address with --http", Err: err}
	if errors.Is(err, syscall.EADDRINUSE) {
		e.What, e.Hint, e.Err = "another program already listens at "+address, "choose another address with --http, or leave it out for a free port", nil
	}
	return e
}

// Socket is a Unix socket at which the kernel identifies who sends a request.
type Socket struct {
	Path string
	// Listener is the socket, as ListenSocket opened it.
	Listener net.Listener
	// Group can also open the socket; "": only its owner can.
	Group string
	// Roles gives roles to users other than the owner, by name or uid;
	// auth.EveryPeer gives them to all who can open the socket.
	Roles map[string][]toolcall.Role
}

// NeedsSocket is the error of flags about a socket without one.
const NeedsSocket = "--http-socket-group and --http-socket-role need --http-socket"

func (c Config) checkSocket() error {
	s := c.Socket
	if s.Path == "" {
		if s.Group != "" || len(s.Roles) > 0 {
			return &Error{NeedsSocket}
		}
		return nil
	}
	if _, err := s.gid(); err != nil {
		return err
	}
	_, err := c.peers()
	return err
}

// gid returns the group that can open the socket; -1 means none.
func (s Socket) gid() (int, error) {
	if s.Group == "" {
		return -1, nil
	}
	text := s.Group
	if _, err := strconv.Atoi(text); err != nil {
		g, err := user.LookupGroup(text)
		if err != nil {
			return 0, &Error{"--http-socket-group " + s.Group + ": there is no such group on this machine"}
		}
		text = g.Gid
	}
	gid, err := strconv.Atoi(text)
	if err != nil || gid < 0 {
		return 0, &Error{"--http-socket-group " + s.Group + " is neither a group name nor a gid"}
	}
	return gid, nil
}

func (c Config) peers() (*auth.UnixPeers, error) {
	space := toolcall.SpaceID("default") // not known yet
	if c.Space != nil {
		space = c.Space.ID
	}
	p, err := auth.NewUnixPeers(space, uint32(max(0, os.Geteuid())), c.User, c.Socket.Roles)
	if err != nil {
		return nil, &Error{"--http-socket-role: " + err.Error()}
	}
	p.Further = c.furtherIDs()
	return p, nil
}

// ListenSocket binds the Unix socket of the gateway.
func ListenSocket(ctx context.Context, cfg Config) (net.Listener, error) {
	gid, err := cfg.Socket.gid()
	if err != nil {
		return nil, err
	}
	l, err := auth.ListenUnix(ctx, cfg.Socket.Path, gid, cfg.Log)
	if err != nil {
		return nil, err
	}
	path, err := filepath.Abs(cfg.Socket.Path) // clients are in other folders
	if err == nil {
		err = remote.CheckSocket(path)
	}
	if err != nil && cfg.Log != nil {
		cfg.Log.Warn("clients refuse this Unix socket", "err", err, "hint", message.AsError("", err).Hint)
	}
	return limitListener(l), nil
}

// SocketPath is the path of the Unix socket; "" without one.
func (w *Web) SocketPath() string { return w.cfg.Socket.Path }

// open reports whether only the address would identify who sends a request.
func (c Config) open() bool { return c.Tokens == "" && c.OIDC.Issuer == "" }

// behindProxy reports whether browsers reach the gateway by the name of another host:
// their requests then come from a proxy on this machine.
func (c Config) behindProxy() bool {
	u, err := url.Parse(c.Public)
	return c.Public != "" && (err != nil || !auth.LoopbackHost(u.Host))
}

// authenticator admits the configured principals, or the local user if nothing is
// configured and no credentials exist.
func (w *Web) authenticator() (*auth.Auth, error) {
	cfg := auth.Config{Session: w.cfg.Session, Key: w.cfg.LoginKey, Secure: strings.HasPrefix(w.public(), "https://"), HasCredentials: w.cfg.HasLogins, TokenCommand: w.cfg.TokenCommand, Log: w.cfg.Log}
	if err := w.openTokens(); err != nil {
		return nil, err
	}
	cfg.Tokens = w.tokens
	var err error
	if w.cfg.Socket.Path != "" {
		if cfg.Unix, err = w.cfg.peers(); err != nil {
			return nil, err
		}
	}
	if w.cfg.OIDC.Issuer != "" {
		o := w.cfg.OIDC
		o.Space = w.cfg.Space.ID
		if o.Redirect, err = url.JoinPath(w.public(), "/auth/oidc/callback"); err != nil {
			return nil, &Error{"--http-url: " + err.Error()}
		}
		if cfg.OIDC, err = auth.NewOIDC(o); err != nil {
			return nil, err
		}
	}
	if (w.tokens == nil || w.tokens.Missing()) && cfg.OIDC == nil && cfg.Unix == nil && !w.cfg.behindProxy() {
		cfg.Local = &auth.Loopback{Name: w.cfg.User, Space: w.cfg.Space.ID, Further: w.cfg.furtherIDs()}
	}
	return auth.New(cfg)
}

func (w *Web) openTokens() (err error) {
	switch {
	case w.cfg.Tokens != "":
		w.tokens, err = auth.OpenTokens(w.cfg.Tokens, w.cfg.Log)
	case w.cfg.DefaultTokens != "":
		w.tokens, err = auth.AwaitTokens(w.cfg.DefaultTokens, w.cfg.Log)
	}
	return err
}

// public returns the URL at which browsers reach the gateway.
func (w *Web) public() string {
	if w.cfg.Public != "" {
		return strings.TrimSuffix(w.cfg.Public, "/")
	}
	if w.listener == nil {
		return "http://localhost"
	}
	return w.URL()
}

// publicOf returns the URL at which browsers reach the console of a space; "" with only a socket.
func (w *Web) publicOf(space toolcall.SpaceID) string {
	if w.cfg.Public == "" && w.listener == nil {
		return ""
	}
	if space == w.cfg.Space.ID || !w.auth.IsOpen() {
		return w.public() // a login names the space
	}
	return OfSpace(w.public(), space)
}

// OfSpace returns the address with which a local user without credentials names a space. It
// returns a URL of another machine unchanged.
func OfSpace(at string, space toolcall.SpaceID) string {
	u, err := url.Parse(at)
	if err != nil || !auth.LoopbackHost(u.Host) {
		return at
	}
	port := u.Port()
	if u.Host = auth.SpaceHost(space); port != "" {
		u.Host += ":" + port
	}
	return u.String()
}

// TokenError is 1 while the token file cannot be read, for metrics.
func (w *Web) TokenError() float64 {
	if w.tokens != nil && w.tokens.Trouble() != "" {
		return 1
	}
	return 0
}

// Logins says who can log in, for people; "" means only the local user, without credentials.
func (w *Web) Logins() string {
	if w.auth.IsOpen() {
		return ""
	}
	var ways []string
	if w.tokens != nil && !w.tokens.Missing() {
		file := cmp.Or(w.cfg.Tokens, w.cfg.DefaultTokens)
		ways = append(ways, "tokens of "+file)
	}
	if w.cfg.OIDC.Issuer != "" {
		ways = append(ways, "logins at "+w.cfg.OIDC.Issuer)
	}
	if len(ways) == 0 {
		return "closed: every request needs a token, and none exists (" + w.cfg.TokenCommand + ")"
	}
	return strings.Join(ways, ", ")
}

// Check checks the settings and files of a gateway, and starts nothing. It returns an
// *Error for a setting that is invalid, or that would admit strangers or show
// passwords to the network, and other errors for files.
func (c Config) Check() error {
	if c.Address != Off {
		if _, _, err := c.hostPort(); err != nil {
			return err
		}
	}
	if err := c.checkSocket(); err != nil {
		return err
	}
	if err := c.strangers(); err != nil {
		return err
	}
	if _, err := c.certificate(); err != nil {
		return err
	}
	if c.Public != "" {
		if u, err := url.Parse(c.Public); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return &Error{"--http-url " + c.Public + " is not a URL such as https://inbox.example"}
		}
	}
	if err := gateway.CheckOrigins(c.Origins); err != nil {
		return &Error{"--http-origin: " + err.Error()}
	}
	if len(c.Origins) > 0 && c.open() {
		return &Error{"--http-origin " + c.Origins[0] + " needs tokens or a provider: a page of another site has no other way to say who sends its requests, and cookies are never sent with them; create a token with askance token create NAME --role approver, name a provider with --oidc-issuer, or leave out --http-origin"}
	}
	if c.Tokens != "" {
		if _, err := auth.OpenTokens(c.Tokens, c.Log); err != nil {
			return err
		}
	}
	if c.OIDC.Issuer == "" {
		return nil
	}
	switch u, err := url.Parse(c.OIDC.Issuer); {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return &Error{"--oidc-issuer " + c.OIDC.Issuer + " is not a URL such as https://id.example"}
	case u.Scheme == "http" && !auth.LoopbackHost(u.Host):
		return &Error{"--oidc-issuer " + c.OIDC.Issuer + " is plain HTTP, so someone on the network could forge logins: use https"}
	}
	o := c.OIDC
	o.Redirect, o.Space = "http://localhost/", toolcall.SpaceID("default") // neither is known yet
	if _, err := auth.NewOIDC(o); err != nil {
		return &Error{"--oidc-role: " + err.Error()}
	}
	return nil
}
