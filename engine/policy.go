package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// Policy decides about calls. *permission.Bundle and *permission.Live are
// policies. Decide must never return allow for what it could not decide.
type Policy interface {
	Decide(ctx context.Context, r permission.Request) permission.Decision
	// Denied reports whether a deny rule in force now is about the call: asked
	// again before a call that was allowed under an older bundle begins.
	Denied(ctx context.Context, r permission.Request) (permission.Decision, bool)
	// Hash is the content hash of the bundle in force.
	Hash() string

	// What else the engine needs to know is part of every policy: a wrapper that
	// left one of these out would show what is to be hidden, or forget what holds
	// a standing approval back.
	Rememberer
	Redactor
	GroupReader
	CountReader
	Explainer
}

// Rememberer says for which calls a standing approval answers. Every Policy does.
type Rememberer interface {
	// Covers reports whether remembered allow rules cover a call; nil: they do.
	Covers(ctx context.Context, r permission.Request, rules []message.PermissionRule) error
	// Values gives what a call has at each of the paths.
	Values(ctx context.Context, r permission.Request, paths []string) (map[string]string, error)
}

// Redactor says beforehand whether rules hide anything: then arguments that a
// runtime streams are not shown until their call is decided. Every Policy does.
type Redactor interface {
	// Redacts reports whether a rule in force may hide a part of arguments.
	Redacts() bool
}

// GroupReader says beforehand whether rules may read the groups of the requester: the
// directory is asked for them only then. Every Policy does.
type GroupReader interface {
	ReadsGroups() bool
}

// CountReader says beforehand whether rules may read how many calls the run has: only
// then the journal is asked for what the engine has forgotten. Every Policy does.
type CountReader interface {
	ReadsCallsThisRun() bool
}

// Explainer tells how a decision comes about.
type Explainer interface {
	// Explain decides about a call as Decide does and gives the reasons, rule by
	// rule. What rules redact of the arguments is not in it.
	Explain(ctx context.Context, r permission.Request) *permission.Explanation
}

// Duties are what this engine carries out of the requirements of rules. Give
// them to the policy as permission.Options.Enforced: rules that need more are
// refused then, instead of being weaker than they read.
func Duties() []permission.Duty {
	return []permission.Duty{
		permission.DutyUsers, permission.DutyGroups, permission.DutyExcludeRequester, permission.DutyExcludeEditor, permission.DutyQuorum, permission.DutySigned,
		permission.DutyExpiry, permission.DutyOnExpiry, permission.DutyEscalation,
		permission.DutyRedact, permission.DutyRemember,
		permission.DutyExecutorSubject, permission.DutyExecutorTimeout, permission.DutyAudit, permission.DutyBudget, permission.DutyRecheck,
	}
}

// dutiful denies what a policy allows or asks under conditions that the engine
// does not meet: a policy compiled for other duties must not become weaker.
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

// Explain implements Explainer.
func (p dutiful) Explain(ctx context.Context, r permission.Request) *permission.Explanation {
	x := p.Policy.Explain(ctx, r)
	if d := p.denyUnmet(x.Decided); d.Behavior != x.Decided.Behavior {
		x.Decided, x.Decision, x.Reason, x.Message = d, d.Behavior, d.Reason, d.Message
		x.Requirement, x.Suggested = d.Requirement, d.Suggested
	}
	return x
}

// unmetDuties are the duties of a decision that the engine does not carry out.
func (p dutiful) unmetDuties(d permission.Decision) []string {
	var out []string
	for _, duty := range d.Duties() {
		if !slices.Contains(p.met, duty) {
			out = append(out, string(duty))
		}
	}
	return out
}
