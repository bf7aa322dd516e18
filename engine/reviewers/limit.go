package reviewers

import (
	"fmt"
	"time"

	"github.com/askance-dev/askance/message"
)

// Limit sets the limits of reviewers.
func (l *Ledger) Limit(limits message.ReviewerLimits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limits = limits
}

// Refused notes that an answer was refused for a limit.
func (l *Ledger) Refused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused++
}

// Admit asks leave for an answer of a person at now; to is whom it hands the
// question over to, or "". Over a limit the error is message.ErrOverLimit and
// nothing may be written (asking again is no second refusal: see Refused). Otherwise done must be called when the answer was
// taken, or was not. What other engines have taken counts as far as the ledger
// knows their facts.
func (l *Ledger) Admit(who, to string, now time.Time) (done func(taken bool), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limits.MaxOpen > 0 && to != "" {
		if c := l.people[to]; c != nil && c.load.Open >= l.limits.MaxOpen {
			return nil, overLimit(fmt.Sprintf("%s has %d open questions already, the limit is %d", to, c.load.Open, l.limits.MaxOpen), "hand it over to somebody else")
		}
	}
	if l.limits.PerMinute <= 0 {
		return func(bool) {}, nil
	}
	seen := within(l.accepted[who], now)
	if c := l.people[who]; c != nil { // those of other engines too
		seen = max(seen, within(c.recent, now))
	}
	if seen+l.flying[who] >= l.limits.PerMinute {
		return nil, overLimit(fmt.Sprintf("%s has answered %d questions within a minute, the limit is %d", who, seen+l.flying[who], l.limits.PerMinute), "look at the next one for longer, and try again")
	}
	if l.flying == nil {
		l.flying, l.accepted = map[string]int{}, map[string][]time.Time{}
	}
	l.flying[who]++
	return func(taken bool) { l.done(who, now, taken) }, nil
}

func (l *Ledger) done(who string, at time.Time, taken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flying[who]--; l.flying[who] == 0 {
		delete(l.flying, who)
	}
	if taken {
		l.accepted[who] = remember(l.accepted[who], at)
	}
	if len(l.accepted) > MaxNames {
		for name, recent := range l.accepted {
			if within(recent, at) == 0 {
				delete(l.accepted, name)
			}
		}
	}
}

func overLimit(what, hint string) error {
	return &message.Error{Code: message.CodeOverLimit, What: what, Hint: hint}
}
