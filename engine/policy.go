package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// Policy decides about calls. *permission.Bundle and *permission.Live implement it. Decide
// must never return allow for what it could not decide.
type Policy interface {
	Decide(ctx context.Context, r permission.Request) permission.Decision
	// Denied reports whether a deny rule that is now in force denies the call. It is asked
	// again before a call that was allowed under an older bundle begins.
	Denied(ctx context.Context, r permission.Request) (permission.Decision, bool)
	// Hash is the content hash of the bundle in force.
	Hash() string

	// Every method is part of every policy: a wrapper without one of them would show what must
	// be hidden, or forget what limits a standing approval.

	// Covers returns nil if remembered allow rules cover a call.
	Covers(ctx context.Context, r permission.Request, rules []message.PermissionRule) error
	// Values returns the call's values at each of the paths.
	Values(ctx context.Context, r permission.Request, paths []string) (map[string]string, error)
	// Redacts reports whether a rule in force may hide a part of arguments. If so, arguments
	// that a runtime streams are not shown until their call is decided.
	Redacts() bool
	// ReadsGroups reports whether rules may read the requester's groups. Only then is the
	// directory asked.
	ReadsGroups() bool
	// ReadsCallsThisRun reports whether rules may read the number of calls in the run. Only
	// then is the journal asked about forgotten calls.
	ReadsCallsThisRun() bool
	// Explain decides about a call like Decide and gives the reasons, rule by rule. It
	// leaves out the arguments that rules redact.
	Explain(ctx context.Context, r permission.Request) *permission.Explanation
}

// Duties are the requirements of rules that this engine carries out. Pass them to the
// policy as permission.Options.Enforced: rules that need more are then refused, instead
// of being weaker than they read.
func Duties() []permission.Duty {
	return []permission.Duty{
		permission.DutyUsers, permission.DutyGroups, permission.DutyExcludeRequester, permission.DutyExcludeEditor, permission.DutyQuorum, permission.DutySigned,
		permission.DutyExpiry, permission.DutyOnExpiry, permission.DutyEscalation,
		permission.DutyRedact, permission.DutyRemember,
		permission.DutyExecutorSubject, permission.DutyExecutorTimeout, permission.DutyAudit, permission.DutyBudget, permission.DutyRecheck,
	}
}

// dutiful denies what a policy allows or asks under requirements that the engine does not
// carry out: a policy compiled for other duties must not become weaker.
type dutiful struct {
	Policy
	met []permission.Duty
}

// Decide implements Policy.
func (p dutiful) Decide(ctx context.Context, r permission.Request) permission.Decision {
	return p.denyUnmet(p.Policy.Decide(ctx, r))
}

func (p dutiful) denyUnmet(d permission.Decision) permission.Decision {
	missing := p.unmetDuties(d)
	if d.Behavior == message.BehaviorDeny || len(missing) == 0 {
		return d
	}
	d.Behavior, d.Suggested, d.Requirement = message.BehaviorDeny, nil, permission.Requirement{}
	d.Reason += "; denied, because this engine does not enforce " + strings.Join(missing, ", ")
	d.Message = "Permission denied: the policy requires " + strings.Join(missing, ", ") + ", which is not enforced here."
	return d
}

// Explain implements Policy.
func (p dutiful) Explain(ctx context.Context, r permission.Request) *permission.Explanation {
	x := p.Policy.Explain(ctx, r)
	if d := p.denyUnmet(x.Decided); d.Behavior != x.Decided.Behavior {
		x.Decided, x.Decision, x.Reason, x.Message = d, d.Behavior, d.Reason, d.Message
		x.Requirement, x.Suggested = d.Requirement, d.Suggested
	}
	return x
}

// unmetDuties returns the duties of a decision that the engine does not carry out.
func (p dutiful) unmetDuties(d permission.Decision) []string {
	var out []string
	for _, duty := range d.Duties() {
		if !slices.Contains(p.met, duty) {
			out = append(out, string(duty))
		}
	}
	return out
}
