package decide

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// Results of a decision that are not an event.
var (
	// ErrUndecided: the call cannot be decided yet and stays pending.
	ErrUndecided = errors.New("cannot be decided yet")
	// ErrNoNews: the call stays hidden behind the same approval request.
	ErrNoNews = errors.New("nothing has changed")
)

// Event makes the event for a pending call that WhyUnfit accepts, from a verdict about it.
// A call that needs approval stays behind an earlier call's open approval request that
// covers it, or waits for earlier calls that may open such a request.
func (j *Judge) Event(ctx context.Context, s Snapshot, v Verdict) (toolcall.Event, error) {
	if v.NeedsApproval() {
		if behind := j.hiddenBehind(ctx, s); behind != "" {
			if s.Call.Behind == behind {
				return nil, ErrNoNews
			}
			return toolcall.Hidden{Base: toolcall.Base{At: s.Now}, Behind: behind}, nil
		}
		if j.mayOvertake(s) {
			return nil, ErrUndecided
		}
	}
	ev, err := j.MakeEvent(s.Call, v.Decision, s.Now)
	if err != nil {
		return nil, err
	}
	NoteStandingApprovals(&ev.Decision, v.StandingApprovals)
	ev.Explanation = OnRecord(v.Why)
	return ev, nil
}

// hiddenBehind finds an earlier call of the same batch whose open approval request,
// if answered with its suggested rules, would allow this call too. Asking both at once
// would be noise.
func (j *Judge) hiddenBehind(ctx context.Context, s Snapshot) message.CallID {
	for _, o := range s.Earlier {
		if o.State != message.ToolCallAsking || len(o.Suggested) == 0 || !j.isTogether(o, s.Call) || o.Tool == s.Call.Tool && o.DefinitionHash() != s.Call.DefinitionHash() {
			continue
		}
		rules := append(append([]message.PermissionRule(nil), s.Rules...), o.Suggested...)
		if j.Decide(permission.WithTrial(ctx), s.With(rules)).Behavior == message.BehaviorAllow {
			return o.Call
		}
	}
	return ""
}

// mayOvertake reports whether an earlier call of the group is still undecided: it may
// open an approval request that covers this call.
func (j *Judge) mayOvertake(s Snapshot) bool {
	return slices.ContainsFunc(s.Earlier, func(o *toolcall.Call) bool {
		return o.State == message.ToolCallPending && j.isTogether(o, s.Call) && !IsHidden(o, s.Earlier)
	})
}

// isTogether reports whether two calls of one reply may be decided at the same time.
func (j *Judge) isTogether(a, b *toolcall.Call) bool {
	return a.Order == b.Order && j.IsSafe(a.Tool) && j.IsSafe(b.Tool)
}

// IsHidden reports whether a call is hidden behind the open approval request of one of
// the others.
func IsHidden(c *toolcall.Call, others []*toolcall.Call) bool {
	for _, o := range others {
		if o.Call == c.Behind {
			return c.Behind != "" && o.State == message.ToolCallAsking
		}
	}
	return false
}

// NoteStandingApprovals records the standing approvals that a decision relies on.
func NoteStandingApprovals(d *toolcall.Decision, on []toolcall.StandingID) {
	if d.Behavior != message.BehaviorAllow || len(on) == 0 {
		return
	}
	d.Standing = on[0]
	if len(on) > 1 {
		d.Besides = on[1:]
	}
}

// ShowsHidden reports whether edited arguments still have a value where their author saw a
// mark, and that value would no longer be hidden. Such an edit is refused whole, because
// the texts of its decision may repeat the value.
func ShowsHidden(before *toolcall.ApprovalRequest, edited string, redact []string) bool {
	if before == nil || before.Salt == "" {
		return false
	}
	return slices.ContainsFunc(before.Hidden, func(path string) bool {
		place := toolcall.ApprovalRequest{Input: edited, Hidden: []string{path}, Salt: before.Salt}
		return !slices.Contains(redact, path) && place.Redacted().Input != edited
	})
}

