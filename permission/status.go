package permission

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Status is how a Live is doing, for people and monitoring. It marshals as JSON.
type Status struct {
	// Bundle is the hash of the policy in force, Rules its number of rules.
	Bundle string `json:"bundle"`
	Rules  int    `json:"rules"`
	// Loaded is when it came into force; zero before the first good policy.
	Loaded time.Time `json:"loaded"`
	// Alarm says why the newest policy was refused; "" when it is in force.
	Alarm string `json:"alarm"`
	// Loads and Refused count the policies that came into force and the
	// attempts that failed.
	Loads   uint64 `json:"loads"`
	Refused uint64 `json:"refused"`
	// Calls counts decisions, Failures what could not be evaluated and is not
	// of one rule, such as bad input.
	Calls    uint64 `json:"calls"`
	Failures uint64 `json:"failures"`
	// ByRule has what each rule of the policy has done.
	ByRule []RuleCount `json:"by_rule"`
	// Shadow is nil where there is no shadow policy.
	Shadow *ShadowStatus `json:"shadow,omitzero"`
}

// Status is a snapshot. Its parts may be a few decisions apart.
func (l *Live) Status() Status {
	b := l.Bundle()
	s := Status{Bundle: b.Hash(), Rules: b.Rules(), Calls: l.counts.calls.Load(), Failures: l.counts.other.Load(), ByRule: l.counts.snapshot()}
	l.mu.Lock()
	s.Loaded, s.Loads, s.Refused = l.loaded, l.loads, l.refused
	l.mu.Unlock()
	if err := l.Err(); err != nil {
		s.Alarm = err.Error()
	}
	if l.shadow != nil {
		s.Shadow = l.shadow.status()
	}
	return s
}

// RuleCount is what one rule has done since it came into force under its name.
type RuleCount struct {
	Rule string `json:"rule"`
	// Decided is how often it decided a call.
	Decided uint64 `json:"decided"`
	// Watched is how often it matched while it only warned or audited.
	Watched uint64 `json:"watched"`
	// Failed is how often it could not be evaluated. Each time it did not do
	// its work and the call fell to the closed side: alert on it.
	Failed uint64 `json:"failed"`
}

// counters count by rule without locks.
type counters struct {
	rules sync.Map // name to *counter
	calls atomic.Uint64
	other atomic.Uint64 // failures that are not of one rule: bad input, a tool's check
}

type counter struct{ decided, watched, failed atomic.Uint64 }

func (c *counters) of(rule string) *counter {
	if found, ok := c.rules.Load(rule); ok {
		return asCounter(found)
	}
	found, _ := c.rules.LoadOrStore(rule, new(counter))
	return asCounter(found)
}

func asCounter(v any) *counter {
	c, ok := v.(*counter)
	if !ok {
		return new(counter) // the map holds nothing else
	}
	return c
}

// countDecision counts one decision.
func (c *counters) countDecision(d *Decision) {
	c.calls.Add(1)
	if d.Rule != "" {
		c.of(d.Rule).decided.Add(1)
	}
	for i := range d.Errors {
		if rule := d.Errors[i].Rule; rule == "" {
			c.other.Add(1)
		} else {
			c.of(rule).failed.Add(1)
		}
	}
	for i := range d.Watched {
		w := c.of(d.Watched[i].Rule)
		if d.Watched[i].Failed {
			w.failed.Add(1)
		} else {
			w.watched.Add(1)
		}
	}
}

// keepRules drops the counters of rules that are gone, so that renaming rules for
// years takes no memory.
func (c *counters) keepRules(b *Bundle) {
	c.rules.Range(func(name, _ any) bool {
		if rule, _ := name.(string); rule != SessionRuleName && !slices.Contains(b.names, rule) {
			c.rules.Delete(name)
		}
		return true
	})
}

// snapshot lists the rules that have done something, by name.
func (c *counters) snapshot() []RuleCount {
	out := []RuleCount{}
	c.rules.Range(func(name, v any) bool {
		n := asCounter(v)
		rule, _ := name.(string)
		out = append(out, RuleCount{Rule: rule, Decided: n.decided.Load(), Watched: n.watched.Load(), Failed: n.failed.Load()})
		return true
	})
	slices.SortFunc(out, func(a, b RuleCount) int { return cmp.Compare(a.Rule, b.Rule) })
	return out
}
