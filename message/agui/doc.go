// Package agui reads and writes AG-UI, the protocol between agents and the
// programs in which people see them, for a server: it reads the input of a run
// and writes the 31 events, framed as server-sent events. It does no I/O and
// starts no goroutines.
//
//	frame, err := agui.AppendFrame(nil, &agui.RunStarted{ThreadID: in.ThreadID, RunID: in.RunID, ProtocolVersion: new(agui.Version)})
//
// An [Event] is a pointer to one of the structs named after the wire:
// TEXT_MESSAGE_START is [TextMessageStart], its member messageId is MessageID.
// Optional members are pointers; nil is absent and anything else is written,
// the empty string too.
//
// Guarantees:
//
//   - [AppendJSON] writes only what AG-UI 1.0's own client takes unchanged: no
//     null for an absent member, every required member, on one line. What it
//     cannot write so is an error, and nothing is written.
//   - A strict [Decoder] accepts exactly what the schema of 1.0 accepts; a zero
//     one accepts, repairs and refuses what the client does, and reports what it
//     repaired. The verdicts are compared with recorded ones in testdata/ag-ui.
//   - What was written is read back as the same, if it is nested less deeply
//     than 64 levels and no longer than [MaxFrameBytes].
//   - To a peer that declared no version, [Peer.Adapt] gives only what 0.0.59
//     takes too.
//   - Errors are *[message.Error]s whose cause names the place by JSON pointer.
//
// A [Verifier] checks the order of a stream's events, by the rules that the
// 1.0 client enforces (its recorded verdicts are in testdata/order) and, if
// Strict, by those that the specification has beyond them. [Chunks] turns the
// chunk events into the start, content and end that they stand for.
//
// # Mapping
//
// A [Mapper] turns the AgentScope events of a reply into the events of AG-UI
// runs. A Verifier accepts their order for every input. An AgentScope reply
// spans several runs: AG-UI asks a person by ending the run with an interrupt,
// and the answers begin another.
//
//	REPLY_START                   RUN_STARTED; also when a reply goes on
//	MODEL_CALL_START, _END        STEP_STARTED, STEP_FINISHED "model:<n>"; tokens in RUN_FINISHED.usage
//	TEXT_BLOCK_*                  TEXT_MESSAGE_*, the block's id as message id
//	THINKING_BLOCK_*              REASONING_* and REASONING_MESSAGE_*, one id
//	DATA_BLOCK_*                  ACTIVITY_SNAPSHOT "agentscope.data", at the end
//	HINT_BLOCK                    ACTIVITY_SNAPSHOT "agentscope.hint"
//	TOOL_CALL_*                   TOOL_CALL_*, in this round's text message or one of its own
//	TOOL_RESULT_*                 TOOL_CALL_RESULT, at the end
//	REQUIRE_USER_CONFIRM          an interrupt of reason tool_call, when the reply parks
//	REQUIRE_EXTERNAL_EXECUTION    the client's tool: pendingToolCallIds, when the reply parks;
//	                              a worker's: nothing, or an interrupt "askance:external_execution"
//	REPLY_END completed           RUN_FINISHED success
//	REPLY_END interrupted         RUN_FINISHED cancelled; before 1.0 RUN_ERROR cancelled, or success if the
//	                              run cancelled all approval requests, which an error would leave open
//	REPLY_END exceed_max_iters    RUN_FINISHED cancelled; before 1.0 RUN_ERROR exceed_max_iters
//	REPLY_END error               RUN_ERROR with the error's type as code
//	CUSTOM                        CUSTOM, its name after "agentscope."
//	unknown                       RAW, source "agentscope"
//
// The id of each event is metadata.agentscope.eventId, its time the timestamp;
// what has no member of its own stands next to the id: sessionId, replyId, name
// and role of a reply, modelName and the counters of a model's call, the state
// of a result, finishedReason.
//
// A call keeps its id, unless the history has one of another reply under it:
// models number their calls from one in each reply, and to the client one id is
// one call. Then it is "<reply>/<call>", and metadata.agentscope.toolCallId says
// which it is.
//
// A [History] folds events into messages as the client does (what the client
// had is recorded in testdata/order), so that a server can restate them before
// an interrupt, which older clients expect ([Mapper.Park]).
//
// # Resuming
//
// [Thread.Resume] checks what a run brings for the interrupts that its thread
// has open: all of them or none, before they expire, nothing that was not
// offered, the first decision stands. Its answers become the AgentScope event
// that goes on with the reply ([Resumption.Event]): an approval names the call
// as it was asked about, with the arguments as edited. [RunInput.ToolResults]
// reads what the client's own tools brought.
//
// # Losses
//
// Everything that a mapping cannot carry. A Mapper reports each as it happens
// (OnLoss), and Adapt returns them.
//
//	time            created_at: its zone, what is below milliseconds, and what is no time
//	metadata        the keys "agentscope" and "ag-ui" of an event's metadata, which are taken; what JSON cannot hold
//	usage-parts     cache counters larger than the input that they would have to be part of
//	media-stream    the pieces of a data block: it is shown when it is complete; neither it nor a hint comes back in messages
//	result-stream   the pieces of a result, and when it began: AG-UI has only whole ones
//	result-state    error, interrupted, denied: in the metadata alone, no member says it
//	request-time   when an approval request was asked: it shows when the reply parks
//	answer          answers given elsewhere, and what they changed: the result alone tells
//	external        that a worker has the call
//	max-iters       EXCEED_MAX_ITERS, which REPLY_END repeats
//	out-of-place    events of another reply, after the run's end, for a block that is not open, twice the same start
//	typed           the meaning of an event of unknown type: it travels as it came
//	abandoned       from AG-UI: that no answer came; to AgentScope it is a denial, to all approval requests an interrupt
//	cancelled       to peers before 1.0: that an end was on purpose; it is a RUN_ERROR or a success
//	pending         to peers before 1.0: which of its own tools the client is to run; the client finds out alone
//	result-media    to peers before 1.0: everything but text in a tool's result, and file sources
//
// # Left out
//
// It does not read the binary (protobuf) form, which the client never asks for,
// and it does not publish capabilities: AG-UI has no place for them.
package agui
