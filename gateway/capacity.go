package gateway

import (
	"context"
	"sync"

	"github.com/askance-dev/askance/internal/capacity"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
)

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
