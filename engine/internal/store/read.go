package store

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/askance-dev/askance/engine/internal/view"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// PageRecords is the largest number of records that a store reads from the journal at once.
const PageRecords = 1000

// LastCall reads a call's last event record from the journal and brings the view up to it.
func (s *Store) LastCall(ctx context.Context, key toolcall.Key) (*toolcall.Call, error) {
	r, err := s.journal.Last(ctx, key)
	if err != nil {
		return nil, err
	}
	if r.Record == nil || r.Record.Call == nil {
		return nil, unreadableError(key, r.Invalid)
	}
	r.Record.Call.At(r.Seq) // before anyone else can see it
	s.apply(r.Record, r.Seq)
	return r.Record.Call, nil
}

// Call returns a call from the view, or else from its last event record in the journal.
func (s *Store) Call(ctx context.Context, key toolcall.Key) (*toolcall.Call, error) {
	if c := s.view.Call(key); c != nil {
		return c, nil
	}
	return s.LastCall(ctx, key)
}

// CallOrNil is Call, but returns nil if the journal lacks the call or its last event record
// cannot be read. It also reads archives, and leaves the view unchanged.
func (s *Store) CallOrNil(ctx context.Context, key toolcall.Key) (*toolcall.Call, error) {
	if c := s.view.Call(key); c != nil {
		return c, nil
	}
	last, err := s.journal.Last(ctx, key)
	if errors.Is(err, message.ErrArchived) {
		var history []toolcall.JournalEntry
		if history, err = s.journal.History(ctx, key); err == nil {
			last = LastOf(history)
		}
	}
	if errors.Is(err, message.ErrNotFound) {
		return nil, nil
	}
	if err != nil || last.Record == nil || last.Record.Call == nil {
		return nil, err
	}
	last.Record.Call.At(last.Seq)
	return last.Record.Call, nil
}

// CountUpTo counts the calls of a call's reply up to this one. It asks the journal about
// calls that the view has forgotten.
func (s *Store) CountUpTo(ctx context.Context, c *toolcall.Call) (int, error) {
	if n, known := s.view.CountUpTo(c); known {
		return n, nil
	}
	for range countTries {
		calls, through, err := s.journal.CountCalls(ctx, c.ReplyKey())
		if err != nil {
			return 0, err
		}
		if !view.LearnCount(s.view, c.ReplyKey(), calls, through) {
			continue
		}
		if n, known := s.view.CountUpTo(c); known {
			return n, nil
		}
		return calls + 1, nil
	}
	return 0, &message.Error{Code: message.CodeUnavailable, Op: "count calls", What: "the count of the journal is older than what this engine has forgotten", Hint: "try again"}
}

// countTries is how often the journal is asked to count the calls of one reply.
const countTries = 3

// LastReply reads a reply's own entity from the journal. A reply without event records is
// open.
func (s *Store) LastReply(ctx context.Context, reply toolcall.Key) (toolcall.ReplyState, uint64, error) {
	r, err := s.journal.Last(ctx, reply)
	if errors.Is(err, message.ErrNotFound) {
		return toolcall.ReplyState{Key: reply, Phase: toolcall.ReplyOpen}, 0, nil
	}
	if err != nil {
		return toolcall.ReplyState{}, 0, err
	}
	if r.Record == nil || r.Record.Reply == nil {
		return toolcall.ReplyState{}, 0, unreadableError(reply, r.Invalid)
	}
	s.apply(r.Record, r.Seq) // now, because the watch will find that the view already has it
	return *r.Record.Reply, r.Seq, nil
}

// LastSession reads a session's own entity from the journal. A session without records is
// not bound to a runtime.
func (s *Store) LastSession(ctx context.Context, session toolcall.Key) (toolcall.SessionState, uint64, error) {
	r, err := s.journal.Last(ctx, session)
	if errors.Is(err, message.ErrNotFound) {
		return toolcall.SessionState{Key: session}, 0, nil
	}
	if err != nil {
		return toolcall.SessionState{}, 0, err
	}
	if r.Record == nil || r.Record.Session == nil {
		return toolcall.SessionState{}, 0, unreadableError(session, r.Invalid)
	}
	s.view.Apply(r.Record, r.Seq)
	return *r.Record.Session, r.Seq, nil
}

