package reviewers

import (
	"slices"
	"sync"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// MaxNames bounds how many people, and how many groups, are counted separately.
const MaxNames = 4096

// Ledger counts the load of reviewers. The zero value is empty and has no limits. Its
// methods may be called from many goroutines. Event records of one call must come in
// journal order, though some may be missing.
type Ledger struct {
	mu       sync.Mutex // guards all below
	span     span       // votes within it are counted
	open     map[toolcall.Key]*request
	sums     sums
	log      log
	limits   toolcall.ReviewerLimits
	accepted map[string][]time.Time               // responses admitted here and recorded, by toolcall.PersonKey like the next two
	flying   map[string]int                       // responses admitted here but not yet recorded or refused
	given    map[string]map[toolcall.Key]struct{} // requests being assigned but not yet recorded
	refused  int
}

// sums are the figures by name; of people by toolcall.PersonKey.
type sums struct {
	people map[string]*counts
	groups map[string]*counts
	others map[string]struct{} // names beyond MaxNames, at most MaxNames of them
}

// request is an open approval request.
type request struct {
	digest string
	asks   *toolcall.Requirement // shared with the call's event record
	since  time.Time
	votes  int      // already counted
	people []string // whose response it waits for
	groups []string
}

// Record counts the next event record of a call. It ignores other records.
func (l *Ledger) Record(rec *toolcall.EventRecord) {
	c := rec.Call
	if c == nil || rec.Note != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.open[c.Key]
	if q != nil {
		for _, v := range c.Votes[min(q.votes, len(c.Votes)):] {
			l.countVote(q, v)
		}
		l.sums.assignRequest(q, nil, nil)
	}
	if c.State != message.ToolCallAsking || c.Request == nil {
		delete(l.open, c.Key)
		return
	}
	if q == nil {
		if l.open == nil {
			l.open = map[toolcall.Key]*request{}
		}
		q = &request{since: openedAt(rec)}
		l.open[c.Key] = q
	} else if q.digest != c.Digest {
		q.since = rec.At
	}
	q.digest, q.votes, q.asks = c.Digest, len(c.Votes), &c.Request.Requirement
	people, groups := waitsFor(c)
	l.sums.assignRequest(q, people, groups)
	l.onRecord(c.Key)
}

// openedAt is when a call's approval request, unknown until now, was opened.
func openedAt(rec *toolcall.EventRecord) time.Time {
	if len(rec.Call.Votes) > 0 { // the records before are missing
		return rec.Call.ProposedAt
	}
	return rec.At
}

// assignRequest replaces the people and groups that an approval request waits for.
func (s *sums) assignRequest(q *request, people, groups []string) {
	s.addOpen(q.people, q.groups, -1)
	s.addOpen(people, groups, 1)
	q.people, q.groups = people, groups
}

func (s *sums) addOpen(people, groups []string, n int) {
	for _, name := range people {
		if c := s.countsOfPerson(name); c != nil {
			c.load.Open += n
		}
	}
	for _, name := range groups {
		if c := s.countsOfGroup(name); c != nil {
			c.load.Open += n
		}
	}
}

// countsOfPerson returns the figures of a person, or nil beyond MaxNames.
func (s *sums) countsOfPerson(name string) *counts {
	return s.countsOf(&s.people, toolcall.PersonKey(name), name)
}

// countsOfGroup returns the figures of a group, or nil beyond MaxNames.
func (s *sums) countsOfGroup(name string) *counts { return s.countsOf(&s.groups, name, name) }

func (s *sums) countsOf(of *map[string]*counts, key, name string) *counts {
	if *of == nil {
		*of = map[string]*counts{}
	}
	if c := (*of)[key]; c != nil {
		return c
	}
	if len(*of) >= MaxNames {
		if s.others == nil {
			s.others = map[string]struct{}{}
		}
		if len(s.others) < MaxNames {
			s.others[key] = struct{}{}
		}
		return nil
	}
	c := &counts{load: toolcall.ReviewerLoad{Name: name}}
	(*of)[key] = c
	return c
}

// countVote counts a vote for the person, and for those of the asked groups that the person
// was in. For the limits, its time counts whatever the ledger's window.
func (l *Ledger) countVote(q *request, v toolcall.Vote) {
	e := entry{at: v.At, kind: v.Kind, took: max(0, v.At.Sub(q.since)), who: v.By.Name, groups: requiredFor(q.asks, v)}
	if l.span.holdsTime(e.at) {
		l.sums.countVote(e)
	}
	l.log.add(e)
	if c := l.sums.countsOfPerson(e.who); c != nil {
		c.recent = addRecent(c.recent, e.at)
	}
}

// requiredFor returns the voter's groups that the approval request asked at the time of the vote.
func requiredFor(r *toolcall.Requirement, v toolcall.Vote) []string {
	if r == nil || len(v.Groups) == 0 {
		return nil
	}
	var out []string
	for _, p := range r.Tally(nil, "", v.Step).Parts {
		for _, g := range p.Groups {
			if slices.Contains(v.Groups, g) {
				out = append(out, g)
			}
		}
	}
	return removeDuplicates(out)
}

func (s *sums) countVote(e entry) {
	if c := s.countsOfPerson(e.who); c != nil {
		c.countVote(e.kind, e.took)
	}
	for _, g := range e.groups {
		if c := s.countsOfGroup(g); c != nil {
			c.countVote(e.kind, e.took)
		}
	}
}

// waitsFor returns the people and groups that an open approval request waits for, without
// duplicates.
func waitsFor(c *toolcall.Call) (people, groups []string) {
	spoken := map[string]toolcall.Vote{} // by toolcall.PersonKey
	for _, v := range c.Votes {
		if v.Edited {
			clear(spoken) // an edit voids earlier votes
		}
		if v.On(c.Digest) {
			spoken[toolcall.PersonKey(v.By.Name)] = v
		}
	}
	for _, p := range c.Tally().Parts {
		if p.Missing == 0 {
			continue
		}
		people, groups = append(people, p.Users...), append(groups, p.Groups...)
	}
	for _, v := range spoken {
		if v.Kind == toolcall.ResponseDelegate {
			people = append(people, v.To)
		}
	}
	people = slices.DeleteFunc(people, func(n string) bool { _, has := spoken[toolcall.PersonKey(n)]; return has })
	return toolcall.People(people), removeDuplicates(groups)
}

func removeDuplicates(names []string) []string {
	slices.Sort(names)
	return slices.Clip(slices.Compact(names))
}
