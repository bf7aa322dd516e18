package bus

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/secretfile"

	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats.go"
)

// ConnectOptions say who connects. Principal is required.
type ConnectOptions struct {
	// Principal is the name that this connection acts under. It decides the
	// inbox prefix, without which no request is answered.
	Principal string
	// Name shows in the server's list of connections. Default: the principal.
	Name string
	// CredsFile is a NATS credentials file. Empty: none. It is refused if others
	// can read it.
	CredsFile string
	// User and Password log in with a password. Empty: none.
	User, Password string
	// CAFile has the certificates, in PEM, of those who may vouch for the server.
	// Empty: those that the system knows. ServerCert is the server's own instead:
	// it is believed under any name, and no other is. With either the connection
	// is encrypted or not made.
	CAFile, ServerCert string
	// PlainText permits that a login goes beyond this machine unencrypted. Without
	// it such a connection is encrypted or not made.
	PlainText bool
	// Logger gets what happens to the connection. Nil: nothing is logged.
	Logger *slog.Logger
	// Extra options for the client, applied last: TLS, for example.
	Extra []nats.Option
}

const (
	dialTimeout    = 5 * time.Second
	minReconnect   = 50 * time.Millisecond
	maxReconnect   = 2 * time.Second
	pingEvery      = 3 * time.Second // a silent peer is given up after two of these
	maxOutstanding = 2
)

// AuthOf is what a connection to a server elsewhere tells of how that server
// makes sure of names: [AuthJWT] if it let the connection in by a credentials
// file and nobody without one, else [AuthSubject].
func AuthOf(nc *nats.Conn) string {
	if nc.AuthRequired() && nc.Opts.UserJWT != nil {
		return AuthJWT
	}
	return AuthSubject
}

// Connect opens a connection to the servers in rawURL ("nats://host:4222", or
// several with commas). It fails with CodeUnavailable if none can be reached
// within five seconds or before ctx ends. Once open it reconnects for ever,
// with growing, jittered pauses. While it is disconnected nothing is buffered:
// publishing fails at once, so that no write happens later than its caller
// thinks. Errors and logs never have the URL's user, password or token.
func Connect(ctx context.Context, rawURL string, o ConnectOptions) (*nats.Conn, error) {
	if err := checkURLs(rawURL); err != nil {
		return nil, err
	}
	secure, err := o.secure(rawURL)
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
	d := &firstDial{ctx: within}
	if o.CredsFile != "" {
		if _, err := secretfile.Read(op, o.CredsFile, true); err != nil { // the client reads it again
			return nil, err
		}
	}
	opts := append(o.nats(), nats.SetCustomDialer(d), nats.Timeout(timeoutFor(ctx)))
	opts = append(opts, more...)
	opts = append(opts, o.Extra...)
	nc, err := nats.Connect(rawURL, opts...)
	d.over()
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
		e.Code, e.What, e.Hint = message.CodeForbidden, RedactURL(rawURL)+" has no TLS, and the login and the calls would cross the network in plain text", "give the server a certificate, or permit plain text (--nats-insecure)"
	case isCertificate(err):
		e.Code, e.What, e.Hint = message.CodeForbidden, "the certificate of "+RedactURL(rawURL)+" is not one to believe", "name the certificate of whoever signed it (--nats-ca)"
	}
	return nil, e
}

// nats gives the client options that every connection has.
func (o ConnectOptions) nats() []nats.Option {
	name := o.Name
	if name == "" {
		name = o.Principal
	}
	opts := []nats.Option{
		nats.Name(name),
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

// reconnectDelay doubles from 50 ms to 2 s, each with up to half of it less,
// so that clients of a restarted server do not come back all at once.
func reconnectDelay(attempts int) time.Duration {
	return jitter(min(maxReconnect, minReconnect<<min(attempts, 10)))
}

// jitter gives a random duration between half of d and d.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1)
}

func logOptions(log *slog.Logger) []nats.Option {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	log = log.With("component", "nats")
	return []nats.Option{
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil: closed on purpose
				log.Warn("disconnected, reconnecting", "err", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.Info("reconnected", "server", nc.ConnectedUrlRedacted()) }),
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

// firstDial dials under the caller's context until the connection is made, and
// without it ever after. What it dialled is cut off when the context ends
// first: the NATS client itself waits for a silent server as long as it likes.
type firstDial struct {
	ctx   context.Context //nolint:containedctx // of the one call of connect that it serves
	done  atomic.Bool
	spare []func() bool // calls off the cutting
}

// Dial implements nats.CustomDialer. Until over it is called from one goroutine.
func (d *firstDial) Dial(network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	if d.done.Load() {
		return dialer.Dial(network, address)
	}
	conn, err := dialer.DialContext(d.ctx, network, address)
	if err == nil {
		d.spare = append(d.spare, context.AfterFunc(d.ctx, func() { _ = conn.Close() }))
	}
	return conn, err
}

func (d *firstDial) over() {
	d.done.Store(true)
	for _, stop := range d.spare {
		stop()
	}
}

func checkURLs(raw string) error {
	for u := range strings.SplitSeq(raw, ",") {
		u = strings.TrimSpace(u)
		if !strings.Contains(u, "://") {
			u = "nats://" + u
		}
		// The parser's own error repeats the URL with its password.
		p, err := url.Parse(u)
		if err != nil || p.Host == "" {
			return &message.Error{Code: message.CodeInvalid, Op: "connect to NATS", What: "a server URL cannot be read", Hint: "write nats://host:port, several with commas"}
		}
		if !slices.Contains([]string{"nats", "tls", "ws", "wss"}, p.Scheme) {
			return &message.Error{Code: message.CodeInvalid, Op: "connect to NATS", What: "a server URL begins with " + errtext.Quote(p.Scheme+"://") + ", and NATS does not speak that", Hint: "write nats://host:port, or tls, ws or wss"}
		}
	}
	return nil
}

// RedactURL is the list of server URLs without users, passwords and tokens.
// What cannot be read as a URL becomes "xxxxx".
func RedactURL(raw string) string {
	var out []string
	for u := range strings.SplitSeq(raw, ",") {
		u = strings.TrimSpace(u)
		if !strings.Contains(u, "://") {
			u = "nats://" + u
		}
		p, err := url.Parse(u)
		if err != nil {
			out = append(out, "xxxxx")
			continue
		}
		p.User, p.RawQuery, p.Fragment = nil, "", ""
		out = append(out, p.String())
	}
	return strings.Join(out, ",")
}
