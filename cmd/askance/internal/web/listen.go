package web

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"syscall"

	"golang.org/x/net/netutil"

	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/message"
)

// maxConns is how many connections are served at once; more wait.
const maxConns = 8192

// maxPEM bounds the files for TLS.
const maxPEM = 1 << 20

// hostPort is where to listen.
func (c Config) hostPort() (host, port string, err error) {
	address := c.Address
	if address == "" {
		address = DefaultAddress
	}
	if host, port, err = net.SplitHostPort(address); err != nil {
		return "", "", &Error{"--http " + address + " is not host:port; write 127.0.0.1:8787, or 127.0.0.1:0 for a free port"}
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return host, port, nil
}

// certificate reads the files for TLS; nil if there are none.
func (c Config) certificate() (*tls.Certificate, error) {
	if (c.Cert == "") != (c.Key == "") {
		return nil, &Error{"--http-cert and --http-key go together"}
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
		return nil, &message.Error{Code: message.CodeInvalid, Op: "http", What: c.Cert + " and " + c.Key + " are no certificate and its key", Hint: "name a certificate chain and a private key in PEM", Err: err}
	}
	return &pair, nil
}

// Listen binds the address of the gateway, so that it is known to be free before
// anything else is begun. Whoever connects waits until [Serve].
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
		cfg.Log.Info("the port of the gateway is taken; a free one is used", "address", DefaultAddress)
		l, err = lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, cannotListen(cfg.Address, err)
	}
	l = limited(l)
	if cert == nil {
		return l, nil
	}
	return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS12}), nil
}

// limited lets maxConns connections in at once.
func limited(l net.Listener) net.Listener { return netutil.LimitListener(l, maxConns) }

// cannotListen says why an address cannot be had.
func cannotListen(address string, err error) error {
	e := &message.Error{Code: message.CodeUnavailable, Op: "http", What: "cannot listen at " + address, Hint: "choose another address with --http", Err: err}
	if errors.Is(err, syscall.EADDRINUSE) {
		e.What, e.Hint, e.Err = "another program listens at "+address+" already", "choose another address with --http, or leave it out for a free port", nil
	}
	return e
}
