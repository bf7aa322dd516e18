package permission

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/redact"
	"github.com/askance-dev/askance/toolcall"
)

// Approvers says who can respond to an approval request: listed people and members of the listed
// groups. The zero value means every approver in the space.
type Approvers struct {
	Users  []string
	Groups []string
	// ExcludeRequester excludes everyone on whose behalf the call or one around it is made.
	ExcludeRequester bool
	// ExcludeEditor: a person who changed the arguments does not count as an approver.
	ExcludeEditor bool
}

func (a Approvers) isNamed() bool { return len(a.Users)+len(a.Groups) > 0 }

// Escalation lets further people respond to an approval request that has been open for a while.
// Those who could respond before still can.
type Escalation struct {
	After time.Duration
	To    Approvers
}

// OnExpiry is what happens to an approval request that got no response in time.
type OnExpiry string

// An expired approval request denies the call, or stays open for the same time again, only for the
// people of its last escalation, and then denies. It never allows.
const (
	OnExpiryDeny     OnExpiry = "deny"
	OnExpiryEscalate OnExpiry = "escalate"
)

// Remember says what one approval can cover besides its own call: later calls of the same tool that
// match the same rules and have the same value as the approved call at every path of Scope.
type Remember struct {
	// Scope are paths such as args.customer_id, caller.user or ctx.cwd. If empty, any call that the
	// rules match is covered.
	Scope []string
	// TTL is how long it lasts, starting at the approval.
	TTL time.Duration
	// Uses is how many further calls it allows; 0 means any number until TTL.
	Uses int
}

// Executor routes an allowed call. The zero value leaves it to the tool.
type Executor struct {
	// Subject is the subject on which workers take the call, without wildcards.
	Subject string
	// Timeout bounds one run; 0 means the tool's own timeout.
	Timeout time.Duration
}

// AuditLevel says how much of a call is kept in the record of decisions. The zero value means
// AuditStandard.
type AuditLevel string

// The levels, from least to most.
const (
	AuditStandard AuditLevel = "standard" // only what event records contain anyway
	AuditFull     AuditLevel = "full"     // also the explanation of the decision
)

// Duty is a key of a rule that this package only states and the engine must enforce.
type Duty string

// The duties, by the key that imposes them.
const (
	DutyUsers            Duty = "approvers.users"
	DutyGroups           Duty = "approvers.groups"
	DutyExcludeRequester Duty = "approvers.exclude_requester"
	DutyExcludeEditor    Duty = "approvers.exclude_editor"
	DutyQuorum           Duty = "quorum"
	DutySigned           Duty = "signed"
	DutyExpiry           Duty = "expiry"
	DutyOnExpiry         Duty = "on_expiry" // escalate; an approval request that expires denies anyway
	DutyEscalation       Duty = "escalation"
	DutyRemember         Duty = "remember"
	DutyRedact           Duty = "redact"
	DutyExecutorSubject  Duty = "executor.subject"
	DutyExecutorTimeout  Duty = "executor.timeout"
	DutyAudit            Duty = "audit"
	DutyBudget           Duty = "budget"
	DutyRecheck          Duty = "recheck"
)

var basicDuties = []Duty{DutyUsers, DutyExpiry}

// Requirement says what an ask needs: what all matching rules together require. The zero value
// means one approver, anyone, no deadline.
type Requirement struct {
	// Users can respond; if empty, any approver can.
	Users []string `json:"users"`
	// Approvers must each agree, in addition to Users. There is one set for each matching rule that
	// names groups or escalates.
	Approvers []ApproverSet `json:"approvers"`
	// Quorum is how many people of Users and of each set without its own quorum must approve; 0
	// means one.
	Quorum int `json:"quorum"`
	// ExcludeRequester excludes everyone on whose behalf the call or one around it is made.
	ExcludeRequester bool `json:"exclude_requester"`
	// ExcludeEditor: a person who changes the arguments does not count as an approver.
	ExcludeEditor bool `json:"exclude_editor"`
	// Signed: approvals count only with the approver's own signature.
	Signed bool `json:"signed"`
	// Expiry is how long the approval request stays open; 0 means forever. In JSON it is in
	// milliseconds, as expiry_ms, which a reader of a Requirement must read apart.
	Expiry time.Duration `json:"-"`
	// OnExpiry is what happens then; empty means OnExpiryDeny.
	OnExpiry OnExpiry `json:"on_expiry"`
	// Remember says what an approval covers beyond its call; nil means nothing.
	Remember *Remember `json:"remember"`
}

