package agui

// ToolCallStart is TOOL_CALL_START: it opens a tool call in the assistant message ParentMessageID.
type ToolCallStart struct {
	Tagged
	ToolCallID      string
	ToolCallName    string
	ParentMessageID *string
}

// ToolCallArgs is TOOL_CALL_ARGS: it appends to the arguments of an open call.
type ToolCallArgs struct {
	Tagged
	ToolCallID string
	Delta      string // text; that all of it is JSON is not promised
}

// ToolCallEnd is TOOL_CALL_END: it closes a call: its arguments are complete.
type ToolCallEnd struct {
	Tagged
	ToolCallID string
}

// ToolCallResult is TOOL_CALL_RESULT: it makes a new tool message. There is no error member: only the tool
// message of a history has one.
type ToolCallResult struct {
	Tagged
	MessageID  string // of the new message
	ToolCallID string
	Content    Content
	Role       *Role // tool
}

// ToolCallChunk is TOOL_CALL_CHUNK: it stands for start, args and end together. The first of a call needs
// its id and name.
type ToolCallChunk struct {
	Tagged
	ToolCallID      *string
	ToolCallName    *string
	ParentMessageID *string
	Delta           *string
}

// Type returns TypeToolCallStart.
func (*ToolCallStart) Type() EventType { return TypeToolCallStart }

// Type returns TypeToolCallArgs.
func (*ToolCallArgs) Type() EventType { return TypeToolCallArgs }

// Type returns TypeToolCallEnd.
func (*ToolCallEnd) Type() EventType { return TypeToolCallEnd }

// Type returns TypeToolCallResult.
func (*ToolCallResult) Type() EventType { return TypeToolCallResult }

// Type returns TypeToolCallChunk.
func (*ToolCallChunk) Type() EventType { return TypeToolCallChunk }

func (e *ToolCallStart) fields(s *shape) {
	s.text("toolCallId", &e.ToolCallID)
	s.text("toolCallName", &e.ToolCallName)
	s.rescueNull("parentMessageId")
	s.textOpt("parentMessageId", &e.ParentMessageID)
	e.taggedFields(s)
}

func (e *ToolCallArgs) fields(s *shape) {
	s.text("toolCallId", &e.ToolCallID)
	s.text("delta", &e.Delta)
	e.taggedFields(s)
}

func (e *ToolCallEnd) fields(s *shape) {
	s.text("toolCallId", &e.ToolCallID)
	e.taggedFields(s)
}

func (e *ToolCallResult) fields(s *shape) {
	s.text("messageId", &e.MessageID)
	s.text("toolCallId", &e.ToolCallID)
	s.content("content", &e.Content)
	wordOpt(s, "role", &e.Role, toolRoles)
	e.taggedFields(s)
}

func (e *ToolCallChunk) fields(s *shape) {
	s.textOpt("toolCallId", &e.ToolCallID)
	s.textOpt("toolCallName", &e.ToolCallName)
	s.rescueNull("parentMessageId")
	s.textOpt("parentMessageId", &e.ParentMessageID)
	s.textOpt("delta", &e.Delta)
	e.taggedFields(s)
}
