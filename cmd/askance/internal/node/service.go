package node

import (
	"context"
	"errors"
	"time"

	"github.com/askance-dev/askance/bus/creds"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// signals are what the engine sends beside the journal.
func (n *Node) signals() engine.Signals {
	return tee{Signals: bus.NewSignals(n.conn, n.cfg.Space, n.cfg.Log), n: n}
}

// tee passes signals on and lets the program itself hear of progress.
type tee struct {
	engine.Signals
	n *Node
}

// Progress implements engine.Signals.
func (t tee) Progress(c *toolcall.Call, p toolcall.ProgressRequest) {
	if t.n.cfg.Progress != nil {
		t.n.cfg.Progress(c, p)
	}
	t.n.heard.Tell(p)
	t.Signals.Progress(c, p)
}

// serve takes requests from NATS. Whoever sends one is who the subject says,
// which NATS permissions guard.
func (n *Node) serve(ctx context.Context) error {
	surface := func(p toolcall.Principal, queue toolcall.Queue) api.Caller {
		if p.Role == toolcall.RoleWorker {
			return n.engine.Worker(p, queue)
		}
		return n.engine.As(p)
	}
	service, err := bus.Serve(ctx, n.conn, n.cfg.Space, surface, bus.ServiceOptions{Observer: n.engine, Auth: n.Auth(), Ledger: n.ledger, Keys: n.signing.Ring, Logger: n.cfg.Log})
	if err != nil {
		return err
	}
	n.onClose(func() error { service.Close(); return nil })
	return nil
}

// Gateway is the space as package gateway serves it.
func (n *Node) Gateway() *gateway.Space {
	s := &gateway.Space{
		ID:       n.cfg.Space,
		As:       func(p toolcall.Principal) engine.Client { return n.engine.As(p) },
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

// lastSealTimeout bounds the last checkpoint: a stop must not take long.
const lastSealTimeout = time.Second

// openLedger opens the ledger, and sees to it that what the engine writes last
// is signed when it stops. What does not get signed then is by the next engine.
func (n *Node) openLedger(ctx context.Context) (err error) {
	o := bus.LedgerOptions{Engine: creds.EngineName, Logger: n.cfg.Log}
	n.ledger, err = bus.OpenLedger(ctx, n.journal, o)
	if errors.Is(err, message.ErrFull) || errors.Is(err, message.ErrUnavailable) { // calls do not wait for their proof
		n.cfg.Log.Error("the ledger of checkpoints cannot be made now; it will be tried again", "err", err)
		o.Existing = true
		n.ledger, err = bus.OpenLedger(ctx, n.journal, o)
	}
	if err != nil {
		return err
	}
	n.onClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), lastSealTimeout)
		defer cancel()
		if _, err := n.ledger.Checkpoint(ctx); err != nil {
			n.cfg.Log.Warn("the end of the journal was not signed; the next engine will do so", "err", err)
		}
		return nil
	})
	return nil
}

// Ledger keeps the signed checkpoints of the journal.
func (n *Node) Ledger() *bus.Ledger { return n.ledger }