// ApproverSet are the people that one rule accepts.
type ApproverSet struct {
	Rule       string       `json:"rule"`
	Quorum     int          `json:"quorum,omitzero"` // 0 means that of the requirement
	Users      []string     `json:"users"`
	Groups     []string     `json:"groups"`
	Escalation []Escalation `json:"escalation"`
}

// Duties are what the engine must enforce to open the approval request.
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
	add(DutyQuorum, r.HighestQuorum() > 1)
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

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Escalation) UnmarshalJSON(b []byte) error {
	var w struct {
		AfterMS int64    `json:"after_ms"`
		Users   []string `json:"users"`
		Groups  []string `json:"groups"`
	}
	err := strictjson.UnmarshalOpen(b, &w)
	*e = Escalation{After: time.Duration(w.AfterMS) * time.Millisecond, To: Approvers{Users: w.Users, Groups: w.Groups}}
	return err
}

// MarshalJSON writes the duration in milliseconds.
func (r Remember) MarshalJSON() ([]byte, error) {
	return strictjson.Marshal(struct {
		Scope []string `json:"scope"`
		TTLMS int64    `json:"ttl_ms"`
		Uses  int      `json:"uses"`
	}{r.Scope, r.TTL.Milliseconds(), r.Uses})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Remember) UnmarshalJSON(b []byte) error {
	var w struct {
		Scope []string `json:"scope"`
		TTLMS int64    `json:"ttl_ms"`
		Uses  int      `json:"uses"`
	}
	err := strictjson.UnmarshalOpen(b, &w)
	*r = Remember{Scope: w.Scope, TTL: time.Duration(w.TTLMS) * time.Millisecond, Uses: w.Uses}
	return err
}

// MarshalJSON writes the duration in milliseconds.
func (e Executor) MarshalJSON() ([]byte, error) {
	return strictjson.Marshal(struct {
		Subject   string `json:"subject"`
		TimeoutMS int64  `json:"timeout_ms"`
	}{e.Subject, e.Timeout.Milliseconds()})
}

func (r Requirement) quorum() int { return max(r.Quorum, 1) }

// HighestQuorum is how many people must approve where most are needed.
func (r Requirement) HighestQuorum() int {
	most := r.quorum()
	for _, s := range r.Approvers {
		most = max(most, s.Quorum)
	}
	return most
}

func (r Requirement) onExpiry() OnExpiry { return cmp.Or(r.OnExpiry, OnExpiryDeny) }

func (r *Rule) onExpiry() OnExpiry { return cmp.Or(r.OnExpiry, OnExpiryDeny) }

// Issue returns the requirement of an approval request that opens at the given time, with its whole
// escalation plan. The caller adds the excluded people and handles Remember.
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
	out := toolcall.ApproverSet{Rule: s.Rule, Quorum: s.Quorum, Users: slices.Clone(s.Users), Groups: slices.Clone(s.Groups)}
	for _, e := range s.Escalation {
		out.Escalation = append(out.Escalation, toolcall.EscalationStep{At: now.Add(e.After), Users: slices.Clone(e.To.Users), Groups: slices.Clone(e.To.Groups)})
	}
	slices.SortStableFunc(out.Escalation, func(a, b toolcall.EscalationStep) int { return a.At.Compare(b.At) })
	return out
}

// Duties are what the engine must enforce to act on the decision.
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
	if d.Budget != nil {
		out = append(out, DutyBudget)
	}
	if len(d.Recheck) > 0 {
		out = append(out, DutyRecheck)
	}
	return out
}

// joinRequirements joins the requirements of all rules that ask. failed says that some could not be
// evaluated: they ask, and nothing can be remembered.
func joinRequirements(rules []*Rule, failed bool) Requirement {
	var req Requirement
	for i, r := range rules {
		req.addApprovers(r)
		req.ExcludeRequester = req.ExcludeRequester || r.Approvers.ExcludeRequester
		req.ExcludeEditor = req.ExcludeEditor || r.Approvers.ExcludeEditor
		req.Signed = req.Signed || r.Signed
		req.Expiry = shorterOf(req.Expiry, r.Expiry)
		if i == 0 || r.onExpiry() == OnExpiryDeny {
			req.OnExpiry = r.onExpiry()
		}
		req.Remember = joinRemember(req.Remember, r, i == 0)
	}
	if failed {
		req.Remember = nil
	}
	req.joinQuorums(rules)
	return req
}

// joinQuorums makes the quorum of a rule that names no people hold in every part.
func (r *Requirement) joinQuorums(rules []*Rule) {
	every := 0
	for _, rule := range rules {
		if !rule.Approvers.isNamed() {
			every = max(every, rule.Quorum)
		}
	}
	r.Quorum = max(r.Quorum, every)
	for i := range r.Approvers {
		s := &r.Approvers[i]
		if s.Quorum = max(s.Quorum, every); r.Users == nil {
			r.Quorum = max(r.Quorum, s.Quorum)
		}
	}
	for i := range r.Approvers {
		if s := &r.Approvers[i]; s.Quorum == r.quorum() {
			s.Quorum = 0
		}
	}
}

