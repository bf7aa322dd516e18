// Package toolcall holds a tool call and its life as a pure state machine.
//
// A [Call] is the whole state of one call, an [EventRecord] one entry of its
// history. An [ApprovalRequest] is what people are asked, a [Requirement] what the
// rule demands of them, a [Vote] what one of them said, a [Grant] the signed
// permission to run the call once, and a [StandingApproval] what an approval lets
// run later. [Call.Phase] says where the call is.
//
// [Table] holds every transition once; [Machine] takes events and moves along
// it on looplab/fsm. It reads no clock and does no I/O: time comes in with the
// events, effects go out, and the engine performs them after the new state is
// durable. [Events] turns a durable event record into the AgentScope events it stands
// for, [Replay] proves that a list of event records is a history this machine could
// have written. [PhaseTable] says what each phase of a call means, and the machine
// refuses a step between phases that it does not have.
//
// # Guarantees
//
//   - A finished call never moves again.
//   - Nothing is started or submitted that was not allowed: the table has no
//     other arrow into submitted, and none from pending or asking to a start.
//   - An answer counts only for the approval request whose digest it names.
//   - An attempt's number is a fence: events of an older attempt are refused.
//   - A step that fails leaves the machine as it was.
//
// # What it does not do
//
// It does not know policies, people or transports: the engine turns a decision
// into [Decided] and checks who may answer.
package toolcall
