package replay

import (
	"context"
	"errors"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
)

const (
	// hold is how long an engine keeps a request for events that are yet to come.
	hold = 20 * time.Second
	// retryPause is the pause after no engine answered.
	retryPause = 500 * time.Millisecond
)

// Events gives each event of a session after r.After to f, in the order of the
// journal, until there are no more. It ends early with f's error, or with the
// cause of ctx.
func Events(ctx context.Context, c engine.Client, r message.EventsRequest, f func(message.SequencedEvent) error) error {
	for {
		next, err := page(ctx, c, r, f)
		if err != nil {
			return err
		}
		if next == r.After {
			return nil
		}
		r.After = next
	}
}

// Follow is Events that goes on with the events to come until ctx ends. An
// engine that is gone for a while costs time, no events.
func Follow(ctx context.Context, c engine.Client, r message.EventsRequest, f func(message.SequencedEvent) error) error {
	r.WaitMS = hold.Milliseconds()
	for {
		next, err := page(ctx, c, r, f)
		if errors.Is(err, message.ErrUnavailable) && ctx.Err() == nil {
			if err := sleep(ctx, retryPause); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		r.After = next
	}
}

func page(ctx context.Context, c engine.Client, r message.EventsRequest, f func(message.SequencedEvent) error) (next uint64, err error) {
	reply, err := c.Events(ctx, r)
	if ctx.Err() != nil {
		return r.After, context.Cause(ctx)
	}
	if err != nil {
		return r.After, err
	}
	for _, ev := range reply.Events {
		if err := f(ev); err != nil {
			return r.After, err
		}
	}
	return reply.Next, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
