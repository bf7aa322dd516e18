package reviewers

import (
	"context"
	"errors"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// Journal is what Read reads. engine.Journal has it.
type Journal interface {
	// Watch delivers every record above after, in order, until ctx ends.
	Watch(ctx context.Context, after uint64, sink toolcall.Sink) error
}

// errCaughtUp ends a fold.
var errCaughtUp = errors.New("the end of the journal is reached")

// Read folds a whole journal, with the answers of a window alone (see Within).
// It takes as long as reading the journal does.
func Read(ctx context.Context, j Journal, since, until time.Time) (*Ledger, error) {
	ctx, done := context.WithCancelCause(ctx)
	defer done(nil)
	f := &fold{ledger: Within(since, until), end: func() { done(errCaughtUp) }}
	if err := j.Watch(ctx, 0, f); !errors.Is(err, errCaughtUp) {
		return nil, err
	}
	return f.ledger, nil
}

// fold feeds a ledger. It is a toolcall.Sink.
type fold struct {
	ledger *Ledger
	end    func()
}

// Record implements toolcall.Sink.
func (f *fold) Record(r toolcall.JournalEntry) {
	if r.Record != nil && r.Record.Call != nil {
		f.ledger.Record(r.Record)
	}
}

// CaughtUp implements toolcall.Sink.
func (f *fold) CaughtUp() { f.end() }
