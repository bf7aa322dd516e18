package bus

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/bus/internal/secretfile"
	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats.go"
)

// ConnectOptions configure a connection. Principal is required.
type ConnectOptions struct {
	// Principal is the name of this connection. It decides the inbox prefix; engines drop
	// requests from any other inbox.
	Principal string
	// Name is shown in the server's list of connections. Default: the principal.
	Name string
	// CredsFile is a NATS credentials file that only this user can read, or empty.
	CredsFile string
	// User and Password log in with a password, unless User is empty.
	User, Password string
	// CAFile has the PEM certificates of accepted signers of the server's certificate;
	// empty means those of the system. ServerCert is instead the server's own
	// certificate, accepted under any name. Either one requires encryption.
	CAFile, ServerCert string
	// PlainText permits an unencrypted login beyond this machine.
	PlainText bool
	// Logger logs the events of the connection. Nil means no log.
	Logger *slog.Logger
	// Extra has more options for the client, applied last.
	Extra []nats.Option
}

const (
	dialTimeout    = 5 * time.Second
	minReconnect   = 50 * time.Millisecond
	maxReconnect   = 2 * time.Second
	pingEvery      = 3 * time.Second // a peer that misses two pings is given up
	maxOutstanding = 2
)

// AuthOf returns how an external server authenticates names: [AuthJWT] if it required
// the credentials file of this connection, else [AuthSubject].
func AuthOf(nc *nats.Conn) string {
	if nc.AuthRequired() && nc.Opts.UserJWT != nil {
		return AuthJWT
	}
	return AuthSubject
}

// Connect opens a connection to the servers in rawURL ("nats://host:4222", or
// several with commas). It fails with CodeUnavailable if none can be reached
// within five seconds or before ctx ends. A lost connection is restored without limit,
// with growing, jittered pauses.
//
// While it is disconnected, publishing fails at once, so that no write happens
// later than its caller thinks. Errors and logs omit user, password and token of
// the URL.
func Connect(ctx context.Context, rawURL string, o ConnectOptions) (*nats.Conn, error) {
	if err := checkURLs(rawURL); err != nil {
		return nil, err
	}
	secure, err := o.tlsOptions(rawURL)
	if err != nil {
		return nil, err
	}
	return connect(ctx, rawURL, o, secure...)
}

// ConnectInProcess opens a connection to a server in this process: see
// [Connect].
func ConnectInProcess(ctx context.Context, server nats.InProcessConnProvider, o ConnectOptions) (*nats.Conn, error) {
	return connect(ctx, "", o, nats.InProcessServer(server))
}

func connect(ctx context.Context, rawURL string, o ConnectOptions, more ...nats.Option) (*nats.Conn, error) {
	const op = "connect to NATS"
	if err := CheckName("principal", o.Principal); err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, dialTimeout) // for all servers together
	defer cancel()
	d := &firstDial{ctx: within, left: map[string][]string{}}
	pool := d.listAddresses(rawURL)
	d.each = timeoutFor(within) / time.Duration(len(pool)) // a silent server leaves time for the others
	if o.CredsFile != "" {
		if _, err := secretfile.Read(op, o.CredsFile, true); err != nil { // the client reads it again
			return nil, err
		}
	}
	opts := append(o.natsOptions(), nats.SetCustomDialer(d), nats.SkipHostLookup(), nats.Timeout(timeoutFor(ctx)))
	opts = append(opts, more...)
	opts = append(opts, o.Extra...)
	nc, err := nats.Connect(strings.Join(pool, ","), opts...)
	d.keepConnections()
	if err == nil {
		return nc, nil
	}
	e := &message.Error{Code: message.CodeUnavailable, Op: op, What: "cannot reach " + RedactURL(rawURL), Hint: "check that a NATS server with JetStream runs there", Err: err}
	switch {
	case ctx.Err() != nil:
		e.Err = context.Cause(ctx)
	case errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked):
		e.Code, e.What, e.Hint = message.CodeForbidden, RedactURL(rawURL)+" refuses these credentials", "check the user, password or credentials file"
	case errors.Is(err, nats.ErrSecureConnWanted):
		e.Code, e.What, e.Hint = message.CodeForbidden, RedactURL(rawURL)+" has no TLS, so the login and the calls would cross the network in plain text", "give the server a certificate, or permit plain text with --nats-insecure"
	case isCertificateError(err):
		e.Code, e.What, e.Hint = message.CodeForbidden, "the certificate of "+RedactURL(rawURL)+" is not trusted", "name the certificate of its signer with --nats-ca"
	}
	return nil, e
}

