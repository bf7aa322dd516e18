// Package decide turns a call and the policy's decision on it into an event of the
// state machine. It is pure: a [Snapshot] goes in, an event comes out; it reads no
// clock, no journal and no view.
//
// [Judge.Event] decides about a pending call: refused, denied, allowed, asked, left
// pending behind the approval request of another call, or not decided yet
// ([ErrUndecided]). Any doubt asks or denies.
package decide

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// Policy decides about calls.
type Policy interface {
	Decide(ctx context.Context, r permission.Request) permission.Decision
	Denied(ctx context.Context, r permission.Request) (permission.Decision, bool)
	Explain(ctx context.Context, r permission.Request) *permission.Explanation
	Hash() string
}

// Tool is what a decision needs to know about a tool.
type Tool struct {
	Schema          *permission.Schema // nil: any object
	Placement       toolcall.Placement
	ConcurrencySafe bool
	Timeout         time.Duration // longest run of one attempt; 0 means no limit
}

// Settings apply to all calls.
type Settings struct {
	Mode        permission.Mode
	Cwd         string
	WorkingDirs []string
}

// Judge decides about calls by a policy.
type Judge struct {
	policy   Policy
	tools    map[string]Tool
	settings Settings
}

// NewJudge returns a judge for the tools that the engine is configured with.
func NewJudge(p Policy, tools map[string]Tool, s Settings) *Judge {
	return &Judge{policy: p, tools: tools, settings: s}
}

// Snapshot holds everything that a decision about a call depends on, except the policy.
type Snapshot struct {
	Call *toolcall.Call
	// Definition is what the runtime declared about the tool, or nil.
	Definition *permission.Definition
	Rules      []message.PermissionRule // remembered in the call's session
	Count      int                      // calls of the reply up to this one; permission.CountUnread: not read
	Now        time.Time
	// Budgets permits rules with a budget to allow, except those in Exhausted. Without
	// it they allow nothing, because this decision takes nothing from a budget.
	Budgets   bool
	Exhausted []permission.Exhausted
	// Earlier are the calls of the reply that were proposed before this one, in their current
	// state. They are needed only if the call needs approval.
	Earlier []*toolcall.Call
}

// With returns the snapshot with other session rules.
func (s Snapshot) With(rules []message.PermissionRule) Snapshot {
	s.Rules = rules
	return s
}

// WithBudgets returns the snapshot for a decision that takes from budgets.
func (s Snapshot) WithBudgets(exhausted []permission.Exhausted) Snapshot {
	s.Budgets, s.Exhausted = true, exhausted
	return s
}

// Verdict is the policy's decision on a call, with standing approvals and budgets applied.
type Verdict struct {
	Decision          permission.Decision
	Why               *permission.Explanation // of the policy's own decision, if rules want it recorded
	StandingApprovals []toolcall.StandingID   // standing approvals without which it would not be allowed
	Known             int                     // how many rules the session had
	Exhausted         []permission.Exhausted  // rules whose budget has no room for the call
}

// NeedsApproval reports whether people would be asked, and their response could cover
// other calls too.
func (v Verdict) NeedsApproval() bool {
	b := v.Decision.Behavior
	return b != message.BehaviorAllow && b != message.BehaviorDeny && !v.Decision.BypassImmune
}

// Request makes the policy request for a call.
func (j *Judge) Request(s Snapshot) permission.Request {
	c := s.Call
	exhausted := s.Exhausted
	if !s.Budgets {
		exhausted = permission.EveryBudget("")
	}
	r := permission.RequestOf(c)
	r.Exhausted, r.Definition, r.SessionRules = exhausted, s.Definition, s.Rules
	r.Attempt, r.CallsThisRun = max(c.Attempt.Number, 1), s.Count
	r.Mode, r.Now, r.Cwd, r.WorkingDirs = j.settings.Mode, s.Now, j.settings.Cwd, j.settings.WorkingDirs
	return r
}

