package engine

import (
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// This file carries out what rules say about running a call that is allowed.

// handled is the decision as event records keep it, with what the rules say about the
// run: whoever goes on with the call after a crash must know.
func handled(d permission.Decision) message.Decision {
	out := kept(d)
	if d.Behavior == message.BehaviorDeny {
		return out
	}
	out.Route = d.Executor.Subject
	if t := d.Executor.Timeout; t > 0 {
		out.TimeoutMS = max(t.Milliseconds(), 1)
	}
	return out
}

// placed is where a call that is decided so runs: what rules route goes to
// workers, also of a tool that runs beside the engine otherwise.
func (e *Engine) placed(c *message.Call, d permission.Decision) message.Placement {
	if d.Behavior != message.BehaviorDeny && d.Executor.Subject != "" {
		return message.PlaceRemote
	}
	return e.placement(c)
}

// handles denies what the rules want to be run in a way that the engine has no
// power over: an external call is run by the agent's own runtime or frontend,
// and whatever a rule says about the run would have no effect. ok: it is left
// as it is.
func (e *Engine) handles(c *message.Call, d permission.Decision) (out permission.Decision, ok bool) {
	var what, why string
	switch x := d.Executor; {
	case d.Behavior == message.BehaviorDeny:
		return d, true
	case x.Subject != "" && message.CheckRoute(x.Subject) != nil:
		what, why = "workers of a subject", "that is no subject to route calls to"
	case x == (permission.Executor{}) || e.placement(c) != message.PlaceExternal:
		return d, true
	case x.Subject != "":
		what, why = "workers on "+x.Subject, "the tool runs outside of askance: whoever proposes its calls runs them"
	default:
		what, why = "a timeout of its run", "the tool runs outside of askance: whoever proposes its calls runs them"
	}
	d.Behavior, d.Suggested, d.Requirement, d.Executor = message.BehaviorDeny, nil, permission.Requirement{}, permission.Executor{}
	d.Reason += "; denied, because a rule demands " + what + ", and " + why
	d.Message = "Permission denied: the policy requires " + what + " for the tool " + c.Tool + ", and " + why + "."
	return d, false
}

// deadline is when an attempt of the call that starts now must end: the time
// of the tool or that of the rules that matched, whichever is shorter. Zero:
// never.
func deadline(c *message.Call, t Tool, start time.Time) time.Time {
	limit := t.Timeout
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
