package decide

import (
	"context"
	"slices"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

const (
	// maxExplanation bounds an explanation on record, in bytes: an event record has to
	// carry two copies of the arguments besides.
	maxExplanation = 32 << 10
	// maxWhyDepth is how deep one may be nested, within an event record that is read back.
	maxWhyDepth = 48
	// maxBrief bounds each text of an explanation that keeps nothing else.
	maxBrief = 1 << 10
)

// WhyDenied Explains a denial that came into force since the call was decided.
func (j *Judge) WhyDenied(ctx context.Context, s Snapshot, d permission.Decision) message.RawJSON {
	if d.Audit != permission.AuditFull {
		return nil
	}
	x := j.policy.Explain(ctx, j.Request(s))
	if x.Bundle != d.Bundle || !HidesAll(x.Decided.Redact, HiddenOf(s.Call)) { // the policy has changed since, or shows more than its last one
		return briefExplanation(d)
	}
	return OnRecord(x)
}

// recorded is an explanation without some of its parts.
type recorded struct {
	*permission.Explanation
	Truncated bool `json:"truncated"`
}

// OnRecord is an explanation as an event record keeps it; nil: none. Of one that is too
// large it keeps what mattered most, and says so.
func OnRecord(x *permission.Explanation) message.RawJSON {
	if x == nil {
		return nil
	}
	if b, err := strictjson.Marshal(x); err == nil && isStorable(b) {
		return b
	}
	y := *x
	y.NotEvaluated, y.Shell, y.NearMiss = nil, nil, ""
	for {
		b, err := strictjson.Marshal(recorded{&y, true})
		switch {
		case err == nil && isStorable(b):
			return b
		case len(y.Trace) == 0:
			return briefExplanation(x.Decided)
		}
		y.Trace = y.Trace[:len(y.Trace)/2] // the rules that were looked at come first
	}
}

func isStorable(b []byte) bool {
	return strictjson.Check(b, strictjson.MaxBytes(maxExplanation), strictjson.MaxDepth(maxWhyDepth)) == nil
}

// briefExplanation says no more than what was decided.
func briefExplanation(d permission.Decision) message.RawJSON {
	b, err := strictjson.Marshal(recorded{&permission.Explanation{
		Decision: d.Behavior, Mode: d.Mode, Rule: shortenText(d.Rule), Source: shortenText(d.Source), Bundle: shortenText(d.Bundle), Step: d.Step,
		Reason: shortenText(d.Reason), Message: shortenText(d.Message),
	}, true})
	if err != nil {
		return message.RawJSON(`{"truncated":true}`)
	}
	return b
}

func shortenText(text string) string {
	if len(text) > maxBrief {
		text = text[:maxBrief]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// HidesAll reports whether what is hidden under paths has all of these.
func HidesAll(paths, these []string) bool {
	return !slices.ContainsFunc(these, func(p string) bool { return !slices.Contains(paths, p) })
}

// HiddenOf are the paths that rules hide of a call.
func HiddenOf(c *toolcall.Call) []string {
	if c.Request == nil {
		return c.Redact
	}
	return slices.Concat(c.Request.Hidden, c.Redact)
}

// Explains reports whether the decision of a call as it was is the one that it
// has now, and hid as much.
func Explains(was, c *toolcall.Call) bool {
	a, b := was.Decision, c.Decision
	return a != nil && was.Digest == c.Digest && a.Bundle == b.Bundle && a.Behavior == b.Behavior && a.Reason == b.Reason && HidesAll(HiddenOf(was), HiddenOf(c))
}

// Trace is how the policy judges a call, as JSON. What was hidden of the call stays
// hidden, also if the policy would show it by now.
func (j *Judge) Trace(ctx context.Context, s Snapshot) (raw message.RawJSON, withheld string, err error) {
	if j.policy.Hash() == "" {
		return nil, "no engine runs here, and no policy is in force", nil
	}
	x := j.policy.Explain(ctx, j.Request(s))
	if !HidesAll(x.Decided.Redact, HiddenOf(s.Call)) {
		return nil, "the policy in force does not hide all that was hidden of this call", nil
	}
	raw, err = strictjson.Marshal(x)
	return raw, "", err
}
