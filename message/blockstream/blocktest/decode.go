package blocktest

import (
	"bytes"
	"reflect"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
	"github.com/askance-dev/askance/message/internal/wire"
)

// MaxFrameBytes bounds a frame: the largest input of a call is 256 KiB, and an
// approval_request contains it twice.
const MaxFrameBytes = 1 << 20

// format reads what package blockstream writes, by the same struct tags.
var format = wire.Format{Name: commandName, Types: map[reflect.Type]wire.Type{
	reflect.TypeFor[blockstream.ContentBlock](): {Read: readBlock},
	reflect.TypeFor[blockstream.Delta]():        {Read: readDelta},
	reflect.TypeFor[blockstream.ReviewConfig](): {Read: readReviewConfig},
	reflect.TypeFor[message.PermissionRule]():   {Read: readRule},
}}

// DecodeFrame decodes one frame. It ignores unknown members and refuses a frame that
// [blockstream.AppendFrame] could not write.
func DecodeFrame(data []byte) (blockstream.Frame, error) { return DecodeLarge(data, MaxFrameBytes) }

// DecodeLarge is DecodeFrame with another limit.
func DecodeLarge(data []byte, limit int) (blockstream.Frame, error) {
	err := strictjson.Check(data, strictjson.MaxBytes(limit))
	if err != nil {
		return nil, message.DecodeError("decode frame", err)
	}
	f, err := readFrame(data)
	if err == nil {
		_, err = blockstream.AppendFrame(nil, f)
	}
	if err != nil {
		return nil, message.DecodeError("decode frame", err)
	}
	return f, nil
}

var (
	frames = []blockstream.Frame{
		&blockstream.MessageStart{}, &blockstream.MessageDelta{}, &blockstream.MessageStop{},
		&blockstream.BlockStart{}, &blockstream.BlockDelta{}, &blockstream.BlockStop{},
		&blockstream.Connected{}, &blockstream.AuthOK{}, &blockstream.Subscribed{}, &blockstream.Pong{}, &blockstream.Error{},
	}
	blocks = []blockstream.ContentBlock{
		&blockstream.Thinking{}, &blockstream.Text{}, &blockstream.ToolUse{}, &blockstream.ToolResult{},
		&blockstream.FileProcessing{}, &blockstream.ApprovalRequest{}, &blockstream.ApprovalResult{},
	}
)

// readType reads the type of an object, which is required.
func readType(r *wire.Reader, raw []byte) (string, error) {
	var head struct {
		Type string `json:"type" wire:"required"`
	}
	err := r.Read(raw, &head)
	return head.Type, err
}

// empty returns a new value of the type that v points to.
func empty[T any](v T) T { return reflect.New(reflect.TypeOf(v).Elem()).Interface().(T) }

func readFrame(raw []byte) (blockstream.Frame, error) {
	r := &wire.Reader{Format: &format}
	name, err := readType(r, raw)
	if err != nil {
		return nil, err
	}
	for _, f := range frames {
		if string(blockstream.FrameTypeOf(f)) == name {
			f = empty(f)
			return f, r.Read(raw, f)
		}
	}
	return nil, strictjson.Wrong(strictjson.ErrType, "unknown frame %.60q", name)
}

func readBlock(r *wire.Reader, raw []byte, v reflect.Value) error {
	name, err := readType(r, raw)
	if err != nil {
		return err
	}
	for _, b := range blocks {
		if string(blockstream.BlockTypeOf(b)) == name {
			b = empty(b)
			v.Set(reflect.ValueOf(b))
			return r.Read(raw, b)
		}
	}
	return strictjson.Wrong(strictjson.ErrType, "unknown block %.60q", name)
}

