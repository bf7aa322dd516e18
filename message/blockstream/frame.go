package blockstream

import "github.com/askance-dev/askance/message"

// FrameType is the discriminator of a frame that the server sends.
type FrameType string

// The frame types. The first six are the turn; connected, auth_ok and
// subscribed answer commands. pong and error are ours: how the original
// says these things is not published.
const (
	FrameMessageStart FrameType = "message_start"
	FrameMessageDelta FrameType = "message_delta"
	FrameMessageStop  FrameType = "message_stop"
	FrameBlockStart   FrameType = "content_block_start"
	FrameBlockDelta   FrameType = "content_block_delta"
	FrameBlockStop    FrameType = "content_block_stop"
	FrameConnected    FrameType = "connected"
	FrameAuthOK       FrameType = "auth_ok"
	FrameSubscribed   FrameType = "subscribed"
	FramePong         FrameType = "pong"
	FrameError        FrameType = "error"
)

// Frame is one JSON object that the server sends in a text frame of its own.
// The set is closed: a pointer to one of the structs below.
//
//sumtype:decl
type Frame interface {
	// Type is the discriminator.
	Type() FrameType
	// MarshalJSON gives the frame as it travels.
	MarshalJSON() ([]byte, error)

	headed
}

// headed is what every frame has from its [Header]. It closes the set.
type headed interface {
	// Head gives access to what all frames share.
	Head() *Header

	isFrame()
}

// Header is what every frame may carry; empty members are not written.
type Header struct {
	// EventID is where a subscriber goes on, see [Cursor].
	EventID string
	// MessageID names the turn. Readers must not require it: most frames of the
	// original do not show it.
	MessageID message.ReplyID
}

// Head returns h itself.
func (h *Header) Head() *Header { return h }

func (*Header) isFrame() {}

// DisplayMode says whether a turn shows the model's reasoning.
type DisplayMode string

// The modes. Thinking blocks exist in agent mode only.
const (
	ModeAgent DisplayMode = "agent"
	ModeChat  DisplayMode = "chat"
)

// Valid reports whether m is one of the modes, spelled exactly so.
func (m DisplayMode) Valid() bool { return m == ModeAgent || m == ModeChat }

// MessageStart opens a turn. Clients forget every block of the turn before.
type MessageStart struct {
	Header
	Session          message.SessionID
	Timestamp        float64 // Unix seconds
	DisplayMode      DisplayMode
	NewFromShareLink bool // is_new_session_from_share
}

// StopEndTurn is the only stop reason that is documented.
const StopEndTurn = "end_turn"

// MessageDelta comes when no further block follows.
type MessageDelta struct {
	Header
	StopReason string
}

// MessageStop closes a turn; only then clients leave "streaming".
type MessageStop struct {
	Header
	DurationMS int64
}

// BlockStart opens the block with that index: 0, 1, … over all blocks of a
// turn, from 0 in each turn.
type BlockStart struct {
	Header
	Index int
	Block ContentBlock
}

// BlockDelta adds to the open block with that index.
type BlockDelta struct {
	Header
	Index int
	Delta Delta
}

// BlockStop closes the block with that index. Final, of text blocks only, says
// that it is the last answer of the turn.
type BlockStop struct {
	Header
	Index int
	Final bool // is_final, written when true
}

// Connected is the server's first frame; the client authenticates next.
type Connected struct{ Header }

// AuthOK answers the auth command.
type AuthOK struct{ Header }

// SessionStatus is what a subscriber can expect.
type SessionStatus string

// The states of a session.
const (
	StatusRunning   SessionStatus = "running"   // replay, then live frames
	StatusCompleted SessionStatus = "completed" // replay, then nothing
)

// Subscribed answers the subscribe command; the replay follows.
type Subscribed struct {
	Header
	Session message.SessionID // "" is not written
	Status  SessionStatus
}

// Pong answers the ping command.
type Pong struct{ Header }

// ErrorCode is the closed list of what an error frame says.
type ErrorCode string

// The error codes, all of them ours.
const (
	CodeInvalidCommand   ErrorCode = "INVALID_COMMAND"           // malformed: correct it
	CodeUnauthenticated  ErrorCode = "UNAUTHENTICATED"           // authenticate first
	CodeForbidden        ErrorCode = "FORBIDDEN"                 // this principal may not do that
	CodeNotFound         ErrorCode = "NOT_FOUND"                 // no such session, or turn
	CodeApprovalUnknown  ErrorCode = "APPROVAL_NOT_FOUND"        // no approval has that key
	CodeApprovalUnclear  ErrorCode = "APPROVAL_KEY_REQUIRED"     // several are open: name one
	CodeApprovalResolved ErrorCode = "APPROVAL_ALREADY_RESOLVED" // another answer was first
	CodeApprovalExpired  ErrorCode = "APPROVAL_EXPIRED"          // it ended without an answer
	CodeApprovalChanged  ErrorCode = "APPROVAL_CHANGED"          // the approval request is another one by now
	CodeUnavailable      ErrorCode = "UNAVAILABLE"               // try again later
	CodeInternal         ErrorCode = "INTERNAL"                  // a defect of ours
)

// Error tells one client that its command had no effect. It changes no block.
type Error struct {
	Header
	Code        ErrorCode
	Message     string
	ApprovalKey string // the approval it is about; "" is not written
}

// Type returns FrameMessageStart.
func (*MessageStart) Type() FrameType { return FrameMessageStart }

// Type returns FrameMessageDelta.
func (*MessageDelta) Type() FrameType { return FrameMessageDelta }

// Type returns FrameMessageStop.
func (*MessageStop) Type() FrameType { return FrameMessageStop }

// Type returns FrameBlockStart.
func (*BlockStart) Type() FrameType { return FrameBlockStart }

// Type returns FrameBlockDelta.
func (*BlockDelta) Type() FrameType { return FrameBlockDelta }

// Type returns FrameBlockStop.
func (*BlockStop) Type() FrameType { return FrameBlockStop }

// Type returns FrameConnected.
func (*Connected) Type() FrameType { return FrameConnected }

// Type returns FrameAuthOK.
func (*AuthOK) Type() FrameType { return FrameAuthOK }

// Type returns FrameSubscribed.
func (*Subscribed) Type() FrameType { return FrameSubscribed }

// Type returns FramePong.
func (*Pong) Type() FrameType { return FramePong }

// Type returns FrameError.
func (*Error) Type() FrameType { return FrameError }
