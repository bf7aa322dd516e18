package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"golang.org/x/net/netutil"

	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/gateway/auth"
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
	return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS12}), nil
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
	return limitListener(l), nil
}

// SocketPath is the path of the Unix socket; "" without one.
func (w *Web) SocketPath() string { return w.cfg.Socket.Path }
