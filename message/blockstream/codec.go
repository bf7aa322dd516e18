package blockstream

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/internal/wire"
)

// format is the wire format, as far as struct tags do not define it.
var format = wire.Format{
	Name:   func(v any) string { return names[reflect.TypeOf(v)] },
	Words:  func(t reflect.Type) []string { return words[t] },
	Rules:  map[string]func(string) (string, error){"content": checkContent},
	Types:  map[reflect.Type]wire.Type{reflect.TypeFor[Decision](): {Read: readDecision}},
	Verify: verify,
}

// names are the types on the wire. Only two deltas have one; the others are recognized by
// their members.
var names = map[reflect.Type]string{
	reflect.TypeFor[*MessageStart]():    string(FrameMessageStart),
	reflect.TypeFor[*MessageDelta]():    string(FrameMessageDelta),
	reflect.TypeFor[*MessageStop]():     string(FrameMessageStop),
	reflect.TypeFor[*BlockStart]():      string(FrameBlockStart),
	reflect.TypeFor[*BlockDelta]():      string(FrameBlockDelta),
	reflect.TypeFor[*BlockStop]():       string(FrameBlockStop),
	reflect.TypeFor[*Connected]():       string(FrameConnected),
	reflect.TypeFor[*AuthOK]():          string(FrameAuthOK),
	reflect.TypeFor[*Subscribed]():      string(FrameSubscribed),
	reflect.TypeFor[*Pong]():            string(FramePong),
	reflect.TypeFor[*Error]():           string(FrameError),
	reflect.TypeFor[*Thinking]():        string(BlockThinking),
	reflect.TypeFor[*Text]():            string(BlockText),
	reflect.TypeFor[*ToolUse]():         string(BlockToolUse),
	reflect.TypeFor[*ToolResult]():      string(BlockToolResult),
	reflect.TypeFor[*FileProcessing]():  string(BlockFileProcessing),
	reflect.TypeFor[*ApprovalRequest](): string(BlockApprovalRequest),
	reflect.TypeFor[*ApprovalResult]():  string(BlockApprovalResult),
	reflect.TypeFor[*TextDelta]():       "text_delta",
	reflect.TypeFor[*ThinkingDelta]():   "thinking_delta",
	reflect.TypeFor[*Auth]():            string(CommandAuth),
	reflect.TypeFor[*Subscribe]():       string(CommandSubscribe),
	reflect.TypeFor[*Chat]():            string(CommandChat),
	reflect.TypeFor[*Stop]():            string(CommandStop),
	reflect.TypeFor[*Approval]():        string(CommandApproval),
	reflect.TypeFor[*PingCommand]():     string(CommandPing),
	reflect.TypeFor[*PongCommand]():     string(CommandPong),
}

var words = map[reflect.Type][]string{
	reflect.TypeFor[DisplayMode]():   {string(ModeAgent), string(ModeChat)},
	reflect.TypeFor[SessionStatus](): {string(StatusRunning), string(StatusCompleted)},
	reflect.TypeFor[ResultStatus]():  {string(ResultSuccess), string(ResultError)},
	reflect.TypeFor[DecisionType]():  {string(DecisionApprove), string(DecisionEdit), string(DecisionReject), string(DecisionRespond)},
}

// FrameTypeOf returns the type of a frame.
func FrameTypeOf(f Frame) FrameType { return FrameType(names[reflect.TypeOf(f)]) }

// BlockTypeOf returns the type of a block.
func BlockTypeOf(b ContentBlock) BlockType { return BlockType(names[reflect.TypeOf(b)]) }

// CommandTypeOf returns the type of a command.
func CommandTypeOf(c Command) CommandType { return CommandType(names[reflect.TypeOf(c)]) }

func checkContent(text string) (string, error) {
	if n := utf8.RuneCountInString(text); n > MaxContent {
		return "", strictjson.Wrong(strictjson.ErrTooLarge, "%d characters, the limit is %d", n, MaxContent)
	}
	return text, nil
}

// verify checks conditions that involve several members.
func verify(v any, reading bool) error {
	switch v := v.(type) {
	case *Decision:
		return v.check()
	case *Approval:
		if reading && len(v.Decisions) == 0 {
			return strictjson.Wrong(strictjson.ErrMissingMember, "%q, with one item for each action", "decisions")
		}
	}
	return nil
}

// AppendFrame appends an encoded frame. It fails on values that the format cannot represent:
// text that is not UTF-8, arguments that are not an object, a result longer than
// [MaxContent].
func AppendFrame(dst []byte, f Frame) ([]byte, error) {
	if FrameTypeOf(f) == "" {
		return dst, message.Errorf(message.CodeInvalid, "encode frame", "there is no frame")
	}
	out, err := format.Append(dst, f)
	if err != nil {
		return dst, message.Errorf(message.CodeInvalid, "encode frame", "%w", err)
	}
	return out, nil
}

// Limits for decoding.
const (
	// MaxCommandBytes bounds a command; it has room for one edited input.
	MaxCommandBytes = 512 << 10
	// MaxDecisions and MaxContentURLs bound the lists of a command.
	MaxDecisions   = 256
	MaxContentURLs = 64
)

// ErrUnknownCommand is wrapped by the error for a command of unknown type, which is never
// guessed.
var ErrUnknownCommand = errors.New("unknown command")

// DecodeCommand decodes a client's command. It refuses unknown members in an approval and
// ignores them elsewhere; for unknown types it returns [ErrUnknownCommand].
func DecodeCommand(data []byte) (Command, error) {
	err := strictjson.Check(data, strictjson.MaxBytes(MaxCommandBytes))
	var c Command
	if err == nil {
		c, err = readCommand(data)
	}
	if err != nil {
		return nil, message.DecodeError("decode command", err)
	}
	return c, nil
}

func readCommand(raw []byte) (Command, error) {
	members, err := strictjson.Members(raw)
	if err != nil {
		return nil, err
	}
	var head struct {
		Type CommandType `json:"type" wire:"required"`
	}
	r := wire.Reader{Format: &format}
	if err := r.Read(raw, &head); err != nil {
		return nil, err
	}
	c := newCommand(head.Type)
	if c == nil {
		return nil, &strictjson.Error{Op: "decode", Path: "/type", Offset: -1, Err: unknownError{string(head.Type)}}
	}
	if err := r.Members(members, reflect.ValueOf(c).Elem()); err != nil {
		return nil, err
	}
	if chat, ok := c.(*Chat); ok && chat.Text == "" && len(chat.ContentURLs) == 0 && !saysText(members) {
		return nil, strictjson.Wrong(strictjson.ErrMissingMember, "%q", "message")
	}
	return c, nil
}

// newCommand returns an empty command, or nil for unknown types.
func newCommand(t CommandType) Command {
	for c, name := range names {
		if name == string(t) && c.Implements(reflect.TypeFor[Command]()) {
			out, _ := reflect.TypeAssert[Command](reflect.New(c.Elem()))
			return out
		}
	}
	return nil
}

// saysText reports whether a chat contains a text, which may be empty.
func saysText(members []strictjson.Member) bool {
	return slices.ContainsFunc(members, func(m strictjson.Member) bool {
		return (m.Name == "message" || m.Name == "content" || m.Name == "text") && string(m.Value) != "null"
	})
}

// unknownError is both a type error and ErrUnknownCommand.
type unknownError struct{ name string }

func (e unknownError) Error() string {
	return ErrUnknownCommand.Error() + " " + strconv.Quote(e.name[:min(len(e.name), 60)])
}
func (unknownError) Unwrap() []error { return []error{ErrUnknownCommand, strictjson.ErrType} }

// FrameType is the type of a frame that the server sends.
type FrameType string

// The frame types. The first six form the turn; connected, auth_ok and subscribed answer
// commands. pong and error are our extensions, because the original's are not published.
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

// Frame is one JSON object that the server sends in its own text frame. The set is closed: a
// pointer to one of the structs below. [FrameTypeOf] returns its type, [AppendFrame] writes
// it.
//
//sumtype:decl
type Frame interface {
	// Head returns the members that all frames share.
	Head() *Header

	isFrame()
}

