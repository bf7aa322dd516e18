package message

import "reflect"

// Every type encodes and decodes itself by its plan (package wire), so it works inside
// structs of other packages and with any JSON library. Decoding uses the zero Codec.

// MarshalJSON implements json.Marshaler.
func (x ReplyStart) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *ReplyStart) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x ReplyEnd) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *ReplyEnd) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x ModelCallStart) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *ModelCallStart) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x ModelCallEnd) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *ModelCallEnd) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x ExceedMaxIters) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *ExceedMaxIters) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x UserInterrupt) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *UserInterrupt) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x Custom) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *Custom) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x TextBlockStart) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *TextBlockStart) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x TextBlockDelta) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *TextBlockDelta) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x TextBlockEnd) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *TextBlockEnd) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x ThinkingBlockStart) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *ThinkingBlockStart) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x ThinkingBlockDelta) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *ThinkingBlockDelta) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x ThinkingBlockEnd) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *ThinkingBlockEnd) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x DataBlockStart) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *DataBlockStart) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x DataBlockDelta) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *DataBlockDelta) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x DataBlockEnd) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *DataBlockEnd) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x HintBlockEvent) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *HintBlockEvent) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x ToolCallStart) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *ToolCallStart) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x ToolCallDelta) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *ToolCallDelta) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x ToolCallEnd) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *ToolCallEnd) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x ToolResultStart) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *ToolResultStart) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x ToolResultTextDelta) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *ToolResultTextDelta) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x ToolResultDataDelta) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *ToolResultDataDelta) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x ToolResultEnd) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *ToolResultEnd) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x RequireUserConfirm) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *RequireUserConfirm) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x UserConfirmResult) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *UserConfirmResult) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x RequireExternalExecution) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *RequireExternalExecution) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x ExternalExecutionResult) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *ExternalExecutionResult) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON returns the bytes of Raw.
func (e UnknownEvent) MarshalJSON() ([]byte, error) { return format.AppendRaw(nil, e.Raw) }

// UnmarshalJSON stores data as Raw; its type must be present.
func (e *UnknownEvent) UnmarshalJSON(data []byte) error {
	members, t, err := readType(data)
	if err != nil {
		return err
	}
	*e = *unknownEvent(EventType(t), members, data)
	return nil
}

// MarshalJSON implements json.Marshaler.
func (x TextBlock) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *TextBlock) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x ThinkingBlock) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *ThinkingBlock) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x DataBlock) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *DataBlock) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x HintBlock) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *HintBlock) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x ToolCallBlock) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *ToolCallBlock) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x ToolResultBlock) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *ToolResultBlock) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x Base64Source) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *Base64Source) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x URLSource) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *URLSource) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x Msg) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *Msg) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x ConfirmResult) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *ConfirmResult) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (x PermissionContext) MarshalJSON() ([]byte, error) { return marshal(&x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *PermissionContext) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// UnmarshalJSON implements json.Unmarshaler; all four members must be present.
func (x *PermissionRule) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (c Content) MarshalJSON() ([]byte, error) {
	return writeContent(&format, nil, reflect.ValueOf(c))
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Content) UnmarshalJSON(data []byte) (err error) {
	*c, err = readContent(Codec{}.reader(), data)
	return err
}

// MarshalJSON returns the bytes of Raw.
func (b UnknownBlock) MarshalJSON() ([]byte, error) { return format.AppendRaw(nil, b.Raw) }

// UnmarshalJSON stores data as Raw; its type must be present.
func (b *UnknownBlock) UnmarshalJSON(data []byte) error {
	members, t, err := readType(data)
	if err != nil {
		return err
	}
	*b = *unknownBlock(BlockType(t), members, data)
	return nil
}
