// Package agui reads and writes AG-UI, the protocol between agents and the programs in
// which people see them, on the server side: it reads the input of a run and writes the 31
// events, framed as server-sent events. It does no I/O and starts no goroutines.
//
//	frame, err := agui.AppendFrame(nil, &agui.RunStarted{ThreadID: in.ThreadID, RunID: in.RunID, ProtocolVersion: new(agui.Version)})
//
// An [Event] is a pointer to one of the structs named after the protocol:
// TEXT_MESSAGE_START is [TextMessageStart], and its member messageId is MessageID. Optional
// members are pointers; nil means absent, and anything else is written, including "".
//
// Guarantees:
//
//   - [AppendJSON] writes only what AG-UI 1.0's own client accepts unchanged: no null for an
//     absent member, every required member, on one line. What it cannot write that way is
//     an error, and nothing is written.
//   - A strict [Decoder] accepts exactly what the schema of 1.0 accepts. The zero Decoder
//     accepts, repairs and refuses what the client does, and reports what it repaired. The
//     results are compared with recorded ones in testdata/ag-ui.
//   - What was written is read back unchanged, if it is nested less than 64 levels deep and
//     no longer than [MaxFrameBytes].
//   - For a peer that declared no version, [Peer.Adapt] returns only what 0.0.59 also
//     accepts.
//   - Errors are *[message.Error]s whose cause gives the position as a JSON pointer.
//
// # Mapping
//
// A [Mapper] turns the AgentScope events of a reply into the events of AG-UI runs, in an order
// that the 1.0 client and the specification allow for every input. An AgentScope reply may
// span several runs: AG-UI asks a person by ending the run with an interrupt, and the responses
// begin another run.
//
//	REPLY_START                   RUN_STARTED; also when a reply continues
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
// The id of each event is metadata.agentscope.eventId, and its time the timestamp. Values
// without a member of their own are next to the id: sessionId, replyId, name and role of a
// reply, modelName and the counters of a model call, the state of a result, finishedReason.
//
// A call keeps its id, unless the history has a call of another reply with that id: models
// number their calls from one in each reply, but for the client one id is one call. Then it
// becomes "<reply>/<call>", and metadata.agentscope.toolCallId is the original id.
//
// A [History] builds messages from events like the client does (the client's messages are
// recorded in testdata/order), so that a server can restate them before an interrupt, which
// older clients expect ([Mapper.Park]).
//
// # Resuming
//
// [Thread.Resume] checks the responses of a run to the open interrupts of its thread: all
// of them or none, before they expire, nothing that was not offered, and the first decision
// is final. [RunInput.ToolResults] reads the results of the client's own tools.
//
// # Losses
//
// A mapping loses what the other side cannot represent. A Mapper reports each loss as
// it happens (OnLoss), and Adapt returns them.
//
//	time            created_at: its zone, fractions of a millisecond, and invalid times
//	metadata        the keys "agentscope" and "ag-ui" of an event's metadata, which are reserved; what JSON cannot represent
//	usage-parts     cache counters that are larger than the input count that should include them
//	media-stream    the pieces of a data block: it is shown once complete; neither it nor a hint is returned in messages
//	result-stream   the pieces of a result, and when it began: AG-UI has only whole ones
//	result-state    error, interrupted, denied: only in the metadata, because no member has it
//	request-time   when an approval request was opened: it is shown when the reply parks
//	answer          responses given elsewhere, and what they changed: only the result shows them
//	external        that a worker has the call
//	max-iters       EXCEED_MAX_ITERS, which REPLY_END repeats
//	out-of-place    events of another reply, after the run's end, for a block that is not open, twice the same start
//	typed           the meaning of an event of unknown type: it is passed on unchanged
//	cancelled       to peers before 1.0: that an end was intended; it becomes a RUN_ERROR or a success
//	pending         to peers before 1.0: which of its own tools the client has to run; the client finds out itself
//	result-media    to peers before 1.0: everything but text in a tool's result, and file sources
//
// # Left out
//
// It does not read the binary (protobuf) form, which the client never asks for, and does
// not publish capabilities, because AG-UI has no place for them.
package agui
