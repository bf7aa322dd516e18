package blockstream

import (
	"errors"
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
	Types:  map[reflect.Type]wire.Type{reflect.TypeFor[Decision](): {Read: readDecision, Write: writeStruct}},
	Verify: verify,
}

func writeStruct(f *wire.Format, dst []byte, v reflect.Value) ([]byte, error) {
	return f.Append(dst, v.Addr().Interface())
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
