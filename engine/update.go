package engine

import (
	"context"
	"time"

	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// errNoChange ends an update that found nothing to do.
var errNoChange = store.ErrNoChange

// update moves a call on, within a step that Close waits for.
func (e *Engine) update(ctx context.Context, op string, key message.Key, by message.Principal, change store.Change) (*message.Call, error) {
	defer e.enter()()
	return e.store.UpdateCall(ctx, op, key, by, change)
}

// opError puts the operation into an error that has none.
func opError(op string, err error) error { return store.OpError(op, err) }

// stamp is the engine's clock. Without the monotonic reading: a time must mean
// the same here as to those who read it from the journal.
func stamp() toolcall.Base { return toolcall.Base{At: time.Now().UTC().Round(0)} }

// self is the engine as a principal, for what timers and policy do.
func (e *Engine) self() message.Principal {
	return message.Principal{Role: message.RoleEngine, Name: e.cfg.id, Auth: "in-process"}
}
