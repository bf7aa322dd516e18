package agent

import (
	"context"
	"errors"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// finish ends the reply and records that the turn is closed. The engine ends an interrupted reply
// itself.
func (t *turn) finish(ctx context.Context, failed error) error {
	if err := t.end(ctx, failed); err != nil && !errors.Is(err, message.ErrInterrupted) && !errors.Is(err, ErrInterrupted) {
		return err
	}
	return t.notes.recordClosed(ctx, t.note)
}

func (t *turn) end(ctx context.Context, failed error) error {
	if err := t.checkOpen(ctx); err != nil {
		return err
	}
	if err := t.closeLoose(ctx, true); err != nil {
		return err
	}
	if closed, err := t.interruptOpen(ctx, failed); closed || err != nil {
		return err
	}
	if err := t.checkOpen(ctx); err != nil {
		return err
	}
	return t.send(ctx, t.endEvents(failed)...)
}

// checkOpen returns an error if the reply was interrupted or has ended.
func (t *turn) checkOpen(ctx context.Context) error {
	if err := t.sync(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.reply(); r.interrupted || r.ended {
		return ErrInterrupted
	}
	return nil
}

// interruptOpen interrupts the reply if some of its calls are still open: its agent no longer
// waits for them.
func (t *turn) interruptOpen(ctx context.Context, failed error) (bool, error) {
	var open toolcall.ListReply
	err := retry(ctx, func() (err error) {
		open, err = t.as().List(ctx, toolcall.ListRequest{V: 1, Session: t.note.Session, Reply: t.note.Reply})
		return err
	})
	if err != nil || len(open.Calls) == 0 {
		return false, err
	}
	reason := "the agent ended its reply without waiting"
	if failed != nil {
		reason = errorInfoOf(failed).Message
	}
	return true, retry(ctx, func() error {
		_, err := t.as().Interrupt(ctx, toolcall.InterruptRequest{V: 1, Session: t.note.Session, Reply: t.note.Reply, Reason: reason})
		return err
	})
}

// endEvents are the last events of the reply.
func (t *turn) endEvents(failed error) []message.Event {
	end := &message.ReplyEnd{EventHeader: message.NewHeader(t.note.Reply), Session: t.note.Session, FinishedReason: message.FinishedCompleted}
	switch {
	case failed == nil:
	case errors.Is(failed, ErrMaxIters):
		end.FinishedReason = message.FinishedExceedMaxIters
		return []message.Event{&message.ExceedMaxIters{EventHeader: message.NewHeader(t.note.Reply), Name: t.rec.Agent}, end}
	default:
		end.FinishedReason, end.Error = message.FinishedError, errorInfoOf(failed)
	}
	return []message.Event{end}
}
