package toolcall

import (
	"slices"

	"github.com/askance-dev/askance/message"
)

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

// PhaseWords are the texts of [Phases].
func PhaseWords() []string {
	var out []string
	for _, p := range Phases() {
		out = append(out, string(p))
	}
	return out
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

// PhaseRow is one row of the table of phases.
type PhaseRow struct {
	Phase Phase
	Means string
	SetBy string  // who moves a call into the phase
	Next  []Phase // the phases that one step can lead to
	Lasts string  // what ends the phase, and after how long
}

// PhaseTable returns the table of phases. The machine refuses a step that the table lacks,
// and the documentation is generated from it.
func PhaseTable() []PhaseRow {
	const (
		waiting  = PhaseWaiting
		asking   = PhaseAsking
		ready    = PhaseReady
		queued   = PhaseQueued
		running  = PhaseRunning
		retrying = PhaseRetrying
		blocked  = PhaseBlocked
		finished = PhaseFinished
	)
	type next = []Phase
	return []PhaseRow{
		{waiting, "not decided: other calls of the reply come first", "the runtime that proposes it, an approver who edits it",
			next{waiting, asking, ready, finished}, "until the calls before it finish, or the approval request that also covers it closes"},
		{asking, "people are asked", "the engine, if the policy asks",
			next{asking, waiting, ready, finished}, "until people respond, or until the deadline of the approval request, which denies it; without a deadline it has no limit"},
		{ready, "allowed; an engine has to begin it", "the policy, the last approver, a retry of a local call",
			next{queued, running, finished}, "at once on the engine that decided it, after the grace period (1 s) on any other engine that has the tool"},
		{queued, "waits for a worker, or for the result of an external tool", "the engine that offers it",
			next{queued, running, retrying, blocked, finished}, "a grant lasts for the tool's offer timeout (10 min) and is then renewed; the queue timeout of the tool blocks it; an external call has no limit"},
		{running, "an engine, a worker or the runtime of an external call owns the attempt", "the owner that starts it",
			next{retrying, blocked, finished}, "the tool's timeout; an owner that is silent for a lease (10 s) loses the attempt; a runtime has no limit: it can report that the outcome is unknown, and an operator can resolve the call"},
		{retrying, "an attempt was lost or returned; the next one is due later", "the engine that misses the owner, the owner, or a worker that rejects the task",
			next{ready, queued, blocked, finished}, "the tool's backoff (1 s, doubled for each attempt, at most 5 min); after 8 returns in a row the call is blocked"},
		{blocked, "needs an operator: the outcome is unknown, the retries are exhausted, or no worker can run it", "the engine, or the runtime of an external call",
			next{ready, queued, retrying, finished}, "until an operator resolves it, or its owner reports the result after all; it has no limit"},
		{finished, "has its result", "the sender of the result, or the one who ends the call",
			nil, "it has no end"},
	}
}

// phaseAfter maps each phase to the phases that one step can lead to.
var phaseAfter = func() map[Phase][]Phase {
	out := map[Phase][]Phase{"": {PhaseWaiting}}
	for _, r := range PhaseTable() {
		out[r.Phase] = r.Next
	}
	return out
}()

func canFollow(before, after Phase) bool {
	return slices.Contains(phaseAfter[before], after)
}
