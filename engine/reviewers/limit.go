package reviewers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Limit sets the limits of reviewers.
func (l *Ledger) Limit(limits toolcall.ReviewerLimits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limits = limits
}

// Refused counts a response or request that was refused because of a limit.
func (l *Ledger) Refused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused++
}

// Admit asks whether a person may respond to a call at now; to is the person to whom the
// response delegates the approval request, or "". Over a limit the error is
// message.ErrOverLimit, and nothing may be written (Refused counts refusals, because a
// response may ask several times). Otherwise done must be called with whether the response
// was recorded. Responses at other engines count once the ledger has their event records.
func (l *Ledger) Admit(call toolcall.Key, who, to string, now time.Time) (done func(taken bool), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if to != "" {
		if n, full := l.isFull(to); full {
			return nil, overLimit(fmt.Sprintf("%s already has %d open approval requests, the limit for one reviewer is %d", to, n, l.limits.MaxOpen), "delegate it to another approver")
		}
	}
	for _, limit := range []struct {
		most   int
		window time.Duration
		words  string
	}{{l.limits.PerMinute, time.Minute, "a minute"}, {l.limits.PerHour, time.Hour, "an hour"}} {
		if limit.most <= 0 {
			continue
		}
		if n := l.countResponse(who, now, limit.window); n >= limit.most {
			return nil, overLimit(fmt.Sprintf("%s has answered %d approval requests within %s, the limit is %d", who, n, limit.words, limit.most), "take more time for the next one, then try again")
		}
	}
	key, giving := toolcall.PersonKey(who), l.giveRequest(call, to)
	if l.limits.PerMinute <= 0 && l.limits.PerHour <= 0 {
		return func(bool) { giving() }, nil
	}
	if l.flying == nil {
		l.flying, l.accepted = map[string]int{}, map[string][]time.Time{}
	}
	l.flying[key]++
	return func(taken bool) {
		l.endResponse(key, now, taken)
		giving()
	}, nil
}

// countResponse returns how many responses of a person count in the window that ends now.
func (l *Ledger) countResponse(who string, now time.Time, window time.Duration) int {
	key := toolcall.PersonKey(who)
	seen := countWithin(l.accepted[key], now, window)
	if c := l.sums.people[key]; c != nil { // includes responses at other engines
		seen = max(seen, countWithin(c.recent, now, window))
	}
	return seen + l.flying[key]
}

// Assign asks whether a call's new approval request may be assigned to the people of a
// requirement. It returns message.ErrOverLimit if a part that names only people has too few
// who may get another request. Requests to a group or to any approver are not limited. done
// must be called once the approval request is recorded, or will not be.
func (l *Ledger) Assign(call toolcall.Key, r toolcall.Requirement) (done func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limits.MaxOpen <= 0 {
		return func() {}, nil
	}
	var all []string
	for _, p := range r.Tally(nil, "", 0).Parts {
		all = append(all, p.Users...)
		if len(p.Users) == 0 || len(p.Groups) > 0 {
			continue
		}
		users := toolcall.People(p.Users)
		free := slices.DeleteFunc(slices.Clone(users), func(n string) bool { _, full := l.isFull(n); return full })
		if len(free) < min(p.Quorum, len(users)) {
			return nil, overLimit(fmt.Sprintf("the approvers (%s) already have as many open approval requests as one reviewer may have; the limit is %d", strings.Join(users, ", "), l.limits.MaxOpen), "propose the call again after they have responded to some")
		}
	}
	return l.giveRequest(call, all...), nil
}

// isFull reports whether a person may get no further approval request, and how many they
// have.
func (l *Ledger) isFull(name string) (int, bool) {
	key := toolcall.PersonKey(name)
	n := len(l.given[key])
	if c := l.sums.people[key]; c != nil {
		n += c.load.Open
	}
	return n, l.limits.MaxOpen > 0 && n >= l.limits.MaxOpen
}

// giveRequest counts an approval request as assigned to people until done is called.
func (l *Ledger) giveRequest(call toolcall.Key, people ...string) (done func()) {
	if l.limits.MaxOpen <= 0 {
		return func() {}
	}
	if l.given == nil {
		l.given = map[string]map[toolcall.Key]struct{}{}
	}
	for _, name := range people {
		if name == "" {
			continue
		}
		key := toolcall.PersonKey(name)
		if l.given[key] == nil {
			l.given[key] = map[toolcall.Key]struct{}{}
		}
		l.given[key][call] = struct{}{}
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.onRecord(call)
	}
}

// onRecord ends the assignment of a call's request, which is now recorded or was refused.
func (l *Ledger) onRecord(call toolcall.Key) {
	for name, calls := range l.given {
		delete(calls, call)
		if len(calls) == 0 {
			delete(l.given, name)
		}
	}
}

func (l *Ledger) endResponse(key string, at time.Time, taken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flying[key]--; l.flying[key] == 0 {
		delete(l.flying, key)
	}
	if taken {
		l.accepted[key] = addRecent(l.accepted[key], at)
	}
	if len(l.accepted) > MaxNames {
		for name, recent := range l.accepted {
			if countWithin(recent, at, kept) == 0 {
				delete(l.accepted, name)
			}
		}
	}
}

func overLimit(what, hint string) error {
	return &message.Error{Code: message.CodeOverLimit, What: what, Hint: hint}
}
