package message

// Each kind of identifier has its own type, so that a CallID is never passed where a ReplyID
// is meant. All are opaque text: AgentScope accepts any string, and models make up call ids,
// which may repeat across replies.
type (
	// SessionID names a conversation (AgentScope's session_id).
	SessionID string
	// ReplyID names one assistant reply (AgentScope's reply_id; equal to the id
	// of the message that the reply builds).
	ReplyID string
	// CallID names a tool call within one reply (AgentScope's tool_call_id).
	CallID string
)