// addApprovers narrows who can respond to those that the rule also accepts.
func (r *Requirement) addApprovers(rule *Rule) {
	a := rule.Approvers
	switch {
	case !a.isNamed():
	case len(a.Groups) == 0 && len(rule.Escalation) == 0:
		r.Quorum = max(r.Quorum, rule.Quorum)
		if r.Users != nil {
			r.Users = slices.DeleteFunc(r.Users, func(u string) bool { return !slices.Contains(a.Users, u) })
		} else {
			r.Users = slices.Sorted(slices.Values(a.Users))
		}
	default:
		r.Approvers = append(r.Approvers, ApproverSet{
			Rule: rule.Name, Quorum: max(rule.Quorum, 1), Users: slices.Sorted(slices.Values(a.Users)), Groups: slices.Sorted(slices.Values(a.Groups)),
			Escalation: slices.Clone(rule.Escalation),
		})
		slices.SortFunc(r.Approvers, func(x, y ApproverSet) int { return cmp.Compare(x.Rule, y.Rule) })
	}
}

// shorterOf returns the shorter of two times, where 0 means none.
func shorterOf[T ~int | ~int64](a, b T) T {
	if a == 0 || (b > 0 && b < a) {
		return b
	}
	return a
}

// joinRemember keeps what all rules allow to be remembered; nothing if one of them allows nothing.
func joinRemember(so *Remember, r *Rule, first bool) *Remember {
	m := r.Remember
	switch {
	case m == nil || r.Behavior != message.BehaviorAsk, !first && so == nil:
		return nil
	case first:
		return &Remember{Scope: slices.Sorted(slices.Values(m.Scope)), TTL: m.TTL, Uses: m.Uses}
	}
	scope := slices.Concat(so.Scope, m.Scope)
	slices.Sort(scope)
	return &Remember{Scope: slices.Compact(scope), TTL: shorterOf(so.TTL, m.TTL), Uses: shorterOf(so.Uses, m.Uses)}
}

// countPeople counts the people behind names, except the excluded ones.
func countPeople(names, excluded []string) int {
	people := toolcall.People(names)
	return len(slices.DeleteFunc(people, func(name string) bool {
		return slices.ContainsFunc(excluded, func(other string) bool { return toolcall.IsSamePerson(name, other) })
	}))
}

// hasEnoughPeople reports whether enough people can be left to respond, on the plain lists and in
// each set separately. If groups take part this is unknown, and the result is true.
func (r *Requirement) hasEnoughPeople(requesters []string) bool {
	var excluded []string
	if r.ExcludeRequester {
		excluded = requesters
	}
	left := func(people []string, need int) bool { return countPeople(people, excluded) >= max(need, 1) }
	if r.Users != nil && !left(r.Users, r.Quorum) {
		return false
	}
	return !slices.ContainsFunc(r.Approvers, func(s ApproverSet) bool {
		people, known := (Approvers{Users: s.Users, Groups: s.Groups}).people(s.Escalation)
		return known && !left(people, cmp.Or(s.Quorum, r.Quorum))
	})
}

// handling is how matching rules want a call to be handled, even if another rule decides.
type handling struct {
	hidden   []redact.Path
	redact   []string
	executor Executor
	audit    AuditLevel
	conflict string // two rules that name different executors
}

// addRule joins a rule into the handling of a call. A rule that could not be evaluated still hides
// what it names.
func (h *handling) addRule(r *Rule, failed bool) {
	for _, text := range r.Redact {
		if p, err := parsePath(text); err == nil && !slices.Contains(h.redact, text) {
			h.hidden, h.redact = append(h.hidden, p), append(h.redact, text)
		}
	}
	if r.Audit == AuditFull {
		h.audit = AuditFull
	}
	if failed && r.Behavior == message.BehaviorAllow {
		return // the rule does not match, so it routes nothing
	}
	h.executor.Timeout = shorterOf(h.executor.Timeout, r.Executor.Timeout)
	switch subject := r.Executor.Subject; {
	case subject == "" || subject == h.executor.Subject:
	case h.executor.Subject == "":
		h.executor.Subject = subject
	default:
		names := []string{subject, h.executor.Subject}
		slices.Sort(names)
		h.conflict = cmp.Or(h.conflict, "rules name different executors: "+strings.Join(names, ", "))
	}
}
