package decide

import (
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

// The ends of a decision that are no event.
var (
	// ErrUndecided: the call cannot be decided yet, and stays pending.
	ErrUndecided = errors.New("not to be decided yet")
	// ErrNoNews: the call is pending behind the approval request that it is hidden behind.
	ErrNoNews = errors.New("nothing has changed")
)

// Event decides about a pending call that is fit, by a verdict about it. A call
// that would be asked about stays behind the open approval request of an earlier one that
// covers it, or waits for earlier ones that may ask such an approval request.
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
// answered with its suggested rules, would allow this call as well. Asking twice
// at once would be noise.
func (j *Judge) hiddenBehind(ctx context.Context, s Snapshot) message.CallID {
	for _, o := range s.Earlier {
		if o.State != message.ToolCallAsking || len(o.Suggested) == 0 || !j.isTogether(o, s.Call) || o.Tool == s.Call.Tool && o.DefinitionHash() != s.Call.DefinitionHash() {
			continue
		}
		rules := append(append([]message.PermissionRule(nil), s.Rules...), o.Suggested...)
		if j.Decide(ctx, s.With(rules)).Behavior == message.BehaviorAllow {
			return o.Call
		}
	}
	return ""
}

// mayOvertake reports whether an earlier call of the group is still to be decided:
// it may ask, and this one be covered by its approval request.
func (j *Judge) mayOvertake(s Snapshot) bool {
	for _, o := range s.Earlier {
		if o.State == message.ToolCallPending && j.isTogether(o, s.Call) && !IsHidden(o, s.Earlier) {
			return true
		}
	}
	return false
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

// NoteStandingApprovals notes the standing approvals that a decision relies on.
func NoteStandingApprovals(d *toolcall.Decision, on []toolcall.StandingID) {
	if d.Behavior != message.BehaviorAllow || len(on) == 0 {
		return
	}
	if d.Standing = on[0]; len(on) > 1 {
		d.Besides = on[1:]
	}
}

// ShowsHidden reports whether edited arguments have something left in a place that
// was hidden from their author and would not be hidden any more. The decision
// about them may repeat it in its texts, so that nothing of it is kept.
func ShowsHidden(before *toolcall.ApprovalRequest, edited string, redact []string) bool {
	if before == nil || before.Salt == "" {
		return false
	}
	return slices.ContainsFunc(before.Hidden, func(path string) bool {
		place := toolcall.ApprovalRequest{Input: edited, Hidden: []string{path}, Salt: before.Salt}
		return !slices.Contains(redact, path) && place.Redacted().Input != edited
	})
}

// MakeEventAgain makes the event of a decision about edited arguments. What the same
// rules of the same bundle ask goes on in the plan of the approval request before: an
// edit gains no time.
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

// EditSuffices reports whether the editor's approval is all that the approval request
// about the edited arguments needs.
func EditSuffices(ev toolcall.Decided, vote toolcall.Vote) bool {
	vote.Edited, vote.Made, vote.Step = true, ev.Digest, ev.Step
	return ev.Request.Requirement.Tally([]toolcall.Vote{vote}, ev.Digest, ev.Step).Agreed
}

// sameAsk reports whether a decision asks for the same reasons as before: the
// same rules of any bundle, or no rule and the same step. Where several
// rules ask, Rule is only the first of them, and Reason names them all; so it
// must be the same to the letter. What failed to be evaluated then may fail
// again, and nothing else.
func sameAsk(before *toolcall.Decision, now permission.Decision) bool {
	if before == nil || before.Rule != now.Rule || before.Source != SourceOf(now) || before.Reason != now.Reason {
		return false
	}
	return !slices.ContainsFunc(now.Errors, func(re permission.RuleError) bool {
		return !slices.Contains(before.Errors, re.Error())
	})
}

// MakeEvent makes the machine's event of a decision about a call, with the approval request
// that the answer is bound to.
func (j *Judge) MakeEvent(c *toolcall.Call, d permission.Decision, now time.Time) (toolcall.Decided, error) {
	return j.makeEventFor(c, d, now, IssueRequirement(c, d, now))
}

// makeEventFor is MakeEvent with the requirement of the approval request.
func (j *Judge) makeEventFor(c *toolcall.Call, d permission.Decision, now time.Time, r toolcall.Requirement) (toolcall.Decided, error) {
	q := toolcall.ApprovalRequest{
		V: 1, Key: c.Key, Tool: c.Tool, Definition: c.Definition, Input: c.Input, Text: d.Message,
		Rule: d.Rule, Source: SourceOf(d), Reason: d.Reason, Bundle: d.Bundle,
		Requirement: r, Hidden: d.Redact,
	}
	if len(q.Hidden) > 0 {
		q.Salt = newSalt()
	}
	digest, err := q.Digest()
	if err != nil {
		return toolcall.Decided{}, err
	}
	return toolcall.Decided{
		Base: toolcall.Base{At: now}, Decision: DecisionWithRun(d), Request: q, Digest: digest,
		Suggested: d.Suggested, Placement: j.placementFor(c, d),
	}, nil
}

// IssueRequirement makes the requirement of an approval request about c: the whole plan is fixed
// now, and who is excluded by name.
func IssueRequirement(c *toolcall.Call, d permission.Decision, now time.Time) toolcall.Requirement {
	r := d.Requirement.Issue(now)
	if r.Users == nil {
		r.Users = []string{}
	}
	r.Remember = rememberLimits(d.Requirement.Remember)
	if r.ExcludeRequester {
		r.Requester = c.Runtime
	}
	if r.ExcludeEditor {
		r.Editors = editorsOf(c)
	}
	return r
}

// editorsOf are those who changed the call's arguments since it was proposed.
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

// SourceOf names where a decision comes from: the rule's source, or the step of
// the procedure where no rule decided.
func SourceOf(d permission.Decision) string {
	if d.Source != "" {
		return d.Source
	}
	return string(d.Step)
}

// StoredDecision is the decision as event records keep it.
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

// rememberLimits is how far the rules that ask let the answer be remembered, for
// the approval request.
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

// DecisionWithRun is the decision as event records keep it, with what the rules say about the
// run: the engine that goes on with the call after a crash must know.
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

// placementFor is where a call that is decided so runs: what rules route goes to
// workers, also of a tool that runs in the engine otherwise.
func (j *Judge) placementFor(c *toolcall.Call, d permission.Decision) toolcall.Placement {
	if d.Behavior != message.BehaviorDeny && d.Executor.Subject != "" {
		return toolcall.PlaceRemote
	}
	return j.placementOf(c)
}

// Enforce denies what the rules want to be run in a way that the engine has no
// power over: an external call is run by the agent's own runtime or frontend,
// and what a rule says about the run would have no effect. ok: it is left
// as it is.
func (j *Judge) Enforce(c *toolcall.Call, d permission.Decision) (out permission.Decision, ok bool) {
	var what, why string
	switch x := d.Executor; {
	case d.Behavior == message.BehaviorDeny:
		return d, true
	case x.Subject != "" && toolcall.CheckRoute(x.Subject) != nil:
		what, why = "workers of a subject", "that is not a subject that calls can be routed to"
	case x == (permission.Executor{}) || j.placementOf(c) != toolcall.PlaceExternal:
		return d, true
	case x.Subject != "":
		what, why = "workers on "+x.Subject, "the tool runs outside of askance: the runtime that proposes its calls runs them"
	default:
		what, why = "a timeout of its run", "the tool runs outside of askance: the runtime that proposes its calls runs them"
	}
	d.Behavior, d.Suggested, d.Requirement, d.Executor = message.BehaviorDeny, nil, permission.Requirement{}, permission.Executor{}
	d.Reason += "; denied, because a rule demands " + what + ", and " + why
	d.Message = "Permission denied: the policy requires " + what + " for the tool " + c.Tool + ", and " + why + "."
	return d, false
}

// Deadline is when an attempt of the call that starts now must end: the time
// of the tool or that of the rules that matched, the shorter one. Zero:
// never.
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

// placementOf is where a call is to run. What its proposal said of a tool that
// the engine did not know holds for good.
func (j *Judge) placementOf(c *toolcall.Call) toolcall.Placement {
	if c.Placement == toolcall.PlaceExternal {
		return c.Placement
	}
	if t, known := j.tools[c.Tool]; known {
		return t.Placement
	}
	return toolcall.PlaceLocal
}
