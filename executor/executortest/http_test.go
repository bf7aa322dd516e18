package executortest_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/executor/executortest"
	"github.com/askance-dev/askance/executor/httpwork"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/api"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	operation "github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// patience is how long a test waits for something that must happen soon.
const patience = 2 * time.Minute

// overHTTP runs workers that reach their engine through a gateway.
func overHTTP(t *testing.T) executortest.New {
	return over(t, func(r *natsRunner, b *bustest.Bus, space toolcall.SpaceID, e *engine.Engine) (executor.Transport, error) {
		s := newSite(r.t)
		g, _ := s.gateway(b, space, e)
		s.route(func(string) http.Handler { return g })
		return s.transport(r.tool)
	})
}

// site is one address with gateways behind it.
type site struct {
	t     *testing.T
	url   string
	valid atomic.Bool // the worker's token

	mu      sync.Mutex // guards the fields below
	pick    func(path string) http.Handler
	revoked chan struct{}
	seen    chan string // paths; full: dropped
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, revoked: make(chan struct{}), seen: make(chan string, 256)}
	s.valid.Store(true)
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

// route sets the function that picks the gateway for a path. If pick returns nil, none answers.
func (s *site) route(pick func(path string) http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pick = pick
}

// ServeHTTP implements http.Handler.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	h := s.pick(r.URL.Path)
	s.mu.Unlock()
	select {
	case s.seen <- r.URL.Path:
	default:
	}
	if h == nil {
		panic(http.ErrAbortHandler)
	}
	h.ServeHTTP(w, r)
}

// await waits until n requests for a path have arrived.
func (s *site) await(path string, n int) {
	s.t.Helper()
	for over := time.After(patience); n > 0; {
		select {
		case p := <-s.seen:
			if p == path {
				n--
			}
		case <-over:
			s.t.Fatalf("%d more requests for %s did not arrive", n, path)
		}
	}
}

// revoke revokes the worker's token.
func (s *site) revoke() {
	s.valid.Store(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.revoked)
	s.revoked = make(chan struct{})
}

