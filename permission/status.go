package permission

import "time"

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
	if l.err != nil {
		s.Alarm = l.err.Error()
	}
	l.mu.Unlock()
	if l.shadow != nil {
		s.Shadow = l.shadow.status()
	}
	return s
}
