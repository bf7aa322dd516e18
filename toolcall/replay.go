package toolcall

import (
	"fmt"
)

// Replay reads the event records of one call, oldest first, checks every step against the
// table and returns the call's state. It proves that a history is one that the machine
// could have written: steps that the table lacks, gaps, a changed identity, a change of a
// finished call, a dispatch without an allow, and an approval without all required approvers
// are errors. A note changes nothing.
func Replay(records []*EventRecord) (*Call, error) {
	var cur *Call
	for i, f := range records {
		if f.Call == nil {
			return nil, fmt.Errorf("event record %d is not about a call", i)
		}
		if f.Note != nil {
			if cur == nil {
				return nil, fmt.Errorf("event record %d is a note before the call was proposed", i)
			}
			continue
		}
		if err := checkNext(cur, f); err != nil {
			return nil, fmt.Errorf("event record %d (%s) of %s: %w", i, f.Kind(), f.Call.Key, err)
		}
		cur = f.Call
	}
	return cur, nil
}

// checkNext checks that f is a possible next event record after cur.
func checkNext(cur *Call, f *EventRecord) error {
	c, state, count := f.Call, none, 0
	if cur != nil {
		state, count = cur.State, cur.Records
		if cur.Key != c.Key || cur.Tool != c.Tool || cur.Proposal != c.Proposal && !isRedacted(cur) && !isRedacted(c) || cur.Runtime != c.Runtime {
			return fmt.Errorf("the call's identity changed")
		}
	}
	if len(f.Path) == 0 {
		return fmt.Errorf("no step was taken")
	}
	for _, s := range f.Path {
		to, ok := nextState(state, Cause(s.Cause))
		if !ok || s.From != state || s.To != to {
			return fmt.Errorf("the table has no step %q from %q to %q", s.Cause, s.From, s.To)
		}
		if Cause(s.Cause) == CauseApprove && !c.Tally().Agreed {
			return fmt.Errorf("the call was approved without all required approvers")
		}
		state = to
	}
	if state != c.State {
		return fmt.Errorf("the steps lead to %q, but the event record has %q", state, c.State)
	}
	if c.Records != count+1 {
		return fmt.Errorf("it is number %d of the call's event records, want number %d", c.Records, count+1)
	}
	return nil
}

// isRedacted reports whether the proposal's digest was removed by redaction.
func isRedacted(c *Call) bool { return c.Proposal == "" && c.Hides() }