// gateway starts a gateway for an engine.
func (s *site) gateway(b *bustest.Bus, space toolcall.SpaceID, e *engine.Engine) (g *gateway.Server, stop func()) {
	s.t.Helper()
	surface, err := api.New(api.Config{})
	if err != nil {
		s.t.Fatal(err)
	}
	g, err = gateway.New(gateway.Config{
		Spaces: []*gateway.Space{{
			ID: space, As: func(p toolcall.Principal) engine.Client { return e.As(p) }, Watch: b.Journal(space).WatchNew,
			Worker: func(p toolcall.Principal, queues []toolcall.Queue) operation.Caller { return e.RemoteWorker(p, queues) },
		}},
		Auth: workerToken{s, space}, Surfaces: []gateway.Surface{surface},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	stop = sync.OnceFunc(g.Close)
	s.t.Cleanup(stop)
	return g, stop
}

func (s *site) transport(tool string) (*httpwork.Transport, error) {
	return httpwork.New(httpwork.Config{URL: s.url, Queue: toolcall.Queue{Tool: tool}, Token: func() (string, error) { return "secret", nil }})
}

// workerToken authenticates a single worker.
type workerToken struct {
	s     *site
	space toolcall.SpaceID
}

// Authenticate implements gateway.Authenticator.
func (w workerToken) Authenticate(r *http.Request) (*gateway.Identity, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer secret" || !w.s.valid.Load() {
		return nil, &message.Error{Code: message.CodeForbidden, Op: "authenticate", What: "the token is not valid", Hint: "use another"}
	}
	return &gateway.Identity{
		Name: "worker", Space: w.space, Roles: []toolcall.Role{toolcall.RoleWorker}, Queues: []toolcall.Queue{{Tool: "probe"}},
		Revoked: w.s.revoked, InForce: w.s.valid.Load,
	}, nil
}

// Token implements gateway.Authenticator.
func (w workerToken) Token(*http.Request, string) (*gateway.Identity, error) {
	return nil, message.ErrForbidden
}

// gate is a tool that reports when it runs and ends when the test lets it.
type gate struct{ runs, open chan struct{} }

func newGate() gate { return gate{make(chan struct{}, 8), make(chan struct{})} }

func (g gate) run(ctx context.Context, _ executor.Task) (executor.Output, error) {
	g.runs <- struct{}{}
	select {
	case <-g.open:
		return executor.Text("ran"), nil
	case <-ctx.Done():
		return executor.Output{}, context.Cause(ctx)
	}
}

// works starts a worker that uses the site, and a call that the worker runs.
func works(t *testing.T, s *site, b *bustest.Bus, r *natsRunner) (g gate, outcome <-chan executortest.Outcome) {
	t.Helper()
	transport, err := s.transport(r.tool)
	if err != nil {
		t.Fatal(err)
	}
	g = newGate()
	r.startWorker(transport, b, g.run)
	out := make(chan executortest.Outcome, 1)
	go func() { out <- r.Call(t.Context(), "{}") }()
	select {
	case <-g.runs:
	case <-time.After(patience):
		t.Fatal("the tool does not run")
	}
	return g, out
}

// ranOnce checks that a call succeeded and ran only once.
func ranOnce(t *testing.T, g gate, outcome <-chan executortest.Outcome) {
	t.Helper()
	select {
	case out := <-outcome:
		if out.Result.State != message.ToolResultSuccess || out.Result.Output.String() != "ran" || len(g.runs) != 0 {
			t.Errorf("the call ended %s with %q, and ran %d more times", out.Result.State, out.Result.Output.String(), len(g.runs))
		}
	case <-time.After(patience):
		t.Error("the call has no result")
	}
}

// Heartbeats that reach a different replica than the start renew the lease.
func TestTwoReplicas(t *testing.T) {
	b, s := bustest.New(t), newSite(t)
	r := newRunner(t, b, "space", "probe")
	one, _ := r.startEngine(b, "space")
	two, _ := r.startEngine(b, "space")
	first, _ := s.gateway(b, "space", one)
	second, _ := s.gateway(b, "space", two)
	s.route(func(path string) http.Handler {
		if path == operation.Heartbeat.HTTP.Path || path == operation.Result.HTTP.Path {
			return second
		}
		return first
	})
	g, outcome := works(t, s, b, r)
	s.await(operation.Heartbeat.HTTP.Path, 7) // four in a lease; a worker counts as lost one second after its lease
	close(g.open)
	ranOnce(t, g, outcome)
	if n := r.lost.Load(); n != 0 {
		t.Errorf("an engine counted the worker as lost %d times", n)
	}
}

// A worker survives the restart of its server: its run continues and the result is stored.
func TestServerRestarts(t *testing.T) {
	b, s := bustest.New(t), newSite(t)
	r := newRunner(t, b, "space", "probe")
	start := func() (stop func()) {
		e, stopEngine := r.startEngine(b, "space")
		g, stopGateway := s.gateway(b, "space", e)
		s.route(func(string) http.Handler { return g })
		return func() {
			s.route(func(string) http.Handler { return nil })
			stopGateway()
			stopEngine()
		}
	}
	stop := start()
	g, outcome := works(t, s, b, r)
	stop()
	s.await(operation.Heartbeat.HTTP.Path, 1) // no gateway answers
	close(g.open)
	s.await(operation.Result.HTTP.Path, 1)
	start()
	ranOnce(t, g, outcome)
	after := make(chan executortest.Outcome, 1)
	go func() { after <- r.Call(t.Context(), "{}") }()
	select {
	case out := <-after:
		if out.Result.State != message.ToolResultSuccess {
			t.Errorf("the next call ended %s with %q", out.Result.State, out.Result.Output.String())
		}
	case <-time.After(patience):
		t.Error("the worker does not take any more calls")
	}
}

// A token that is revoked while a worker waits ends the wait and the worker at once.
func TestRevokedWhileWaiting(t *testing.T) {
	b, s := bustest.New(t), newSite(t)
	r := newRunner(t, b, "space", "probe")
	e, _ := r.startEngine(b, "space")
	g, _ := s.gateway(b, "space", e)
	s.route(func(string) http.Handler { return g })
	transport, err := s.transport(r.tool)
	if err != nil {
		t.Fatal(err)
	}
	w, err := executor.NewWorker(transport, r.tool, newGate().run, toolcall.NewKeySet(b.Keys().Public()))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.WithoutCancel(t.Context())) }()
	s.await(operation.Next.HTTP.Path, 1)
	s.revoke()
	select {
	case err = <-ended:
		if !errors.Is(err, message.ErrForbidden) {
			t.Errorf("Run = %v, want %v", err, message.ErrForbidden)
		}
	case <-time.After(patience):
		t.Error("the worker continues to wait")
		_ = w.Close() // it did not end
	}
}

// A result that could not be sent with a refused token is sent with the next token.
func TestRevokedWhileRunning(t *testing.T) {
	b, s := bustest.New(t), newSite(t)
	r := newRunner(t, b, "space", "probe")
	e, _ := r.startEngine(b, "space")
	gw, _ := s.gateway(b, "space", e)
	// The other slot asks for tasks; those requests must not reach the refused token.
	s.route(func(path string) http.Handler {
		if path == operation.Next.HTTP.Path && !s.valid.Load() {
			return nil
		}
		return gw
	})
	g, outcome := works(t, s, b, r)
	s.valid.Store(false)
	close(g.open)
	s.await(operation.Result.HTTP.Path, 1)
	s.valid.Store(true)
	ranOnce(t, g, outcome)
}
