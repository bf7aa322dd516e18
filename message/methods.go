package message

import "reflect"

// Every type encodes and decodes itself by its plan (package wire), so it works inside
// structs of other packages and with any JSON library. Decoding uses the zero Codec.

func (x ReplyStart) MarshalJSON() ([]byte, error)                   { return marshal(&x) }
func (x *ReplyStart) UnmarshalJSON(data []byte) error               { return unmarshal(data, x) }
func (x ReplyEnd) MarshalJSON() ([]byte, error)                     { return marshal(&x) }
func (x *ReplyEnd) UnmarshalJSON(data []byte) error                 { return unmarshal(data, x) }
func (x ModelCallStart) MarshalJSON() ([]byte, error)               { return marshal(&x) }
func (x *ModelCallStart) UnmarshalJSON(data []byte) error           { return unmarshal(data, x) }
func (x ModelCallEnd) MarshalJSON() ([]byte, error)                 { return marshal(&x) }
func (x *ModelCallEnd) UnmarshalJSON(data []byte) error             { return unmarshal(data, x) }
func (x ExceedMaxIters) MarshalJSON() ([]byte, error)               { return marshal(&x) }
func (x *ExceedMaxIters) UnmarshalJSON(data []byte) error           { return unmarshal(data, x) }
func (x UserInterrupt) MarshalJSON() ([]byte, error)                { return marshal(&x) }
func (x *UserInterrupt) UnmarshalJSON(data []byte) error            { return unmarshal(data, x) }
func (x Custom) MarshalJSON() ([]byte, error)                       { return marshal(&x) }
func (x *Custom) UnmarshalJSON(data []byte) error                   { return unmarshal(data, x) }
func (x TextBlockStart) MarshalJSON() ([]byte, error)               { return marshal(&x) }
func (x *TextBlockStart) UnmarshalJSON(data []byte) error           { return unmarshal(data, x) }
func (x TextBlockDelta) MarshalJSON() ([]byte, error)               { return marshal(&x) }
func (x *TextBlockDelta) UnmarshalJSON(data []byte) error           { return unmarshal(data, x) }
func (x TextBlockEnd) MarshalJSON() ([]byte, error)                 { return marshal(&x) }
func (x *TextBlockEnd) UnmarshalJSON(data []byte) error             { return unmarshal(data, x) }
func (x ThinkingBlockStart) MarshalJSON() ([]byte, error)           { return marshal(&x) }
func (x *ThinkingBlockStart) UnmarshalJSON(data []byte) error       { return unmarshal(data, x) }
func (x ThinkingBlockDelta) MarshalJSON() ([]byte, error)           { return marshal(&x) }
func (x *ThinkingBlockDelta) UnmarshalJSON(data []byte) error       { return unmarshal(data, x) }
func (x ThinkingBlockEnd) MarshalJSON() ([]byte, error)             { return marshal(&x) }
func (x *ThinkingBlockEnd) UnmarshalJSON(data []byte) error         { return unmarshal(data, x) }
func (x DataBlockStart) MarshalJSON() ([]byte, error)               { return marshal(&x) }
func (x *DataBlockStart) UnmarshalJSON(data []byte) error           { return unmarshal(data, x) }
func (x DataBlockDelta) MarshalJSON() ([]byte, error)               { return marshal(&x) }
func (x *DataBlockDelta) UnmarshalJSON(data []byte) error           { return unmarshal(data, x) }
func (x DataBlockEnd) MarshalJSON() ([]byte, error)                 { return marshal(&x) }
func (x *DataBlockEnd) UnmarshalJSON(data []byte) error             { return unmarshal(data, x) }
func (x HintBlockEvent) MarshalJSON() ([]byte, error)               { return marshal(&x) }
func (x *HintBlockEvent) UnmarshalJSON(data []byte) error           { return unmarshal(data, x) }
func (x ToolCallStart) MarshalJSON() ([]byte, error)                { return marshal(&x) }
func (x *ToolCallStart) UnmarshalJSON(data []byte) error            { return unmarshal(data, x) }
func (x ToolCallDelta) MarshalJSON() ([]byte, error)                { return marshal(&x) }
func (x *ToolCallDelta) UnmarshalJSON(data []byte) error            { return unmarshal(data, x) }
func (x ToolCallEnd) MarshalJSON() ([]byte, error)                  { return marshal(&x) }
func (x *ToolCallEnd) UnmarshalJSON(data []byte) error              { return unmarshal(data, x) }
func (x ToolResultStart) MarshalJSON() ([]byte, error)              { return marshal(&x) }
func (x *ToolResultStart) UnmarshalJSON(data []byte) error          { return unmarshal(data, x) }
func (x ToolResultTextDelta) MarshalJSON() ([]byte, error)          { return marshal(&x) }
func (x *ToolResultTextDelta) UnmarshalJSON(data []byte) error      { return unmarshal(data, x) }
func (x ToolResultDataDelta) MarshalJSON() ([]byte, error)          { return marshal(&x) }
func (x *ToolResultDataDelta) UnmarshalJSON(data []byte) error      { return unmarshal(data, x) }
func (x ToolResultEnd) MarshalJSON() ([]byte, error)                { return marshal(&x) }
func (x *ToolResultEnd) UnmarshalJSON(data []byte) error            { return unmarshal(data, x) }
func (x RequireUserConfirm) MarshalJSON() ([]byte, error)           { return marshal(&x) }
func (x *RequireUserConfirm) UnmarshalJSON(data []byte) error       { return unmarshal(data, x) }
func (x UserConfirmResult) MarshalJSON() ([]byte, error)            { return marshal(&x) }
func (x *UserConfirmResult) UnmarshalJSON(data []byte) error        { return unmarshal(data, x) }
func (x RequireExternalExecution) MarshalJSON() ([]byte, error)     { return marshal(&x) }
func (x *RequireExternalExecution) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }
func (x ExternalExecutionResult) MarshalJSON() ([]byte, error)      { return marshal(&x) }
func (x *ExternalExecutionResult) UnmarshalJSON(data []byte) error  { return unmarshal(data, x) }

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

