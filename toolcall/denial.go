package toolcall

import (
	"cmp"
	"strings"

	"github.com/askance-dev/askance/message"
)

// DenialHint is what the operator tells agents when a rule denies their calls.
type DenialHint struct {
	// Reason is the reason of the denial as the model sees it; absent until the call is denied.
	Reason  string `json:"reason,omitzero"`
	Allowed string `json:"allowed,omitzero"` // what would be allowed instead
	Contact string `json:"contact,omitzero"` // whom to ask
}

// Text returns the hint in the form that follows the reason in the model's text.
func (h *DenialHint) Text() string {
	if h == nil {
		return ""
	}
	text := ""
	if h.Allowed != "" {
		text += " Allowed instead: " + endSentence(h.Allowed)
	}
	if h.Contact != "" {
		text += " Contact: " + endSentence(h.Contact)
	}
	return text
}

func endSentence(text string) string {
	if strings.HasSuffix(text, ".") || strings.HasSuffix(text, "!") || strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}

// Denial tells the agent why its call did not run. Of the policy it repeats only what the
// model's text may contain.
type Denial struct {
	// Cause is the step that ended the call: deny, reject, expire, revoke or refuse.
	Cause   string `json:"cause"`
	Rule    string `json:"rule,omitzero"` // the rule that denies, or asked
	Reason  string `json:"reason"`
	By      string `json:"by,omitzero"`      // who rejected the call
	Allowed string `json:"allowed,omitzero"` // what would be allowed instead
	Contact string `json:"contact,omitzero"` // whom to ask
}

func newDenial(c *Call, reason string) *Denial {
	out := &Denial{Reason: reason}
	if d := c.Decision; d != nil {
		out.Rule = d.Rule
		if d.Denial != nil {
			out.Allowed, out.Contact = d.Denial.Allowed, d.Denial.Contact
		}
	}
	return out
}

func newRejection(c *Call, v Vote) *Denial {
	d := newDenial(c, cmp.Or(v.Feedback, "an approver rejected the call"))
	d.By = v.By.Name
	return d
}

// told returns the reason of a denial as the model sees it.
func (d *Decision) told() string {
	if d.Denial != nil && d.Denial.Reason != "" {
		return d.Denial.Reason
	}
	return cmp.Or(d.Message, d.Reason)
}

// hint returns what the call's decision tells agents besides a reason.
func (c *Call) hint() string {
	if c.Decision == nil {
		return ""
	}
	return c.Decision.Denial.Text()
}

// hasHints reports whether the operator tells agents more than the reason.
func (d *Denial) hasHints() bool { return d != nil && d.Allowed+d.Contact != "" }

// metadata returns the denial in the form used in a result's metadata.
func (d *Denial) metadata() map[string]any {
	out := map[string]any{"cause": d.Cause, "reason": d.Reason}
	for name, text := range map[string]string{"rule": d.Rule, "by": d.By, "allowed": d.Allowed, "contact": d.Contact} {
		if text != "" {
			out[name] = text
		}
	}
	return map[string]any{"denial": out}
}

// redacted returns the denial without literal repetitions of hidden texts.
func (d *Denial) redacted(texts []string) *Denial {
	if d == nil {
		return nil
	}
	out := *d
	if out.Cause == string(CauseRefuse) { // the reason describes an invalid value
		out.Reason = hiddenRefusal
		return &out
	}
	out.Reason = hideInResult(&message.ToolResultBlock{Output: message.Content{Text: d.Reason}}, texts).Output.Text
	return &out
}
