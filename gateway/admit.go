package gateway

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/askance-dev/askance/internal/capacity"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// strangerError marks a failed authentication: the reply is 401.
type strangerError struct{ error }

func (e strangerError) Unwrap() error { return e.error }

var (
	errExpired = errors.New("the credentials have expired")
	errRevoked = errors.New("the credentials were revoked")
)

// errEnded refuses an operation of a request whose credentials ended in the meantime.
var errEnded error = &message.Error{Code: message.CodeForbidden, Op: "authenticate", What: "the credentials ended before the request was carried out", Hint: "send it again with a valid token (askance token create)"}

// asHeader named the sender of a request in earlier releases.
const asHeader = "Askance-As"

// errNamed refuses a request that names its sender: if the header were ignored, a
// response would be recorded under another name than intended.
var errNamed error = &message.Error{Code: message.CodeForbidden, Op: "authenticate", What: "the header " + asHeader + " is refused: a request cannot choose the name that it acts under", Hint: "make a token for each person (askance token create NAME --role ROLE) and send Authorization: Bearer TOKEN"}

// enter authenticates and authorizes the sender of a request; p is nil without
// credentials on a route that needs none.
func (v *visit) enter(r *http.Request) (p *Peer, err error) {
	if err := v.s.origins.checkSocket(r); err != nil {
		return nil, err
	}
	if len(r.Header.Values(asHeader)) > 0 {
		return nil, errNamed
	}
	id, err := v.s.cfg.Auth.Authenticate(r)
	if err == nil {
		if id.CSRF != "" && v.s.spaces[id.Space] == nil { // a login of a space that was removed: log in again
			err = ErrNoCredentials
		}
	}
	if errors.Is(err, ErrNoCredentials) && (v.route.Access.Public || v.route.OwnAuth) {
		return nil, v.s.origins.checkPublic(v.route, r)
	}
	if err != nil {
		return nil, v.stranger(r, err)
	}
	if err := v.s.origins.check(v.route, r, id); err != nil {
		return nil, err
	}
	if id.Ambient && isForeignSocket(r) {
		if !v.route.OwnAuth {
			return nil, errOrigin(r.Header.Get("Origin"))
		}
		return nil, nil //nolint:nilnil // it can log in with a token
	}
	return v.admit(r, id)
}

// stranger counts a failed attempt against its address.
func (v *visit) stranger(r *http.Request, err error) error {
	var e *message.Error
	if !errors.As(err, &e) || e.Code != message.CodeForbidden {
		return err // the credentials cannot be checked now
	}
	if errors.Is(err, ErrNoCredentials) || v.s.limits.takeFailure(r.RemoteAddr) {
		return strangerError{err}
	}
	v.w.Header().Set("Retry-After", "60")
	return &message.Error{Code: message.CodeOverLimit, Op: "authenticate", What: "this address sent too many wrong credentials", Hint: "wait a minute, then send valid ones"}
}

// admit lets an identity use the route as long as its credentials are valid.
func (v *visit) admit(r *http.Request, id *Identity) (*Peer, error) {
	p, err := v.s.Peer(id)
	if err != nil {
		return nil, err
	}
	v.peer = p
	if !v.route.Access.admits(p) {
		v.w.csrf, v.w.console = id.CSRF, People.admits(p)
		return nil, &message.Error{Code: message.CodeForbidden, Op: "authorize", What: p.Name + " cannot " + v.route.action() + " (this needs " + RoleWords(v.route.Access.Roles) + "; yours: " + cmp.Or(RoleList(p.Roles), "none") + ")", Hint: "use credentials with such a role"}
	}
	if !v.s.limits.takeRequest(p, alters(v.route, r)) {
		v.w.Header().Set("Retry-After", "1")
		return nil, &message.Error{Code: message.CodeOverLimit, Op: "limit", What: p.Name + " sends too many requests", Hint: "send fewer each second"}
	}
	if v.route.Stream {
		done, ok := v.s.limits.takeStream(p)
		if !ok {
			v.w.Header().Set("Retry-After", "5")
			return nil, &message.Error{Code: message.CodeOverLimit, Op: "limit", What: p.Name + " has too many open streams", Hint: "close some of them"}
		}
		v.done = append(v.done, done)
	}
	v.done = append(v.done, p.cancelAtEnd(v.cancel, v.route.Stream))
	return p, nil
}

// cancelAtEnd cancels when the credentials end. Requests that are not streams watch only for
// expiry.
func (p *Peer) cancelAtEnd(cancel context.CancelCauseFunc, stream bool) (stop func()) {
	var timer *time.Timer
	if !p.Expires.IsZero() {
		timer = time.AfterFunc(time.Until(p.Expires), func() { cancel(errExpired) })
	}
	over := make(chan struct{})
	if stream && p.Revoked != nil {
		go func() {
			select {
			case <-p.Revoked:
				cancel(errRevoked)
			case <-over:
			}
		}()
	}
	return func() {
		close(over)
		if timer != nil {
			timer.Stop()
		}
	}
}

// Login authenticates a request of an OwnAuth route by a token from the protocol.
// The request's context then ends with the token. A request that has a peer keeps it, and is
// refused if the token is of another identity.
func Login(r *http.Request, token string) (*Peer, error) {
	v, id, err := identify(r, token)
	if err != nil {
		return nil, err
	}
	switch p := v.peer; {
	case p == nil:
		return v.admit(r, id)
	case p.Name != id.Name || p.Space.ID != id.Space || !slices.Equal(slices.Sorted(slices.Values(p.Roles)), slices.Sorted(slices.Values(id.Roles))):
		return nil, &message.Error{Code: message.CodeForbidden, Op: "authenticate", What: "the connection is already that of " + p.Name, Hint: "connect again with one token"}
	default:
		return p, nil
	}
}

