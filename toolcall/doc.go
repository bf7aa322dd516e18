// Package toolcall models a tool call and its life as a pure state machine.
//
// A [Call] is the whole state of one call, and an [EventRecord] one entry of its history.
// An [ApprovalRequest] is what people are asked, a [Requirement] what the rule demands of
// them, a [Vote] the response of one of them, a [Grant] the signed permission to run the
// call once, and a [StandingApproval] what an approval allows to run later. [Call.Phase]
// says where the call is.
//
// [Table] lists every transition; [Machine] takes events and applies them using
// looplab/fsm. It reads no clock and does no I/O: time comes in with the events, effects
// go out, and the engine performs them once the new state is durable. [Events] turns a
// durable event record into the AgentScope events that it stands for. [Replay] proves that
// a list of event records is a history that this machine could have written. [PhaseTable]
// says what each phase of a call means, and the machine refuses any step between phases
// that the table lacks.
//
// # Guarantees
//
//   - A finished call never moves again.
//   - Nothing is started or submitted that was not allowed: the table has no other
//     transition into submitted, and none from pending or asking to a start.
//   - A response counts only for the approval request whose digest it names.
//   - An attempt's number is a fence: events of an older attempt are refused.
//   - A step that fails leaves the machine as it was.
//
// # What it does not do
//
// It knows nothing about policies, people or transports: the engine turns a decision into
// [Decided] and checks who may respond.
package toolcall
