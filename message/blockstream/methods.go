package blockstream

// Frames and commands encode themselves, so that they work inside other values
// and with any JSON library.

// MarshalJSON implements json.Marshaler.
func (f *MessageStart) MarshalJSON() ([]byte, error) { return AppendFrame(nil, f) }

// MarshalJSON implements json.Marshaler.
func (f *MessageDelta) MarshalJSON() ([]byte, error) { return AppendFrame(nil, f) }

// MarshalJSON implements json.Marshaler.
func (f *MessageStop) MarshalJSON() ([]byte, error) { return AppendFrame(nil, f) }

// MarshalJSON implements json.Marshaler.
func (f *BlockStart) MarshalJSON() ([]byte, error) { return AppendFrame(nil, f) }

// MarshalJSON implements json.Marshaler.
func (f *BlockDelta) MarshalJSON() ([]byte, error) { return AppendFrame(nil, f) }

// MarshalJSON implements json.Marshaler.
func (f *BlockStop) MarshalJSON() ([]byte, error) { return AppendFrame(nil, f) }

// MarshalJSON implements json.Marshaler.
func (f *Connected) MarshalJSON() ([]byte, error) { return AppendFrame(nil, f) }

// MarshalJSON implements json.Marshaler.
func (f *AuthOK) MarshalJSON() ([]byte, error) { return AppendFrame(nil, f) }

// MarshalJSON implements json.Marshaler.
func (f *Subscribed) MarshalJSON() ([]byte, error) { return AppendFrame(nil, f) }

// MarshalJSON implements json.Marshaler.
func (f *Pong) MarshalJSON() ([]byte, error) { return AppendFrame(nil, f) }

// MarshalJSON implements json.Marshaler.
func (f *Error) MarshalJSON() ([]byte, error) { return AppendFrame(nil, f) }

// MarshalJSON implements json.Marshaler.
func (c *Auth) MarshalJSON() ([]byte, error) { return AppendCommand(nil, c) }

// MarshalJSON implements json.Marshaler.
func (c *Subscribe) MarshalJSON() ([]byte, error) { return AppendCommand(nil, c) }

// MarshalJSON implements json.Marshaler.
func (c *Chat) MarshalJSON() ([]byte, error) { return AppendCommand(nil, c) }

// MarshalJSON implements json.Marshaler.
func (c *Stop) MarshalJSON() ([]byte, error) { return AppendCommand(nil, c) }

// MarshalJSON implements json.Marshaler.
func (c *Approval) MarshalJSON() ([]byte, error) { return AppendCommand(nil, c) }

// MarshalJSON implements json.Marshaler.
func (c *PingCommand) MarshalJSON() ([]byte, error) { return AppendCommand(nil, c) }

// MarshalJSON implements json.Marshaler.
func (c *PongCommand) MarshalJSON() ([]byte, error) { return AppendCommand(nil, c) }
