package message

import (
	"bytes"
	"strings"
)

// ReplyStart is REPLY_START: a reply begins. It does not change the message.
type ReplyStart struct {
	EventHeader
	Session SessionID `json:"session_id" wire:"required"`
	Name    string    `json:"name" wire:"required"`
	Role    MsgRole   `json:"role" wire:"default=assistant"`
}

// ReplyEnd is REPLY_END: the reply is over. It sets the message's end, reason and error, and
// clears the error of an earlier end.
type ReplyEnd struct {
	EventHeader
	Session        SessionID      `json:"session_id" wire:"required"`
	FinishedReason FinishedReason `json:"finished_reason" wire:"default=completed"`
	Error          *ErrorInfo     `json:"error"`
}

// ModelCallStart is MODEL_CALL_START: a model is called. It does not change the message.
type ModelCallStart struct {
	EventHeader
	ModelName string `json:"model_name" wire:"required"`
}

// ModelCallEnd is MODEL_CALL_END: a model has answered. Its counters are added to the
// message's usage, even if it was interrupted.
type ModelCallEnd struct {
	EventHeader
	InputTokens              int64               `json:"input_tokens" wire:"required"`
	OutputTokens             int64               `json:"output_tokens" wire:"required"`
	CacheInputTokens         int64               `json:"cache_input_tokens"`
	CacheCreationInputTokens int64               `json:"cache_creation_input_tokens"`
	FinishedReason           ModelFinishedReason `json:"finished_reason" wire:"default=completed"`
}

// ExceedMaxIters is EXCEED_MAX_ITERS: the agent gave up. It does not change the message; the
// reason is in the REPLY_END that follows. Deprecated upstream, but still sent.
type ExceedMaxIters struct {
	EventHeader
	Name string `json:"name" wire:"required"`
}

// UserInterrupt is USER_INTERRUPT: a person ends a waiting reply. It does not change the
// message; the events that close the calls do.
type UserInterrupt struct {
	EventHeader
}

// Custom is CUSTOM: an application's notification. It belongs to no reply and cannot be
// appended to a message.
type Custom struct {
	EventHeader `wire:"without=reply_id"`
	Name        string         `json:"name" wire:"required"`
	Value       map[string]any `json:"value"`
}

// ownNames is the prefix of the names of CUSTOM events that are reserved for askance.
const ownNames = "askance."

// Own reports whether the event is one of askance's own records, such as what a person said
// to an agent. Clients are not shown it, and agents and runtimes must not write it, because
// they could make up what people said or were asked.
func (e *Custom) Own() bool { return strings.HasPrefix(e.Name, ownNames) }

// IsOwnEvent reports whether an event's JSON is one of askance's own CUSTOM events
// ([Custom.Own]). It is false for JSON that is not an event.
func IsOwnEvent(raw RawJSON) bool {
	if !bytes.Contains(raw, []byte(ownNames)) && !bytes.Contains(raw, []byte(`\u`)) {
		return false // true of almost every event, which is then decoded only once
	}
	ev, err := DecodeEvent(raw)
	c, ok := ev.(*Custom)
	return err == nil && ok && c.Own()
}

func (*ReplyStart) Type() EventType     { return EventReplyStart }
func (*ReplyEnd) Type() EventType       { return EventReplyEnd }
func (*ModelCallStart) Type() EventType { return EventModelCallStart }
func (*ModelCallEnd) Type() EventType   { return EventModelCallEnd }
func (*ExceedMaxIters) Type() EventType { return EventExceedMaxIters }
func (*UserInterrupt) Type() EventType  { return EventUserInterrupt }
func (*Custom) Type() EventType         { return EventCustom }
