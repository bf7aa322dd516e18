package webhook

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message"
)

// Routes implements gateway.Surface: there are none. The API serves dead letters
// to operators.
func (*Webhooks) Routes() []gateway.Route { return nil }

// Space is whose event records are told.
func (w *Webhooks) Space() message.SpaceID { return w.cfg.Space.ID }

// DeadLetters are the dead letters of the space.
func (w *Webhooks) DeadLetters(ctx context.Context) ([]message.DeadLetter, error) {
	return w.cfg.Outbox.DeadLetters(ctx)
}

// Fate is what became of a dead letter.
type Fate string

// The fates.
const (
	FateDelivered Fate = "delivered"
	FateStale     Fate = "stale" // its approval request is not open any more; nobody was told
	FateDropped   Fate = "dropped"
)

// Drop forgets a dead letter. ErrNotFound if there is none.
func (w *Webhooks) Drop(ctx context.Context, destination string, seq uint64) (Fate, error) {
	return FateDropped, w.cfg.Outbox.RemoveDeadLetter(ctx, destination, seq)
}

// Retry makes one more attempt for a dead letter, now. An approval request that is not
// open any more is told to nobody. ErrUnavailable if it was not taken: the
// letter stays, with the new error. ErrNotFound if there is none.
func (w *Webhooks) Retry(ctx context.Context, destination string, seq uint64) (Fate, error) {
	const op = "retry a dead letter"
	letters, err := w.cfg.Outbox.DeadLetters(ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(letters, func(l message.DeadLetter) bool { return l.Destination == destination && l.Seq == seq })
	if i < 0 {
		return "", &message.Error{Code: message.CodeNotFound, Op: op, What: "there is no such dead letter", Hint: "list them"}
	}
	d := w.byName[destination]
	if d == nil {
		return "", &message.Error{Code: message.CodeNotFound, Op: op, What: "there is no destination " + strconv.Quote(destination) + " any more", Hint: "add it to the webhooks file again, or drop the dead letter"}
	}
	record, err := w.cfg.Outbox.Record(ctx, seq)
	if err != nil {
		return "", err
	}
	fate := FateDelivered
	if n := w.noticeOf(d, record); n == nil {
		fate = FateStale // the destination does not ask for it any more
	} else if current, err := w.current(ctx, n); err != nil {
		return "", err
	} else if !current {
		fate = FateStale
	} else if err := w.send(ctx, d, n); err != nil {
		l := letters[i]
		l.Attempts, l.Error, l.At = l.Attempts+1, err.Error(), time.Now().UTC()
		return "", errors.Join(&message.Error{Code: message.CodeUnavailable, Op: op, What: err.Error(), Hint: "mend the receiver, then try again"}, w.cfg.Outbox.AddDeadLetter(ctx, l))
	}
	return fate, w.cfg.Outbox.RemoveDeadLetter(ctx, destination, seq)
}
