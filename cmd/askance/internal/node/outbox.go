package node

import (
	"context"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/message"
)

// Outbox is the space's outbox as package gateway/webhook wants it.
type Outbox struct{ o *bus.Outbox }

// Outbox opens the outbox of the space.
func (n *Node) Outbox(ctx context.Context) (Outbox, error) {
	o, err := bus.OpenOutbox(ctx, n.journal)
	return Outbox{o}, err
}

// LinkKey is the key that authenticates links in webhooks: the same for all
// engines of the space.
func (n *Node) LinkKey() [32]byte { return n.keys.Derive("webhook links") }

// Follow implements webhook.Outbox.
func (o Outbox) Follow(ctx context.Context, destination string, f func(context.Context, webhook.Delivery)) error {
	return o.o.Follow(ctx, destination, func(ctx context.Context, d bus.Delivery) {
		f(ctx, webhook.Delivery{Record: d.Record, Attempt: d.Attempt, Done: d.Done, Again: d.Again})
	})
}

// Record implements webhook.Outbox.
func (o Outbox) Record(ctx context.Context, seq uint64) (message.Record, error) {
	return o.o.Record(ctx, seq)
}

// Bury implements webhook.Outbox.
func (o Outbox) Bury(ctx context.Context, l webhook.Letter) error {
	return o.o.Bury(ctx, bus.Letter(l))
}

// Dig implements webhook.Outbox.
func (o Outbox) Dig(ctx context.Context, destination string, seq uint64) error {
	return o.o.Dig(ctx, destination, seq)
}

// Letters implements webhook.Outbox.
func (o Outbox) Letters(ctx context.Context) ([]webhook.Letter, error) {
	all, err := o.o.Letters(ctx)
	out := make([]webhook.Letter, len(all))
	for i, l := range all {
		out[i] = webhook.Letter(l)
	}
	return out, err
}

// UseOnce reports whether a token is used for the first time in the space.
func (o Outbox) UseOnce(ctx context.Context, token string, ttl time.Duration) (bool, error) {
	return o.o.UseOnce(ctx, token, ttl)
}
