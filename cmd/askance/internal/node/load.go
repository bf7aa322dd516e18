package node

import (
	"context"
	"errors"
	"time"

	"github.com/askance-dev/askance/engine/reviewers"
	"github.com/askance-dev/askance/message"
)

// Load folds the whole journal.
func (r *Reader) Load(ctx context.Context, _ message.LoadRequest) (message.LoadReply, error) {
	ctx, done := context.WithCancelCause(ctx)
	sum := &loadSum{end: func() { done(errCaughtUp) }}
	if err := r.journal.Watch(ctx, 0, sum); !errors.Is(err, errCaughtUp) {
		return message.LoadReply{}, err
	}
	return sum.ledger.Report(time.Now().UTC()), nil
}

// loadSum feeds a ledger. It is a message.Sink.
type loadSum struct {
	ledger reviewers.Ledger
	end    func()
}

// Record implements message.Sink.
func (s *loadSum) Record(r message.Record) {
	if r.Fact != nil && r.Fact.Call != nil {
		s.ledger.Fact(r.Fact)
	}
}

// CaughtUp implements message.Sink.
func (s *loadSum) CaughtUp() { s.end() }