// LastStandingApproval reads a standing approval from the journal. known is what the view
// has; an approval without event records of its own is still as it was granted.
func (s *Store) LastStandingApproval(ctx context.Context, known *toolcall.StandingApproval) (*toolcall.StandingApproval, error) {
	r, err := s.journal.Last(ctx, known.Key())
	if errors.Is(err, message.ErrNotFound) && known.Seq == 0 {
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	if r.Record == nil || r.Record.Standing == nil {
		return nil, unreadableError(known.Key(), r.Invalid)
	}
	s.view.Apply(r.Record, r.Seq)
	sa := *r.Record.Standing
	sa.Seq = r.Seq
	return &sa, nil
}

// LastBudget reads a budget from the journal, and when the journal stored its last
// record. A budget without records has spent nothing.
func (s *Store) LastBudget(ctx context.Context, key toolcall.Key) (*toolcall.BudgetState, time.Time, uint64, error) {
	r, err := s.journal.Last(ctx, key)
	if errors.Is(err, message.ErrNotFound) {
		return &toolcall.BudgetState{ID: toolcall.BudgetID(key.Entity), Space: key.Space}, time.Time{}, 0, nil
	}
	if err != nil {
		return nil, time.Time{}, 0, err
	}
	if r.Record == nil || r.Record.Budget == nil || r.Time.IsZero() {
		return nil, time.Time{}, 0, unreadableError(key, r.Invalid)
	}
	state := *r.Record.Budget
	state.Parts = slices.Clone(state.Parts)
	state.StoredAt(r.Time.UTC())
	return &state, r.Time.UTC(), r.Seq, nil
}

// LastOf returns the last valid entry of a history, or the zero entry. The entry may be of
// another version.
func LastOf(history []toolcall.JournalEntry) toolcall.JournalEntry {
	for _, r := range slices.Backward(history) {
		if r.Invalid == nil || errors.Is(r.Invalid, message.ErrUnavailable) {
			return r
		}
	}
	return toolcall.JournalEntry{}
}

// LastCallOf returns the call in the last valid entry of its history.
func LastCallOf(key toolcall.Key, history []toolcall.JournalEntry) (*toolcall.Call, error) {
	last := LastOf(history)
	if last.Record == nil || last.Record.Call == nil {
		return nil, unreadableError(key, last.Invalid)
	}
	return last.Record.Call, nil
}

// eachRecord calls fn with a session's records after the sequence after, page by page,
// until fn returns false.
func (s *Store) eachRecord(ctx context.Context, session toolcall.Key, after uint64, fn func(toolcall.JournalEntry) bool) error {
	for {
		records, next, err := s.journal.Read(ctx, session, after, PageRecords)
		if err != nil {
			return err
		}
		for _, r := range records {
			if !fn(r) {
				return nil
			}
		}
		if len(records) < PageRecords {
			return nil
		}
		after = next
	}
}

// Freshen reads into the view what was written to a session since the watch's last
// delivery, so that a change that one replica has confirmed is visible at all others.
func (s *Store) Freshen(ctx context.Context, session toolcall.Key) error {
	return s.eachRecord(ctx, session, s.view.Sequence(), func(r toolcall.JournalEntry) bool {
		if r.Record != nil {
			s.apply(r.Record, r.Seq)
		}
		return true
	})
}

// SessionCalls reads a session's calls from the journal, in no particular order.
func (s *Store) SessionCalls(ctx context.Context, session toolcall.Key) ([]*toolcall.Call, error) {
	last := map[toolcall.Key]*toolcall.Call{}
	err := s.eachRecord(ctx, session, 0, func(r toolcall.JournalEntry) bool {
		if r.Record != nil && r.Record.Call != nil {
			r.Record.Call.At(r.Seq)
			last[r.Key] = r.Record.Call
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return slices.Collect(maps.Values(last)), nil
}

// CheckReply refuses a request about a reply that has neither an event record nor a streamed
// event: a mistyped id is an error, not a silent success.
func (s *Store) CheckReply(ctx context.Context, reply toolcall.Key) error {
	found := false
	err := s.eachRecord(ctx, reply.SessionKey(), 0, func(r toolcall.JournalEntry) bool {
		found = r.Invalid == nil && r.Key.Reply == reply.Reply
		return !found
	})
	if err == nil && !found {
		if _, err := s.journal.Last(ctx, reply); errors.Is(err, message.ErrArchived) {
			return err
		}
		err = &message.Error{Code: message.CodeNotFound, What: "no reply " + string(reply.Reply) + " of the session " + string(reply.Session) + " is known", Hint: "look at the list of open calls"}
	}
	return err
}

// WaitForSequence waits until the view has everything up to seq, or returns the reason why
// it will not.
func (s *Store) WaitForSequence(ctx context.Context, seq uint64) error {
	come := s.view.WaitFor(seq)
	if come == nil {
		return nil
	}
	select {
	case <-come:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.following.Done():
		return context.Cause(s.following)
	}
}