// Header contains what every frame may have; empty members are not written.
type Header struct {
	// MessageID identifies the turn. Readers must not require it, because most frames of the
	// original lack it.
	MessageID message.ReplyID `json:"message_id" wire:"omit"`
	// EventID is the position from which a subscriber continues, see [Cursor].
	EventID string `json:"event_id" wire:"omit"`
}

// Head returns h itself.
func (h *Header) Head() *Header { return h }

func (*Header) isFrame() {}

// MarshalJSON fails: only [AppendFrame] writes a frame with its type.
func (*Header) MarshalJSON() ([]byte, error) {
	return nil, errors.New("encode frame: encoding/json cannot write it; use blockstream.AppendFrame")
}

// DisplayMode says whether a turn shows the model's reasoning.
type DisplayMode string

// The modes. Thinking blocks exist only in agent mode.
const (
	ModeAgent DisplayMode = "agent"
	ModeChat  DisplayMode = "chat"
)

// Valid reports whether m is exactly one of the modes.
func (m DisplayMode) Valid() bool { return m == ModeAgent || m == ModeChat }

// MessageStart opens a turn. Clients forget every block of the previous turn.
type MessageStart struct {
	Session          message.SessionID `json:"session_id" wire:"required"`
	Timestamp        float64           `json:"timestamp" wire:"required"` // Unix seconds
	DisplayMode      DisplayMode       `json:"display_mode" wire:"required"`
	NewFromShareLink bool              `json:"is_new_session_from_share"`
	Header
}

// StopEndTurn is the only documented stop reason.
const StopEndTurn = "end_turn"

// MessageDelta comes after the last block.
type MessageDelta struct {
	StopReason string `json:"stop_reason" wire:"omit,null,group=delta"`
	Header
}

// MessageStop closes a turn; only then do clients leave "streaming".
type MessageStop struct {
	DurationMS int64 `json:"duration_ms" wire:"null"`
	Header
}

// BlockStart opens the block with that index. Indices run 0, 1, … over the blocks of each
// turn.
type BlockStart struct {
	Index int          `json:"index" wire:"required,least=0,most=1073741824"`
	Block ContentBlock `json:"content_block" wire:"required"`
	Header
}

// BlockDelta adds to the open block with that index.
type BlockDelta struct {
	Index int   `json:"index" wire:"required,least=0,most=1073741824"`
	Delta Delta `json:"delta" wire:"required"`
	Header
}

// BlockStop closes the block with that index. Final, only for text blocks, marks the last
// answer of the turn.
type BlockStop struct {
	Index int  `json:"index" wire:"required,least=0,most=1073741824"`
	Final bool `json:"is_final" wire:"omit,null"` // written when true
	Header
}

// Connected is the server's first frame; the client authenticates next.
type Connected struct{ Header }

// AuthOK answers the auth command.
type AuthOK struct{ Header }

// SessionStatus says what a subscriber can expect.
type SessionStatus string

// The states of a session.
const (
	StatusRunning   SessionStatus = "running"   // replay, then live frames
	StatusCompleted SessionStatus = "completed" // replay, then nothing
)

// Subscribed answers the subscribe command; the replay follows.
type Subscribed struct {
	Session message.SessionID `json:"session_id" wire:"omit,null"`
	Status  SessionStatus     `json:"status" wire:"required"`
	Header
}

// Pong answers the ping command.
type Pong struct{ Header }

// ErrorCode is the closed list of codes of error frames.
type ErrorCode string

