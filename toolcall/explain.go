package toolcall

import "github.com/askance-dev/askance/message"

// ExplainRequest asks why a call was decided as it was.
type ExplainRequest struct {
	V int `json:"v,omitzero"`
	Key
}

// ExplainReply says why a call was decided as it was, and how the policy in
// force judges it now.
type ExplainReply struct {
	Key
	State message.ToolCallState `json:"state"`
	// Definition and Parent are those of the call.
	Definition *DefinitionRef `json:"definition,omitzero"`
	Parent     *Parent        `json:"parent,omitzero"`
	// Decision is the one on record; absent of a call that is not decided yet.
	Decision *Decision `json:"decision,omitzero"`
	// Standing approvals are the standing approvals that the decision relies on, as they stand
	// now.
	StandingApprovals []StandingStatus `json:"standing_approvals"`
	// Recorded is how the policy came to the decision, as it was explained then,
	// in the form of Trace: kept where the rules want it (audit: {level: full}).
	// truncated is true in it if it was too large to be kept whole.
	Recorded message.RawJSON `json:"recorded,omitzero"`
	// Trace is how the policy in force judges the call now, rule by rule, as
	// askance policy explain --json gives it; its bundle says whether it is the
	// policy that decided. Absent, as Recorded is then, where it would show what was
	// redacted: Withheld says so.
	Trace    message.RawJSON `json:"trace,omitzero"`
	Withheld string          `json:"withheld,omitzero"`
}

// StandingStatus is a standing approval and how it stands at the moment.
type StandingStatus struct {
	Standing *StandingApproval `json:"standing_approval"`
	State    StandingState     `json:"state"`
	// UsesLeft is for how many further calls it can answer; absent if its uses are
	// not counted.
	UsesLeft *int `json:"uses_left,omitzero"`
}
