package view

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// Book holds the standing approvals in the view. It may lag behind the journal, so an
// approval is checked against the journal before it allows anything.
type Book struct {
	mu                sync.RWMutex // guards all below; never held across I/O
	standingApprovals map[toolcall.StandingID]*toolcall.StandingApproval
	byTool            map[string]map[toolcall.StandingID]struct{}
	gave              map[toolcall.StandingID]uint64 // sequence of the first known event record of the call that granted it
	grown             int                            // added since ended ones were last dropped
	times             []RecordTime                   // of the records that no later one passed: a later record has an earlier time
}

// RecordTime is when an event record was written, by its engine's clock.
type RecordTime struct {
	Seq uint64    `json:"seq"`
	At  time.Time `json:"at"`
}

// keepEnded is how many ended standing approvals stay in memory.
const keepEnded = 1000

// addGranted adds the standing approvals that a call's event record granted, unless newer
// event records of them are known.
func (b *Book) addGranted(standings []toolcall.StandingApproval, seq uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range standings {
		s := standings[i]
		if since, known := b.gave[s.ID]; !known || seq < since {
			b.gave[s.ID] = seq
		}
		if b.standingApprovals[s.ID] == nil {
			b.put(&s)
		}
	}
}

// apply applies an event record of a standing approval and reports whether it was new.
func (b *Book) apply(s *toolcall.StandingApproval, seq uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.standingApprovals[s.ID]; old != nil && seq <= old.Seq {
		return false
	}
	next := *s
	next.Seq = seq
	b.put(&next)
	return true
}

// noteTime records when an event record was written.
func (b *Book) noteTime(seq uint64, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.times, func(t RecordTime) bool { return t.Seq > seq })
	if i < 0 {
		i = len(b.times)
	} else if !b.times[i].At.Before(at) {
		return
	}
	from := i
	for from > 0 && !b.times[from-1].At.After(at) {
		from--
	}
	b.times = slices.Replace(b.times, from, i, RecordTime{seq, at})
}

// Clock returns the time by which a standing approval is judged: now, or that of a record
// that came after its grant, if that is later. A clock that was set back makes no standing
// approval valid again that had ended, and one that was ahead ends none that is granted later.
func (b *Book) Clock(s *toolcall.StandingApproval, now time.Time) time.Time {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.judgeAt(s, now)
}

// judgeAt is Clock; b.mu is held.
func (b *Book) judgeAt(s *toolcall.StandingApproval, now time.Time) time.Time {
	since := b.gave[s.ID] // 0 if unknown: every record then counts
	i := slices.IndexFunc(b.times, func(t RecordTime) bool { return t.Seq > since })
	if i >= 0 && b.times[i].At.After(now) {
		return b.times[i].At
	}
	return now
}

// put stores a standing approval. b.mu is held.
func (b *Book) put(s *toolcall.StandingApproval) {
	if b.standingApprovals[s.ID] == nil {
		b.grown++
	}
	b.indexApproval(s)
	if b.grown > keepEnded {
		b.grown = 0
		b.dropEnded(time.Now())
	}
}

// indexApproval adds a standing approval to the indexes. b.mu is held.
func (b *Book) indexApproval(s *toolcall.StandingApproval) {
	b.standingApprovals[s.ID] = s
	if b.byTool[s.Tool] == nil {
		b.byTool[s.Tool] = map[toolcall.StandingID]struct{}{}
	}
	b.byTool[s.Tool][s.ID] = struct{}{}
}

// dropEnded forgets the oldest standing approvals that have ended. b.mu is held.
func (b *Book) dropEnded(now time.Time) {
	var ended []*toolcall.StandingApproval
	for _, s := range b.standingApprovals {
		if s.State(now) != toolcall.StandingActive {
			ended = append(ended, s)
		}
	}
	slices.SortFunc(ended, func(a, b *toolcall.StandingApproval) int { return a.GrantedAt.Compare(b.GrantedAt) })
	for _, s := range ended[:max(0, len(ended)-keepEnded)] {
		delete(b.standingApprovals, s.ID)
		delete(b.gave, s.ID)
		if delete(b.byTool[s.Tool], s.ID); len(b.byTool[s.Tool]) == 0 {
			delete(b.byTool, s.Tool)
		}
	}
}

// Get returns a standing approval as known here, or nil. The caller must not change it.
func (b *Book) Get(id toolcall.StandingID) *toolcall.StandingApproval {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.standingApprovals[id]
}

// OfTool returns the standing approvals for a tool that may answer for a call: first those
// that have already answered for it, then those without a count of uses, then the
// oldest.
func (b *Book) OfTool(tool, mark string, now time.Time) []*toolcall.StandingApproval {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var out []*toolcall.StandingApproval
	for id := range b.byTool[tool] {
		s := b.standingApprovals[id]
		if s.Plain { // its rules are session rules of the policy
			continue
		}
		state := s.State(b.judgeAt(s, now))
		if state == toolcall.StandingActive || state == toolcall.StandingUsedUp && slices.Contains(s.Spent, mark) {
			out = append(out, s)
		}
	}
	rank := func(s *toolcall.StandingApproval) int {
		switch {
		case slices.Contains(s.Spent, mark):
			return 0
		case !s.Counted():
			return 1
		}
		return 2
	}
	slices.SortFunc(out, func(a, b *toolcall.StandingApproval) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.GrantedAt.Compare(b.GrantedAt), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// All returns every standing approval in memory, sorted by id.
func (b *Book) All() []*toolcall.StandingApproval {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return slices.SortedFunc(maps.Values(b.standingApprovals), func(a, b *toolcall.StandingApproval) int { return cmp.Compare(a.ID, b.ID) })
}