// MakeEventAgain makes the event of a decision about edited arguments. If the same rules of
// the same bundle ask again, the plan of the earlier approval request continues, so an edit
// gains no time.
func (j *Judge) MakeEventAgain(c *toolcall.Call, asked *toolcall.Decision, d permission.Decision, now time.Time) (toolcall.Decided, error) {
	same := d.Behavior == message.BehaviorAsk && sameAsk(asked, d)
	if !same || asked.Bundle != d.Bundle || c.Request == nil {
		ev, err := j.MakeEvent(c, d, now)
		ev.EditCounts = same || d.Behavior == message.BehaviorAllow
		return ev, err
	}
	r := c.Request.Requirement
	if r.ExcludeEditor {
		r.Editors = editorsOf(c)
	}
	ev, err := j.makeEventFor(c, d, now, r)
	ev.Step, ev.EditCounts = c.Step, true
	return ev, err
}

// EditSuffices reports whether the editor's approval alone satisfies the approval request
// about the edited arguments.
func EditSuffices(ev toolcall.Decided, vote toolcall.Vote) bool {
	vote.Edited, vote.Made, vote.Step = true, ev.Digest, ev.Step
	return ev.Request.Requirement.Tally([]toolcall.Vote{vote}, ev.Digest, ev.Step).Agreed
}

// sameAsk reports whether a decision asks for the same reasons as before: the same
// rules of any bundle, or no rule and the same step. If several rules ask, Rule is only the
// first and Reason names them all, so Reason must be identical. Rules that could not be
// evaluated before may fail again, but no others may.
func sameAsk(before *toolcall.Decision, now permission.Decision) bool {
	if before == nil || before.Rule != now.Rule || before.Source != SourceOf(now) || before.Reason != now.Reason {
		return false
	}
	return !slices.ContainsFunc(now.Errors, func(re permission.RuleError) bool {
		return !slices.Contains(before.Errors, re.Error())
	})
}

// MakeEvent makes the event of a decision about a call, with the approval request to which
// responses are bound.
func (j *Judge) MakeEvent(c *toolcall.Call, d permission.Decision, now time.Time) (toolcall.Decided, error) {
	return j.makeEventFor(c, d, now, IssueRequirement(c, d, now))
}

// makeEventFor is MakeEvent with a given requirement.
func (j *Judge) makeEventFor(c *toolcall.Call, d permission.Decision, now time.Time, r toolcall.Requirement) (toolcall.Decided, error) {
	req := toolcall.ApprovalRequest{
		V: 1, Key: c.Key, Tool: c.Tool, Cwd: c.Cwd, Definition: c.Definition, Input: c.Input, Text: d.Message,
		Rule: d.Rule, Source: SourceOf(d), Reason: d.Reason, Bundle: d.Bundle,
		Requirement: r, Hidden: d.Redact,
	}
	if len(req.Hidden) > 0 {
		req.Salt = newSalt()
	}
	digest, err := req.Digest()
	if err != nil {
		return toolcall.Decided{}, err
	}
	return toolcall.Decided{
		Base: toolcall.Base{At: now}, Decision: DecisionWithRun(d), Request: req, Digest: digest,
		Suggested: d.Suggested, Placement: j.placementFor(c, d),
	}, nil
}

// IssueRequirement makes the requirement of an approval request about c. It fixes the whole
// plan and the names of excluded people.
func IssueRequirement(c *toolcall.Call, d permission.Decision, now time.Time) toolcall.Requirement {
	r := d.Requirement.Issue(now)
	if r.Users == nil {
		r.Users = []string{}
	}
	r.Remember = rememberLimits(d.Requirement.Remember)
	if r.ExcludeRequester {
		r.Requester, r.RequestersAround = c.Runtime, c.Parent.RuntimesExcept(c.Runtime)
	}
	if r.ExcludeEditor {
		r.Editors = editorsOf(c)
	}
	return r
}

// editorsOf returns who changed the call's arguments since it was proposed.
func editorsOf(c *toolcall.Call) []string {
	var out []string
	for _, v := range c.Votes {
		if v.Edited && !slices.Contains(out, v.By.Name) {
			out = append(out, v.By.Name)
		}
	}
	slices.Sort(out)
	return out
}

// SourceOf names the source of a decision: the rule's source or, if no rule decided, the
// step of the procedure.
func SourceOf(d permission.Decision) string {
	return cmp.Or(d.Source, string(d.Step))
}

