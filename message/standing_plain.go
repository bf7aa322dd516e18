package message

import (
	"slices"
	"time"
)

// Granted are the standing approvals that a call's approval gave, as they were then: those
// on terms, and what its plain rules stand for.
func (c *Call) Granted() []StandingApproval {
	if l, plain := c.PlainStandingApproval(); plain {
		return append(slices.Clip(c.StandingApprovals), l)
	}
	return c.StandingApprovals
}

// Standing says how the standing approval stands at an instant.
func (l *StandingApproval) Standing(now time.Time) StandingStatus {
	out := StandingStatus{Standing: l, State: l.State(now)}
	if l.Counted() {
		left := l.UsesLeft()
		out.UsesLeft = &left
	}
	return out
}

// PlainStandingApproval is the standing approval that an allowed call's Remember stands for: the
// suggested rules that its approvers accepted as they are. It follows from any
// event record of the call after it was allowed. ok: there is one.
func (c *Call) PlainStandingApproval() (l StandingApproval, ok bool) {
	if len(c.Remember) == 0 {
		return StandingApproval{}, false
	}
	l = StandingApproval{
		ID: NewStandingID(c.Key, "plain\x00"+c.Digest), Space: c.Space, Tool: c.Tool, Plain: true,
		Terms:   StandingTerms{Rules: c.Remember, Scope: ScopeSession},
		Session: c.Session, User: c.Runtime, Agent: c.Agent,
		From: c.Key, Digest: c.Digest,
	}
	if q := c.Request; q != nil {
		l.Rule, l.Source, l.Reason = q.Rule, q.Source, q.Reason
	}
	by := c.Tally().Approvals
	if n := len(c.Votes); len(by) == 0 && n > 0 { // of an earlier release: an edit without a count
		by = c.Votes[n-1:]
	}
	for _, v := range by {
		l.GrantedBy = append(l.GrantedBy, Vote{Kind: v.Kind, By: v.By, At: v.At, Digest: v.Digest, Edited: v.Edited, Made: v.Made, Groups: v.Groups, GroupsFrom: v.GroupsFrom, Step: v.Step})
		if v.At.After(l.GrantedAt) {
			l.GrantedAt = v.At
		}
	}
	if c.Hides() { // of an earlier release: patterns are made of arguments
		l.Terms.Rules = nil
		for _, r := range c.Remember {
			content := hiddenMark + "]"
			r.RuleContent = &content
			l.Terms.Rules = append(l.Terms.Rules, r)
		}
	}
	return l, true
}
