package reviewers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// State is what a ledger has counted, in a form that can be stored.
type State struct {
	Open   []OpenState           `json:"open"`
	People map[string]CountState `json:"people"`
	Groups map[string]CountState `json:"groups"`
	Others []string              `json:"others"` // names beyond MaxNames
	Log    []LogState            `json:"log"`    // oldest first
	Before time.Time             `json:"before"` // latest time of a response that the log forgot
	Lost   bool                  `json:"lost"`   // whether the log forgot any
}

// OpenState is an open approval request of a call.
type OpenState struct {
	Call   toolcall.Key `json:"call"`
	Digest string       `json:"digest"`
	Since  time.Time    `json:"since"`
	Votes  int          `json:"votes"`
	People []string     `json:"people,omitzero"`
	Groups []string     `json:"groups,omitzero"`
}

// CountState holds the figures of a person or group.
type CountState struct {
	Load    toolcall.ReviewerLoad `json:"load"`
	Buckets []uint32              `json:"buckets,omitzero"` // for the median
	Recent  []time.Time           `json:"recent,omitzero"`
}

// LogState is one response.
type LogState struct {
	At     time.Time             `json:"at"`
	Kind   toolcall.ResponseKind `json:"kind"`
	Took   int64                 `json:"took_ns"`
	Who    string                `json:"who"`
	Groups []string              `json:"groups,omitzero"`
}

// State returns a copy of what the ledger has counted from event records.
func (l *Ledger) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := State{People: statesOf(l.sums.people), Groups: statesOf(l.sums.groups), Others: slices.Collect(maps.Keys(l.sums.others)), Before: l.log.before, Lost: l.log.lost}
	for key, q := range l.open {
		out.Open = append(out.Open, OpenState{key, q.digest, q.since, q.votes, q.people, q.groups})
	}
	for _, e := range append(slices.Clone(l.log.ring[l.log.next:]), l.log.ring[:l.log.next]...) {
		out.Log = append(out.Log, LogState{e.at, e.kind, int64(e.took), e.who, e.groups})
	}
	return out
}

func statesOf(all map[string]*counts) map[string]CountState {
	out := make(map[string]CountState, len(all))
	for _, c := range all {
		out[c.load.Name] = CountState{c.load, slices.Clone(c.took.buckets), slices.Clone(c.recent)}
	}
	return out
}

// Restore fills an empty ledger from a stored state. call returns the calls of open requests.
// After an error the ledger is still empty.
func (l *Ledger) Restore(s State, call func(toolcall.Key) *toolcall.Call) error {
	open := make(map[toolcall.Key]*request, len(s.Open))
	for _, o := range s.Open {
		c := call(o.Call)
		if c == nil || c.Request == nil {
			return fmt.Errorf("%s has no approval request", o.Call)
		}
		open[o.Call] = &request{digest: o.Digest, asks: &c.Request.Requirement, since: o.Since, votes: o.Votes, people: o.People, groups: o.Groups}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = open
	l.sums = sums{people: countsOf(s.People, toolcall.PersonKey), groups: countsOf(s.Groups, strings.Clone)}
	for _, name := range s.Others {
		if l.sums.others == nil {
			l.sums.others = map[string]struct{}{}
		}
		l.sums.others[name] = struct{}{}
	}
	for _, e := range s.Log {
		l.log.add(entry{e.At, e.Kind, time.Duration(e.Took), e.Who, e.Groups})
	}
	if s.Lost && (!l.log.lost || s.Before.After(l.log.before)) {
		l.log.before, l.log.lost = s.Before, true
	}
	return nil
}

func countsOf(all map[string]CountState, key func(name string) string) map[string]*counts {
	out := make(map[string]*counts, len(all))
	for name, s := range all {
		c := &counts{load: s.Load, took: times{buckets: s.Buckets}, recent: s.Recent}
		for _, n := range s.Buckets {
			c.took.n += int(n)
		}
		c.load.Name = name
		out[key(name)] = c
	}
	return out
}
