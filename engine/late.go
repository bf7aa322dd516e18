package engine

import (
	"context"
	"errors"

	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/message"
)

// noteLate records a result that came too late, once for each attempt, and
// reports whether its sender ever owned that attempt. Strangers are not noted:
// they could fill the journal.
func (e *Engine) noteLate(ctx context.Context, by message.Principal, r message.ResultRequest, digest string) (owner bool, err error) {
	late := store.Entity[[]message.JournalEntry]{Key: r.Key, Read: func(ctx context.Context) ([]message.JournalEntry, uint64, error) {
		history, err := e.journal.History(ctx, r.Key)
		if err != nil || len(history) == 0 {
			return nil, 0, err
		}
		return history, history[len(history)-1].Seq, nil
	}}
	var next *message.Call
	_, _, err = store.Update(ctx, e.store, "result", late, func(_ context.Context, history []message.JournalEntry) (*message.EventRecord, error) {
		var noted bool
		if owner, noted = lateOwner(history, by, r); !owner || noted {
			return nil, errNoChange
		}
		last, err := e.store.LastOf(r.Key, history)
		if err != nil {
			return nil, err
		}
		next = last.Record.Call
		res := r.Result
		f := e.store.NewRecord(by, stamp().At)
		f.Call, f.Note = next, &message.Note{What: "late_result", Attempt: r.Attempt, Result: &res, Text: next.SealResult(digest)}
		f.Call.Seq = 0
		return f, nil
	})
	switch {
	case errors.Is(err, errNoChange):
		return owner, nil
	case err != nil:
		return owner, err
	}
	e.schedule(next, 0) // the timers that were set for the event record before are void
	return true, nil
}

// lateOwner reports whether the sender of a result owned the attempt that it
// names, and whether a late result of that attempt has been noted.
func lateOwner(history []message.JournalEntry, by message.Principal, r message.ResultRequest) (owned, noted bool) {
	for _, rec := range history {
		f := rec.Record
		if f == nil || f.Call == nil {
			continue
		}
		owned = owned || owns(f.Call, by, r.Attempt, r.Claim)
		noted = noted || f.Note != nil && f.Note.Attempt == r.Attempt
	}
	return owned, noted
}
