package toolcall

import "github.com/askance-dev/askance/message"

// Cause names an arrow of the machine. Causes are kept in event records and shown to
// people; they never change their meaning.
type Cause string

// The causes. Those marked (ours) are askance's extensions of AgentScope's
// machine.
const (
	CausePropose   Cause = "propose"   // a runtime proposed the call
	CauseRefuse    Cause = "refuse"    // unknown tool, or input that is no JSON object or breaks the schema
	CauseDeny      Cause = "deny"      // the policy said deny
	CauseAsk       Cause = "ask"       // the policy said ask
	CauseAllow     Cause = "allow"     // the policy said allow
	CauseHide      Cause = "hide"      // the open approval request of another call may answer this one too
	CauseApprove   Cause = "approve"   // all required approvers approved exactly what was asked
	CauseVote      Cause = "vote"      // (ours) a person approved, and others must as well
	CauseSkip      Cause = "skip"      // (ours) a person leaves the approval request to others
	CauseDelegate  Cause = "delegate"  // (ours) a person names who should answer instead
	CauseEscalate  Cause = "escalate"  // (ours) the time has come to ask further people
	CauseEdit      Cause = "edit"      // (ours) a person changed the arguments: decided again
	CauseReject    Cause = "reject"    // a person refused
	CauseRespond   Cause = "respond"   // (ours) a person gave the result instead of the tool
	CauseExpire    Cause = "expire"    // (ours) no approver answered in time
	CauseSubmit    Cause = "submit"    // handed to a worker or an external party
	CauseStart     Cause = "start"     // (ours) an owner took the attempt: durable before the effect
	CauseOffer     Cause = "offer"     // (ours) a further attempt, or the same offered again
	CauseLose      Cause = "lose"      // (ours) the owner of the attempt fell silent
	CauseReturn    Cause = "return"    // (ours) a worker did not begin the attempt and returned it
	CauseSuspend   Cause = "suspend"   // (ours) no progress without a person
	CauseResult    Cause = "result"    // the owner brought the result
	CauseResolve   Cause = "resolve"   // (ours) a person said the outcome of a blocked call
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

// Table holds every arrow of the machine; there is no other place that knows
// one. The machine, the diagram in the docs and the replay check are made
// from it. No row leads out of finished.
func Table() []Transition {
	return []Transition{
		{CausePropose, states{none}, pending, "a runtime proposed the call"},
		{CauseRefuse, states{pending}, finished, "unknown tool or bad input"},
		{CauseDeny, states{pending, asking}, finished, "the policy denies it, or denies by now what was asked"},
		{CauseAsk, states{pending}, asking, "the policy asks a person"},
		{CauseAllow, states{pending}, allowed, "the policy allows it"},
		{CauseHide, states{pending}, pending, "an open approval request may resolve this call too"},
		{CauseVote, states{asking}, asking, "a person approved what was asked; others must agree"},
		{CauseSkip, states{asking}, asking, "a person leaves the approval request to others"},
		{CauseDelegate, states{asking}, asking, "a person hands the approval request over"},
		{CauseEscalate, states{asking}, asking, "further people are asked"},
		{CauseApprove, states{asking}, allowed, "all required approvers approved what was asked"},
		{CauseEdit, states{asking}, pending, "edited arguments are decided again"},
		{CauseReject, states{asking}, finished, "a person refused"},
		{CauseRespond, states{asking}, finished, "a person answered for the tool"},
		{CauseExpire, states{asking}, finished, "no approver answered in time"},
		{CauseSubmit, states{allowed}, submitted, "handed to a worker or an external party"},
		{CauseStart, states{allowed}, allowed, "a local attempt has an owner"},
		{CauseStart, states{submitted}, submitted, "a worker owns the attempt"},
		{CauseOffer, states{allowed}, allowed, "a further local attempt"},
		{CauseOffer, states{submitted}, submitted, "a further attempt, or the same offered again"},
		{CauseLose, states{allowed}, allowed, "the owner fell silent; tried again later"},
		{CauseLose, states{submitted}, submitted, "the worker fell silent; tried again later"},
		{CauseReturn, states{allowed}, allowed, "the engine gave a local attempt back before it began; tried again later"},
		{CauseReturn, states{submitted}, submitted, "a worker returned the attempt before it began; tried again later"},
		{CauseSuspend, states{allowed}, allowed, "waits for a person to resolve it"},
		{CauseSuspend, states{submitted}, submitted, "waits for a person to resolve it"},
		{CauseResult, states{allowed, submitted}, finished, "the owner brought the result"},
		{CauseResolve, states{allowed, submitted}, finished, "a person said its outcome"},
		{CauseRevoke, states{allowed, submitted}, finished, "the approval was revoked before the start"},
		{CauseInterrupt, states{pending, asking, allowed, submitted}, finished, "the reply was interrupted"},
		{CauseBypass, states{pending, asking}, finished, "the agent ran it without a decision from here"},
	}
}

// Ends are the causes by which a call can end.
func Ends() []Cause {
	var out []Cause
	for _, t := range Table() {
		if t.To == finished {
			out = append(out, t.Cause)
		}
	}
	return out
}
