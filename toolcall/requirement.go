package toolcall

import (
	"slices"
	"time"
)

// OnExpiry is what happens to an approval request that is still open at its deadline.
type OnExpiry string

// An approval request that expires denies, or stays open until a final deadline only for
// the people of its last escalation, and then denies. It never allows. The zero value
// denies.
const (
	OnExpiryDeny     OnExpiry = "deny"
	OnExpiryEscalate OnExpiry = "escalate"
)

// Requirement says who must agree and until when. It is fixed, and covered by the approval
// request's digest, when the request opens. The zero value means one approver, anyone, with
// no deadline.
//
// Who must agree is divided into parts: Users, if there are any, and each of Approvers. In
// every part Quorum distinct people must approve; a person counts for each part that
// accepts them. Without parts, every approver may approve.
type Requirement struct {
	// Users may respond; if it is empty, no list of people is required.
	Users []string `json:"users"`
	// Deadline is when the approval request expires; zero means never.
	Deadline time.Time `json:"deadline,omitzero"`
	// Approvers are sets of people; each set must agree.
	Approvers []ApproverSet `json:"approvers,omitzero"`
	// Quorum is how many distinct people of each part must approve; 0 means one.
	Quorum int `json:"quorum,omitzero"`
	// ExcludeRequester excludes Requester, on whose behalf the call is made, from
	// responding. If the requester is unknown, no response is accepted.
	ExcludeRequester bool   `json:"exclude_requester,omitzero"`
	Requester        string `json:"requester,omitzero"`
	// ExcludeEditor means that approvals of Editors, who changed the arguments after they
	// were proposed, do not count.
	ExcludeEditor bool     `json:"exclude_editor,omitzero"`
	Editors       []string `json:"editors,omitzero"`
	// Signed means that an approval counts only with the approver's own signature.
	Signed bool `json:"signed,omitzero"`
	// OnExpiry is what happens at Deadline; with escalate the approval request ends at
	// FinalDeadline.
	OnExpiry      OnExpiry  `json:"on_expiry,omitzero"`
	FinalDeadline time.Time `json:"final_deadline,omitzero"`
	// Remember limits what a response may remember with terms. Nil means nothing if rules
	// ask; if no rule asks, suggested rules may be remembered for the session.
	Remember *RememberLimits `json:"remember,omitzero"`
}

// ApproverSet is the people whom one rule accepts: those listed or in one of the groups. An
// empty set accepts no one.
type ApproverSet struct {
	Rule       string           `json:"rule"`
	Users      []string         `json:"users,omitzero"`
	Groups     []string         `json:"groups,omitzero"`
	Escalation []EscalationStep `json:"escalation,omitzero"` // in the order of time
}

// EscalationStep lets more people respond from At on.
type EscalationStep struct {
	At     time.Time `json:"at"`
	Users  []string  `json:"users,omitzero"`
	Groups []string  `json:"groups,omitzero"`
}

// Plan returns the times at which other people are asked, in order: each escalation, and
// the deadline if the approval request escalates then.
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

// Ends is when the approval request denies; zero means never.
func (r Requirement) Ends() time.Time {
	if r.hasEscalation() {
		return r.FinalDeadline
	}
	return r.Deadline
}

func (r Requirement) hasEscalation() bool {
	return r.OnExpiry == OnExpiryEscalate && !r.Deadline.IsZero() && r.FinalDeadline.After(r.Deadline)
}

// NeedsGroups reports whether the groups of people matter.
func (r Requirement) NeedsGroups() bool {
	return slices.ContainsFunc(r.Approvers, func(s ApproverSet) bool {
		return len(s.Groups) > 0 || slices.ContainsFunc(s.Escalation, func(e EscalationStep) bool { return len(e.Groups) > 0 })
	})
}

// Relevant returns those of a person's groups that the requirement names. No other group
// gives them the right to respond.
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

// stepsAt returns the people of the set who may respond when the plan has reached at; with
// last, only those of the last escalation.
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
