package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/askance-dev/askance/bus"
)

const (
	// lookAtStore is how often the embedded server is asked whether it writes.
	lookAtStore = time.Second
	// maxRecoverPause bounds the pause before a store that broke again right after a
	// restart is restarted once more.
	maxRecoverPause = time.Minute
)

// watchStore restarts the embedded server once a store that could not be written
// has room again, until ctx ends. A server that does not come back ends the node.
func (n *Node) watchStore(ctx context.Context) {
	if n.server == nil {
		return
	}
	tick := time.NewTicker(lookAtStore)
	defer tick.Stop()
	var again time.Time // no restart before
	broken, pause := false, lookAtStore
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		h, bad := errors.AsType[*bus.HealthError](n.server.Health())
		bad = bad && len(h.Broken) > 0
		switch {
		case bad && !broken:
			n.cfg.Log.Error("the journal cannot be written: nothing is decided or started until there is room; free disk space, and the engine goes on", "store", n.cfg.Dir.Store(), "err", h)
		case !bad && time.Since(again) > maxRecoverPause:
			pause = lookAtStore
		}
		if broken = bad; !bad || time.Now().Before(again) {
			continue
		}
		restarted, err := n.server.Recover(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			n.fail(fmt.Errorf("the NATS server does not start again after its disk was full: %w", err))
			return
		case restarted:
			n.cfg.Log.Warn("there is room again: the NATS server was restarted, and work goes on", "store", n.cfg.Dir.Store())
			again, pause, broken = time.Now().Add(pause), min(2*pause, maxRecoverPause), false
		}
	}
}

// fail ends the node for a reason of its own; the first one counts.
func (n *Node) fail(err error) {
	select {
	case n.failed <- err:
	default:
	}
}

// forwardFailure passes on why the engine cannot go on, until ctx ends.
func (n *Node) forwardFailure(ctx context.Context) {
	select {
	case err := <-n.engine.Failed():
		n.fail(err)
	case <-ctx.Done():
	}
}
