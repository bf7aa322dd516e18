// Package chatstream reads the stream of a model and translates it into
// AgentScope's events and tool calls.
//
// The format is OpenAI's published streaming format of chat completions, which
// many servers speak: server-sent events whose data is one
// "chat.completion.chunk" each, and "[DONE]" after the last. A recording may
// hold several completions, one after the other: the turns of one agent.
//
//	r := chatstream.NewReader(body)
//	t := chatstream.NewTurn(message.Codec{}, "reply-1")
//	for {
//		chunk, err := r.Next() // ErrDone ends the turn, io.EOF the recording
//		…
//		events, err := t.Add(chunk)
//	}
//	events, err := t.End()
//	if t.Complete() {
//		calls := t.Calls()
//	}
//
// Unknown members are dropped, because servers add their own; any other mistake is an error, and
// one that the Reader finds is an *Error that names the line. Common deviations of servers from
// the format are accepted:
//
//   - comments, any of the three line ends, a byte order mark;
//   - chunks without object, choices or usage, and choices after the finish_reason;
//   - reasoning_content, or reasoning: a thinking block;
//   - a refusal: text, because it is what the model said;
//   - a call without an id, or with one that the reply already has: it gets another.
//
// Calls are complete when the model gives stop or tool_calls as the reason why it stopped. With
// any other reason they must not be proposed: Complete is false, and they get no TOOL_CALL_END.
//
// Only one choice per completion is read. Images, audio, log probabilities and
// the old function_call are not.
package chatstream
