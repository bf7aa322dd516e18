package toolcall

import "github.com/askance-dev/askance/message"

// Cause names a transition of the machine. Causes are stored in event records and shown to
// people; they never change their meaning.
type Cause string

// The causes. Those marked (ours) are askance's extensions of AgentScope's machine.
const (
	CausePropose   Cause = "propose"   // a runtime proposed the call
	CauseRefuse    Cause = "refuse"    // unknown tool, or input that is not a JSON object or violates the schema
	CauseDeny      Cause = "deny"      // the policy denied the call
	CauseAsk       Cause = "ask"       // the policy asked
	CauseAllow     Cause = "allow"     // the policy allowed the call
	CauseHide      Cause = "hide"      // the open approval request of another call may answer this one too
	CauseApprove   Cause = "approve"   // all required approvers approved exactly what was asked
	CauseVote      Cause = "vote"      // (ours) a person approved, and others must too
	CauseSkip      Cause = "skip"      // (ours) a person leaves the approval request to others
	CauseDelegate  Cause = "delegate"  // (ours) a person names who should respond instead
	CauseEscalate  Cause = "escalate"  // (ours) more people are asked as time passes
	CauseEdit      Cause = "edit"      // (ours) a person changed the arguments, which are decided again
	CauseReject    Cause = "reject"    // a person rejected the call
	CauseRespond   Cause = "respond"   // (ours) a person gave the result instead of the tool
	CauseExpire    Cause = "expire"    // (ours) no approver responded in time
	CauseSubmit    Cause = "submit"    // handed to a worker or an external party
	CauseStart     Cause = "start"     // (ours) an owner took the attempt; durable before the effect
	CauseOffer     Cause = "offer"     // (ours) another attempt, or the same one offered again
	CauseLose      Cause = "lose"      // (ours) the owner of the attempt fell silent
	CauseReturn    Cause = "return"    // (ours) a worker did not begin the attempt and returned it
	CauseSuspend   Cause = "suspend"   // (ours) blocked until a person resolves it
	CauseResult    Cause = "result"    // the owner reported the result
	CauseResolve   Cause = "resolve"   // (ours) a person stated the outcome of a call
	CauseRevoke    Cause = "revoke"    // (ours) an approval was revoked before the start
	CauseInterrupt Cause = "interrupt" // the reply was interrupted
	CauseBypass    Cause = "bypass"    // (ours) the agent ran an external call that was not decided here
)

// none is the state before the first record.
const none message.ToolCallState = ""

// Transition is one row of the table.
type Transition struct {
	Cause Cause
	From  []message.ToolCallState
	To    message.ToolCallState
	Why   string
}

const (
	pending   = message.ToolCallPending
	asking    = message.ToolCallAsking
	allowed   = message.ToolCallAllowed
	submitted = message.ToolCallSubmitted
	finished  = message.ToolCallFinished
)

type states = []message.ToolCallState

// Table returns every transition of the machine, and is the only place that defines them. The
// machine, the diagram in the docs and the replay check are made from it. No row leads out of
// finished.
func Table() []Transition {
	return []Transition{
		{CausePropose, states{none}, pending, "a runtime proposed the call"},
		{CauseRefuse, states{pending}, finished, "unknown tool or bad input"},
		{CauseDeny, states{pending, asking}, finished, "the policy denies it, or now denies what was asked"},
		{CauseAsk, states{pending}, asking, "the policy asks a person"},
		{CauseAllow, states{pending}, allowed, "the policy allows it"},
		{CauseHide, states{pending}, pending, "an open approval request may resolve this call too"},
		{CauseVote, states{asking}, asking, "a person approved what was asked; others must agree"},
		{CauseSkip, states{asking}, asking, "a person leaves the approval request to others"},
		{CauseDelegate, states{asking}, asking, "a person delegates the approval request"},
		{CauseEscalate, states{asking}, asking, "more people are asked"},
		{CauseApprove, states{asking}, allowed, "all required approvers approved what was asked"},
		{CauseEdit, states{asking}, pending, "edited arguments are decided again"},
		{CauseReject, states{asking}, finished, "a person rejected it"},
		{CauseRespond, states{asking}, finished, "a person responded for the tool"},
		{CauseExpire, states{asking}, finished, "no approver responded in time"},
		{CauseSubmit, states{allowed}, submitted, "handed to a worker or an external party"},
		{CauseStart, states{allowed}, allowed, "a local attempt has an owner"},
		{CauseStart, states{submitted}, submitted, "a worker owns the attempt"},
		{CauseOffer, states{allowed}, allowed, "another local attempt"},
		{CauseOffer, states{submitted}, submitted, "another attempt, or the same one offered again"},
		{CauseLose, states{allowed}, allowed, "the owner fell silent; retried later"},
		{CauseLose, states{submitted}, submitted, "the worker fell silent; retried later"},
		{CauseReturn, states{allowed}, allowed, "the engine returned a local attempt before it began; retried later"},
		{CauseReturn, states{submitted}, submitted, "a worker returned the attempt before it began; retried later"},
		{CauseSuspend, states{allowed}, allowed, "blocked until a person resolves it"},
		{CauseSuspend, states{submitted}, submitted, "blocked until a person resolves it"},
		{CauseResult, states{allowed, submitted}, finished, "the owner reported the result"},
		{CauseResolve, states{allowed, submitted}, finished, "a person stated its outcome"},
		{CauseRevoke, states{allowed, submitted}, finished, "the approval was revoked before the start"},
		{CauseInterrupt, states{pending, asking, allowed, submitted}, finished, "the reply was interrupted"},
		{CauseBypass, states{pending, asking}, finished, "the agent ran it before it was decided here"},
	}
}

// Ends returns the causes with which a call can end.
func Ends() []Cause {
	var out []Cause
	for _, t := range Table() {
		if t.To == finished {
			out = append(out, t.Cause)
		}
	}
	return out
}

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
			next{retrying, blocked, finished}, "the tool's timeout; an owner that is silent for a lease (10 s), or runs longer than the timeout by a lease and at least 10 s, loses the attempt; a runtime has no limit: it can report that the outcome is unknown, and an operator can resolve the call"},
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