// LoginAgain is Login for a request whose peer the token may replace.
func LoginAgain(r *http.Request, token string) (*Peer, error) {
	v, id, err := identify(r, token)
	if err != nil {
		return nil, err
	}
	return v.admit(r, id)
}

// identify checks the token of a request of an OwnAuth route.
func identify(r *http.Request, token string) (*visit, *Identity, error) {
	v, ok := r.Context().Value(visitKey{}).(*visit)
	if !ok || !v.route.OwnAuth {
		return nil, nil, errors.New("gateway: cannot log in: the route has no OwnAuth: call Login only on an OwnAuth route")
	}
	id, err := v.s.cfg.Auth.Token(r, token)
	if err != nil {
		return nil, nil, v.stranger(r, err)
	}
	return v, id, nil
}

// bounded is an engine for one peer: each operation takes capacity of its class.
type bounded struct {
	c     api.Caller
	pools capacity.Set
	peer  *Peer
}

// Call waits for its turn. If the server is overloaded, Call sets Retry-After.
func (b bounded) Call(ctx context.Context, op *api.Operation, request any) (any, error) {
	v, _ := ctx.Value(visitKey{}).(*visit)
	reply, err := b.callInTurn(ctx, v, op, request)
	if errors.Is(err, message.ErrOverloaded) && v != nil && !v.w.wrote() {
		v.w.Header().Set("Retry-After", "1")
	}
	return reply, err
}

// callInTurn waits for a place. A read keeps its place until its reply is encoded.
func (b bounded) callInTurn(ctx context.Context, v *visit, op *api.Operation, request any) (any, error) {
	if v != nil {
		v.place.leave()
	}
	place, err := b.pools[op.Class].Enter(ctx, b.peer.Name, v.bodySize())
	if err != nil {
		return nil, overloadError(op, err)
	}
	reads := op.Class == api.ClassRead || op.Class == api.ClassWait
	defer func() {
		if v == nil || v.route.Stream || !reads || !v.place.keep(place) {
			place.Leave()
		}
	}()
	// A slow body or a wait for the turn can outlast the credentials.
	if b.peer.ended() {
		return nil, errEnded
	}
	return b.callInTime(capacity.With(ctx, place), op, request)
}

// overloadError returns the error of an operation that got no place.
func overloadError(op *api.Operation, err error) error {
	e := &message.Error{Code: message.CodeUnavailable, Op: op.Name, What: "the request was given up, or the server is stopping", Hint: "send it again", Err: err}
	if errors.Is(err, capacity.ErrFull) || errors.Is(err, capacity.ErrLate) {
		e.Code, e.What, e.Hint, e.Err = message.CodeOverloaded, "the server has too much to do: "+err.Error(), "try again in a moment, and send fewer requests at once", nil
	}
	return e
}

// Bounds of one operation: a journal that hangs must not hold a request forever.
const (
	answerWithin = 15 * time.Second
	holdAtMost   = 30 * time.Second // additional time for which an engine may hold a waiting request
)

// errSlow is the cancellation cause of an operation that takes too long.
var errSlow = errors.New("the operation took too long")

// callInTime limits the time of an operation. It discards the reply of a read that was cut short,
// and returns the reply of a change that was carried out.
func (b bounded) callInTime(ctx context.Context, op *api.Operation, request any) (any, error) {
	limit := answerWithin
	if r, is := request.(toolcall.EventsRequest); op.Class.Holds() && (!is || r.WaitMS > 0) {
		limit += holdAtMost
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSlow)
	defer cancel()
	if op.Class.Holds() {
		var stop func()
		ctx, stop = b.untilEnd(ctx)
		defer stop()
	}
	out, err := b.c.Call(ctx, op, request)
	if cause := context.Cause(ctx); errors.Is(cause, errRevoked) && err != nil {
		return nil, errEnded
	}
	if !errors.Is(context.Cause(ctx), errSlow) || err == nil && op.Changes {
		return out, err
	}
	for _, known := range []error{message.ErrUnavailable, message.ErrUnknownOutcome, message.ErrFull} {
		if errors.Is(err, known) {
			return nil, err
		}
	}
	if op.Changes {
		return nil, &message.Error{Code: message.CodeUnknownOutcome, Op: op.Name, What: "the journal did not answer in time, and the request may have taken effect", Hint: "look at the current state before you send it again", Err: err}
	}
	return nil, &message.Error{Code: message.CodeUnavailable, Op: op.Name, What: "the journal did not answer in time", Hint: "try again, and look at /readyz", Err: err}
}

// untilEnd makes a context that also ends when the credentials are revoked or the server stops,
// so a task that arrives later goes to another worker.
func (b bounded) untilEnd(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stopping := func() bool { return true }
	if v, ok := ctx.Value(visitKey{}).(*visit); ok {
		stopping = context.AfterFunc(v.s.run(), func() { cancel(errClosing) })
	}
	go func() {
		select {
		case <-b.peer.Revoked:
			cancel(errRevoked)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { stopping(); cancel(nil) }
}

// heldPlace is the place of a read whose reply is not sent yet. The zero value holds none.
type heldPlace struct {
	mu    sync.Mutex // guards place
	place *capacity.Place
}

// keep stores a place, unless there is one already.
func (h *heldPlace) keep(p *capacity.Place) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.place != nil {
		return false
	}
	h.place = p
	return true
}

func (h *heldPlace) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.place != nil {
		h.place.Leave()
		h.place = nil
	}
}

// send lets others run while n bytes of the reply are sent to a peer that may be
// slow. The bytes count against the class until the reply ends.
func (h *heldPlace) send(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.place != nil {
		h.place.Rest()
		h.place.Hold(n)
	}
}
