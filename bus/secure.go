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
// localhost can stand for any address.
func OnLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// allOnLoopback reports whether all servers are on this machine.
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
		if ip, err := netip.ParseAddr(p.Hostname()); !OnLoopback(p.Hostname()) && (err != nil || !ip.IsUnspecified()) { // dials this machine
			return false
		}
	}
	return true
}

// secure returns the client options that encrypt a connection with a named
// certificate, or with a login beyond this machine.
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

// isCertificateError reports whether a connection failed for the server's
// certificate.
func isCertificateError(err error) bool {
	_, is := errors.AsType[*tls.CertificateVerificationError](err)
	return is || errors.Is(err, errPinned)
}

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

// pin accepts only the certificate in a file, under any name.
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
	return &message.Error{Code: message.CodeInvalid, Op: opTLS, What: path + " has no PEM certificate", Hint: "name a file with -----BEGIN CERTIFICATE-----"}
}
