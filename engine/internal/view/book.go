package view

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// Book is what the view knows of standing approvals. It may lag: what is
// allowed by one is checked against the journal.
type Book struct {
	mu                sync.RWMutex // guards all below; never held across I/O
	standingApprovals map[toolcall.StandingID]*toolcall.StandingApproval
	byTool            map[string]map[toolcall.StandingID]struct{}
	gave              map[toolcall.StandingID]uint64 // the call's event record that granted one without a record of its own
	grown             int                            // since ended ones were last dropped
}

// keepEnded is how many standing approvals that have ended stay in memory.
const keepEnded = 1000

func newBook() *Book {
	return &Book{standingApprovals: map[toolcall.StandingID]*toolcall.StandingApproval{}, byTool: map[string]map[toolcall.StandingID]struct{}{}, gave: map[toolcall.StandingID]uint64{}}
}

// addGranted takes in what the approval of a call let remember, by an event record of the
// call, unless later event records of it are known.
func (b *Book) addGranted(standings []toolcall.StandingApproval, seq uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range standings {
		if l := standings[i]; b.standingApprovals[l.ID] == nil {
			b.gave[l.ID] = seq
			b.put(&l)
		}
	}
}

// apply takes in an event record of a standing approval and reports whether it was news.
func (b *Book) apply(l *toolcall.StandingApproval, seq uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.standingApprovals[l.ID]; old != nil && seq <= old.Seq {
		return false
	}
	next := *l
	next.Seq = seq
	delete(b.gave, l.ID)
	b.put(&next)
	return true
}

// put stores a standing approval. b.mu is held.
func (b *Book) put(l *toolcall.StandingApproval) {
	if b.standingApprovals[l.ID] == nil {
		b.grown++
	}
	b.indexApproval(l)
	if b.grown > keepEnded {
		b.grown = 0
		b.dropEnded(time.Now())
	}
}

// indexApproval makes a standing approval findable. b.mu is held.
func (b *Book) indexApproval(l *toolcall.StandingApproval) {
	b.standingApprovals[l.ID] = l
	if b.byTool[l.Tool] == nil {
		b.byTool[l.Tool] = map[toolcall.StandingID]struct{}{}
	}
	b.byTool[l.Tool][l.ID] = struct{}{}
}

// dropEnded forgets the oldest of those that have ended. b.mu is held.
func (b *Book) dropEnded(now time.Time) {
	var ended []*toolcall.StandingApproval
	for _, l := range b.standingApprovals {
		if l.State(now) != toolcall.StandingActive {
			ended = append(ended, l)
		}
	}
	slices.SortFunc(ended, func(a, b *toolcall.StandingApproval) int { return a.GrantedAt.Compare(b.GrantedAt) })
	for _, l := range ended[:max(0, len(ended)-keepEnded)] {
		delete(b.standingApprovals, l.ID)
		delete(b.gave, l.ID)
		if delete(b.byTool[l.Tool], l.ID); len(b.byTool[l.Tool]) == 0 {
			delete(b.byTool, l.Tool)
		}
	}
}

// Get is a standing approval as far as it is known here, or nil. It must not be changed.
func (b *Book) Get(id toolcall.StandingID) *toolcall.StandingApproval {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.standingApprovals[id]
}

// OfTool gives the standing approvals about a tool that may answer for a call: first those
// that have answered for it already, then those that cost nothing, then the
// oldest.
func (b *Book) OfTool(tool, mark string, now time.Time) []*toolcall.StandingApproval {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var out []*toolcall.StandingApproval
	for id := range b.byTool[tool] {
		l := b.standingApprovals[id]
		if l.Plain { // the policy itself has its rules
			continue
		}
		state := l.State(now)
		if state == toolcall.StandingActive || state == toolcall.StandingUsedUp && slices.Contains(l.Spent, mark) {
			out = append(out, l)
		}
	}
	rank := func(l *toolcall.StandingApproval) int {
		switch {
		case slices.Contains(l.Spent, mark):
			return 0
		case !l.Counted():
			return 1
		}
		return 2
	}
	slices.SortFunc(out, func(a, b *toolcall.StandingApproval) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.GrantedAt.Compare(b.GrantedAt), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// All gives every standing approval in memory, by id.
func (b *Book) All() []*toolcall.StandingApproval {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return slices.SortedFunc(maps.Values(b.standingApprovals), func(a, b *toolcall.StandingApproval) int { return cmp.Compare(a.ID, b.ID) })
}
