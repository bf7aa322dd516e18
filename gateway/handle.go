package gateway

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	v := &visit{s: s, w: &response{ResponseWriter: rw, page: isBrowser(r)}, began: time.Now(), id: requestID(r)}
	v.w.sending = v.place.send
	defer v.end(r)
	setSecurityHeaders(v.w.Header(), r)
	v.w.Header().Set("X-Request-Id", v.id)
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
		}
		v.route, v.cancel = &route, cancel
		r = r.WithContext(ctx)
		if r.Body != http.NoBody {
			body := newTimedBody(v.w, r, cmp.Or(route.MaxBody, DefaultMaxBody))
			defer body.leave()
			r.Body, v.body = body, body
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
