package node

import (
	"context"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
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
func (t tee) Progress(c *message.Call, p message.ProgressRequest) {
	if t.n.cfg.Progress != nil {
		t.n.cfg.Progress(c, p)
	}
	t.n.heard.Tell(p)
	t.Signals.Progress(c, p)
}

// serve takes requests from NATS. Whoever sends one is who the subject says,
// which NATS permissions guard.
func (n *Node) serve(ctx context.Context) error {
	surface := func(p message.Principal, lane message.Lane) bus.Surface {
		if p.Role == message.RoleWorker {
			return n.engine.Worker(p, lane)
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
