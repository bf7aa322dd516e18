package standing

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine/internal/decide"
	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// This file lets standing approvals answer approval requests of the policy. Deny rules, and
// requests that no standing approval may answer, come first. Nothing is allowed before its
// use is recorded.

// ResponseFor finds a standing approval that answers the approval request which the policy
// wants to open about a call. It answers only if use, such as Spend, accepts that.
// On any error a person is asked.
func (a *Approvals) ResponseFor(ctx context.Context, c *toolcall.Call, d permission.Decision, use func(ctx context.Context, sa *toolcall.StandingApproval, c *toolcall.Call, amount string) error) (permission.Decision, toolcall.StandingID) {
	if d.Behavior != message.BehaviorAsk || d.BypassImmune || len(d.Errors) > 0 || len(d.Redact) > 0 {
		return d, ""
	}
	now := store.JournalTime()
	for _, sa := range a.View.Book.OfTool(c.Tool, toolcall.SpentBy(c.Key, c.Input), now) {
		if !isInScope(sa, c) || !a.answersFor(ctx, sa, c, d, a.View.Book.Clock(sa, now)) {
			continue
		}
		amount, err := amountOf(c.Input, sa.Terms.Budget)
		if err == nil {
			err = use(ctx, sa, c, amount)
		}
		if err != nil {
			a.Log.Info("a standing approval does not answer", "standing_approval", string(sa.ID), "call", c.Key.String(), "error", err)
			continue
		}
		out := d
		out.Behavior, out.Suggested, out.Requirement = message.BehaviorAllow, nil, permission.Requirement{}
		out.Reason = "remembered as " + string(sa.ID) + " by " + nameGrantors(sa) + "; " + d.Reason
		return out, sa.ID
	}
	return d, ""
}

func nameGrantors(s *toolcall.StandingApproval) string {
	names := make([]string, len(s.GrantedBy))
	for i, v := range s.GrantedBy {
		names[i] = v.By.Name
	}
	return strings.Join(names, ", ")
}

func isInScope(s *toolcall.StandingApproval, c *toolcall.Call) bool {
	if s.Definition != c.DefinitionHash() {
		return false
	}
	switch s.Terms.Scope {
	case toolcall.ScopeCallLike:
		return c.Session == s.Session && argumentsOf(c) == s.Arguments
	case toolcall.ScopeSession:
		return c.Session == s.Session
	case toolcall.ScopeAgent:
		return c.Runtime == s.User && c.Agent == s.Agent && s.Agent != ""
	case toolcall.ScopeUser:
		return c.Runtime == s.User
	case toolcall.ScopeSpace:
		return true
	}
	return false
}

// answersFor reports whether a standing approval answers the approval request that the
// policy wants to open: it is the same request as before, within what the policy now allows
// to be remembered, and the approval's rules cover the call.
func (a *Approvals) answersFor(ctx context.Context, sa *toolcall.StandingApproval, c *toolcall.Call, d permission.Decision, now time.Time) bool {
	if d.Rule != sa.Rule || decide.SourceOf(d) != sa.Source || d.Reason != sa.Reason {
		return false
	}
	req := a.policyRequest(ctx, c)
	if sa.Rule != "" && !a.ruleLets(ctx, req, sa, c, d, now) {
		return false
	}
	if a.Policy.Covers(ctx, req, sa.Terms.Rules) != nil {
		return false
	}
	return len(sa.Within) == 0 || a.Policy.Covers(ctx, req, sa.Within) == nil
}

// ruleLets checks the approval against what the rules that ask allow to be remembered now:
// they may have become stricter about the terms or about who must agree.
func (a *Approvals) ruleLets(ctx context.Context, req permission.Request, sa *toolcall.StandingApproval, c *toolcall.Call, d permission.Decision, now time.Time) bool {
	r := d.Requirement.Remember
	if r == nil || !now.Before(sa.GrantedAt.Add(r.TTL)) {
		return false
	}
	counted := slices.Contains(sa.Spent, toolcall.SpentBy(c.Key, c.Input))
	if r.Uses > 0 && !counted && (!sa.Counted() || len(sa.Spent) >= r.Uses) {
		return false
	}
	paths := slices.Sorted(maps.Keys(sa.Same))
	for _, p := range r.Scope {
		if !slices.Contains(paths, p) {
			return false // no approver approved a value for it
		}
	}
	values, err := a.Policy.Values(ctx, req, paths)
	if err != nil {
		return false
	}
	for path, value := range values {
		if shortenValue(value) != sa.Same[path] {
			return false
		}
	}
	votes := slices.Clone(sa.GrantedBy)
	for i := range votes { // as if they answered this approval request
		votes[i].Digest, votes[i].Edited, votes[i].Made = sa.Digest, false, ""
	}
	return decide.IssueRequirement(c, d, now).Tally(votes, sa.Digest, 0).Agreed
}

// Spend checks in the journal that a standing approval is in force and, if its uses are
// counted, records the use for this call.
func (a *Approvals) Spend(ctx context.Context, sa *toolcall.StandingApproval, c *toolcall.Call, amount string) error {
	entity := store.Entity[*toolcall.StandingApproval]{
		Key:   sa.Key(),
		Known: func() (*toolcall.StandingApproval, uint64, bool) { return sa, sa.Seq, sa.Counted() }, // else no write would find out whether it was revoked
		Read: func(ctx context.Context) (*toolcall.StandingApproval, uint64, error) {
			last, err := a.Store.LastStandingApproval(ctx, sa)
			if err != nil {
				return nil, 0, err
			}
			return last, last.Seq, nil
		},
	}
	_, _, err := store.Update(ctx, a.Store, entity, func(_ context.Context, sa *toolcall.StandingApproval) (*toolcall.EventRecord, error) {
		now := store.JournalTime()
		next, err := sa.Spend(c.Key, c.Input, amount, a.View.Book.Clock(sa, now))
		switch {
		case err != nil:
			return nil, err
		case next == nil || !sa.Counted():
			return nil, store.ErrNoChange
		}
		rec := a.Store.NewRecord(a.Self, now)
		rec.Standing = next
		return rec, nil
	})
	if errors.Is(err, store.ErrNoChange) {
		return nil
	}
	return err
}

// EndedReason returns why a call that standing approvals allowed must no longer begin, or ""
// if it may. An approval that is used up has already counted this call.
func (a *Approvals) EndedReason(ctx context.Context, c *toolcall.Call) (string, error) {
	for _, id := range c.Decision.StandingApprovals() {
		if why, err := a.endedReason(ctx, id); err != nil || why != "" {
			return why, err
		}
	}
	return "", nil
}

// endedReason returns why a standing approval has ended, according to the journal; "" if
// it has not, or is only used up.
func (a *Approvals) endedReason(ctx context.Context, id toolcall.StandingID) (string, error) {
	sa, err := a.Store.LastStandingApproval(ctx, cmp.Or(a.View.Book.Get(id), &toolcall.StandingApproval{ID: id, Space: a.Space}))
	if err != nil {
		return "", err
	}
	if sa.GrantedAt.IsZero() {
		return "the standing approval " + string(id) + " that allowed it is unknown", nil
	}
	if state := sa.State(a.View.Book.Clock(sa, store.JournalTime())); state == toolcall.StandingRevoked || state == toolcall.StandingExpired {
		return "the standing approval " + string(id) + " that allowed it is " + string(state), nil
	}
	return "", nil
}
