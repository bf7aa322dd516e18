package cli_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
)

// certificate writes a self-signed certificate for 127.0.0.1 and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "askance test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "nats.pem"), filepath.Join(dir, "nats.key")
	write(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	return cert, key
}

// With a certificate the embedded server speaks only TLS. Commands on its data folder trust the
// certificate that it stored there; others need the CA.
func TestServeTLS(t *testing.T) {
	cleanEnvironment(t)
	cert, key := certificate(t)
	other, _ := certificate(t)
	data := filepath.Join(t.TempDir(), "data")
	ok(t, "creds", "init", "--data", data)
	ann, eve := credFile(t, data, "approver", "ann"), credFile(t, data, "auditor", "eve")
	ok(t, "creds", "add", "operator", "olga", "--data", data)
	fails(t, cli.ExitUsage, "pass both", "serve", "--data", data, "--nats-cert", cert)
	s := serveOn(t, data, "--listen", "0.0.0.0:0", "--nats-cert", cert, "--nats-key", key)
	if !strings.HasPrefix(s.url, "tls://") {
		t.Errorf("serve is at %s", s.url)
	}
	ok(t, "list", "--data", data, "--as", "olga")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(s.url, "tls://"))
	if err != nil {
		t.Fatal(err)
	}
	url := "tls://127.0.0.1:" + port
	ok(t, "list", "--nats", url, "--nats-ca", cert, "--creds", ann)
	ok(t, "audit", "verify", "--data", data, "--nats", "nats://127.0.0.1:"+port, "--nats-ca", cert, "--creds", eve)
	fails(t, cli.ExitForbidden, "is not trusted", "list", "--nats", url, "--nats-ca", other, "--creds", ann)
	fails(t, cli.ExitForbidden, "is not trusted", "list", "--nats", url, "--creds", ann)
	fails(t, cli.ExitUsage, "no PEM certificate", "list", "--nats", url, "--nats-ca", key, "--creds", ann)
	write(t, filepath.Join(data, "nats.crt"), read(t, other))
	fails(t, cli.ExitForbidden, "is not trusted", "list", "--data", data, "--as", "olga")
	s.stop()
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	fails(t, cli.ExitForbidden, "chmod 600", "serve", "--data", data, "--listen", "127.0.0.1:0", "--nats-cert", cert, "--nats-key", key)
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A login that others can read is refused wherever it is used.
func TestOpenSecrets(t *testing.T) {
	cleanEnvironment(t)
	data := filepath.Join(t.TempDir(), "data")
	ok(t, "creds", "init", "--data", data)
	ann := credFile(t, data, "approver", "ann")
	s := serveOn(t, data)
	for _, path := range []string{ann, filepath.Join(data, "creds", "engine.creds"), filepath.Join(data, "creds", "secrets", "account.nk"), filepath.Join(data, "engine.key")} {
		for _, mode := range []os.FileMode{0o644, 0o640, 0o604} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			args := []string{"serve", "--data", data, "--listen", "127.0.0.1:0"}
			switch filepath.Base(path) {
			case "given.creds":
				args = []string{"list", "--nats", s.url, "--creds", ann}
			case "account.nk":
				args = []string{"creds", "add", "approver", "bob", "--data", data}
			default:
				s.stop()
			}
			fails(t, cli.ExitForbidden, "chmod 600 "+path, args...)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A renewed certificate is used without a restart, and files that do not fit change nothing.
func TestRenewedHTTPCertificate(t *testing.T) {
	cleanEnvironment(t)
	cert, key := certificate(t)
	next, nextKey := certificate(t)
	s := serveOn(t, filepath.Join(t.TempDir(), "data"), "--http-cert", cert, "--http-key", key)
	want := func(what, file string) {
		t.Helper()
		d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
		conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.http, "https://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		block, _ := pem.Decode([]byte(read(t, file)))
		if got := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]; !bytes.Equal(got.Raw, block.Bytes) {
			t.Errorf("%s: the server has another certificate", what)
		}
	}
	first := filepath.Join(t.TempDir(), "first.pem")
	write(t, first, read(t, cert))
	want("at the start", first)
	write(t, cert, read(t, next))
	want("without the new key", first)
	write(t, key, read(t, nextKey))
	want("renewed", next)
	write(t, cert, "")
	want("an empty file", next)
}

// A renewed certificate for NATS is used without a restart, and a client that follows the data
// folder connects again.
func TestRenewedNATSCertificate(t *testing.T) {
	cleanEnvironment(t)
	cert, key := certificate(t)
	next, nextKey := certificate(t)
	first := filepath.Join(t.TempDir(), "first.pem")
	write(t, first, read(t, cert))
	data := filepath.Join(t.TempDir(), "data")
	s := serveOn(t, data, "--listen", "127.0.0.1:0", "--nats-cert", cert, "--nats-key", key, "--metrics", "127.0.0.1:0")
	reconnected := make(chan struct{}, 1)
	nc, err := bus.Connect(t.Context(), s.url, bus.ConnectOptions{Principal: "runtime.r", ServerCert: node.Dir(data).Certificate(), Extra: []nats.Option{
		nats.ReconnectHandler(func(*nats.Conn) { reconnected <- struct{}{} }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	write(t, cert, read(t, next))
	write(t, key, read(t, nextKey))
	for read(t, node.Dir(data).Certificate()) != read(t, next) {
		fetchOK(t, s.metrics) // takes time
	}
	if err := nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-reconnected:
	case <-time.After(time.Minute):
		t.Fatal("the connection did not come back")
	}
	ok(t, "list", "--data", data)
	ok(t, "list", "--nats", s.url, "--nats-ca", next, "--as", "ann")
	fails(t, cli.ExitForbidden, "is not trusted", "list", "--nats", s.url, "--nats-ca", first, "--as", "ann")
}
