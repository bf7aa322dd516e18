// Package agentscope serves sessions to AgentScope 2.0 frontends: its events
// over SSE, its three answers by POST, and the history as its messages.
//
//	agentscope.New(agentscope.Config{Runners: runners})
//
// The routes are those of AgentScope's reference service below /agentscope, and add what it
// lacks: ids to resume from, the history, and errors that say what to do. Clients of AgentScope
// 1.x use the same routes by media type (package msgv1). AGENTSCOPE.md is the guide.
//
// # Guarantees
//
//   - A frontend that builds messages from the events it gets (message.Append, or upstream's
//     append_event) has the same messages after any reconnect as without one, and the same as
//     every other frontend.
//   - A confirm answers the approval request that this peer was shown, even if another one is
//     open by then: the response has the digest of the REQUIRE_USER_CONFIRM that was sent on the
//     peer's streams, found by the arguments that the confirm returns. See shown.
//   - An event is carried out completely, or refused before its first part. A part that loses a
//     race afterwards is an error that says so; the other parts stand.
//   - The author of a response is the authenticated peer. It needs the role approver to confirm,
//     and runtime to begin turns and report results, in its own sessions.
//
// # Deviations
//
// Where upstream is unsafe, or leaves a choice, this surface differs on purpose.
// These are all the points; deviations_test.go shows each:
//
//	 #  AgentScope                               here
//	 1  a confirm's tool_call.name replaces the   refused: an answer changes the arguments,
//	    tool                                      never the tool
//	 2  edited input runs unchecked               validated and decided again; deny wins
//	 3  any rules of a confirm are added,         only suggested ones; others refuse the event
//	    with any content
//	 4  rules of a refusal are dropped            the same
//	 5  reply_id of answers is not checked        it names the reply; calls of others are unknown
//	 6  a second answer in one event counts       refused
//	 7  answers queue while a run is active       they are decided at once: 409 if too late
//	 8  a stream begins with the buffered events  the same; with Last-Event-ID or after=SEQ it
//	    of the current run                        begins there, after=0 with the first
//	 9  frames have no id                         each has one, for Last-Event-ID
//	10  REQUIRE_USER_CONFIRM has a random id      it ends in the approval request's digest
//	11  a frontend may send any event             the three answers only; event records are askance's
//	12  input null runs an interrupted turn again nothing to do: turns go on by themselves
//	13  text and thinking of an agent that ends   kept: the events are the truth
//	    by an error may be lost
//	14  its web client creates, lists and pages   no such routes: a session begins with its first
//	    sessions, and asks for their status       message, messages has open_reply_id, and the
//	                                              calls of all sessions are in /v1/calls
//	15  a call that is asking or submitted        the history has the tool and the arguments of
//	    stays as streamed                         its approval request, or those that run
//	16  a second external result is queued        409 finished, with the call: the first one stands
//	17  arguments end with TOOL_CALL_END          while rules redact any, only a runtime sees the pieces;
//	                                              others get one TOOL_CALL_DELTA when it proposes the call
package agentscope
