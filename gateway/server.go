package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/askance-dev/askance/internal/capacity"
	"github.com/askance-dev/askance/message"
)

// DefaultMaxBody bounds request bodies.
const DefaultMaxBody = message.MaxRequestBytes

// Config says what to serve. Spaces and Auth are required.
type Config struct {
	Spaces   []*Space
	Auth     Authenticator
	Surfaces []Surface
	// Origins are pages elsewhere that may use this server from a browser, as the
	// browser names them: "https://app.example". There is no wildcard.
	Origins []string
	// Login is the path to which a browser is sent that wants a page and has no
	// credentials; "": it gets the error.
	Login  string
	Limits Limits
	Log    *slog.Logger
}

// Server is the gateway's http.Handler. Its methods may be called from many
// goroutines.
type Server struct {
	cfg     Config
	mux     *http.ServeMux
	routes  []Route
	spaces  map[message.SpaceID]*Space
	feeds   map[message.SpaceID]*Feeds
	origins *origins
	limits  *limiter
	pools   capacity.Set

	run  func() context.Context // ends with Close
	stop context.CancelCauseFunc
	wg   sync.WaitGroup
}

// errClosing ends the streams of a server that is being closed.
var errClosing = errors.New("the gateway is stopping")

// New makes a server and begins the work of its surfaces. Close it.
func New(cfg Config) (*Server, error) {
	if cfg.Auth == nil || len(cfg.Spaces) == 0 {
		return nil, errors.New("gateway: spaces and an authenticator are required")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	o, err := newOrigins(cfg.Origins)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, mux: http.NewServeMux(), spaces: map[message.SpaceID]*Space{}, feeds: map[message.SpaceID]*Feeds{}, origins: o, limits: newLimiter(cfg.Limits), pools: capacity.NewSet(capacity.Default())}
	for _, surface := range cfg.Surfaces {
		for _, r := range surface.Routes() {
			if err := s.add(r); err != nil {
				return nil, err
			}
		}
	}
	s.begin()
	return s, nil
}

// add adds a route; the mux panics at one that is ill-formed or there twice.
func (s *Server) add(r Route) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("gateway: route %s %s: %v", r.Method, r.Path, v)
		}
	}()
	s.routes = append(s.routes, r)
	s.mux.Handle(r.Method+" "+r.Path, s.handler(r))
	return nil
}

// begin starts what runs beside requests.
func (s *Server) begin() {
	run, stop := context.WithCancelCause(context.Background())
	s.run, s.stop = func() context.Context { return run }, stop
	for _, space := range s.cfg.Spaces {
		f := NewFeeds(space, s.cfg.Log)
		s.spaces[space.ID], s.feeds[space.ID] = space, f
		s.wg.Go(func() { f.Run(run) })
	}
	for _, surface := range s.cfg.Surfaces {
		if b, ok := surface.(Background); ok {
			s.wg.Go(func() { b.Run(run, s) })
		}
	}
}

// Routes are all routes, in no particular order.
func (s *Server) Routes() []Route { return s.routes }

// Close ends all streams and waits for what runs in the background.
func (s *Server) Close() {
	s.stop(errClosing)
	s.wg.Wait()
}

// Peer gives an identity its space; an error if it has none here.
func (s *Server) Peer(id *Identity) (*Peer, error) {
	space := s.spaces[id.Space]
	if space == nil {
		return nil, &message.Error{Code: message.CodeForbidden, Op: "authorize", What: "there is no such space here", Hint: "use credentials of a space that is served"}
	}
	return &Peer{Identity: *id, Space: space, Feeds: s.feeds[id.Space], pools: s.pools}, nil
}
