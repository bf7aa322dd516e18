package agui

// ReasoningStart is REASONING_START: it opens a span of reasoning.
type ReasoningStart struct {
	Tagged
	MessageID string
}

// ReasoningEnd is REASONING_END: it closes a span.
type ReasoningEnd struct {
	Tagged
	MessageID string
}

// ReasoningMessageStart is REASONING_MESSAGE_START: it opens a reasoning message. Its role, which unlike that of a text
// message is required, is always reasoning and written by the codec.
type ReasoningMessageStart struct {
	Tagged
	MessageID string
}

// ReasoningMessageContent is REASONING_MESSAGE_CONTENT: it appends to an open reasoning message.
type ReasoningMessageContent struct {
	Tagged
	MessageID string
	Delta     string
}

// ReasoningMessageEnd is REASONING_MESSAGE_END: it closes a reasoning message.
type ReasoningMessageEnd struct {
	Tagged
	MessageID string
}

// ReasoningMessageChunk is REASONING_MESSAGE_CHUNK: it stands for start, content and end together.
type ReasoningMessageChunk struct {
	Tagged
	MessageID *string
	Delta     *string
}

// ReasoningEncryptedValue is REASONING_ENCRYPTED_VALUE: it carries a provider's sealed reasoning for a message or a call.
type ReasoningEncryptedValue struct {
	Tagged
	Subtype        EncryptedSubtype
	EntityID       string
	EncryptedValue string
}

// Type returns TypeReasoningStart.
func (*ReasoningStart) Type() EventType { return TypeReasoningStart }

// Type returns TypeReasoningEnd.
func (*ReasoningEnd) Type() EventType { return TypeReasoningEnd }

// Type returns TypeReasoningMessageStart.
func (*ReasoningMessageStart) Type() EventType { return TypeReasoningMessageStart }

// Type returns TypeReasoningMessageContent.
func (*ReasoningMessageContent) Type() EventType { return TypeReasoningMessageContent }

// Type returns TypeReasoningMessageEnd.
func (*ReasoningMessageEnd) Type() EventType { return TypeReasoningMessageEnd }

// Type returns TypeReasoningMessageChunk.
func (*ReasoningMessageChunk) Type() EventType { return TypeReasoningMessageChunk }

// Type returns TypeReasoningEncryptedValue.
func (*ReasoningEncryptedValue) Type() EventType { return TypeReasoningEncryptedValue }

func (e *ReasoningStart) fields(s *shape) {
	s.text("messageId", &e.MessageID)
	e.taggedFields(s)
}

func (e *ReasoningEnd) fields(s *shape) {
	s.text("messageId", &e.MessageID)
	e.taggedFields(s)
}

func (e *ReasoningMessageStart) fields(s *shape) {
	s.text("messageId", &e.MessageID)
	s.constant("role", string(RoleReasoning))
	e.taggedFields(s)
}

func (e *ReasoningMessageContent) fields(s *shape) {
	s.text("messageId", &e.MessageID)
	s.text("delta", &e.Delta)
	e.taggedFields(s)
}

func (e *ReasoningMessageEnd) fields(s *shape) {
	s.text("messageId", &e.MessageID)
	e.taggedFields(s)
}

func (e *ReasoningMessageChunk) fields(s *shape) {
	s.textOpt("messageId", &e.MessageID)
	s.textOpt("delta", &e.Delta)
	e.taggedFields(s)
}

func (e *ReasoningEncryptedValue) fields(s *shape) {
	word(s, "subtype", &e.Subtype, encryptedSubtypes)
	s.text("entityId", &e.EntityID)
	s.text("encryptedValue", &e.EncryptedValue)
	e.taggedFields(s)
}
