package node

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/message"
)

const (
	// lookAtJournal is how often the journal is asked whether it accepts new calls.
	lookAtJournal = time.Second
	// readyWithin bounds one such check: probes wait about as long.
	readyWithin = 2 * time.Second
)

// readiness tracks whether the journal accepts new calls. It logs each change.
type readiness struct {
	journal interface{ Ready(context.Context) error }
	log     *slog.Logger
	reason  atomic.Pointer[error] // of the last check; nil: it accepts them
}

// watch checks until ctx ends.
func (r *readiness) watch(ctx context.Context) {
	tick := time.NewTicker(lookAtJournal)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = r.look(ctx) // look stores and logs it
		}
	}
}

// last returns why the journal accepted no new calls at the last check.
func (r *readiness) last() error {
	if why := r.reason.Load(); why != nil {
		return *why
	}
	return nil
}

// check returns the last error at once if there was one, else it asks the journal.
func (r *readiness) check(ctx context.Context) error {
	if err := r.last(); err != nil {
		return err
	}
	return r.look(ctx)
}

func (r *readiness) look(ctx context.Context) error {
	looking, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	err := r.journal.Ready(looking)
	if ctx.Err() != nil {
		return context.Cause(ctx) // the caller has gone: that says nothing about the journal
	}
	var next *error
	if err != nil {
		next = &err
	}
	switch before := r.reason.Swap(next); {
	case err == nil && before != nil:
		r.log.Warn("the journal accepts new calls again")
	case err != nil && before == nil && !errors.Is(err, message.ErrFull): // a full store is logged by its owner
		r.log.Error("the journal accepts no new calls", "err", err)
	}
	return err
}
