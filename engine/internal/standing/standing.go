// Package standing handles what approvers remember for later calls: standing approvals
// with a scope, an end and a number of uses, and suggested rules that a response accepted
// unchanged.
//
// [Approvals] completes and checks what an approver wants remembered, makes the standing
// approval when the call is allowed, and applies it to later calls. A use is recorded before
// anything is allowed by it. If something cannot be read or written, nothing is allowed and
// a person is asked.
package standing

import (
	"context"
	"log/slog"

	"github.com/askance-dev/askance/engine/internal/decide"
	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/engine/internal/view"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// Policy decides for which calls a standing approval answers.
type Policy interface {
	Covers(ctx context.Context, r permission.Request, rules []message.PermissionRule) error
	Values(ctx context.Context, r permission.Request, paths []string) (map[string]string, error)
}

// Journal is where the list of uses is read from.
type Journal interface {
	History(ctx context.Context, key toolcall.Key) ([]toolcall.JournalEntry, error)
}

// Parts are what Approvals depends on.
type Parts struct {
	Space   toolcall.SpaceID
	Self    toolcall.Principal // the engine
	Policy  Policy
	Judge   *decide.Judge
	Journal Journal
	Store   *store.Store
	View    *view.View
	Log     *slog.Logger
	// Snapshot returns what a decision about a call depends on now, with the given rules of its session.
	Snapshot func(ctx context.Context, c *toolcall.Call, rules []message.PermissionRule) decide.Snapshot
	// Update changes a call.
	Update func(ctx context.Context, op string, key toolcall.Key, by toolcall.Principal, change store.Change) (*toolcall.Call, error)
}

// Approvals gives one engine access to the standing approvals of a space.
type Approvals struct{ Parts }

// New makes the standing approvals of a space.
func New(p Parts) *Approvals { return &Approvals{p} }

// policyRequest makes the policy request for a call with its session's rules.
func (a *Approvals) policyRequest(ctx context.Context, c *toolcall.Call) permission.Request {
	return a.Judge.Request(a.Snapshot(ctx, c, a.View.Rules(c)))
}

// Take takes from a rule's budget what a call claims. It returns why the rule does not
// allow the call, or "".
type Take func(ctx context.Context, c *toolcall.Call, claim toolcall.BudgetClaim) (why string)

// TakeNothing is the Take of decisions that spend nothing.
func TakeNothing(context.Context, *toolcall.Call, toolcall.BudgetClaim) string {
	return "arguments edited by an approver use no budget"
}

// maxExhausted bounds how many rules without room one decision tries.
const maxExhausted = 32

// Consult asks the policy about a call, together with the standing approvals of its
// session. The verdict names those without which the call would not be allowed; the journal
// has each of them in force. If one cannot be read, a person is asked. What the engine
// cannot carry out as the rules demand is denied. A rule whose budget has no room,
// according to take, does not allow.
func (a *Approvals) Consult(ctx context.Context, c *toolcall.Call, take Take) decide.Verdict {
	var exhausted []permission.Exhausted
	for {
		v := a.consultRules(ctx, c, exhausted)
		v.Exhausted = exhausted
		var ok bool
		if v.Decision, ok = a.Judge.Enforce(c, v.Decision); !ok {
			v.StandingApprovals = nil
		}
		claim := v.Decision.Budget
		if v.Decision.Behavior != message.BehaviorAllow || claim == nil {
			return v
		}
		why := take(ctx, c, *claim)
		switch {
		case why == "":
			return v
		case len(exhausted) >= maxExhausted:
			exhausted = permission.EveryBudget(why)
		default:
			exhausted = append(exhausted, permission.Exhausted{Rule: claim.Rule, Why: why})
		}
	}
}

func (a *Approvals) consultRules(ctx context.Context, c *toolcall.Call, exhausted []permission.Exhausted) decide.Verdict {
	for {
		rules := a.View.SessionRules(c)
		d, why := a.Judge.DecideAndExplain(ctx, a.Snapshot(ctx, c, view.WithoutStandingApprovals(rules)).WithBudgets(exhausted))
		on := a.reliesOn(ctx, c, d, rules)
		ended, err := a.hasEnded(ctx, on)
		switch {
		case err == nil && !ended:
			return decide.Verdict{Decision: d, Why: why, StandingApprovals: on, Known: len(rules)}
		case err == nil && len(a.View.SessionRules(c)) < len(rules):
			continue // the view now has the one that ended
		case err != nil:
			a.Log.Warn("cannot read standing approvals; they do not count", "call", c.Key.String(), "error", err)
		}
		d, why = a.Judge.DecideAndExplain(ctx, a.Snapshot(ctx, c, nil).WithBudgets(exhausted))
		return decide.Verdict{Decision: d, Why: why, Known: len(rules)}
	}
}

// reliesOn returns the standing approvals in the session's rules without which a decision
// would not allow: the oldest one that suffices alone or else, if only several together
// cover the call, all about the tool.
func (a *Approvals) reliesOn(ctx context.Context, c *toolcall.Call, d permission.Decision, rules []view.SessionRule) []toolcall.StandingID {
	if d.Behavior != message.BehaviorAllow || d.Step != permission.StepAllowRule || d.Budget != nil {
		return nil
	}
	byStanding := map[toolcall.StandingID][]message.PermissionRule{}
	var ids []toolcall.StandingID
	for _, r := range rules {
		if r.ToolName != c.Tool {
			continue
		}
		if byStanding[r.Standing] == nil {
			ids = append(ids, r.Standing)
		}
		byStanding[r.Standing] = append(byStanding[r.Standing], r.PermissionRule)
	}
	allows := func(rules []message.PermissionRule) bool {
		return a.Judge.Decide(permission.WithTrial(ctx), a.Snapshot(ctx, c, rules)).Behavior == message.BehaviorAllow
	}
	if len(ids) == 0 || d.Rule != permission.SessionRuleName && allows(nil) {
		return nil
	}
	for _, id := range ids {
		if allows(byStanding[id]) {
			return []toolcall.StandingID{id}
		}
	}
	return ids
}

// hasEnded reports whether the journal has one of the standing approvals as ended.
func (a *Approvals) hasEnded(ctx context.Context, ids []toolcall.StandingID) (bool, error) {
	for _, id := range ids {
		why, err := a.endedReason(ctx, id)
		if err != nil || why != "" {
			return why != "", err
		}
	}
	return false, nil
}
