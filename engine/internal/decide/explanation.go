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
	// maxExplanation bounds a recorded explanation, in bytes: the event record must also have
	// room for two copies of the arguments.
	maxExplanation = 32 << 10
	// maxWhyDepth bounds the nesting of an explanation, so that its record can be read back.
	maxWhyDepth = 48
	// maxBrief bounds each text of a brief explanation.
	maxBrief = 1 << 10
)

// WhyDenied explains a denial that came into force after the call was decided.
func (j *Judge) WhyDenied(ctx context.Context, s Snapshot, d permission.Decision) message.RawJSON {
	if d.Audit != permission.AuditFull {
		return nil
	}
	x := j.policy.Explain(ctx, j.Request(s))
	if x.Bundle != d.Bundle || !HidesAll(x.Decided.Redact, s.Call.HiddenPaths()) { // the policy has changed meanwhile, or shows more than before
		return briefExplanation(d)
	}
	return OnRecord(x)
}

// recorded is an explanation from which parts may have been removed.
type recorded struct {
	*permission.Explanation
	Truncated bool `json:"truncated"`
}

// OnRecord returns an explanation as an event record stores it, or nil. From one that is
// too large it keeps the most important parts and sets truncated.
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
		y.Trace = y.Trace[:len(y.Trace)/2] // the rules that were evaluated come first
	}
}

func isStorable(b []byte) bool {
	return strictjson.Check(b, strictjson.MaxBytes(maxExplanation), strictjson.MaxDepth(maxWhyDepth)) == nil
}

// briefExplanation contains only the decision itself.
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
	return strings.ToValidUTF8(text[:min(len(text), maxBrief)], "\uFFFD")
}

// HidesAll reports whether paths contains all of these.
func HidesAll(paths, these []string) bool {
	return !slices.ContainsFunc(these, func(p string) bool { return !slices.Contains(paths, p) })
}

// Explains reports whether an explanation recorded with was also explains c: the decision is
// the same, and it hid as much.
func Explains(was, c *toolcall.Call) bool {
	a, b := was.Decision, c.Decision
	return a != nil && was.Digest == c.Digest && a.Bundle == b.Bundle && a.Behavior == b.Behavior && a.Reason == b.Reason && HidesAll(was.HiddenPaths(), c.HiddenPaths())
}

// Trace returns how the policy now judges a call, as JSON. It withholds the trace if that
// would show what was hidden in the call.
func (j *Judge) Trace(ctx context.Context, s Snapshot) (raw message.RawJSON, withheld string, err error) {
	if j.policy.Hash() == "" {
		return nil, "no engine runs here, so no policy is in force", nil
	}
	x := j.policy.Explain(ctx, j.Request(s))
	if !HidesAll(x.Decided.Redact, s.Call.HiddenPaths()) {
		return nil, "the current policy does not hide everything that was hidden in this call", nil
	}
	raw, err = strictjson.Marshal(x)
	return raw, "", err
}
