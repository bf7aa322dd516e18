// Package chatstream reads a recorded model stream and translates it into
// AgentScope's events and tool calls, as a runtime would do live.
//
// The format is OpenAI's published streaming format of chat completions:
// server-sent events whose data is one "chat.completion.chunk" each, and
// "[DONE]" after the last. One file may hold several completions, one after
// the other: the turns of one agent.
//
//	r := chatstream.NewReader(file)
//	t := chatstream.NewTurn(message.Codec{}, "reply-1")
//	for {
//		chunk, err := r.Next() // ErrDone ends the turn, io.EOF the recording
//		…
//		events, err := t.Add(chunk)
//	}
//	events, err := t.End()
//	calls := t.Calls()
//
// Members that it does not know are dropped, because providers add their own;
// everything else that is wrong is an *Error that names the line. Only one
// choice per completion is read. Images, audio and log probabilities are not.
package chatstream
