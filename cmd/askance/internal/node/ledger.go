package node

import (
	"context"
	"time"

	"github.com/askance-dev/askance/bus"
)

// lastSealTimeout bounds the last checkpoint: a stop must not take long.
const lastSealTimeout = time.Second

// openLedger opens the ledger, and sees to it that what the engine writes last
// is signed when it stops. What does not get signed then is by the next engine.
func (n *Node) openLedger(ctx context.Context) (err error) {
	n.ledger, err = bus.OpenLedger(ctx, n.journal, bus.LedgerOptions{Engine: bus.EngineName, Logger: n.cfg.Log})
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
