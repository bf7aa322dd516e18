package webhook

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/askance-dev/askance/message"
)

// unsure is the pause where it cannot be told whether an approval request is still open.
const unsure = 15 * time.Second

// deliver deals with one event record for one destination.
func (w *Webhooks) deliver(ctx context.Context, d *Destination, dl message.Delivery) {
	n := w.noticeOf(d, dl.Record)
	if n == nil {
		w.resolve(ctx, dl)
		return
	}
	log := w.cfg.Log.With("destination", d.Name, "id", n.ID, "type", n.Type, "attempt", dl.Attempt)
	current, err := w.current(ctx, n)
	switch {
	case err != nil:
		log.Debug("whether an approval request is open cannot be told", "err", err)
		w.again(dl, unsure)
		return
	case !current:
		log.Debug("an approval request is not open any more; nobody is told")
		w.resolve(ctx, dl)
		return
	}
	err = w.send(ctx, d, n)
	var failed *failure
	switch {
	case err == nil:
		w.resolve(ctx, dl)
	case ctx.Err() != nil: // the gateway stops: somebody else goes on
		w.again(dl, 0)
	case errors.As(err, &failed) && !failed.final && dl.Attempt < d.Attempts:
		log.Info("a webhook was not taken", "err", err)
		w.again(dl, w.pause(dl.Attempt, failed.after))
	default:
		log.Warn("a webhook is given up", "err", err)
		w.addDeadLetter(ctx, d, dl, err)
	}
}

func (w *Webhooks) addDeadLetter(ctx context.Context, d *Destination, dl message.Delivery, cause error) {
	err := w.cfg.Outbox.AddDeadLetter(ctx, message.DeadLetter{Destination: d.Name, Seq: dl.Record.Seq, Attempts: dl.Attempt, Error: cause.Error(), At: time.Now().UTC()})
	if err != nil {
		w.cfg.Log.Error("a dead letter cannot be kept; the message is tried again", "destination", d.Name, "seq", dl.Record.Seq, "err", err)
		w.again(dl, w.pause(dl.Attempt, 0))
		return
	}
	w.resolve(ctx, dl)
}

// resolve is done with a record. If that does not reach the outbox, it comes again:
// at least once is what is promised.
func (w *Webhooks) resolve(ctx context.Context, dl message.Delivery) {
	if err := dl.Done(ctx); err != nil {
		w.cfg.Log.Debug("a delivery is not resolved; it comes again", "seq", dl.Record.Seq, "err", err)
	}
}

func (w *Webhooks) again(dl message.Delivery, pause time.Duration) {
	if err := dl.Again(pause); err != nil {
		w.cfg.Log.Debug("a delivery is not put back; it comes again", "seq", dl.Record.Seq, "err", err)
	}
}

// maxAfter bounds what a receiver may ask for with Retry-After.
const maxAfter = time.Hour

// pause is the time until the attempt after this one: up to a tenth longer than
// it must be, so that not all come at once.
func (w *Webhooks) pause(attempt int, after time.Duration) time.Duration {
	p := w.cfg.Pauses[min(max(attempt, 1), len(w.cfg.Pauses))-1]
	p = max(p, min(after, maxAfter))
	return p + rand.N(p/10+1) //nolint:gosec // G404: spreading load is no secret
}
