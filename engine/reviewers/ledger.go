package reviewers

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/askance-dev/askance/message"
)

// MaxNames bounds how many people, and how many groups, are kept apart.
const MaxNames = 4096

// Ledger is the load of reviewers. The zero value is empty and has no limits.
// Its methods may be called from many goroutines; facts of one call must come
// in the order of the journal, though some may be missing.
type Ledger struct {
	mu       sync.Mutex // guards all below
	open     map[message.Key]*question
	people   map[string]*counts
	groups   map[string]*counts
	others   map[string]struct{} // names beyond MaxNames, as many again
	limits   message.ReviewerLimits
	accepted map[string][]time.Time // by this ledger's own Admit
	flying   map[string]int         // admitted, and neither taken nor refused yet
	refused  int
}

// question is one that is open.
type question struct {
	digest string
	since  time.Time
	votes  int      // already counted
	people []string // whose word it waits for
	groups []string
	asked  []string // groups that may answer, whether or not they still must
}

// Fact takes in the next fact of a call. Others are passed over.
func (l *Ledger) Fact(f *message.Fact) {
	c := f.Call
	if c == nil || f.Note != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.open[c.Key]
	if q != nil {
		for _, v := range c.Votes[min(q.votes, len(c.Votes)):] {
			l.vote(q, v)
		}
		l.assign(q, nil, nil)
	}
	if c.State != message.ToolCallAsking || c.Question == nil {
		delete(l.open, c.Key)
		return
	}
	if q == nil {
		if l.open == nil {
			l.open = map[message.Key]*question{}
		}
		q = &question{since: opened(f)}
		l.open[c.Key] = q
	} else if q.digest != c.Digest {
		q.since = f.At
	}
	q.digest, q.votes = c.Digest, len(c.Votes)
	people, groups, asked := waitsFor(c)
	q.asked = asked
	l.assign(q, people, groups)
}

// opened is when the question of a call opened that was not known before.
func opened(f *message.Fact) time.Time {
	if len(f.Call.Votes) > 0 { // the facts before are missing
		return f.Call.ProposedAt
	}
	return f.At
}

// assign replaces those for whose word a question waits.
func (l *Ledger) assign(q *question, people, groups []string) {
	for _, set := range []struct {
		before, now []string
		of          *map[string]*counts
	}{{q.people, people, &l.people}, {q.groups, groups, &l.groups}} {
		for _, n := range set.before {
			if c := l.counts(set.of, n); c != nil {
				c.load.Open--
			}
		}
		for _, n := range set.now {
			if c := l.counts(set.of, n); c != nil {
				c.load.Open++
			}
		}
	}
	q.people, q.groups = people, groups
}

// counts gives those of a name; nil beyond MaxNames.
func (l *Ledger) counts(of *map[string]*counts, name string) *counts {
	if *of == nil {
		*of = map[string]*counts{}
	}
	if c := (*of)[name]; c != nil {
		return c
	}
	if len(*of) >= MaxNames {
		if l.others == nil {
			l.others = map[string]struct{}{}
		}
		if len(l.others) < MaxNames {
			l.others[name] = struct{}{}
		}
		return nil
	}
	c := &counts{}
	(*of)[name] = c
	return c
}

// vote counts a vote for the person, and for those of the asked groups in which
// they were.
func (l *Ledger) vote(q *question, v message.Vote) {
	took := max(0, v.At.Sub(q.since))
	if c := l.counts(&l.people, v.By.Name); c != nil {
		c.vote(v, took)
		c.note(v.At)
	}
	for _, g := range q.asked {
		if slices.Contains(v.Groups, g) {
			if c := l.counts(&l.groups, g); c != nil {
				c.vote(v, took)
			}
		}
	}
}

// waitsFor gives the people and groups whose word an open question waits for,
// each once, and all groups that may answer.
func waitsFor(c *message.Call) (people, groups, asked []string) {
	spoken := map[string]message.Vote{}
	for _, v := range c.Votes {
		if v.Edited {
			clear(spoken) // it voids what was said before it
		}
		if v.On(c.Digest) {
			spoken[v.By.Name] = v
		}
	}
	for _, p := range c.Tally().Parts {
		asked = append(asked, p.Groups...)
		if p.Missing == 0 {
			continue
		}
		people, groups = append(people, p.Users...), append(groups, p.Groups...)
	}
	for _, v := range spoken {
		if v.Kind == message.AnswerHandOver {
			people = append(people, v.To)
		}
	}
	people = slices.DeleteFunc(people, func(n string) bool { _, has := spoken[n]; return has })
	return once(people), once(groups), once(asked)
}

func once(names []string) []string {
	slices.Sort(names)
	return slices.Clip(slices.Compact(names))
}

// Report says how things stand at now.
func (l *Ledger) Report(now time.Time) message.LoadReply {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := message.LoadReply{
		At: now, Open: len(l.open), People: reports(l.people, now), Groups: reports(l.groups, now),
		Limits: l.limits, Refused: l.refused, Others: len(l.others),
	}
	for _, q := range l.open {
		if len(q.people)+len(q.groups) == 0 {
			out.Unassigned++
		}
	}
	return out
}

func reports(of map[string]*counts, now time.Time) []message.ReviewerLoad {
	out := make([]message.ReviewerLoad, 0, len(of))
	for _, name := range slices.SortedFunc(maps.Keys(of), cmp.Compare[string]) {
		out = append(out, of[name].report(name, now))
	}
	return out
}
