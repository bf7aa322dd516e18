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
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/internal/capacity"
	"github.com/askance-dev/askance/internal/spelling"
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
		f := &Feeds{space: space, log: s.cfg.Log, subs: map[*changes]struct{}{}, rooms: map[roomKey]*room{}, listening: make(chan struct{})}
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
	return "the role " + spelling.OrList(roles)
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

// People admits the roles that can use the console.
var People = Only(toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor)

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

func (s *Server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	v := &visit{s: s, w: &response{ResponseWriter: rw, page: isBrowser(r)}, began: time.Now(), id: requestID(r)}
	v.w.sending = v.place.send
	defer v.end(r)
	setSecurityHeaders(v.w.Header(), r)
	v.w.Header().Set("X-Request-Id", v.id)
	if r.Body != http.NoBody {
		v.body = newTimedBody(v.w, r)
		defer v.body.leave()
	}
	if s.origins.preflight(v.w, r) {
		return
	}
	r = r.WithContext(context.WithValue(toolcall.WithTrace(r.Context(), toolcall.ParseTrace(r.Header.Get(toolcall.TraceHeader))), visitKey{}, v))
	h, pattern := s.mux.Handler(r)
	if pattern == "" {
		replyUnmatched(v.w, r, h)
		return
	}
	s.mux.ServeHTTP(v.w, r)
}

// visit is one request on its way through the server.
type visit struct {
	s      *Server
	w      *response
	began  time.Time
	id     string
	route  *Route
	cancel context.CancelCauseFunc
	peer   *Peer
	body   *timedBody // nil: the request has none
	place  heldPlace
	done   []func() // called at the end
}

type visitKey struct{}

// bodySize is how many bytes of the request's body were read.
func (v *visit) bodySize() int {
	if v == nil || v.body == nil {
		return 0
	}
	return v.body.read
}

// end runs after every request, even after a panic.
func (v *visit) end(r *http.Request) {
	if p := recover(); p != nil { //nolint:revive // end is the deferred function
		v.panicked(p)
		defer panic(http.ErrAbortHandler) // a partial reply must not look complete
	}
	v.place.leave()
	for _, f := range v.done {
		f()
	}
	v.log(r)
}

func (v *visit) panicked(p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		return
	}
	v.s.cfg.Log.Error("a request panicked", "id", v.id, "panic", p, "stack", string(debug.Stack()))
	if !v.w.wrote() {
		writeProblem(v.w, errPanicked)
	}
}

var errPanicked = errors.New("panic")

func (s *Server) handler(route Route) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		v, _ := r.Context().Value(visitKey{}).(*visit) // ServeHTTP has put it there
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		if route.Stream { // the server lets other requests finish
			defer context.AfterFunc(s.run(), func() { cancel(errClosing) })()
			defer func() { _ = limitWrite(v.w) }() // the end of the reply is written after the handler
		}
		v.route, v.cancel = &route, cancel
		r = r.WithContext(ctx)
		if v.body != nil {
			v.body.ReadCloser = http.MaxBytesReader(v.w, v.body.ReadCloser, cmp.Or(route.MaxBody, DefaultMaxBody))
			r.Body = v.body
		}
		p, err := v.enter(r)
		if err != nil {
			v.refuse(r, err)
			return
		}
		if route.Stream && r.Method == http.MethodHead {
			return // HEAD asks for no stream
		}
		if err := route.Serve(v.w, r, p); err != nil {
			v.fail(err)
		}
	})
}

// fail replies with an error, if there is no reply yet.
func (v *visit) fail(err error) {
	if v.w.wrote() {
		v.s.cfg.Log.Debug("a reply was cut off", "id", v.id, "err", err)
		return
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		err = &message.Error{Code: message.CodeTooLarge, Op: "read request", What: "the request is larger than this route accepts", Hint: "send less", Err: tooLarge}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = &message.Error{Code: message.CodeInvalid, Op: "read request", What: "the request did not arrive in time", Hint: "send it without pauses", Err: err}
	}
	if p := ProblemOf(err); p.Status == http.StatusInternalServerError {
		v.s.cfg.Log.Error("a request failed", "id", v.id, "route", v.route.Path, "err", err)
	}
	writeProblem(v.w, err)
}

// refuse replies to a request that was not admitted.
func (v *visit) refuse(r *http.Request, err error) {
	stranger, is := errors.AsType[strangerError](err)
	if !is {
		v.fail(err)
		return
	}
	if login := v.s.cfg.Login; login != "" && r.Method == http.MethodGet && isBrowser(r) && errors.Is(err, ErrNoCredentials) {
		http.Redirect(v.w, r, login+"?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther) //nolint:gosec // G710: to our own page
		return
	}
	v.w.Header().Set("WWW-Authenticate", `Bearer realm="askance"`)
	p := ProblemOf(err)
	p.Status, p.Title = http.StatusUnauthorized, http.StatusText(http.StatusUnauthorized)
	if stranger.error == ErrNoCredentials { //nolint:errorlint // an error around it has its own hint
		p.Hint = TokenHint(r) + ", or log in"
	}
	p.write(v.w)
}

// TokenHint says which token a request without usable credentials needs.
func TokenHint(r *http.Request) string {
	hint, role := "send Authorization: Bearer TOKEN", "ROLE"
	if v, ok := r.Context().Value(visitKey{}).(*visit); ok && v.route != nil && len(v.route.Access.Roles) > 0 {
		hint += ", with a token of " + RoleWords(v.route.Access.Roles)
		if len(v.route.Access.Roles) == 1 {
			role = string(v.route.Access.Roles[0])
		}
	}
	return hint + " (askance token create NAME --role " + role + ")"
}

// isBrowser reports whether a browser shows the reply to a person.
func isBrowser(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// replyUnmatched replies to a request that no route matches.
func replyUnmatched(w http.ResponseWriter, r *http.Request, h http.Handler) {
	var probe probe
	h.ServeHTTP(&probe, r)
	switch probe.status {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", probe.Header().Get("Allow"))
		Problem{Type: "about:blank", Title: http.StatusText(probe.status), Status: probe.status, Code: message.CodeInvalid, Detail: "this path does not accept " + r.Method, Hint: "use one of " + probe.Header().Get("Allow")}.write(w)
	case http.StatusNotFound:
		writeProblem(w, &message.Error{Code: message.CodeNotFound, Op: "route", What: "nothing is at this address", Hint: "check the address; /docs lists what programs can use"})
	default:
		h.ServeHTTP(w, r) // a redirection to the path's canonical form
	}
}
