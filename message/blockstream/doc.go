// Package blockstream implements the content-block stream: the JSON frames of a WebSocket on
// which a chat frontend shows an agent's turns as indexed blocks and people approve tool
// calls (approval_request, approval_result). It has the frames and commands with their codec,
// a [Mapper] from AgentScope events to frames, and the conversion of approvals to responses.
// It does no I/O.
//
//	m, err := blockstream.NewMapper(blockstream.Config{Session: "s1"})
//	…
//	frames, err := m.Event(event) // for each event, in order
//	blockstream.Stamp(frames, seq)
//	for _, f := range frames {
//		buf, err = blockstream.AppendFrame(buf[:0], f) // one text frame each
//	}
//
//	cmd, err := blockstream.DecodeCommand(data)
//	if a, ok := cmd.(*blockstream.Approval); ok {
//		responses, err := m.Responses(a) // for the engine
//	}
//
// # Guarantees
//
//   - For any events, the frames keep the order that clients rely on: turns do
//     not overlap, one block is open at a time, indices run 0, 1, … in each turn,
//     a call's id is used once, before its result.
//   - The same events give the same frames and approval keys, on every replica and after
//     every restart. The package reads no clock.
//   - An approval_request shows exactly the arguments that will run, or is not made. It can
//     be read in both of its forms, and is stopped at once.
//   - An open approval is on every client's screen: it is shown again when a turn begins, and
//     [Mapper.Resend] shows those older than the retained events.
//   - An approval command responds to the approval requests as they were sent, with their
//     digests of that time, or not at all: any word, member, id or number of decisions that
//     does not match refuses it whole. It never changes the tool.
//   - What is written can be read back, and writing it again gives the same bytes. Commands
//     are bounded ([MaxCommandBytes]).
//   - Errors are [*message.Error]s; callers distinguish them by the sentinel errors of this
//     package.
//
// It does not store frames for replay (map the events again, see [Cursor]), send heartbeats,
// count down time limits or authenticate: the connection determines who decides, and a
// command that says so is refused.
//
// # Losses and differences
//
// The original is described by two pages and two client programs; what they leave open is
// decided here. What AgentScope's events contain and the stream cannot represent is lost.
// This is the complete list:
//
//	 #  AgentScope, or the original              here
//	 1  REPLY_START: name and role               lost
//	 2  ids and times of blocks                  lost; a block's place is its index
//	 3  text, thinking of several blocks at      the open one is stopped; more of it is a further
//	    once                                     block of the same kind
//	 4  empty text and thinking blocks           lost
//	 5  thinking in chat mode                    lost; in agent mode it may stand anywhere, not
//	                                             only first
//	 6  TOOL_CALL_DELTA                          lost: a tool_use has the whole input
//	 7  a tool_use at TOOL_CALL_END              sent when the call begins (TOOL_RESULT_START,
//	                                             REQUIRE_EXTERNAL_EXECUTION) or the turn ends, so
//	                                             that it stands behind its approval, with the
//	                                             input that runs: one of the published clients
//	                                             cannot take a result if any delta came between
//	                                             (calls that run at once can still cause that)
//	 8  input that is not a JSON object, over    input {}, and the first 500 characters in
//	    256 KiB or over 56 levels                tool_content_message
//	 9  an approval request about such input              refused with ErrUnshowable; other surfaces have it
//	10  a second TOOL_CALL_START of one id       skipped, as ids are unique in a turn
//	11  TOOL_RESULT_*_DELTA, state running       lost: a tool_result comes at the end
//	12  output over 500 characters               lost here, kept elsewhere; artifact says how much
//	13  output that is not text                  lost; artifact lists media types and URLs
//	14  result states denied and interrupted     "error"
//	15  metadata of results and events           lost
//	16  suggested_rules                          a member of each action, which the original
//	                                             has not; likewise description
//	17  rules accepted with a response           no place in a command: refused there; lost in
//	                                             approval_result
//	18  a response that changes the tool's name  refused
//	19  a response for the tool (respond)        read in commands; approval_result says approve,
//	                                             as AgentScope's event does
//	20  REQUIRE_EXTERNAL_EXECUTION               a tool_use like others: that it runs elsewhere
//	                                             is lost
//	21  DATA_BLOCK_*, HINT_BLOCK, CUSTOM,        lost
//	    MODEL_CALL_*, EXCEED_MAX_ITERS,
//	    USER_INTERRUPT, unknown events
//	22  finished_reason                          end_turn always; interrupted and error show in a
//	                                             terminal text block, exceed_max_iters is lost
//	23  the error's type                         code LLM_ERROR always; can_retry is derived
//	24  a reply that begins while another is     the older turn is ended; its later events are
//	    open                                     skipped, but its approval requests are still asked, and
//	                                             asked again in each turn until they are decided
//	25  a turn without REPLY_START or            begun by its first visible event; ended by the
//	    REPLY_END                                next turn
//	26  no zone in times                         Config.Location, else UTC; timestamp 0 and
//	                                             duration_ms 0 if a time cannot be read
//	27  approval_key ends in a count             it ends in a number derived from the approval request:
//	                                             counts repeat after a restart
//	28  a time limit of 300 s                    the approval request's deadline; no member if there is
//	                                             none. The engine rejects, not the stream
//	29  partial responses                        one approval_result when all calls of a request
//	                                             are decided; undecided ones that ended are
//	                                             rejected in it
//	30  approvals of an ended turn               approval_result only if some turn is open
//	31  approval_key, session_id, message_id     all accepted; the key is required once the session
//	    in an approval command: unknown          has had more than one request
//	32  unknown members                          refused in approvals, dropped elsewhere; unknown
//	                                             commands are refused
//	33  null and absent                          the same when read; is_final false is not written
//	34  event_id: place unknown                  a member of every frame
//	35  stop, ping, pong, error; the text of     our names; chat is read with message, content
//	    chat                                     or text
package blockstream
