package blockstream

import "github.com/askance-dev/askance/message"

// CommandType is the discriminator of a command that the client sends.
type CommandType string

// The commands. The names auth, subscribe, chat and approval are the
// original's; stop, ping and pong are ours.
const (
	CommandAuth      CommandType = "auth"
	CommandSubscribe CommandType = "subscribe"
	CommandChat      CommandType = "chat"
	CommandStop      CommandType = "stop"
	CommandApproval  CommandType = "approval"
	CommandPing      CommandType = "ping"
	CommandPong      CommandType = "pong"
)

// Command is one JSON object that the client sends in a text frame of its own.
// The set is closed: a pointer to one of the structs below.
//
//sumtype:decl
type Command interface {
	// Type is the discriminator.
	Type() CommandType
	// MarshalJSON gives the command as it travels.
	MarshalJSON() ([]byte, error)

	isCommand()
}

// Auth gives the token, the answer to connected.
type Auth struct{ Token string }

// Subscribe asks for a session's frames behind LastEventID; "": all there are.
type Subscribe struct {
	Session     message.SessionID
	LastEventID string
}

// Chat is what a person says. Text travels as message; content and text are
// read, too.
type Chat struct {
	Session     message.SessionID // "": a new one
	Text        string
	ContentURLs []string
}

// Stop ends the running turn.
type Stop struct {
	Session   message.SessionID
	MessageID message.ReplyID
}

// Approval answers an approval_request. Only Decisions must be there; a key is
// needed when more than one request is open.
type Approval struct {
	Key       string // approval_key
	Session   message.SessionID
	MessageID message.ReplyID
	Decisions []Decision
}

// PingCommand asks for a pong.
type PingCommand struct{}

// PongCommand answers a ping.
type PongCommand struct{}

// Type returns CommandAuth.
func (*Auth) Type() CommandType { return CommandAuth }

// Type returns CommandSubscribe.
func (*Subscribe) Type() CommandType { return CommandSubscribe }

// Type returns CommandChat.
func (*Chat) Type() CommandType { return CommandChat }

// Type returns CommandStop.
func (*Stop) Type() CommandType { return CommandStop }

// Type returns CommandApproval.
func (*Approval) Type() CommandType { return CommandApproval }

// Type returns CommandPing.
func (*PingCommand) Type() CommandType { return CommandPing }

// Type returns CommandPong.
func (*PongCommand) Type() CommandType { return CommandPong }

func (*Auth) isCommand()        {}
func (*Subscribe) isCommand()   {}
func (*Chat) isCommand()        {}
func (*Stop) isCommand()        {}
func (*Approval) isCommand()    {}
func (*PingCommand) isCommand() {}
func (*PongCommand) isCommand() {}
