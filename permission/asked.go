package permission

import (
	"cmp"
	"slices"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/toolcall"
)

// Requirement says what an ask needs: what all matching rules require
// together. The zero value: one approver, any, no deadline.
type Requirement struct {
	// Users may answer; empty: any approver.
	Users []string
	// Approvers must each agree, besides Users: Quorum people of every set. There
	// is one for each matching rule that names groups or escalates.
	Approvers []ApproverSet
	// Quorum is how many distinct people must approve; 0 is one.
	Quorum int
	// ExcludeRequester keeps the person on whose behalf the call is made out.
	ExcludeRequester bool
	// ExcludeEditor: a person who changes the arguments does not count as an
	// approver of them.
	ExcludeEditor bool
	// Signed: approvals count only with the approver's own signature.
	Signed bool
	// Expiry is how long the approval request stays open; 0: for ever.
	Expiry time.Duration
	// OnExpiry is what happens then; empty is OnExpiryDeny.
	OnExpiry OnExpiry
	// Remember says what an approval covers beyond its call; nil: nothing.
	Remember *Remember
}

// ApproverSet are the people whom one rule accepts.
type ApproverSet struct {
	Rule       string       `json:"rule"`
	Users      []string     `json:"users"`
	Groups     []string     `json:"groups"`
	Escalation []Escalation `json:"escalation"`
}

// Accepts reports whether the set accepts a person, with their groups, when
// the approval request has been open for some time.
func (s ApproverSet) Accepts(user string, groups []string, open time.Duration) bool {
	if acceptsPerson(s.Users, s.Groups, user, groups) {
		return true
	}
	return slices.ContainsFunc(s.Escalation, func(e Escalation) bool {
		return open >= e.After && acceptsPerson(e.To.Users, e.To.Groups, user, groups)
	})
}

func acceptsPerson(users, groups []string, user string, of []string) bool {
	if len(users)+len(groups) == 0 || slices.Contains(users, user) {
		return true
	}
	return slices.ContainsFunc(of, func(g string) bool { return slices.Contains(groups, g) })
}

// Accepts reports whether a person is one whom all rules accept, when the
// approval request has been open for some time: one who, with a quorum of one, can
// answer alone. requester is the person on whose behalf the call is made.
func (r Requirement) Accepts(user string, groups []string, requester string, open time.Duration) bool {
	switch {
	case user == "", r.ExcludeRequester && (requester == "" || user == requester):
		return false // an unknown requester cannot be excluded
	case len(r.Users) > 0 && !slices.Contains(r.Users, user):
		return false
	}
	return !slices.ContainsFunc(r.Approvers, func(s ApproverSet) bool { return !s.Accepts(user, groups, open) })
}