// The error codes, which are our extensions: the reason and, after |, what a client should do.
const (
	CodeInvalidCommand   ErrorCode = "INVALID_COMMAND"           // the command is malformed or too large | correct it
	CodeUnauthenticated  ErrorCode = "UNAUTHENTICATED"           // the connection has no credentials yet | send `auth` first
	CodeForbidden        ErrorCode = "FORBIDDEN"                 // the credentials lack the role, or the session belongs to another user | use other credentials
	CodeNotFound         ErrorCode = "NOT_FOUND"                 // no session is subscribed, or none has the id | `subscribe` to a session that exists
	CodeTurnOpen         ErrorCode = "TURN_IN_PROGRESS"          // `chat`: the session's turn has not ended, and the message was not accepted | respond to its requests, or `stop` it; then send the message again
	CodeApprovalUnknown  ErrorCode = "APPROVAL_NOT_FOUND"        // no approval request of the session has the key | send the key of the card
	CodeApprovalUnclear  ErrorCode = "APPROVAL_KEY_REQUIRED"     // the session has had other requests, or the connection other cards | name the `approval_key`
	CodeApprovalResolved ErrorCode = "APPROVAL_ALREADY_RESOLVED" // another response was first | show the `approval_result`
	CodeApprovalExpired  ErrorCode = "APPROVAL_EXPIRED"          // the request expired without a response | show the `approval_result`
	CodeApprovalChanged  ErrorCode = "APPROVAL_CHANGED"          // the request changed since it was shown | show the new card, and respond to that
	CodeOverLimit        ErrorCode = "OVER_LIMIT"                // the user sends too much, or has too many open requests | wait, then send it again
	CodeFull             ErrorCode = "STORE_FULL"                // the server's store is full, and nothing was stored | tell an operator
	CodeUnavailable      ErrorCode = "UNAVAILABLE"               // the server cannot tell whether the command took effect, or cannot carry it out now | check what is shown, then send it again
	CodeInternal         ErrorCode = "INTERNAL"                  // the server failed; its log has the reason | tell an operator
)

// Error tells one client that its command had no effect. It changes no block.
type Error struct {
	Code        ErrorCode `json:"code" wire:"required"`
	Message     string    `json:"message" wire:"null"`
	ApprovalKey string    `json:"approval_key" wire:"omit,null"` // the approval that it is about
	Header
}

// The codes with which the server closes a socket. Closing never affects the run, because a
// socket is only a viewer. CloseHeartbeat comes from the original; the others are RFC 6455's
// and, from 4000 on, our extensions.
const (
	CloseNormal          = 1000 // the client has finished
	CloseGoingAway       = 1001 // the server is stopping: reconnect
	CloseUnsupported     = 1003 // a binary frame
	CloseTooBig          = 1009 // a command over the size limit
	CloseInternal        = 1011 // a defect of askance: reconnect
	CloseTryAgain        = 1013 // too many connections, or no engine: reconnect later
	CloseUnauthenticated = 4001 // no auth in time, or a wrong token: do not reconnect with it
	CloseForbidden       = 4003 // may not see this session
	CloseHeartbeat       = 4008 // no heartbeat in time: reconnect
	CloseTooSlow         = 4013 // the client reads more slowly than frames come: reconnect
)

// Cursor is a position in a session's frames: the journal sequence of the event and the
// number of the frame among the frames of that event. As text it is the event_id of the
// frame; sorting ids as text gives the order of the frames.
type Cursor struct {
	Seq   uint64
	Frame int // 0, 1, …
}

const (
	cursorSeq   = 20 // digits of the largest uint64
	cursorFrame = 6
)

// String returns the event_id.
func (c Cursor) String() string { return fmt.Sprintf("%020d-%06d", c.Seq, c.Frame) }

// Stamp sets the event_ids of the frames of one event; seq is the event's sequence.
func Stamp(frames []Frame, seq uint64) {
	for i, f := range frames {
		f.Head().EventID = Cursor{Seq: seq, Frame: i}.String()
	}
}

// After reports whether a frame at c comes after one at o, for a subscriber who has seen o.
func (c Cursor) After(o Cursor) bool {
	return c.Seq > o.Seq || c.Seq == o.Seq && c.Frame > o.Frame
}

// ParseCursor parses an event_id of this server.
func ParseCursor(id string) (Cursor, error) {
	if len(id) == cursorSeq+1+cursorFrame && id[cursorSeq] == '-' {
		seq, err := strconv.ParseUint(id[:cursorSeq], 10, 64)
		frame, err2 := strconv.ParseUint(id[cursorSeq+1:], 10, 32)
		if c := (Cursor{seq, int(frame)}); err == nil && err2 == nil && c.String() == id {
			return c, nil
		}
	}
	return Cursor{}, &message.Error{Code: message.CodeInvalid, Op: "read last_event_id", What: fmt.Sprintf("%.60q is not an event_id of this server", id), Hint: "send the event_id of the last frame, or none"}
}
