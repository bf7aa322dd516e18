package decide

import (
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

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
	return j.placement(c)
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
		what, why = "workers of a subject", "that is no subject to route calls to"
	case x == (permission.Executor{}) || j.placement(c) != toolcall.PlaceExternal:
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

// placement is where a call is to run. What its proposal said of a tool that
// the engine did not know holds for good.
func (j *Judge) placement(c *toolcall.Call) toolcall.Placement {
	if c.Placement == toolcall.PlaceExternal {
		return c.Placement
	}
	if t, known := j.tools[c.Tool]; known {
		return t.Placement
	}
	return toolcall.PlaceLocal
}
