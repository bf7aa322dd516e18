package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/askance-dev/askance/internal/capacity"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
)

// strangerError marks the errors of those who have not shown who they are.
type strangerError struct{ error }

func (e strangerError) Unwrap() error { return e.error }

func isStranger(err error) bool {
	_, is := errors.AsType[strangerError](err)
	return is
}

var (
	errExpired = errors.New("the credentials have expired")
	errRevoked = errors.New("the credentials were revoked")
)

// errEnded refuses an operation of a request that was admitted earlier.
var errEnded error = &message.Error{Code: message.CodeForbidden, Op: "authenticate", What: "the credentials ended before the request was carried out", Hint: "send it again with a valid token (askance token create NAME --role approver)"}

// asHeader named the sender of a request in earlier releases.
const asHeader = "Askance-As"

// errNamed refuses a request that names its sender: ignoring the header would
// record its answer under a name that it did not mean.
var errNamed error = &message.Error{Code: message.CodeForbidden, Op: "authenticate", What: "the header " + asHeader + " is refused: a request cannot choose the name that it acts under", Hint: "make a token for each person (askance token create NAME --role approver) and send Authorization: Bearer TOKEN"}

// enter finds out who asks and whether they may. p is nil for nobody in
// particular.
func (v *visit) enter(r *http.Request) (p *Peer, err error) {
	if err := v.s.origins.socket(r); err != nil {
		return nil, err
	}
	if len(r.Header.Values(asHeader)) > 0 {
		return nil, errNamed
	}
	id, err := v.s.cfg.Auth.Authenticate(r)
	if errors.Is(err, ErrNoCredentials) && (v.route.Access.Public || v.route.OwnAuth) {
		return nil, v.s.origins.checkPublic(v.route, r)
	}
	if err != nil {
		return nil, v.stranger(r, err)
	}
	if err := v.s.origins.check(v.route, r, id); err != nil {
		return nil, err
	}
	return v.admit(r, id)
}

// stranger counts a failed attempt against its address.
func (v *visit) stranger(r *http.Request, err error) error {
	var e *message.Error
	if !errors.As(err, &e) || e.Code != message.CodeForbidden {
		return err // whether they are right cannot be told now
	}
	if errors.Is(err, ErrNoCredentials) || v.s.limits.failure(r.RemoteAddr) {
		return strangerError{err}
	}
	v.w.Header().Set("Retry-After", "60")
	return &message.Error{Code: message.CodeOverLimit, Op: "authenticate", What: "too many wrong credentials came from this address", Hint: "wait a minute"}
}

// admit lets an identity use the route, for as long as its credentials are good.
func (v *visit) admit(r *http.Request, id *Identity) (*Peer, error) {
	p, err := v.s.Peer(id)
	if err != nil {
		return nil, err
	}
	v.peer = p
	if !v.route.Access.Admits(p) {
		return nil, &message.Error{Code: message.CodeForbidden, Op: "authorize", What: p.Name + " may not use " + v.route.Method + " " + v.route.Path, Hint: "use credentials with a role that may"}
	}
	if !v.s.limits.request(p, alters(v.route, r)) {
		v.w.Header().Set("Retry-After", "1")
		return nil, &message.Error{Code: message.CodeOverLimit, Op: "limit", What: "too many requests of " + p.Name, Hint: "send fewer each second"}
	}
	if v.route.Stream {
		done, ok := v.s.limits.stream(p)
		if !ok {
			v.w.Header().Set("Retry-After", "5")
			return nil, &message.Error{Code: message.CodeOverLimit, Op: "limit", What: "too many streams of " + p.Name + " are open", Hint: "close some"}
		}
		v.done = append(v.done, done)
	}
	v.done = append(v.done, p.until(v.cancel, v.route.Stream))
	return p, nil
}

// until cancels when the credentials end. Of requests that end by themselves
// only expiry is watched.
func (p *Peer) until(cancel context.CancelCauseFunc, stream bool) (stop func()) {
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

// Login is for routes with OwnAuth: it judges a token that came in the protocol
// itself, in the place of a header. From then on the request's context ends
// with the token. It is called once for a request.
func Login(r *http.Request, token string) (*Peer, error) {
	v, ok := r.Context().Value(visitKey{}).(*visit)
	if !ok || !v.route.OwnAuth || v.peer != nil {
		return nil, errors.New("gateway: Login is for requests of OwnAuth routes that have no peer yet")
	}
	id, err := v.s.cfg.Auth.Token(r, token)
	if err != nil {
		return nil, v.stranger(r, err)
	}
	return v.admit(r, id)
}

// bounded is an engine for one peer. Each operation takes a place in the capacity
// of its class.
type bounded struct {
	c     api.Caller
	pools capacity.Set
	peer  *Peer
}

// Call carries out an operation when it is its turn. A read keeps its place
// until its reply is encoded.
func (b bounded) Call(ctx context.Context, op *api.Operation, request any) (any, error) {
	v, _ := ctx.Value(visitKey{}).(*visit)
	if v != nil {
		v.place.leave()
	}
	place, err := b.pools[op.Class].Enter(ctx, peerKey(b.peer), 0)
	if err != nil {
		if v != nil && !v.w.wrote() {
			v.w.Header().Set("Retry-After", "1")
		}
		return nil, &message.Error{Code: message.CodeUnavailable, Op: op.Name, What: "the server is overloaded: " + err.Error(), Hint: "send fewer requests at once, and ask again later", Err: err}
	}
	reads := op.Class == api.ClassRead || op.Class == api.ClassWait
	defer func() {
		if v == nil || v.route.Stream || !reads || !v.place.keep(place) {
			place.Leave()
		}
	}()
	// A slow body or a wait for the turn can outlast the credentials.
	if !reads && b.peer.ended() {
		return nil, errEnded
	}
	return b.c.Call(capacity.With(ctx, place), op, request)
}

// kept is the place of a read whose reply is not sent yet. The zero value has
// none.
type kept struct {
	mu    sync.Mutex // guards place
	place *capacity.Place
}

// keep takes a place over, unless there is one already.
func (k *kept) keep(p *capacity.Place) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.place != nil {
		return false
	}
	k.place = p
	return true
}

// leave leaves the place.
func (k *kept) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.place != nil {
		k.place.Leave()
		k.place = nil
	}
}

// send lets others run while n bytes of the reply are sent to a peer that may
// be slow. Its part of the class holds them until the reply ends.
func (k *kept) send(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.place != nil {
		k.place.Rest()
		k.place.Hold(n)
	}
}
