package toolcall

import "github.com/askance-dev/askance/message"

// Phase is where a call is. Call.Phase computes it; it is not stored. PhaseTable says what
// each phase means and what can follow.
type Phase string

// The phases, in the order in which a call passes through them.
const (
	PhaseWaiting  Phase = "waiting"
	PhaseAsking   Phase = "asking"
	PhaseReady    Phase = "ready"
	PhaseQueued   Phase = "queued"
	PhaseRunning  Phase = "running"
	PhaseRetrying Phase = "retrying"
	PhaseBlocked  Phase = "blocked"
	PhaseFinished Phase = "finished"
)

// Phases returns all phases, in the order in which a call passes through them.
func Phases() []Phase {
	return []Phase{PhaseWaiting, PhaseAsking, PhaseReady, PhaseQueued, PhaseRunning, PhaseRetrying, PhaseBlocked, PhaseFinished}
}

// Phase computes where the call is. Use it instead of combining the state with other
// fields.
func (c *Call) Phase() Phase {
	switch c.State {
	case message.ToolCallPending:
		return PhaseWaiting
	case message.ToolCallAsking:
		return PhaseAsking
	case message.ToolCallFinished:
		return PhaseFinished
	case message.ToolCallAllowed, message.ToolCallSubmitted:
	default: // not recorded yet
		return ""
	}
	switch {
	case c.Blocked != NotBlocked:
		return PhaseBlocked
	case !c.RetryAt.IsZero():
		return PhaseRetrying
	case c.Started():
		return PhaseRunning
	case c.State == message.ToolCallSubmitted:
		return PhaseQueued
	}
	return PhaseReady
}
