package blockstream

import "github.com/askance-dev/askance/message"

// CommandType is the type of a command that the client sends.
type CommandType string

// The commands. The names auth, subscribe, chat and approval come from the original
// protocol; stop, ping and pong are our extensions.
const (
	CommandAuth      CommandType = "auth"
	CommandSubscribe CommandType = "subscribe"
	CommandChat      CommandType = "chat"
	CommandStop      CommandType = "stop"
	CommandApproval  CommandType = "approval"
	CommandPing      CommandType = "ping"
	CommandPong      CommandType = "pong"
)

// Command is one JSON object that the client sends in its own text frame. The set is closed:
// a pointer to one of the structs below. [CommandTypeOf] returns its type.
//
//sumtype:decl
type Command interface{ isCommand() }

// Auth contains the token, in reply to connected.
type Auth struct {
	Token string `json:"token" wire:"required"`
}

// Subscribe asks for a session's frames after LastEventID, or for all of them if it is "".
type Subscribe struct {
	Session     message.SessionID `json:"session_id" wire:"required"`
	LastEventID string            `json:"last_event_id" wire:"omit,null"`
}

// Chat is a person's message. The text is sent as message; content and text are accepted
// too.
type Chat struct {
	Session     message.SessionID `json:"session_id" wire:"omit,null"` // "" for a new one
	Text        string            `json:"message" wire:"null,or=content text"`
	ContentURLs []string          `json:"content_urls" wire:"omitempty,null,most=64"`
}

// Stop ends the running turn.
type Stop struct {
	Session   message.SessionID `json:"session_id" wire:"omit,null"`
	MessageID message.ReplyID   `json:"message_id" wire:"omit,null"`
}

// Approval answers an approval_request. Only Decisions is required; a key is needed if more
// than one request is open.
type Approval struct {
	Key       string            `json:"approval_key" wire:"omit,null"`
	Session   message.SessionID `json:"session_id" wire:"omit,null"`
	MessageID message.ReplyID   `json:"message_id" wire:"omit,null"`
	Decisions []Decision        `json:"decisions" wire:"null,most=256"`
	_         struct{}          `wire:"closed"`
}

// PingCommand asks for a pong.
type PingCommand struct{}

// PongCommand answers a ping.
type PongCommand struct{}

func (*Auth) isCommand()        {}
func (*Subscribe) isCommand()   {}
func (*Chat) isCommand()        {}
func (*Stop) isCommand()        {}
func (*Approval) isCommand()    {}
func (*PingCommand) isCommand() {}
func (*PongCommand) isCommand() {}
