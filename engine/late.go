package engine

import (
	"context"
	"errors"

	"github.com/askance-dev/askance/message"
)

// noteLate records a result that came too late, once for each attempt, and
// reports whether its sender ever owned that attempt. Strangers are not noted:
// they could fill the journal.
func (e *Engine) noteLate(ctx context.Context, by message.Principal, r message.ResultRequest, digest string) (owner bool, err error) {
	for range maxRaces {
		history, err := e.journal.History(ctx, r.Key)
		if err != nil {
			return false, err
		}
		owned, noted := lateOwner(history, by, r)
		if !owned || noted {
			return owned, nil
		}
		rec := history[len(history)-1]
		if rec.Fact == nil || rec.Fact.Call == nil {
			return true, unreadable(r.Key, rec.Invalid)
		}
		f := e.fact(by, stamp().At)
		res := r.Result
		f.Call, f.Note = rec.Fact.Call, &message.Note{What: "late_result", Attempt: r.Attempt, Result: &res, Text: rec.Fact.Call.SealResult(digest)}
		f.Call.Seq = 0
		if _, err = e.append(ctx, f, rec.Seq); err == nil {
			e.schedule(f.Call, 0) // the timers that were set for the fact before are void
			return true, nil
		}
		if !errors.Is(err, message.ErrConflict) {
			return true, err
		}
	}
	return true, crowded("result", r.Key)
}

// lateOwner reports whether the sender of a result owned the attempt that it
// names, and whether a late result of that attempt has been noted.
func lateOwner(history []message.Record, by message.Principal, r message.ResultRequest) (owned, noted bool) {
	for _, rec := range history {
		f := rec.Fact
		if f == nil || f.Call == nil {
			continue
		}
		owned = owned || owns(f.Call, by, r.Attempt, r.Claim)
		noted = noted || f.Note != nil && f.Note.Attempt == r.Attempt
	}
	return owned, noted
}
