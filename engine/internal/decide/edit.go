package decide

import (
	"slices"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

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

// IsEdit reports whether an answer changes the arguments.
func IsEdit(c *toolcall.Call, a toolcall.Response) bool { return a.Input != nil && *a.Input != c.Input }
