package node

import (
	"context"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message"
)

// Gateway is the space as package gateway serves it.
func (n *Node) Gateway() *gateway.Space {
	s := &gateway.Space{
		ID:       n.cfg.Space,
		As:       func(p message.Principal) engine.Client { return n.engine.As(p) },
		Watch:    n.journal.WatchNew,
		Progress: n.heard.Add,
	}
	for _, t := range n.cfg.Tools {
		s.Tools = append(s.Tools, t.Tool)
	}
	return s
}

// Outbox opens the outbox of the space.
func (n *Node) Outbox(ctx context.Context) (*bus.Outbox, error) {
	return bus.OpenOutbox(ctx, n.journal)
}

// LinkKey is the key that authenticates links in webhooks: the same for all
// engines of the space.
func (n *Node) LinkKey() [32]byte { return n.keys.Derive("webhook links") }
