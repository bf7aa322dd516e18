package message

// Every type decodes and encodes itself by its plan (msg_wire.go), so that it
// works inside structs of other packages and with any JSON library. Decoding
// uses the zero Codec.

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

// UnmarshalJSON implements json.Unmarshaler; all four members must be there.
func (x *PermissionRule) UnmarshalJSON(data []byte) error { return unmarshal(data, x) }

// MarshalJSON implements json.Marshaler.
func (c Content) MarshalJSON() ([]byte, error) { return appendContent(nil, c) }

// UnmarshalJSON implements json.Unmarshaler.
func (c *Content) UnmarshalJSON(data []byte) (err error) {
	*c, err = Codec{}.content(data)
	return err
}

// MarshalJSON returns the bytes of Raw.
func (b UnknownBlock) MarshalJSON() ([]byte, error) { return appendRaw(nil, b.Raw) }

// UnmarshalJSON keeps data as Raw, whatever its type, which must be there.
func (b *UnknownBlock) UnmarshalJSON(data []byte) error {
	members, t, err := typed(data)
	if err != nil {
		return err
	}
	*b = *unknownBlock(BlockType(t), members, data)
	return nil
}
