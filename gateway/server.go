// Package gateway serves askance over HTTP. It holds what every surface shares: authentication,
// access, errors, limits, streams, and the live feeds of sessions and of a space. A surface is
// one wire format: a list of Routes in its own package below this one.
//
//	srv, err := gateway.New(gateway.Config{Spaces: spaces, Auth: authenticator, Surfaces: surfaces})
//	…
//	http.Server{Handler: srv}
//
// # Guarantees
//
//   - A route is reached only by a Peer that its Access admits. A route reaches
//     calls only through an engine.Client of that peer, so the engine checks the
//     role again and every vote carries the authenticated name, never one from a body.
//   - A peer belongs to one space and cannot name another.
//   - A stream never has a gap and ends when its peer's credentials do. A reader
//     that is too slow is disconnected and continues from its last id.
//
// # What it does not do
//
// It decides nothing, stores nothing and does not depend on NATS: it reaches an engine only as an
// engine.Client.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/internal/capacity"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// DefaultMaxBody bounds request bodies.
const DefaultMaxBody = toolcall.MaxRequestBytes

// Config configures a Server. Spaces and Auth are required.
type Config struct {
	Spaces   []*Space
	Auth     Authenticator
	Surfaces []Surface
	// Origins are the other origins whose pages may use this server, as browsers
	// write them: "https://app.example". There is no wildcard.
	Origins []string
	// Login is where a browser without credentials is redirected; "": it gets the error.
	Login  string
	Limits Limits
	Log    *slog.Logger
	// Served, if set, is called after the reply to each request. route is the path as the surface
	// declares it, or "" if no route matched. It must not block.
	Served func(method, route string, status int, took time.Duration)
}

// Server is the gateway's http.Handler. It is safe for concurrent use.
type Server struct {
	cfg     Config
	mux     *http.ServeMux
	routes  []Route
	spaces  map[toolcall.SpaceID]*Space
	feeds   map[toolcall.SpaceID]*Feeds
	origins *origins
	limits  *limiter
	pools   map[toolcall.SpaceID]capacity.Set

	run  func() context.Context // ends with Close
	stop context.CancelCauseFunc
	wg   sync.WaitGroup
}

// errClosing ends the streams of a server that is being closed.
var errClosing = errors.New("the gateway is stopping")

// New makes a server and starts its surfaces. The caller must Close it.
func New(cfg Config) (*Server, error) {
	if cfg.Auth == nil || len(cfg.Spaces) == 0 {
		return nil, errors.New("gateway: spaces or an authenticator is missing: set Config.Spaces and Config.Auth")
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	o, err := newOrigins(cfg.Origins)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, mux: http.NewServeMux(), spaces: map[toolcall.SpaceID]*Space{}, feeds: map[toolcall.SpaceID]*Feeds{}, pools: map[toolcall.SpaceID]capacity.Set{}, origins: o, limits: newLimiter(cfg.Limits)}
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

// add adds a route. The mux panics on a malformed or duplicate one.
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

// begin starts the background work.
func (s *Server) begin() {
	run, stop := context.WithCancelCause(context.Background())
	s.run, s.stop = func() context.Context { return run }, stop
	for _, space := range s.cfg.Spaces {
		f := newFeeds(space, s.cfg.Log)
		s.spaces[space.ID], s.feeds[space.ID], s.pools[space.ID] = space, f, capacity.NewSet(capacity.Default())
		s.wg.Go(func() { f.Run(run) })
	}
	for _, surface := range s.cfg.Surfaces {
		if b, ok := surface.(Background); ok {
			s.wg.Go(func() { b.Run(run, s) })
		}
	}
}

// Routes returns all routes, in no particular order.
func (s *Server) Routes() []Route { return s.routes }

// Close ends all streams and waits for the background work.
func (s *Server) Close() {
	s.stop(errClosing)
	s.wg.Wait()
}

// Peer returns the peer of an identity, or an error if its space is not served.
func (s *Server) Peer(id *Identity) (*Peer, error) {
	space := s.spaces[id.Space]
	if space == nil {
		return nil, &message.Error{Code: message.CodeForbidden, Op: "authorize", What: "this server does not serve the space of the credentials", Hint: "use credentials of a space that it serves"}
	}
	return &Peer{Identity: *id, Space: space, Feeds: s.feeds[id.Space], pools: s.pools[id.Space]}, nil
}

// Surface is one wire format: its routes.
type Surface interface {
	Routes() []Route
}

// Background is a Surface with background work.
type Background interface {
	Surface
	// Run works until ctx ends. The Server calls it once, in its own goroutine.
	Run(ctx context.Context, s *Server)
}

// Routes is a Surface that is a list.
type Routes []Route

// Routes implements Surface.
func (r Routes) Routes() []Route { return r }

// Handler serves a request of an admitted peer; p is nil on public routes without credentials. An
// error becomes the reply as problem details, or is only logged if the handler has already
// written.
type Handler func(w http.ResponseWriter, r *http.Request, p *Peer) error

// Route is one method and path.
type Route struct {
	// Method and Path are in the form of http.ServeMux: "GET", "/v1/calls/{call}".
	Method, Path string
	// Access says who may use it.
	Access Access
	// Stream marks replies without an end: only each write has a time limit.
	Stream bool
	// MaxBody bounds the request's body in bytes; 0 is DefaultMaxBody.
	MaxBody int64
	// OwnAuth marks routes whose protocol may carry the credentials (the first
	// frame of a WebSocket): without a peer, they must call Login first.
	OwnAuth bool
	// Safe marks requests with methods other than GET that change nothing.
	Safe bool
	// Doc is a sentence that says what to do with it: "Respond to an approval request.".
	Doc   string
	Serve Handler
}

// action is Doc within a sentence, for errors.
func (r *Route) action() string {
	doc := cmp.Or(r.Doc, "Use this address.")
	return strings.ToLower(doc[:1]) + strings.TrimSuffix(doc[1:], ".")
}

// RoleWords names alternatives: "the role runtime, approver or operator".
func RoleWords(roles []toolcall.Role) string {
	list := RoleList(roles)
	if i := strings.LastIndex(list, ", "); i >= 0 {
		list = list[:i] + " or " + list[i+2:]
	}
	return "the role " + list
}

// RoleList names roles: "runtime, auditor".
func RoleList(roles []toolcall.Role) string {
	words := make([]string, len(roles))
	for i, r := range roles {
		words[i] = string(r)
	}
	return strings.Join(words, ", ")
}

// Access says who may use a route. The zero value admits no one.
type Access struct {
	// Public routes need no credentials: static files, health, login.
	Public bool
	// Roles may use the route; a peer needs one of them.
	Roles []toolcall.Role
}

// Everybody admits requests without credentials.
var Everybody = Access{Public: true}

// Only admits peers that have one of the roles.
func Only(roles ...toolcall.Role) Access { return Access{Roles: roles} }

// Readers admits every role that reads a space: all but workers.
var Readers = Only(toolcall.RoleRuntime, toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor)

// admits reports whether the peer may use the route; nil is a request without
// credentials.
func (a Access) admits(p *Peer) bool {
	if a.Public {
		return true
	}
	return p != nil && slices.ContainsFunc(a.Roles, p.Has)
}

// Limits of connections. Streams have a limit for each write instead (see SSE).
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	answerTimeout = time.Minute // longer than any request may be held
	maxHeader     = 64 << 10
)

// HTTP returns a server for h, with limits for slow and silent peers.
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