// readDelta distinguishes deltas by type, or by members that only one kind has. It refuses
// several kinds at once, because clients look for each of them.
func readDelta(r *wire.Reader, raw []byte, v reflect.Value) error {
	var has struct {
		Type    string          `json:"type" wire:"null"`
		Actions message.RawJSON `json:"action_requests" wire:"any,null"`
		Decided message.RawJSON `json:"decisions" wire:"any,null"`
		Status  message.RawJSON `json:"status" wire:"any,null"`
	}
	if err := r.Read(raw, &has); err != nil {
		return err
	}
	var kinds []blockstream.Delta
	switch has.Type {
	case "":
	case "text_delta":
		kinds = append(kinds, &blockstream.TextDelta{})
	case "thinking_delta":
		kinds = append(kinds, &blockstream.ThinkingDelta{})
	default:
		return strictjson.Wrong(strictjson.ErrType, "unknown delta %.60q", has.Type)
	}
	if has.Actions != nil {
		kinds = append(kinds, &blockstream.ApprovalDelta{})
	}
	if has.Decided != nil {
		kinds = append(kinds, &blockstream.DecisionsDelta{})
	}
	if has.Status != nil {
		kinds = append(kinds, &blockstream.FileDelta{})
	}
	if len(kinds) != 1 {
		return strictjson.Wrong(strictjson.ErrType, "a delta of %d kinds at once", len(kinds))
	}
	v.Set(reflect.ValueOf(kinds[0]))
	return r.Read(raw, kinds[0])
}

// readReviewConfig reads how an action is reviewed; the default is by approval.
func readReviewConfig(r *wire.Reader, raw []byte, v reflect.Value) error {
	members, err := strictjson.Members(raw)
	if err != nil {
		return err
	}
	err = r.Members(members, v)
	c := v.Addr().Interface().(*blockstream.ReviewConfig)
	c.RequireApproval = c.RequireApproval || !hasMember(members, "require_approval")
	return err
}

func hasMember(members []strictjson.Member, name string) bool {
	for _, m := range members {
		if m.Name == name {
			return true
		}
	}
	return false
}

func readRule(_ *wire.Reader, raw []byte, v reflect.Value) error {
	return v.Addr().Interface().(*message.PermissionRule).UnmarshalJSON(raw)
}

func commandName(v any) string {
	c, _ := v.(blockstream.Command)
	return string(blockstream.CommandTypeOf(c))
}

// EncodeCommand encodes a command as clients send it.
func EncodeCommand(c blockstream.Command) ([]byte, error) { return format.Append(nil, c) }

// Join returns what is asked from either form of an approval_request, or from both: delta
// is nil if there was none. Actions, reviews and time limit come from the delta if it has
// them, otherwise from the start. It refuses two that disagree, because then different
// clients would show different things.
func Join(start *blockstream.ApprovalRequest, delta *blockstream.ApprovalDelta) (*blockstream.ApprovalDelta, error) {
	out := &blockstream.ApprovalDelta{Actions: start.Actions, ReviewConfigs: start.ReviewConfigs}
	if delta != nil {
		if start.Actions != nil && delta.Actions != nil && !sameActions(start.Actions, delta.Actions) {
			return nil, message.Errorf(message.CodeInvalid, "read approval_request", "%.100q: start and delta name different actions", start.ApprovalKey)
		}
		*out = *delta
		if out.Actions == nil {
			out.Actions = start.Actions
		}
		if out.ReviewConfigs == nil {
			out.ReviewConfigs = start.ReviewConfigs
		}
	}
	for _, c := range out.ReviewConfigs {
		if out.TimeoutSeconds == 0 || c.Timeout > 0 && c.Timeout < out.TimeoutSeconds {
			out.TimeoutSeconds = c.Timeout
		}
	}
	if len(out.Actions) == 0 {
		return nil, message.Errorf(message.CodeInvalid, "read approval_request", "%.100q has no actions", start.ApprovalKey)
	}
	return out, nil
}

// sameActions compares names, the bytes of the arguments, and ids if both forms have them.
func sameActions(a, b []blockstream.Action) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		ids := a[i].ToolUseID == b[i].ToolUseID || a[i].ToolUseID == "" || b[i].ToolUseID == ""
		if !ids || a[i].Name != b[i].Name || !bytes.Equal(a[i].Args, b[i].Args) {
			return false
		}
	}
	return true
}
