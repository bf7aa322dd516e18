// Package gateway serves askance over HTTP. It holds what every surface
// shares: who a request comes from, what it may do, errors, limits, streams,
// and the live feeds of sessions and of a space. A surface is one wire format:
// a list of Routes in a package of its own below this one.
//
//	srv, err := gateway.New(gateway.Config{Spaces: spaces, Auth: authenticator, Surfaces: surfaces})
//	…
//	http.Server{Handler: srv}
//
// # Guarantees
//
//   - A route is reached only by a Peer that its Access admits. Everything a
//     route does with calls goes through an engine.Client of that peer, so that
//     the engine checks the role once more and every vote carries the name that
//     was authenticated, never one from a body.
//   - A peer belongs to one space and has no way to name another.
//   - A stream never has a gap and ends when its peer's credentials do. A reader
//     that is too slow is cut off and goes on from its last id.
//
// # What it does not do
//
// It decides nothing, keeps nothing and knows no NATS: the engine is whatever
// implements engine.Client.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/askance-dev/askance/internal/capacity"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// DefaultMaxBody bounds request bodies.
const DefaultMaxBody = toolcall.MaxRequestBytes

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
	spaces  map[toolcall.SpaceID]*Space
	feeds   map[toolcall.SpaceID]*Feeds
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
	s := &Server{cfg: cfg, mux: http.NewServeMux(), spaces: map[toolcall.SpaceID]*Space{}, feeds: map[toolcall.SpaceID]*Feeds{}, origins: o, limits: newLimiter(cfg.Limits), pools: capacity.NewSet(capacity.Default())}
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

// Surface is one wire format: what it serves, and where.
type Surface interface {
	Routes() []Route
}

// Background is a Surface that works beside requests, too.
type Background interface {
	Surface
	// Run works until ctx ends, and returns soon after. It is called once, in a
	// goroutine of its own, when s is about to serve.
	Run(ctx context.Context, s *Server)
}

// Routes is a Surface that is just a list.
type Routes []Route

// Routes implements Surface.
func (r Routes) Routes() []Route { return r }

// Handler serves a request of an admitted peer; p is nil on public routes that
// got no credentials. An error that it returns before it has written anything
// is answered as problem details; afterwards it is only logged.
type Handler func(w http.ResponseWriter, r *http.Request, p *Peer) error

// Route is one method and path.
type Route struct {
	// Method and Path, as http.ServeMux takes them: "GET", "/v1/calls/{call}".
	Method, Path string
	// Access says who may use it.
	Access Access
	// Stream marks answers without an end: no time limit, but one on each write.
	Stream bool
	// MaxBody bounds the request's body in bytes; 0 is DefaultMaxBody.
	MaxBody int64
	// OwnAuth marks routes whose credentials may come in the protocol itself (the
	// first frame of a WebSocket): they are called without a peer if the request
	// has none, and must Login before they do anything.
	OwnAuth bool
	// Safe marks requests of other methods than GET that change nothing.
	Safe bool
	// Doc is a line for people.
	Doc string

	Serve Handler
}

// Access is who may use a route. The zero value admits nobody.
type Access struct {
	// Public routes need no credentials: static files, health, login.
	Public bool
	// Roles of which a peer needs one.
	Roles []toolcall.Role
}

// Everybody admits requests without credentials.
var Everybody = Access{Public: true}

// Only admits peers that have one of the roles.
func Only(roles ...toolcall.Role) Access { return Access{Roles: roles} }

// Readers admits everybody who may read in a space: not workers.
var Readers = Only(toolcall.RoleRuntime, toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor)

// Admits reports whether the peer may use the route; nil is a request without
// credentials.
func (a Access) Admits(p *Peer) bool {
	if a.Public {
		return true
	}
	return p != nil && slices.ContainsFunc(a.Roles, p.Has)
}

// Limits of connections. The server's own are for a peer that sends or takes
// nothing; streams have a limit for each write (see SSE).
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	answerTimeout = time.Minute // longer than any request may be held
	maxHeader     = 64 << 10
)

// HTTP is a server for h, usually a Server, with limits for slow and silent
// peers.
func HTTP(h http.Handler, log *slog.Logger) *http.Server {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, WriteTimeout: answerTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
	}
	if log != nil {
		s.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	}
	return s
}
