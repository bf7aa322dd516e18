package toolcall

import "github.com/askance-dev/askance/message"

// ExplainRequest asks why a call was decided as it was.
type ExplainRequest struct {
	V int `json:"v,omitzero"`
	Key
}

// ExplainReply explains why a call was decided as it was, and how the current policy
// judges it.
type ExplainReply struct {
	Key
	State message.ToolCallState `json:"state"`
	// Definition and Parent are the call's.
	Definition *DefinitionRef `json:"definition,omitzero"`
	Parent     *Parent        `json:"parent,omitzero"`
	// Decision is the recorded decision; absent if the call is not decided yet.
	Decision *Decision `json:"decision,omitzero"`
	// StandingApprovals are the standing approvals that the decision relies on, in their
	// current state.
	StandingApprovals []StandingStatus `json:"standing_approvals"`
	// Recorded is the explanation recorded with the decision, in the form of Trace, if
	// rules wanted it recorded (audit: {level: full}). It contains truncated: true if it
	// was too large to be stored whole.
	Recorded message.RawJSON `json:"recorded,omitzero"`
	// Trace is how the current policy judges the call, rule by rule, in the form of
	// askance policy explain --json; its bundle shows whether that is the policy that
	// decided. Trace and Recorded are absent if they would show what was redacted;
	// Withheld then says so for Trace.
	Trace    message.RawJSON `json:"trace,omitzero"`
	Withheld string          `json:"withheld,omitzero"`
}

// StandingStatus is a standing approval with its current state.
type StandingStatus struct {
	Standing *StandingApproval `json:"standing_approval"`
	State    StandingState     `json:"state"`
	// UsesLeft is how many more calls it can answer for; absent if its uses are not
	// counted.
	UsesLeft *int `json:"uses_left,omitzero"`
}