// natsOptions returns the client options of every connection.
func (o ConnectOptions) natsOptions() []nats.Option {
	opts := []nats.Option{
		nats.Name(cmp.Or(o.Name, o.Principal)),
		nats.CustomInboxPrefix(InboxPrefix(o.Principal)),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(reconnectDelay),
		nats.ReconnectBufSize(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.PingInterval(pingEvery),
		nats.MaxPingsOutstanding(maxOutstanding),
	}
	if o.CredsFile != "" {
		opts = append(opts, nats.UserCredentials(o.CredsFile))
	}
	if o.User != "" {
		opts = append(opts, nats.UserInfo(o.User, o.Password))
	}
	return append(opts, logOptions(o.Logger)...)
}

// reconnectDelay doubles from 50 ms to 2 s with jitter, so that clients of a
// restarted server do not return at once.
func reconnectDelay(attempts int) time.Duration {
	return jsapi.RandomPause(min(maxReconnect, minReconnect<<min(attempts, 10)))
}

var noLog = slog.New(slog.DiscardHandler)

func logOptions(log *slog.Logger) []nats.Option {
	log = cmp.Or(log, noLog).With("component", "nats")
	return []nats.Option{
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil: closed on purpose
				log.Warn("disconnected, reconnecting", "err", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.Warn("reconnected", "server", nc.ConnectedUrlRedacted()) }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			log.Error("asynchronous error", "err", err, "subject", subject)
		}),
	}
}

func timeoutFor(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return max(time.Millisecond, min(dialTimeout, time.Until(end)))
	}
	return dialTimeout
}

// firstDial dials under the caller's context until the first connection is established.
// The NATS client itself would wait for a silent server without limit.
type firstDial struct {
	ctx   context.Context     //nolint:containedctx // of the one call of connect that it serves
	each  time.Duration       // for one address
	left  map[string][]string // the addresses of each name that were not dialed yet
	done  atomic.Bool
	spare []func() bool // each keeps one connection open when its time is over
}

// listAddresses looks up the addresses of each server, and returns its URL once for each of them: the
// client dials each entry once. Names whose lookup hangs take at most half of the time.
func (d *firstDial) listAddresses(rawURL string) (pool []string) {
	urls := strings.Split(rawURL, ",")
	most := timeoutFor(d.ctx) / time.Duration(2*len(urls))
	for _, text := range urls {
		if u := parseURLs(text)[0]; u != nil && d.left[u.Hostname()] == nil {
			found := lookUp(d.ctx, u.Hostname(), most)
			d.left[u.Hostname()] = found
			pool = append(pool, slices.Repeat([]string{text}, len(found)-1)...)
		}
		pool = append(pool, text)
	}
	return pool
}

// lookUp returns the addresses of a host in random order. If there are none, it returns the host, so
// that dialing it reports why.
func lookUp(ctx context.Context, host string, most time.Duration) []string {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil || len(found) == 0 {
		return []string{host}
	}
	rand.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
	return found
}

