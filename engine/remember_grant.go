package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// standingApprovalsFrom makes the standing approval that all approvals of a call agree on; none if one
// of them wants nothing remembered, or something else.
func (e *Engine) standingApprovalsFrom(ctx context.Context, c *message.Call, now time.Time) ([]message.StandingApproval, error) {
	by := c.Tally().Approvals
	if len(by) == 0 || by[0].Remember == nil || c.Request == nil {
		return nil, nil
	}
	for _, v := range by {
		if !sameTerms(v.Remember, by[0].Remember) {
			return nil, nil
		}
	}
	l := message.StandingApproval{
		ID: message.NewStandingID(c.Key, c.Digest), Space: e.space, Tool: c.Tool, Terms: *by[0].Remember,
		Rule: c.Request.Rule, Source: c.Request.Source, Reason: c.Request.Reason,
		Session: c.Session, User: c.Runtime, Agent: c.Agent, Arguments: argumentsOf(c.Input),
		From: c.Key, Digest: c.Digest, GrantedAt: now,
	}
	for _, v := range by {
		l.GrantedBy = append(l.GrantedBy, message.Vote{Kind: v.Kind, By: v.By, At: v.At, Digest: v.Digest, Edited: v.Edited, Made: v.Made, Groups: v.Groups, GroupsFrom: v.GroupsFrom, Step: v.Step})
	}
	if b := l.Terms.Budget; b != nil {
		l.Left = b.Limit
	}
	limits := c.Request.Requirement.Remember
	if limits == nil {
		l.Within = withinOf(l.Terms.Rules, c.Suggested)
		return []message.StandingApproval{l}, nil
	}
	if end := now.Add(time.Duration(limits.TTLMS) * time.Millisecond); l.Terms.Until.IsZero() || l.Terms.Until.After(end) {
		l.Terms.Until = end
	}
	var err error
	l.Same, err = e.policy.Values(ctx, e.request(c, c.Input, nil), limits.Same)
	if err != nil {
		return nil, refused("what must be the same in later calls cannot be read from this one: "+err.Error(), "approve the call without remembering it")
	}
	for path, value := range l.Same {
		l.Same[path] = short(value)
	}
	return []message.StandingApproval{l}, nil
}

// withinOf are the suggested rules, if any of the rules is an edited one.
func withinOf(rules, suggested []message.PermissionRule) []message.PermissionRule {
	for _, r := range rules {
		if !slices.ContainsFunc(suggested, func(s message.PermissionRule) bool { return sameRule(s, r) }) {
			return suggested
		}
	}
	return nil
}

// short keeps a value as it is, or a long one by its digest.
func short(value string) string {
	if len(value) <= 256 {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// argumentsOf is the digest of a call's arguments, white space apart.
func argumentsOf(input string) string {
	text, err := permission.ArgumentAt([]byte(input), nil)
	if err != nil {
		text = input
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// sameTerms compares two wishes to the dead letter.
func sameTerms(a, b *message.StandingTerms) bool {
	if a == nil || b == nil {
		return a == b
	}
	sameBudget := a.Budget == b.Budget || a.Budget != nil && b.Budget != nil && *a.Budget == *b.Budget
	return sameBudget && a.Scope == b.Scope && a.Until.Equal(b.Until) && a.Uses == b.Uses && slices.EqualFunc(a.Rules, b.Rules, sameRule)
}

// issued is how far the rules that ask let the answer be remembered, for the
// approval request.
func issued(r *permission.Remember) *message.RememberLimits {
	if r == nil {
		return nil
	}
	return &message.RememberLimits{Same: slices.Clone(r.Scope), TTLMS: r.TTL.Milliseconds(), Uses: r.Uses}
}
