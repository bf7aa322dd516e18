package decide

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// MakeEvent makes the machine's event of a decision about a call, with the approval request
// that the answer is bound to.
func (j *Judge) MakeEvent(c *toolcall.Call, d permission.Decision, now time.Time) (toolcall.Decided, error) {
	return j.makeEventFor(c, d, now, IssueRequirement(c, d, now))
}

// makeEventFor is MakeEvent with the requirement of the approval request.
func (j *Judge) makeEventFor(c *toolcall.Call, d permission.Decision, now time.Time, r toolcall.Requirement) (toolcall.Decided, error) {
	q := toolcall.ApprovalRequest{
		V: 1, Key: c.Key, Tool: c.Tool, Input: c.Input, Text: d.Message,
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
	out := toolcall.Decision{Behavior: d.Behavior, Rule: d.Rule, Source: SourceOf(d), Reason: d.Reason, Message: d.Message, Bundle: d.Bundle}
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
