package toolcall

import (
	"slices"
	"time"
)

// OnExpiry is what happens to an approval request without an outcome at its deadline.
type OnExpiry string

// An approval request that expires denies, or stays open once more for the people of
// its last escalation alone, and denies after that. It never allows. The zero
// value denies.
const (
	OnExpiryDeny     OnExpiry = "deny"
	OnExpiryEscalate OnExpiry = "escalate"
)

// Requirement says who must agree and until when. It is fixed, and part of the
// approval request's digest, when the approval request opens; the zero value is: one approver,
// any, no deadline.
//
// Who must agree falls into parts: Users, if there are any, and each of
// Approvers. Of every part Quorum distinct people must approve; one person
// counts for each part that accepts them. Without parts every approver may approve.
type Requirement struct {
	// Users may answer; empty means that no list of people is required.
	Users []string `json:"users"`
	// Deadline is the instant at which the approval request expires; zero: it waits for
	// ever.
	Deadline time.Time `json:"deadline,omitzero"`
	// Approvers are sets of people; each set must agree.
	Approvers []ApproverSet `json:"approvers,omitzero"`
	// Quorum is how many distinct people of each part must approve; 0 is one.
	Quorum int `json:"quorum,omitzero"`
	// ExcludeRequester keeps Requester, on whose behalf the call is made, from
	// answering. Without a known requester no answer is accepted.
	ExcludeRequester bool   `json:"exclude_requester,omitzero"`
	Requester        string `json:"requester,omitzero"`
	// ExcludeEditor: the approvals of Editors, who changed the arguments since
	// they were proposed, do not count.
	ExcludeEditor bool     `json:"exclude_editor,omitzero"`
	Editors       []string `json:"editors,omitzero"`
	// Signed: an approval counts only with the approver's own signature.
	Signed bool `json:"signed,omitzero"`
	// OnExpiry is what happens at Deadline; with escalate the approval request ends at
	// FinalDeadline.
	OnExpiry      OnExpiry  `json:"on_expiry,omitzero"`
	FinalDeadline time.Time `json:"final_deadline,omitzero"`
	// Remember is how far the answer may be remembered on terms. Nil: not at all
	// where rules ask; where no rule does, suggested rules may, for the session.
	Remember *RememberLimits `json:"remember,omitzero"`
}

// ApproverSet are the people whom one rule accepts: those who are listed or in one
// of the groups. An empty set accepts no one.
type ApproverSet struct {
	Rule       string           `json:"rule"`
	Users      []string         `json:"users,omitzero"`
	Groups     []string         `json:"groups,omitzero"`
	Escalation []EscalationStep `json:"escalation,omitzero"` // in the order of time
}

// EscalationStep lets further people answer from At on.
type EscalationStep struct {
	At     time.Time `json:"at"`
	Users  []string  `json:"users,omitzero"`
	Groups []string  `json:"groups,omitzero"`
}

// Plan gives the instants at which other people come to be asked, in order:
// each escalation, and the deadline if the approval request escalates then.
func (r Requirement) Plan() []time.Time {
	var out []time.Time
	for _, s := range r.Approvers {
		for _, e := range s.Escalation {
			out = append(out, e.At)
		}
	}
	if r.hasEscalation() {
		out = append(out, r.Deadline)
	}
	slices.SortFunc(out, time.Time.Compare)
	return slices.CompactFunc(out, time.Time.Equal)
}

// Ends is the instant at which the approval request denies; zero: never.
func (r Requirement) Ends() time.Time {
	if r.hasEscalation() {
		return r.FinalDeadline
	}
	return r.Deadline
}

func (r Requirement) hasEscalation() bool {
	return r.OnExpiry == OnExpiryEscalate && !r.Deadline.IsZero() && r.FinalDeadline.After(r.Deadline)
}

// NeedsGroups reports whether the groups of a person can matter.
func (r Requirement) NeedsGroups() bool {
	return slices.ContainsFunc(r.Approvers, func(s ApproverSet) bool {
		return len(s.Groups) > 0 || slices.ContainsFunc(s.Escalation, func(e EscalationStep) bool { return len(e.Groups) > 0 })
	})
}

// Relevant are those of a person's groups that the requirement names: no other
// says by what right they answer.
func (r Requirement) Relevant(groups []string) []string {
	named := func(g string) bool {
		return slices.ContainsFunc(r.Approvers, func(s ApproverSet) bool {
			return slices.Contains(s.Groups, g) || slices.ContainsFunc(s.Escalation, func(e EscalationStep) bool { return slices.Contains(e.Groups, g) })
		})
	}
	var out []string
	for _, g := range groups {
		if named(g) {
			out = append(out, g)
		}
	}
	return out
}

// stepsAt are the circles of the set that may answer when the plan has come to
// the instant at. last: only those of the last escalation.
func (s ApproverSet) stepsAt(at time.Time, last bool) []EscalationStep {
	var out []EscalationStep
	if !last {
		out = append(out, EscalationStep{Users: s.Users, Groups: s.Groups})
	}
	for i, e := range s.Escalation {
		if !at.Before(e.At) && (!last || i == len(s.Escalation)-1) {
			out = append(out, e)
		}
	}
	return out
}
