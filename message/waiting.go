package message

import "time"

// Waiting says what an open approval request waits for: who has approved, who must
// still, what time does next. It is derived from the call and kept nowhere.
type Waiting struct {
	Key
	Digest string `json:"digest"`
	Tally
	// NextStep is when the plan asks other people: NextUsers and NextGroups
	// besides those who may answer already, or alone if NextOnly is set.
	NextStep   time.Time `json:"next_step,omitzero"`
	NextUsers  []string  `json:"next_users,omitzero"`
	NextGroups []string  `json:"next_groups,omitzero"`
	NextOnly   bool      `json:"next_only,omitzero"`
	// Ends is when the approval request denies; zero: never.
	Ends time.Time `json:"ends,omitzero"`
}

// Waiting gives what the call's open approval request waits for; ok is false if none is
// open.
func (c *Call) Waiting() (w Waiting, ok bool) {
	if c.State != ToolCallAsking || c.Request == nil {
		return Waiting{}, false
	}
	r := c.Request.Requirement
	w = Waiting{Key: c.Key, Digest: c.Digest, Tally: c.Tally(), Ends: r.Ends()}
	plan := r.Plan()
	if c.Step >= len(plan) {
		return w, true
	}
	w.NextStep = plan[c.Step]
	w.NextOnly = r.isLastStep(w.NextStep)
	for _, s := range r.Approvers {
		for _, e := range s.stepsAt(w.NextStep, w.NextOnly) {
			if w.NextOnly || e.At.Equal(w.NextStep) {
				w.NextUsers, w.NextGroups = append(w.NextUsers, e.Users...), append(w.NextGroups, e.Groups...)
			}
		}
	}
	return w, true
}