// StoredDecision returns the decision as event records store it.
func StoredDecision(d permission.Decision) toolcall.Decision {
	out := toolcall.Decision{Behavior: d.Behavior, Rule: d.Rule, Source: SourceOf(d), Reason: d.Reason, Message: d.Message, Headline: d.Headline, Bundle: d.Bundle}
	if b := d.Budget; b != nil && d.Behavior == message.BehaviorAllow {
		out.Budget = &toolcall.BudgetUse{ID: b.ID(), Amount: b.Amount}
	}
	out.Recheck, out.Denial = d.Recheck, d.Denial
	for _, re := range d.Errors {
		out.Errors = append(out.Errors, re.Error())
	}
	return out
}

// rememberLimits returns, for the approval request, how far the rules that ask allow a
// response to be remembered.
func rememberLimits(r *permission.Remember) *toolcall.RememberLimits {
	if r == nil {
		return nil
	}
	return &toolcall.RememberLimits{Same: slices.Clone(r.Scope), TTLMS: r.TTL.Milliseconds(), Uses: r.Uses}
}

// newSalt makes the salt under which an approval request hides values.
func newSalt() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

// DecisionWithRun is StoredDecision with what the rules demand of the run, for an engine
// that continues the call after a crash.
func DecisionWithRun(d permission.Decision) toolcall.Decision {
	out := StoredDecision(d)
	if d.Behavior == message.BehaviorDeny {
		return out
	}
	out.Route = d.Executor.Subject
	if t := d.Executor.Timeout; t > 0 {
		out.TimeoutMS = max(t.Milliseconds(), 1)
	}
	return out
}

// placementFor is where a call runs after this decision: calls that rules route run on
// workers, even if the tool otherwise runs in the engine.
func (j *Judge) placementFor(c *toolcall.Call, d permission.Decision) toolcall.Placement {
	if d.Behavior != message.BehaviorDeny && d.Executor.Subject != "" {
		return toolcall.PlaceRemote
	}
	return j.placementOf(c)
}

// Enforce denies a call if rules demand a way of running it that the engine cannot
// enforce: an external call is run by the agent's own runtime or frontend, where a rule
// about the run has no effect. ok reports that the decision is unchanged.
func (j *Judge) Enforce(c *toolcall.Call, d permission.Decision) (out permission.Decision, ok bool) {
	var what, why string
	switch x := d.Executor; {
	case d.Behavior == message.BehaviorDeny:
		return d, true
	case x.Subject != "" && toolcall.CheckRoute(x.Subject) != nil:
		what, why = "workers of a subject", "calls cannot be routed to that subject"
	case x == (permission.Executor{}) || j.placementOf(c) != toolcall.PlaceExternal:
		return d, true
	case x.Subject != "":
		what, why = "workers on "+x.Subject, "the tool runs outside askance: the runtime that proposes its calls runs them"
	default:
		what, why = "a timeout of its run", "the tool runs outside askance: the runtime that proposes its calls runs them"
	}
	d.Behavior, d.Suggested, d.Requirement, d.Executor = message.BehaviorDeny, nil, permission.Requirement{}, permission.Executor{}
	d.Reason += "; denied, because a rule demands " + what + ", and " + why
	d.Message = "Permission denied: the policy requires " + what + " for the tool " + c.Tool + ", and " + why + "."
	return d, false
}

// Deadline is when an attempt that starts now must end: after the tool's timeout or that
// of the matching rules, whichever is shorter. Zero means never.
func (j *Judge) Deadline(c *toolcall.Call, start time.Time) time.Time {
	limit := j.tools[c.Tool].Timeout
	if d := c.Decision; d != nil && d.TimeoutMS > 0 {
		if rules := time.Duration(d.TimeoutMS) * time.Millisecond; limit <= 0 || rules < limit {
			limit = rules
		}
	}
	if limit <= 0 {
		return time.Time{}
	}
	return start.Add(limit)
}

// placementOf is where a call is to run. A call that was proposed as external stays
// external.
func (j *Judge) placementOf(c *toolcall.Call) toolcall.Placement {
	if c.Placement == toolcall.PlaceExternal {
		return c.Placement
	}
	if t, known := j.tools[c.Tool]; known {
		return t.Placement
	}
	return toolcall.PlaceLocal
}