// dialAgain dials the current addresses of a name until one accepts the connection. The client waits
// meanwhile, so all of this takes at most dialTimeout.
func dialAgain(network, address string) (conn net.Conn, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	found := lookUp(ctx, host, dialTimeout/2)
	for n, at := range found {
		d := net.Dialer{Timeout: timeoutFor(ctx) / time.Duration(len(found)-n)}
		if conn, err = d.DialContext(ctx, network, net.JoinHostPort(at, port)); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// Dial implements nats.CustomDialer. Until keepConnections, only one goroutine calls it.
func (d *firstDial) Dial(network, address string) (net.Conn, error) {
	if d.done.Load() {
		return dialAgain(network, address)
	}
	if host, port, err := net.SplitHostPort(address); err == nil && len(d.left[host]) > 0 {
		address, d.left[host] = net.JoinHostPort(d.left[host][0], port), d.left[host][1:]
	}
	ctx, cancel := context.WithTimeout(d.ctx, d.each) // for the handshake too
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		cancel()
		return nil, err
	}
	d.spare = append(d.spare, context.AfterFunc(ctx, func() { cancel(); _ = conn.Close() }))
	return conn, nil
}

func (d *firstDial) keepConnections() {
	d.done.Store(true)
	for _, stop := range d.spare {
		stop()
	}
}

// parseURLs parses the server URLs; an unreadable one is nil.
func parseURLs(raw string) []*url.URL {
	var out []*url.URL
	for u := range strings.SplitSeq(raw, ",") {
		u = strings.TrimSpace(u)
		if !strings.Contains(u, "://") {
			u = "nats://" + u
		}
		p, err := url.Parse(u) // the error would repeat the password
		if err != nil {
			p = nil
		}
		out = append(out, p)
	}
	return out
}

func checkURLs(raw string) error {
	for _, u := range parseURLs(raw) {
		if u == nil || u.Host == "" {
			return &message.Error{Code: message.CodeInvalid, Op: "connect to NATS", What: "a server URL is unreadable", Hint: "write nats://host:port, several with commas"}
		}
		if !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			return &message.Error{Code: message.CodeInvalid, Op: "connect to NATS", What: "a server URL begins with " + errtext.Quote(u.Scheme+"://") + ", which NATS does not support", Hint: "write nats://host:port, or tls, ws or wss"}
		}
	}
	return nil
}

// RedactURL removes users, passwords and tokens from the server URLs. An
// unreadable URL becomes "xxxxx".
func RedactURL(raw string) string {
	var out []string
	for _, u := range parseURLs(raw) {
		text := "xxxxx"
		if u != nil {
			u.User, u.RawQuery, u.Fragment = nil, "", ""
			text = u.String()
		}
		out = append(out, text)
	}
	return strings.Join(out, ",")
}

// OnLoopback reports whether only this machine can reach a host. A name other than
// localhost can mean any address.
func OnLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func allOnLoopback(raw string) bool {
	return !slices.ContainsFunc(parseURLs(raw), func(u *url.URL) bool {
		if u == nil {
			return true
		}
		ip, err := netip.ParseAddr(u.Hostname())
		return !OnLoopback(u.Hostname()) && (err != nil || !ip.IsUnspecified()) // an unspecified address dials this machine
	})
}

// tlsOptions returns the client options that encrypt a connection with a named
// certificate, or with a login beyond this machine.
func (o ConnectOptions) tlsOptions(rawURL string) ([]nats.Option, error) {
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
		if err := pinCertificate(config, o.ServerCert); err != nil {
			return nil, err
		}
	}
	return []nats.Option{nats.Secure(config)}, nil
}

const opTLS = "use TLS"

// isCertificateError reports whether a connection failed because of the server's
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

// pinCertificate accepts only the certificate in a file, under any name. It reads the file for each
// connection, because the server's certificate can be renewed.
func pinCertificate(config *tls.Config, path string) error {
	if _, err := readCertificate(path); err != nil {
		return err
	}
	config.InsecureSkipVerify = true // VerifyConnection is stricter
	config.VerifyConnection = func(s tls.ConnectionState) error {
		pinned, err := readCertificate(path)
		if err == nil && (len(s.PeerCertificates) == 0 || !bytes.Equal(s.PeerCertificates[0].Raw, pinned)) {
			return fmt.Errorf("%w than %s", errPinned, path)
		}
		return err
	}
	return nil
}

func readCertificate(path string) ([]byte, error) {
	b, err := secretfile.Read(opTLS, path, false)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, badPEM(path)
	}
	return block.Bytes, nil
}

func badPEM(path string) error {
	return &message.Error{Code: message.CodeInvalid, Op: opTLS, What: path + " has no PEM certificate", Hint: "name a file that contains -----BEGIN CERTIFICATE-----"}
}
