package node

import (
	"context"
	"errors"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/message"
)

// lastSealTimeout bounds the last checkpoint: a stop must not take long.
const lastSealTimeout = time.Second

// openLedger opens the ledger, and sees to it that what the engine writes last
// is signed when it stops. What does not get signed then is by the next engine.
func (n *Node) openLedger(ctx context.Context) (err error) {
	o := bus.LedgerOptions{Engine: bus.EngineName, Logger: n.cfg.Log}
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
