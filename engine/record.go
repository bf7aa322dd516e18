package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// This file keeps the explanations of decisions, where rules want them kept.

const (
	// maxExplanation bounds an explanation on record, in bytes: an event record has to
	// carry two copies of the arguments besides.
	maxExplanation = 32 << 10
	// maxWhyDepth is how deep one may be nested, within an event record that is read back.
	maxWhyDepth = 48
	// maxBrief bounds each text of one of which nothing else is kept.
	maxBrief = 1 << 10
)

// judge asks the policy about a call. Where rules want the explanation kept the
// decision is the one that was explained: between two approval requests the policy may
// have changed.
func (e *Engine) judge(ctx context.Context, c *message.Call, rules []message.PermissionRule) (permission.Decision, *permission.Explanation) {
	r := e.request(c, c.Input, rules)
	d := e.policy.Decide(ctx, r)
	if d.Audit != permission.AuditFull {
		return d, nil
	}
	x := e.policy.Explain(ctx, r)
	return x.Decided, x
}

// judgeAlone is judge without the rules of the session.
func (e *Engine) judgeAlone(ctx context.Context, c *message.Call, known int) verdict {
	d, why := e.judge(ctx, c, nil)
	return verdict{decision: d, why: why, known: known}
}

// whyDenied explains a denial that came into force since the call was decided.
func (e *Engine) whyDenied(ctx context.Context, c *message.Call, d permission.Decision) message.RawJSON {
	if d.Audit != permission.AuditFull {
		return nil
	}
	x := e.policy.Explain(ctx, e.request(c, c.Input, e.view.Rules(c.SessionKey())))
	if x.Bundle != d.Bundle || !hidesAll(x.Decided.Redact, hiddenOf(c)) { // the policy has changed since, or shows more than its last one
		return briefly(d)
	}
	return onRecord(x)
}

// recorded is an explanation of which something was left out.
type recorded struct {
	*permission.Explanation
	Truncated bool `json:"truncated"`
}

// onRecord is an explanation as an event record keeps it; nil: none. Of one that is too
// large it keeps what mattered most, and says so.
func onRecord(x *permission.Explanation) message.RawJSON {
	if x == nil {
		return nil
	}
	if b, err := strictjson.Marshal(x); err == nil && keepable(b) {
		return b
	}
	y := *x
	y.NotEvaluated, y.Shell, y.NearMiss = nil, nil, ""
	for {
		b, err := strictjson.Marshal(recorded{&y, true})
		switch {
		case err == nil && keepable(b):
			return b
		case len(y.Trace) == 0:
			return briefly(x.Decided)
		}
		y.Trace = y.Trace[:len(y.Trace)/2] // the rules that were looked at come first
	}
}

func keepable(b []byte) bool {
	return strictjson.Check(b, strictjson.MaxBytes(maxExplanation), strictjson.MaxDepth(maxWhyDepth)) == nil
}

// briefly says no more than what was decided.
func briefly(d permission.Decision) message.RawJSON {
	b, err := strictjson.Marshal(recorded{&permission.Explanation{
		Decision: d.Behavior, Mode: d.Mode, Rule: brief(d.Rule), Source: brief(d.Source), Bundle: brief(d.Bundle), Step: d.Step,
		Reason: brief(d.Reason), Message: brief(d.Message),
	}, true})
	if err != nil {
		return message.RawJSON(`{"truncated":true}`)
	}
	return b
}

func brief(text string) string {
	if len(text) > maxBrief {
		text = text[:maxBrief]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// hidesAll reports whether what is hidden under paths has all of these.
func hidesAll(paths, these []string) bool {
	return !slices.ContainsFunc(these, func(p string) bool { return !slices.Contains(paths, p) })
}

// hiddenOf are the paths that rules hide of a call.
func hiddenOf(c *message.Call) []string {
	if c.Request == nil {
		return c.Redact
	}
	return slices.Concat(c.Request.Hidden, c.Redact)
}

// onRecordOf finds the explanation of the call's decision in its history; nil:
// none is kept, or it would show what is hidden by now.
func (e *Engine) onRecordOf(ctx context.Context, c *message.Call) (message.RawJSON, error) {
	if c.Decision == nil {
		return nil, nil
	}
	records, err := e.journal.History(ctx, c.Key)
	if err != nil {
		return nil, err
	}
	for _, r := range slices.Backward(records) {
		if r.Record == nil || r.Record.Call == nil || len(r.Record.Explanation) == 0 {
			continue
		}
		if explains(r.Record.Call, c) {
			return r.Record.Explanation, nil
		}
		return nil, nil // of an earlier decision
	}
	return nil, nil
}

// explains reports whether the decision of a call as it was is the one that it
// has now, and hid as much.
func explains(was, c *message.Call) bool {
	a, b := was.Decision, c.Decision
	return a != nil && was.Digest == c.Digest && a.Bundle == b.Bundle && a.Behavior == b.Behavior && a.Reason == b.Reason && hidesAll(hiddenOf(was), hiddenOf(c))
}
