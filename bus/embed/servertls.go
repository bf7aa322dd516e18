package embed

import (
	"crypto/tls"
	"net"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/secretfile"
	"github.com/askance-dev/askance/message"
)

const opUseTLS = "use TLS"

// readTLS reads the server's certificate. It refuses logins from other machines
// without encryption.
func (o Options) readTLS() (*tls.Config, error) {
	if (o.TLSCert == "") != (o.TLSKey == "") {
		return nil, &message.Error{Code: message.CodeInvalid, Op: opUseTLS, What: "the certificate or its key is missing", Hint: "name both files"}
	}
	if o.TLSCert == "" {
		host, _, err := net.SplitHostPort(o.Listen)
		if err == nil && host != "" && !bus.OnLoopback(host) && (o.Trust != nil || len(o.Users) > 0) && !o.PlainText {
			return nil, &message.Error{Code: message.CodeInvalid, Op: "start embedded NATS", What: "logins and calls would cross the network from " + o.Listen + " in plain text", Hint: "give the server a certificate, listen on 127.0.0.1, or permit plain text"}
		}
		return nil, nil //nolint:nilnil // no TLS
	}
	cert, err := secretfile.Read(opUseTLS, o.TLSCert, false)
	if err != nil {
		return nil, err
	}
	key, err := secretfile.Read(opUseTLS, o.TLSKey, true)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: opUseTLS, What: o.TLSCert + " and " + o.TLSKey + " are not a certificate and its key", Hint: "name a certificate chain and a private key in PEM", Err: err}
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}, nil
}
