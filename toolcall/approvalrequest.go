package toolcall

import (
	"time"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/message"
)

// ApprovalRequest is what a person is asked or, for a call that a rule allowed, what
// would have been asked. Its digest binds the response and the grant to exactly these
// bytes.
type ApprovalRequest struct {
	V int `json:"v"` // 1
	Key
	Tool  string `json:"tool_name"`
	Input string `json:"input"` // the raw JSON text that will run, after all edits
	// Cwd is the folder in which the runtime runs the call; see [Call].
	Cwd string `json:"cwd,omitzero"`
	// Definition is what the runtime declared about the tool.
	Definition *DefinitionRef `json:"definition,omitzero"`
	// Text is what the person sees above the arguments.
	Text        string      `json:"text"`
	Rule        string      `json:"rule"`   // name of the rule that decided; "" for the fallback
	Source      string      `json:"source"` // where that rule comes from
	Reason      string      `json:"reason"` // why it asked (or allowed)
	Requirement Requirement `json:"requirement"`
	Bundle      string      `json:"bundle"` // content hash of the policy bundle
	// Hidden are the paths into the arguments that rules redact. Salt is the salt of the
	// commitments that stand for hidden values in the digest; it is stored in the journal
	// and never shown. Without it Input is already redacted.
	Hidden []string `json:"hidden,omitzero"`
	Salt   string   `json:"salt,omitzero"`
}

// Digest is "sha256:" and the hex SHA-256 of the approval request's RFC 8785 form. The
// input is included as text, byte for byte, so the digest also covers white space and
// numbers that a float cannot hold. Hidden values are included as salted commitments, so
// the digest can also be computed from the redacted approval request. It fails only on
// invalid UTF-8.
func (q ApprovalRequest) Digest() (string, error) {
	b, err := jcs.Marshal(q.Redacted())
	if err != nil {
		return "", &message.Error{Code: message.CodeInvalid, Op: "digest", What: "the approval request of " + q.Key.String() + " has no canonical form", Err: err}
	}
	return message.Digest(b), nil
}

// RequestText returns what people read above the arguments of a request: the summary, if the
// engine has set it, the policy's text, and the folder in which the call runs.
func (c *Call) RequestText() string {
	text := c.Summary
	switch {
	case c.Request == nil || c.Request.Text == "":
	case text == "", c.Request.Text == text, c.Decision != nil && c.Decision.Headline:
		text = c.Request.Text
	default:
		text += "\n" + c.Request.Text
	}
	if c.Cwd != "" {
		text += "\nWorking folder: " + c.Cwd
	}
	return text
}

// Waiting describes what an open approval request waits for: who has approved, who must
// still approve, and what happens next. It is computed from the call and not stored.
type Waiting struct {
	Key
	Digest string `json:"digest"`
	Tally
	// NextStep is when the plan asks other people: NextUsers and NextGroups, in addition
	// to those who may already respond, or instead of them if NextOnly is set.
	NextStep   time.Time `json:"next_step,omitzero"`
	NextUsers  []string  `json:"next_users,omitzero"`
	NextGroups []string  `json:"next_groups,omitzero"`
	NextOnly   bool      `json:"next_only,omitzero"`
	// Ends is when the approval request expires and denies; zero means never.
	Ends time.Time `json:"ends,omitzero"`
}

// Waiting returns what the call's open approval request waits for; ok is false if none is
// open.
func (c *Call) Waiting() (w Waiting, ok bool) {
	if c.State != message.ToolCallAsking || c.Request == nil {
		return Waiting{}, false
	}
	r := c.Request.Requirement
	w = Waiting{Key: c.Key, Digest: c.Digest, Tally: c.Tally(), Ends: r.Ends()}
	plan := r.Plan()
	if c.Step >= len(plan) {
		return w, true
	}
	w.NextStep = plan[c.Step]
	w.NextOnly = r.isLastStep(w.NextStep)
	for _, s := range r.Approvers {
		for _, e := range s.stepsAt(w.NextStep, w.NextOnly) {
			if w.NextOnly || e.At.Equal(w.NextStep) {
				w.NextUsers, w.NextGroups = append(w.NextUsers, e.Users...), append(w.NextGroups, e.Groups...)
			}
		}
	}
	return w, true
}
