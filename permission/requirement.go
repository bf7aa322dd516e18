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

// Approvers says who may answer an approval request: a person who is listed, or who is
// in one of the groups. The zero value is every approver of the space.
type Approvers struct {
	Users  []string
	Groups []string
	// ExcludeRequester keeps the person on whose behalf the call is made from
	// answering.
	ExcludeRequester bool
	// ExcludeEditor: a person who changed the arguments does not count as an
	// approver of them.
	ExcludeEditor bool
}

func (a Approvers) isNamed() bool { return len(a.Users)+len(a.Groups) > 0 }

// Escalation lets further people answer an approval request that has been open for a
// while. Those who could answer before still can.
type Escalation struct {
	After time.Duration
	To    Approvers
}

// OnExpiry is what happens to an approval request that was not answered in time.
type OnExpiry string

// An expired approval request denies, or stays open for the people of its last
// escalation alone, once more for the same time, and then denies. It never
// allows.
const (
	OnExpiryDeny     OnExpiry = "deny"
	OnExpiryEscalate OnExpiry = "escalate"
)

// Remember says what one approval may answer besides its own call: later calls
// of the same tool that match the same rules and whose values at every path of
// Scope are those of the approved call.
type Remember struct {
	// Scope are paths such as args.customer_id, caller.user or ctx.cwd. Empty:
	// any call that the rules match.
	Scope []string
	// TTL is how long it lasts from the approval on.
	TTL time.Duration
	// Uses is how many further calls it answers; 0: any number until TTL.
	Uses int
}

// Executor routes an allowed call. The zero value leaves it to the tool.
type Executor struct {
	// Subject is where workers take the call, a subject without wildcards.
	Subject string
	// Timeout bounds one run; 0: the tool's own.
	Timeout time.Duration
}

// AuditLevel says how much of a call is kept in the record of decisions. The
// zero value is AuditStandard.
type AuditLevel string

// The levels, from the least to the most.
const (
	AuditStandard AuditLevel = "standard" // what event records hold anyway
	AuditFull     AuditLevel = "full"     // besides, the explanation of the decision
)

// Duty is a key of a rule that this package only states: the engine must carry
// it out.
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
	if d.Budget != nil {
		out = append(out, DutyBudget)
	}
	if len(d.Recheck) > 0 {
		out = append(out, DutyRecheck)
	}
	return out
}

// joinRequirements joins the requirements of all rules that ask. failed are rules that
// could not be evaluated: they ask, and let nothing be remembered.
func joinRequirements(rules []*Rule, failed bool) Requirement {
	var req Requirement
	for i, r := range rules {
		req.addApprovers(r)
		req.Quorum = max(req.Quorum, r.Quorum)
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
	return req
}

// addApprovers narrows who may answer to those whom the rule accepts as well.
func (r *Requirement) addApprovers(rule *Rule) {
	a := rule.Approvers
	switch {
	case !a.isNamed():
	case len(a.Groups) == 0 && len(rule.Escalation) == 0:
		if r.Users != nil {
			r.Users = slices.DeleteFunc(r.Users, func(u string) bool { return !slices.Contains(a.Users, u) })
		} else {
			r.Users = slices.Sorted(slices.Values(a.Users))
		}
	default:
		r.Approvers = append(r.Approvers, ApproverSet{
			Rule: rule.Name, Users: slices.Sorted(slices.Values(a.Users)), Groups: slices.Sorted(slices.Values(a.Groups)),
			Escalation: slices.Clone(rule.Escalation),
		})
		slices.SortFunc(r.Approvers, func(x, y ApproverSet) int { return cmp.Compare(x.Rule, y.Rule) })
	}
}

// shorterOf is the shorter of two times; 0 is none.
func shorterOf[T ~int | ~int64](a, b T) T {
	if a == 0 || (b > 0 && b < a) {
		return b
	}
	return a
}

// joinRemember covers what all rules let be remembered: nothing if one of them
// lets nothing.
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

// hasEnoughPeople reports whether enough people can be left to answer: of the plain
// lists, and of each set, which agree each for itself. Where groups take part
// this is unknown.
func (r *Requirement) hasEnoughPeople(requester string) bool {
	left := func(people []string) bool {
		n := len(people)
		if r.ExcludeRequester && slices.Contains(people, requester) {
			n--
		}
		return n >= r.quorum()
	}
	if r.Users != nil && !left(r.Users) {
		return false
	}
	return !slices.ContainsFunc(r.Approvers, func(s ApproverSet) bool {
		people, known := (Approvers{Users: s.Users, Groups: s.Groups}).people(s.Escalation)
		return known && !left(people)
	})
}

// handling is how the rules that match want a call to be treated, also if
// another rule decides.
type handling struct {
	hidden   []redact.Path
	redact   []string
	executor Executor
	audit    AuditLevel
	conflict string // two rules that name different executors
}

// addRule joins a rule into the handling of a call; one that could not be
// evaluated hides what it names.
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
		return // it does not match, and so routes nothing
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
