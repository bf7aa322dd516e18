package node

import (
	"context"
	"encoding/json"
	"fmt"

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
		Explain:  n.explain,
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

// explain says how the policy judges a call now. It sees no more of the call
// than whoever asks.
func (n *Node) explain(ctx context.Context, c *message.Call) (message.RawJSON, error) {
	if n.policy.live == nil {
		return nil, &message.Error{Code: message.CodeNotFound, Op: "explain", What: "there are no rule files", Hint: "name some with askance serve --policy"}
	}
	req := n.engine.Request(c)
	if p, ok := n.policy.Policy.(prepared); ok {
		req = p.resolve(ctx, req)
	}
	b, err := json.Marshal(n.policy.live.Bundle().Explain(ctx, req))
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	return b, nil
}
