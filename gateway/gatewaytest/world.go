package gatewaytest

import (
	"context"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
)

// Main runs the tests of a package that creates worlds inside a bubble. The clock of the NATS
// server must tick outside every bubble.
func Main(m *testing.M) {
	ats.Register()
	os.Exit(m.Run())
}

// World contains everything that a test of the gateway needs.
type World struct {
	// A and B are two spaces with the same policy and people, which must not see each other's
	// data.
	A, B *Space
	// Gateway is the server, and URL is where it listens ("http://127.0.0.1:port").
	Gateway *gateway.Server
	URL     string

	t    testing.TB
	o    options
	bus  *embed.Server
	keys *keyfile.Keys
	dial func(ctx context.Context) (net.Conn, error) // connects to the gateway
	auth *tokens
	wg   sync.WaitGroup
}

type options struct {
	dir      string
	rules    string
	policy   engine.Policy // nil: the policy is compiled from rules
	engine   []engine.Option
	tools    []engine.Tool
	piped    bool
	surfaces func(*World) []gateway.Surface
	auth     gateway.Authenticator
	config   func(*gateway.Config)
}

// Option changes a world.
type Option func(*options)

// In keeps the journal in dir instead of a new folder.
func In(dir string) Option { return func(o *options) { o.dir = dir } }

// Piped connects clients to the gateway through memory, as bubbles require.
func Piped() Option { return func(o *options) { o.piped = true } }

// Policy replaces Rules.
func Policy(rules string) Option { return func(o *options) { o.rules = rules } }

// LivePolicy decides with p in place of rules, with options for the engine that uses it.
func LivePolicy(p engine.Policy, opts ...engine.Option) Option {
	return func(o *options) { o.policy, o.engine = p, opts }
}

// Tools declares more tools. The local ones return their input.
func Tools(more ...engine.Tool) Option {
	return func(o *options) { o.tools = append(o.tools, more...) }
}

// Surfaces sets what the gateway serves. f is called once, after the spaces exist and before the
// gateway does.
func Surfaces(f func(*World) []gateway.Surface) Option {
	return func(o *options) { o.surfaces = f }
}

// Auth replaces the tokens of the world.
func Auth(a gateway.Authenticator) Option { return func(o *options) { o.auth = a } }

// With changes the gateway's configuration.
func With(f func(*gateway.Config)) Option { return func(o *options) { o.config = f } }

// New creates a world that ends with the test.
func New(t testing.TB, opts ...Option) *World {
	t.Helper()
	w := &World{t: t, o: options{rules: Rules}, auth: newTokens()}
	for _, f := range opts {
		f(&w.o)
	}
	if w.o.dir == "" {
		w.o.dir = t.TempDir()
	}
	var err error
	if w.keys, err = keyfile.New(); err != nil {
		t.Fatalf("make keys: %v", err)
	}
	if w.bus, err = embed.Start(t.Context(), embed.Options{StoreDir: w.o.dir, Durability: journal.DurabilityCached}); err != nil {
		t.Fatalf("start NATS: %v", err)
	}
	t.Cleanup(w.bus.Close)
	w.A, w.B = w.space("alpha"), w.space("beta")
	w.serve()
	return w
}

// serve starts the gateway.
func (w *World) serve() {
	w.t.Helper()
	cfg := gateway.Config{Spaces: []*gateway.Space{w.A.Gateway(), w.B.Gateway()}, Auth: w.o.auth}
	if cfg.Auth == nil {
		cfg.Auth = w.auth
	}
	if w.o.surfaces != nil {
		cfg.Surfaces = w.o.surfaces(w)
	}
	if w.o.config != nil {
		w.o.config(&cfg)
	}
	var err error
	if w.Gateway, err = gateway.New(cfg); err != nil {
		w.t.Fatalf("make the gateway: %v", err)
	}
	l := w.listen()
	server := gateway.HTTP(w.Gateway, nil)
	w.wg.Go(func() { _ = server.Serve(l) }) // ends with Close
	w.t.Cleanup(func() {
		w.Gateway.Close()
		_ = server.Close() // nothing is lost
		w.wg.Wait()
	})
}

func (w *World) listen() net.Listener {
	w.t.Helper()
	if w.o.piped {
		p := newPipe()
		w.URL, w.dial = "http://localhost", p.dial
		return p
	}
	l, err := new(net.ListenConfig).Listen(w.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatalf("listen: %v", err)
	}
	w.URL = "http://" + l.Addr().String()
	return l
}

// Spaces returns both spaces.
func (w *World) Spaces() []*Space { return []*Space{w.A, w.B} }

// Anonymous returns a client without credentials.
func (w *World) Anonymous() *http.Client { return w.WithToken("") }

// WithToken returns a client that sends a bearer token with each request.
func (w *World) WithToken(token string) *http.Client {
	t := &http.Transport{}
	if w.dial != nil {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return w.dial(ctx) }
	}
	w.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: bearer{token, t}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Dial returns a bare connection to the gateway, for clients that break the protocol. It is
// closed when the test ends.
func (w *World) Dial() net.Conn {
	w.t.Helper()
	dial := w.dial
	if dial == nil {
		dial = func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(w.URL, "http://"))
		}
	}
	c, err := dial(w.t.Context())
	if err != nil {
		w.t.Fatalf("dial: %v", err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// bearer adds a token.
type bearer struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" && r.Header.Get("Authorization") == "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.next.RoundTrip(r)
}
