package toolcall

import (
	"slices"
	"time"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/message"
)

// OnExpiry is what happens to an approval request that is still open at its deadline.
type OnExpiry string

// An approval request that expires denies, or stays open until a final deadline only for
// the people of its last escalation, and then denies. It never allows. The zero value
// denies.
const (
	OnExpiryDeny     OnExpiry = "deny"
	OnExpiryEscalate OnExpiry = "escalate"
)

// Requirement says who must agree and until when. It is fixed, and covered by the approval
// request's digest, when the request opens. The zero value means one approver, anyone, with
// no deadline.
//
// Who must agree is divided into parts: Users, if there are any, and each of Approvers. In
// every part distinct people must approve, as many as its quorum; a person counts for each
// part that accepts them. Without parts, every approver may approve.
type Requirement struct {
	// Users may respond; if it is empty, no list of people is required.
	Users []string `json:"users"`
	// Deadline is when the approval request expires; zero means never.
	Deadline time.Time `json:"deadline,omitzero"`
	// Approvers are sets of people; each set must agree.
	Approvers []ApproverSet `json:"approvers,omitzero"`
	// Quorum is how many people of each part without its own quorum must approve; 0 means one.
	Quorum int `json:"quorum,omitzero"`
	// ExcludeRequester excludes Requester, on whose behalf the call is made, from
	// responding, and RequestersAround, on whose behalf the calls around it are made. If the
	// requester is unknown, no response is accepted.
	ExcludeRequester bool     `json:"exclude_requester,omitzero"`
	Requester        string   `json:"requester,omitzero"`
	RequestersAround []string `json:"requesters_around,omitzero"`
	// ExcludeEditor means that approvals of Editors, who changed the arguments after they
	// were proposed, do not count.
	ExcludeEditor bool     `json:"exclude_editor,omitzero"`
	Editors       []string `json:"editors,omitzero"`
	// Signed means that an approval counts only with the approver's own signature.
	Signed bool `json:"signed,omitzero"`
	// OnExpiry is what happens at Deadline; with escalate the approval request ends at
	// FinalDeadline.
	OnExpiry      OnExpiry  `json:"on_expiry,omitzero"`
	FinalDeadline time.Time `json:"final_deadline,omitzero"`
	// Remember limits what a response may remember with terms. Nil means nothing if rules
	// ask; if no rule asks, suggested rules may be remembered for the session.
	Remember *RememberLimits `json:"remember,omitzero"`
}

// ApproverSet is the people whom one rule accepts: those listed or in one of the groups. An
// empty set accepts no one.
type ApproverSet struct {
	Rule       string           `json:"rule"`
	Quorum     int              `json:"quorum,omitzero"` // 0 means that of the requirement
	Users      []string         `json:"users,omitzero"`
	Groups     []string         `json:"groups,omitzero"`
	Escalation []EscalationStep `json:"escalation,omitzero"` // in the order of time
}

// EscalationStep lets more people respond from At on.
type EscalationStep struct {
	At     time.Time `json:"at"`
	Users  []string  `json:"users,omitzero"`
	Groups []string  `json:"groups,omitzero"`
}

// Plan returns the times at which other people are asked, in order: each escalation, and
// the deadline if the approval request escalates then.
func (r Requirement) Plan() []time.Time {
	var out []time.Time
	for _, s := range r.Approvers {
		for _, e := range s.Escalation {
			out = append(out, e.At)
		}
	}
	if r.hasEscalation() {
		out = append(out, r.Deadline)
	}
	slices.SortFunc(out, time.Time.Compare)
	return slices.CompactFunc(out, time.Time.Equal)
}

// Ends is when the approval request denies; zero means never.
func (r Requirement) Ends() time.Time {
	if r.hasEscalation() {
		return r.FinalDeadline
	}
	return r.Deadline
}

func (r Requirement) hasEscalation() bool {
	return r.OnExpiry == OnExpiryEscalate && !r.Deadline.IsZero() && r.FinalDeadline.After(r.Deadline)
}

// NeedsGroups reports whether the groups of people matter.
func (r Requirement) NeedsGroups() bool {
	return slices.ContainsFunc(r.Approvers, func(s ApproverSet) bool {
		return len(s.Groups) > 0 || slices.ContainsFunc(s.Escalation, func(e EscalationStep) bool { return len(e.Groups) > 0 })
	})
}

// Relevant returns those of a person's groups that the requirement names. No other group
// gives them the right to respond.
func (r Requirement) Relevant(groups []string) []string {
	named := func(g string) bool {
		return slices.ContainsFunc(r.Approvers, func(s ApproverSet) bool {
			return slices.Contains(s.Groups, g) || slices.ContainsFunc(s.Escalation, func(e EscalationStep) bool { return slices.Contains(e.Groups, g) })
		})
	}
	var out []string
	for _, g := range groups {
		if named(g) {
			out = append(out, g)
		}
	}
	return out
}

// stepsAt returns the people of the set who may respond when the plan has reached at; with
// last, only those of the last escalation.
func (s ApproverSet) stepsAt(at time.Time, last bool) []EscalationStep {
	var out []EscalationStep
	if !last {
		out = append(out, EscalationStep{Users: s.Users, Groups: s.Groups})
	}
	for i, e := range s.Escalation {
		if !at.Before(e.At) && (!last || i == len(s.Escalation)-1) {
			out = append(out, e)
		}
	}
	return out
}

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
func (r ApprovalRequest) Digest() (string, error) {
	b, err := jcs.Marshal(r.Redacted())
	if err != nil {
		return "", &message.Error{Code: message.CodeInvalid, Op: "digest", What: "the approval request of " + r.Key.String() + " has no canonical form", Err: err}
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

// Waiting returns what the call's open approval request waits for at now, when signatures may have
// ended; ok is false if none is open.
func (c *Call) Waiting(now time.Time) (w Waiting, ok bool) {
	if c.State != message.ToolCallAsking || c.Request == nil {
		return Waiting{}, false
	}
	r := c.Request.Requirement
	w = Waiting{Key: c.Key, Digest: c.Digest, Tally: c.Tally(func(v Vote) bool { return !v.HasEnded(now) }), Ends: r.Ends()}
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
