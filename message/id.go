package message

// A distinct type for every kind of identifier, so that a CallID can never be
// passed where a ReplyID is meant. All of them are opaque text: AgentScope
// accepts any string, and call ids are made up by models, so they may repeat
// across replies and contain anything. Encoding them for a subject is the
// business of package bus alone.
type (
	// SpaceID names a space: one journal, one set of keys, one set of people.
	SpaceID string
	// SessionID names a conversation (AgentScope's session_id).
	SessionID string
	// ReplyID names one assistant reply (AgentScope's reply_id; equal to the id
	// of the message that the reply builds).
	ReplyID string
	// CallID names a tool call within one reply (AgentScope's tool_call_id).
	CallID string
)
