package toolcall

import "github.com/askance-dev/askance/message"

// Cause names an arrow of the machine. Causes are kept in event records and shown to
// people; they never change their meaning.
type Cause string

// The causes. Those marked (ours) are askance's extensions of AgentScope's
// machine.
const (
	Propose   Cause = "propose"   // a runtime proposed the call
	Refuse    Cause = "refuse"    // unknown tool, or input that is no JSON object or breaks the schema
	Deny      Cause = "deny"      // the policy said deny
	Ask       Cause = "ask"       // the policy said ask
	Allow     Cause = "allow"     // the policy said allow
	Hide      Cause = "hide"      // the open approval request of another call may answer this one too
	Approve   Cause = "approve"   // everybody who must has approved exactly what was asked
	Vote      Cause = "vote"      // (ours) a person approved, and others must as well
	Skip      Cause = "skip"      // (ours) a person leaves the approval request to others
	Delegate  Cause = "delegate"  // (ours) a person names who should answer instead
	Escalate  Cause = "escalate"  // (ours) the time has come to ask further people
	Edit      Cause = "edit"      // (ours) a person changed the arguments: decided again
	Reject    Cause = "reject"    // a person refused
	Respond   Cause = "respond"   // (ours) a person gave the result instead of the tool
	Expire    Cause = "expire"    // (ours) nobody answered in time
	Submit    Cause = "submit"    // handed to somebody outside the engine
	Start     Cause = "start"     // (ours) an owner took the attempt: durable before the effect
	Offer     Cause = "offer"     // (ours) a further attempt, or the same offered anew
	Lose      Cause = "lose"      // (ours) the owner of the attempt fell silent
	Return    Cause = "return"    // (ours) the owner never began the attempt and gave it back
	Suspend   Cause = "suspend"   // (ours) no progress without a person
	Result    Cause = "result"    // the owner brought the result
	Resolve   Cause = "resolve"   // (ours) a person said what became of a blocked call
	Revoke    Cause = "revoke"    // (ours) an approval taken back before the start
	Interrupt Cause = "interrupt" // the reply was interrupted
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
		{Propose, states{none}, pending, "a runtime proposed the call"},
		{Refuse, states{pending}, finished, "unknown tool or bad input"},
		{Deny, states{pending, asking}, finished, "the policy denies it, or denies by now what was asked"},
		{Ask, states{pending}, asking, "the policy asks a person"},
		{Allow, states{pending}, allowed, "the policy allows it"},
		{Hide, states{pending}, pending, "an open approval request may resolve this call too"},
		{Vote, states{asking}, asking, "a person approved what was asked; others must agree"},
		{Skip, states{asking}, asking, "a person leaves the approval request to others"},
		{Delegate, states{asking}, asking, "a person hands the approval request over"},
		{Escalate, states{asking}, asking, "further people are asked"},
		{Approve, states{asking}, allowed, "everybody who must has approved what was asked"},
		{Edit, states{asking}, pending, "edited arguments are decided again"},
		{Reject, states{asking}, finished, "a person refused"},
		{Respond, states{asking}, finished, "a person answered for the tool"},
		{Expire, states{asking}, finished, "nobody answered in time"},
		{Submit, states{allowed}, submitted, "handed to a worker or an external party"},
		{Start, states{allowed}, allowed, "a local attempt has an owner"},
		{Start, states{submitted}, submitted, "a worker owns the attempt"},
		{Offer, states{allowed}, allowed, "a further local attempt"},
		{Offer, states{submitted}, submitted, "a further attempt, or the same offered anew"},
		{Lose, states{allowed}, allowed, "the owner fell silent; tried again later"},
		{Lose, states{submitted}, submitted, "the worker fell silent; tried again later"},
		{Return, states{allowed}, allowed, "the engine gave a local attempt back before it began; tried again later"},
		{Return, states{submitted}, submitted, "the worker gave the attempt back before it began; tried again later"},
		{Suspend, states{allowed}, allowed, "waits for a person to resolve it"},
		{Suspend, states{submitted}, submitted, "waits for a person to resolve it"},
		{Result, states{allowed, submitted}, finished, "the owner brought the result"},
		{Resolve, states{allowed, submitted}, finished, "a person said what became of it"},
		{Revoke, states{allowed, submitted}, finished, "taken back before the start"},
		{Interrupt, states{pending, asking, allowed, submitted}, finished, "the reply was interrupted"},
	}
}
