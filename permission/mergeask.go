package permission

import (
	"cmp"
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/redact"
)

// This file joins what several rules require into one requirement that is at
// least as strict as each of them.

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
func (req *Requirement) addApprovers(r *Rule) {
	a := r.Approvers
	switch {
	case !a.isNamed():
	case len(a.Groups) == 0 && len(r.Escalation) == 0:
		if req.Users != nil {
			req.Users = slices.DeleteFunc(req.Users, func(u string) bool { return !slices.Contains(a.Users, u) })
		} else {
			req.Users = slices.Sorted(slices.Values(a.Users))
		}
	default:
		req.Approvers = append(req.Approvers, ApproverSet{
			Rule: r.Name, Users: slices.Sorted(slices.Values(a.Users)), Groups: slices.Sorted(slices.Values(a.Groups)),
			Escalation: slices.Clone(r.Escalation),
		})
		slices.SortFunc(req.Approvers, func(x, y ApproverSet) int { return cmp.Compare(x.Rule, y.Rule) })
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
func (req *Requirement) hasEnoughPeople(requester string) bool {
	left := func(people []string) bool {
		n := len(people)
		if req.ExcludeRequester && slices.Contains(people, requester) {
			n--
		}
		return n >= req.quorum()
	}
	if req.Users != nil && !left(req.Users) {
		return false
	}
	return !slices.ContainsFunc(req.Approvers, func(s ApproverSet) bool {
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

// addRule joins a rule into the handling of a call. Those that could not be
// evaluated hide what they name.
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