// Duties are what the engine must be able to do to ask the approval request.
func (r Requirement) Duties() []Duty {
	var out []Duty
	add := func(d Duty, need bool) {
		if need && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	add(DutyUsers, len(r.Users) > 0)
	for _, s := range r.Approvers {
		add(DutyUsers, len(s.Users) > 0)
		add(DutyGroups, len(s.Groups) > 0)
		add(DutyEscalation, len(s.Escalation) > 0)
	}
	add(DutyQuorum, r.Quorum > 1)
	add(DutyExcludeRequester, r.ExcludeRequester)
	add(DutyExcludeEditor, r.ExcludeEditor)
	add(DutySigned, r.Signed)
	add(DutyExpiry, r.Expiry > 0)
	add(DutyOnExpiry, r.OnExpiry == OnExpiryEscalate)
	add(DutyRemember, r.Remember != nil)
	return out
}

// MarshalJSON writes durations in milliseconds.
func (r Requirement) MarshalJSON() ([]byte, error) {
	return strictjson.Marshal(struct {
		Users            []string      `json:"users"`
		Approvers        []ApproverSet `json:"approvers"`
		Quorum           int           `json:"quorum"`
		ExcludeRequester bool          `json:"exclude_requester"`
		ExcludeEditor    bool          `json:"exclude_editor,omitzero"`
		Signed           bool          `json:"signed,omitzero"`
		ExpiryMS         int64         `json:"expiry_ms"`
		OnExpiry         OnExpiry      `json:"on_expiry"`
		Remember         *Remember     `json:"remember,omitzero"`
	}{r.Users, r.Approvers, r.quorum(), r.ExcludeRequester, r.ExcludeEditor, r.Signed, r.Expiry.Milliseconds(), r.onExpiry(), r.Remember})
}

// MarshalJSON writes the duration in milliseconds.
func (e Escalation) MarshalJSON() ([]byte, error) {
	return strictjson.Marshal(struct {
		AfterMS int64    `json:"after_ms"`
		Users   []string `json:"users"`
		Groups  []string `json:"groups"`
	}{e.After.Milliseconds(), e.To.Users, e.To.Groups})
}

// MarshalJSON writes the duration in milliseconds.
func (r Remember) MarshalJSON() ([]byte, error) {
	return strictjson.Marshal(struct {
		Scope []string `json:"scope"`
		TTLMS int64    `json:"ttl_ms"`
		Uses  int      `json:"uses"`
	}{r.Scope, r.TTL.Milliseconds(), r.Uses})
}

// MarshalJSON writes the duration in milliseconds.
func (x Executor) MarshalJSON() ([]byte, error) {
	return strictjson.Marshal(struct {
		Subject   string `json:"subject"`
		TimeoutMS int64  `json:"timeout_ms"`
	}{x.Subject, x.Timeout.Milliseconds()})
}

func (r Requirement) quorum() int { return max(r.Quorum, 1) }

func (r Requirement) onExpiry() OnExpiry { return cmp.Or(r.OnExpiry, OnExpiryDeny) }

func (r *Rule) onExpiry() OnExpiry { return cmp.Or(r.OnExpiry, OnExpiryDeny) }

// Issue gives the requirement of an approval request that opens at the given instant,
// with its whole plan. The caller adds the people who are excluded, and what
// to do with Remember.
func (r Requirement) Issue(now time.Time) toolcall.Requirement {
	out := toolcall.Requirement{Users: slices.Clone(r.Users), ExcludeRequester: r.ExcludeRequester, ExcludeEditor: r.ExcludeEditor, Signed: r.Signed}
	if r.Quorum > 1 {
		out.Quorum = r.Quorum
	}
	for _, s := range r.Approvers {
		out.Approvers = append(out.Approvers, s.issue(now))
	}
	if r.Expiry > 0 {
		out.Deadline = now.Add(r.Expiry)
		if r.OnExpiry == OnExpiryEscalate {
			out.OnExpiry, out.FinalDeadline = toolcall.OnExpiryEscalate, now.Add(2*r.Expiry)
		}
	}
	return out
}

func (s ApproverSet) issue(now time.Time) toolcall.ApproverSet {
	out := toolcall.ApproverSet{Rule: s.Rule, Users: slices.Clone(s.Users), Groups: slices.Clone(s.Groups)}
	for _, e := range s.Escalation {
		out.Escalation = append(out.Escalation, toolcall.EscalationStep{At: now.Add(e.After), Users: slices.Clone(e.To.Users), Groups: slices.Clone(e.To.Groups)})
	}
	slices.SortStableFunc(out.Escalation, func(a, b toolcall.EscalationStep) int { return a.At.Compare(b.At) })
	return out
}

// Duties are what the engine must be able to do to act on the decision.
func (d Decision) Duties() []Duty {
	out := d.Requirement.Duties()
	if len(d.Redact) > 0 {
		out = append(out, DutyRedact)
	}
	if d.Executor.Subject != "" {
		out = append(out, DutyExecutorSubject)
	}
	if d.Executor.Timeout > 0 {
		out = append(out, DutyExecutorTimeout)
	}
	if d.Audit == AuditFull {
		out = append(out, DutyAudit)
	}
	return out
}