// Decide asks the policy about a call.
func (j *Judge) Decide(ctx context.Context, s Snapshot) permission.Decision {
	return j.policy.Decide(ctx, j.Request(s))
}

// DecideAndExplain is Decide with the explanation, if rules want it recorded. It then returns
// the decision that was explained, because the policy may change between two requests.
func (j *Judge) DecideAndExplain(ctx context.Context, s Snapshot) (permission.Decision, *permission.Explanation) {
	d := j.Decide(ctx, s)
	if d.Audit != permission.AuditFull {
		return d, nil
	}
	x := j.policy.Explain(ctx, j.Request(s))
	return x.Decided, x
}

// decisionHolds is how long a decision under one bundle is not checked again.
const decisionHolds = time.Second

// laterDenial replaces the text of a denial that must not be shown.
const laterDenial = "the policy now denies it; the reason is hidden with the arguments"

// IsDeniedNow reports whether a deny rule that came into force after the call was
// decided denies it. Under the same bundle only time can bring one into force, so the
// policy is asked again only once the call has waited, or if rules demand a recheck; and a
// deny rule that cannot be evaluated was already part of the first decision.
func (j *Judge) IsDeniedNow(ctx context.Context, s Snapshot) (permission.Decision, bool) {
	c := s.Call
	same := c.Decision != nil && c.Decision.Bundle == j.policy.Hash()
	if same && len(c.Decision.Recheck) == 0 && s.Now.Sub(c.UpdatedAt).Abs() < decisionHolds { // a clock may have been set back
		return permission.Decision{}, false
	}
	req := j.Request(s)
	if c.Decision != nil {
		req.Recheck = c.Decision.Recheck
	}
	d, denied := j.policy.Denied(ctx, req)
	denied = denied && (!same || d.Behavior == message.BehaviorDeny)
	if !HidesAll(d.Redact, c.HiddenPaths()) { // its texts may repeat what was hidden until now
		d.Denial = nil
		d.Reason, d.Message, d.Errors = laterDenial, "Permission denied for "+c.Tool+" ("+laterDenial+").", nil
	}
	d.Behavior = message.BehaviorDeny // a deny rule that cannot be evaluated denies here, because people are no longer asked
	return d, denied
}

// WhyUnfit says why a call cannot be decided at all: an unknown tool that no runtime
// offered to run, or arguments that are not a JSON object or violate the tool's schema.
// "" means fit. The text for an unknown tool is AgentScope's own.
func (j *Judge) WhyUnfit(s Snapshot) string {
	c := s.Call
	t, ok := j.tools[c.Tool]
	if !ok && s.Definition != nil {
		t.Schema = s.Definition.Schema
	}
	if !ok && c.Placement != toolcall.PlaceExternal {
		return fmt.Sprintf("ToolNotFoundError: The tool named '%s' doesn't exist.", c.Tool)
	}
	var unfit error
	if t.Schema != nil {
		if unfit = t.Schema.Validate([]byte(c.Input)); unfit == nil { // it is an object, too
			return ""
		}
	}
	if _, err := strictjson.Object([]byte(c.Input)); err != nil {
		return fmt.Sprintf("Tool '%s' cannot run: the arguments are not a JSON object: %s", c.Tool, strictjson.AtLine(err, c.Input))
	}
	if unfit != nil {
		return fmt.Sprintf("Tool '%s' cannot run: %v", c.Tool, unfit)
	}
	return ""
}

// ForModel adds to a text of WhyUnfit what the model can do next.
func ForModel(unfit string) string {
	if strings.HasPrefix(unfit, "ToolNotFoundError: ") {
		return unfit
	}
	return unfit + ". Correct the arguments and call the tool again."
}

// IsSafe reports whether calls of a tool run independently of each other.
func (j *Judge) IsSafe(tool string) bool {
	t, known := j.tools[tool]
	return t.ConcurrencySafe || !known
}

// ForbiddenError is the error for something that a person may not do.
func ForbiddenError(what, hint string) error {
	return &message.Error{Code: message.CodeForbidden, What: what, Hint: hint}
}
