package permission

import (
	"errors"
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/shell"
)

// This file weighs approval requests against what else speaks about a call. Of some
// calls nobody can say before they run whether a deny or ask rule is about
// them, such as a shell line with $X in it.

// doubtful reports whether what asks are rules of which only this is known: they
// may be about the call.
func (e *evaluation) doubtful(asking, failing []*compiledRule) bool {
	return len(asking) == 0 && len(failing) > 0 && !e.tainted &&
		!slices.ContainsFunc(e.errors, func(r RuleError) bool { return !errors.Is(r.Err, shell.ErrUnclear) })
}

// resolve answers a doubtful call as if no rule were about it, but that what
// would be allowed then is asked about. d is what is resolved without a rule, if
// ok. An approval request keeps what the rules require of it.
func (e *evaluation) resolve(request, d Decision, ok bool) Decision {
	if !ok {
		if d, ok = e.allowStep(); !ok {
			d = e.fallback()
		}
	}
	request.Errors = e.errors
	switch {
	case d.Behavior == message.BehaviorDeny:
		return d
	case d.Behavior == message.BehaviorAsk && request.Behavior == message.BehaviorAsk:
		request.Step, request.BypassImmune = d.Step, d.BypassImmune
	}
	return request
}
