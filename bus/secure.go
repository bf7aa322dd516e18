package bus

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/askance-dev/askance/bus/internal/secretfile"

	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats.go"
)

// OnLoopback reports whether only this machine reaches a host. A name other than
// localhost may stand for any address.
func OnLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// allOnLoopback reports whether none of the servers is beyond this machine.
func allOnLoopback(rawURL string) bool {
	for u := range strings.SplitSeq(rawURL, ",") {
		u = strings.TrimSpace(u)
		if !strings.Contains(u, "://") {
			u = "nats://" + u
		}
		p, err := url.Parse(u)
		if err != nil {
			return false
		}
		if ip, err := netip.ParseAddr(p.Hostname()); !OnLoopback(p.Hostname()) && (err != nil || !ip.IsUnspecified()) { // to that one dials oneself
			return false
		}
	}
	return true
}

// secure gives the client options by which the connection is encrypted: where a
// certificate was named, and where a login would go beyond this machine.
func (o ConnectOptions) secure(rawURL string) ([]nats.Option, error) {
	named := o.CAFile != "" || o.ServerCert != ""
	wanted := (o.CredsFile != "" || o.User != "") && !allOnLoopback(rawURL) && !o.PlainText
	if !named && !wanted {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	switch {
	case o.CAFile != "":
		pool, err := certPool(o.CAFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = pool
	case o.ServerCert != "":
		if err := pin(config, o.ServerCert); err != nil {
			return nil, err
		}
	}
	return []nats.Option{nats.Secure(config)}, nil
}

const opTLS = "use TLS"

// isCertificate reports whether a connection failed for the server's certificate.
func isCertificate(err error) bool {
	_, is := errors.AsType[*tls.CertificateVerificationError](err)
	return is || errors.Is(err, errPinned)
}

// errPinned: the server is not the one whose certificate is known.
var errPinned = errors.New("the server has another certificate")

func certPool(path string) (*x509.CertPool, error) {
	b, err := secretfile.Read(opTLS, path, false)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, badPEM(path)
	}
	return pool, nil
}

// pin believes the one certificate in a file, whatever names it bears: whoever
// could put another into the file could read everything else beside it.
func pin(config *tls.Config, path string) error {
	b, err := secretfile.Read(opTLS, path, false)
	if err != nil {
		return err
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != "CERTIFICATE" {
		return badPEM(path)
	}
	config.InsecureSkipVerify = true // VerifyConnection is stricter
	config.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 || !bytes.Equal(s.PeerCertificates[0].Raw, block.Bytes) {
			return fmt.Errorf("%w than %s", errPinned, path)
		}
		return nil
	}
	return nil
}

func badPEM(path string) error {
	return &message.Error{Code: message.CodeInvalid, Op: opTLS, What: path + " has no certificate in PEM", Hint: "name a file with -----BEGIN CERTIFICATE-----"}
}
