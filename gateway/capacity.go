package gateway

import (
	"context"
	"sync"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/capacity"
	"github.com/askance-dev/askance/message"
)

// bounded is an engine for one peer. Each operation takes a place in the capacity
// of its class.
type bounded struct {
	c     engine.Client
	pools capacity.Set
	peer  *Peer
}

// bound carries out an operation when it is its turn. A read keeps its place
// until its reply is encoded.
func bound[Req, Rep any](ctx context.Context, b bounded, op string, f func(context.Context, Req) (Rep, error), r Req) (rep Rep, err error) {
	v, _ := ctx.Value(visitKey{}).(*visit)
	if v != nil {
		v.place.leave()
	}
	class := capacity.ClassOf(op)
	place, err := b.pools[class].Enter(ctx, peerKey(b.peer), 0)
	if err != nil {
		if v != nil && !v.w.wrote() {
			v.w.Header().Set("Retry-After", "1")
		}
		return rep, &message.Error{Code: message.CodeUnavailable, Op: op, What: "the server is overloaded: " + err.Error(), Hint: "send fewer requests at once, and ask again later", Err: err}
	}
	defer func() {
		if v == nil || v.route.Stream || class != capacity.Read && class != capacity.Wait || !v.place.keep(place) {
			place.Leave()
		}
	}()
	// A slow body or a wait for the turn can outlast the credentials.
	if class != capacity.Read && class != capacity.Wait && b.peer.ended() {
		return rep, errEnded
	}
	return f(capacity.With(ctx, place), r)
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

// Propose implements engine.Client.
func (b bounded) Propose(ctx context.Context, r message.ProposeRequest) (message.ProposeReply, error) {
	return bound(ctx, b, "propose", b.c.Propose, r)
}

// Wait implements engine.Client.
func (b bounded) Wait(ctx context.Context, r message.WaitRequest) (message.WaitReply, error) {
	return bound(ctx, b, "wait", b.c.Wait, r)
}

// Emit implements engine.Client.
func (b bounded) Emit(ctx context.Context, r message.EmitRequest) (message.EmitReply, error) {
	return bound(ctx, b, "emit", b.c.Emit, r)
}

// Events implements engine.Client.
func (b bounded) Events(ctx context.Context, r message.EventsRequest) (message.EventsReply, error) {
	return bound(ctx, b, "events", b.c.Events, r)
}

// Report implements engine.Client.
func (b bounded) Report(ctx context.Context, r message.ReportRequest) (*message.Call, error) {
	return bound(ctx, b, "report", b.c.Report, r)
}

// Answer implements engine.Client.
func (b bounded) Answer(ctx context.Context, r message.Answer) (*message.Call, error) {
	return bound(ctx, b, "answer", b.c.Answer, r)
}

// Interrupt implements engine.Client.
func (b bounded) Interrupt(ctx context.Context, r message.InterruptRequest) (message.InterruptReply, error) {
	return bound(ctx, b, "interrupt", b.c.Interrupt, r)
}

// Settle implements engine.Client.
func (b bounded) Settle(ctx context.Context, r message.SettleRequest) (*message.Call, error) {
	return bound(ctx, b, "settle", b.c.Settle, r)
}

// Revoke implements engine.Client.
func (b bounded) Revoke(ctx context.Context, r message.RevokeRequest) (*message.Call, error) {
	return bound(ctx, b, "revoke", b.c.Revoke, r)
}

// List implements engine.Client.
func (b bounded) List(ctx context.Context, r message.ListRequest) (message.ListReply, error) {
	return bound(ctx, b, "list", b.c.List, r)
}

// Show implements engine.Client.
func (b bounded) Show(ctx context.Context, r message.ShowRequest) (message.ShowReply, error) {
	return bound(ctx, b, "show", b.c.Show, r)
}

// Info implements engine.Client.
func (b bounded) Info(ctx context.Context) (message.InfoReply, error) {
	return bound(ctx, b, "info", func(ctx context.Context, _ struct{}) (message.InfoReply, error) { return b.c.Info(ctx) }, struct{}{})
}

// Load implements engine.Client.
func (b bounded) Load(ctx context.Context, r message.LoadRequest) (message.LoadReply, error) {
	return bound(ctx, b, "load", b.c.Load, r)
}

// Leases implements engine.Client.
func (b bounded) Leases(ctx context.Context, r message.LeasesRequest) (message.LeasesReply, error) {
	return bound(ctx, b, "leases", b.c.Leases, r)
}

// ShowLease implements engine.Client.
func (b bounded) ShowLease(ctx context.Context, r message.ShowLeaseRequest) (message.ShowLeaseReply, error) {
	return bound(ctx, b, "show_lease", b.c.ShowLease, r)
}

// RevokeLease implements engine.Client.
func (b bounded) RevokeLease(ctx context.Context, r message.RevokeLeaseRequest) (*message.Lease, error) {
	return bound(ctx, b, "revoke_lease", b.c.RevokeLease, r)
}

// Explain implements engine.Client.
func (b bounded) Explain(ctx context.Context, r message.ExplainRequest) (message.ExplainReply, error) {
	return bound(ctx, b, "explain", b.c.Explain, r)
}