func (x TextBlock) MarshalJSON() ([]byte, error)             { return marshal(&x) }
func (x *TextBlock) UnmarshalJSON(data []byte) error         { return unmarshal(data, x) }
func (x ThinkingBlock) MarshalJSON() ([]byte, error)         { return marshal(&x) }
func (x *ThinkingBlock) UnmarshalJSON(data []byte) error     { return unmarshal(data, x) }
func (x DataBlock) MarshalJSON() ([]byte, error)             { return marshal(&x) }
func (x *DataBlock) UnmarshalJSON(data []byte) error         { return unmarshal(data, x) }
func (x HintBlock) MarshalJSON() ([]byte, error)             { return marshal(&x) }
func (x *HintBlock) UnmarshalJSON(data []byte) error         { return unmarshal(data, x) }
func (x ToolCallBlock) MarshalJSON() ([]byte, error)         { return marshal(&x) }
func (x *ToolCallBlock) UnmarshalJSON(data []byte) error     { return unmarshal(data, x) }
func (x ToolResultBlock) MarshalJSON() ([]byte, error)       { return marshal(&x) }
func (x *ToolResultBlock) UnmarshalJSON(data []byte) error   { return unmarshal(data, x) }
func (x Base64Source) MarshalJSON() ([]byte, error)          { return marshal(&x) }
func (x *Base64Source) UnmarshalJSON(data []byte) error      { return unmarshal(data, x) }
func (x URLSource) MarshalJSON() ([]byte, error)             { return marshal(&x) }
func (x *URLSource) UnmarshalJSON(data []byte) error         { return unmarshal(data, x) }
func (x Msg) MarshalJSON() ([]byte, error)                   { return marshal(&x) }
func (x *Msg) UnmarshalJSON(data []byte) error               { return unmarshal(data, x) }
func (x ConfirmResult) MarshalJSON() ([]byte, error)         { return marshal(&x) }
func (x *ConfirmResult) UnmarshalJSON(data []byte) error     { return unmarshal(data, x) }
func (x PermissionContext) MarshalJSON() ([]byte, error)     { return marshal(&x) }
func (x *PermissionContext) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// UnmarshalJSON implements json.Unmarshaler; all four members must be present.
func (x *PermissionRule) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

func (c Content) MarshalJSON() ([]byte, error) {
	return writeContent(&format, nil, reflect.ValueOf(c))
}

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
