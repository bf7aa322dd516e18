package agui

// MarshalJSON implements json.Marshaler.
func (e *RunStarted) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *RunFinished) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *RunError) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *StepStarted) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *StepFinished) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *TextMessageStart) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *TextMessageContent) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *TextMessageEnd) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *TextMessageChunk) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *ToolCallStart) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *ToolCallArgs) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *ToolCallEnd) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *ToolCallResult) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *ToolCallChunk) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *StateSnapshot) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *StateDelta) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *MessagesSnapshot) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *ActivitySnapshot) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *ActivityDelta) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *Raw) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *Custom) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *ReasoningStart) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *ReasoningEnd) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *ReasoningMessageStart) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *ReasoningMessageContent) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *ReasoningMessageEnd) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *ReasoningMessageChunk) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *ReasoningEncryptedValue) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *SubagentStarted) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *SubagentFinished) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// MarshalJSON implements json.Marshaler.
func (e *SubagentError) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }
