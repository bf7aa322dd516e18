package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/askance-dev/askance/message"
)

// DefaultMaxBody bounds request bodies.
const DefaultMaxBody = message.MaxRequestBytes

// Config says what to serve. Spaces and Auth are required.
type Config struct {
	Spaces   []*Space
	Auth     Authenticator
	Surfaces []Surface
	Log      *slog.Logger
}

// Server is the gateway's http.Handler. Its methods may be called from many
// goroutines.
type Server struct {
	cfg    Config
	mux    *http.ServeMux
	routes []Route
	spaces map[message.SpaceID]*Space
	feeds  map[message.SpaceID]*Feeds

	closing chan struct{} // closed by Close
	once    sync.Once
	wg      sync.WaitGroup
}

// errClosing ends the streams of a server that is being closed.
var errClosing = errors.New("the gateway is stopping")

// New makes a server. Close it.
func New(cfg Config) (*Server, error) {
	if cfg.Auth == nil || len(cfg.Spaces) == 0 {
		return nil, errors.New("gateway: spaces and an authenticator are required")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, mux: http.NewServeMux(), spaces: map[message.SpaceID]*Space{}, feeds: map[message.SpaceID]*Feeds{}, closing: make(chan struct{})}
	run, stop := context.WithCancel(context.Background())
	s.wg.Go(func() { <-s.closing; stop() })
	for _, space := range cfg.Spaces {
		f := NewFeeds(space, cfg.Log)
		s.spaces[space.ID], s.feeds[space.ID] = space, f
		s.wg.Go(func() { f.Run(run) })
	}
	for _, surface := range cfg.Surfaces {
		for _, r := range surface.Routes() {
			s.routes = append(s.routes, r)
			s.mux.Handle(r.Method+" "+r.Path, s.handler(r))
		}
	}
	return s, nil
}

// Routes are all routes, in no particular order.
func (s *Server) Routes() []Route { return s.routes }

// Close ends all streams and waits for what runs in the background.
func (s *Server) Close() {
	s.once.Do(func() { close(s.closing) })
	s.wg.Wait()
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Peer gives an identity its space; an error if it has none here.
func (s *Server) Peer(id *Identity) (*Peer, error) {
	space := s.spaces[id.Space]
	if space == nil {
		return nil, &message.Error{Code: message.CodeForbidden, Op: "authorize", What: "there is no such space here", Hint: "use credentials of a space that is served"}
	}
	return &Peer{Identity: *id, Space: space, Feeds: s.feeds[id.Space]}, nil
}

func (s *Server) handler(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		defer s.onClose(func() { cancel(errClosing) })()
		p, err := s.admit(route, r)
		if err != nil {
			WriteProblem(w, err)
			return
		}
		if p != nil && !p.Expires.IsZero() {
			defer time.AfterFunc(time.Until(p.Expires), func() { cancel(errExpired) }).Stop()
		}
		limit := route.MaxBody
		if limit == 0 {
			limit = DefaultMaxBody
		}
		r = r.WithContext(ctx)
		r.Body = http.MaxBytesReader(w, r.Body, limit)
		if err := route.Serve(w, r, p); err != nil {
			WriteProblem(w, err)
		}
	})
}

var errExpired = errors.New("the credentials have expired")

// onClose calls f when the server is closed, unless stop is called first.
func (s *Server) onClose(f func()) (stop func()) {
	done := make(chan struct{})
	s.wg.Go(func() {
		select {
		case <-s.closing:
			f()
		case <-done:
		}
	})
	return func() { close(done) }
}

// admit finds out who asks and whether they may.
func (s *Server) admit(route Route, r *http.Request) (*Peer, error) {
	id, err := s.cfg.Auth.Authenticate(r)
	if errors.Is(err, ErrNoCredentials) && (route.Access.Public || route.OwnAuth) {
		return nil, nil //nolint:nilnil // documented: no peer
	}
	if err != nil {
		return nil, err
	}
	p, err := s.Peer(id)
	if err != nil {
		return nil, err
	}
	if !route.Access.Admits(p) {
		return nil, &message.Error{Code: message.CodeForbidden, Op: "authorize", What: p.Name + " may not use " + route.Method + " " + route.Path, Hint: "use credentials with a role that may"}
	}
	return p, nil
}
