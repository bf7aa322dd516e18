package agui

// TextMessageStart is TEXT_MESSAGE_START: it opens a text message; on a known id it goes on with that message.
type TextMessageStart struct {
	Tagged
	MessageID string
	Role      *Role // developer, system, assistant or user; nil is assistant
	Name      *string
}

// TextMessageContent is TEXT_MESSAGE_CONTENT: it appends to an open message.
type TextMessageContent struct {
	Tagged
	MessageID string
	Delta     string // may be empty
}

// TextMessageEnd is TEXT_MESSAGE_END: it closes a message.
type TextMessageEnd struct {
	Tagged
	MessageID string
}

// TextMessageChunk is TEXT_MESSAGE_CHUNK: it stands for start, content and end together. The first of a message
// needs its id.
type TextMessageChunk struct {
	Tagged
	MessageID *string
	Role      *Role
	Delta     *string
	Name      *string
}

// Type returns TypeTextMessageStart.
func (*TextMessageStart) Type() EventType { return TypeTextMessageStart }

// Type returns TypeTextMessageContent.
func (*TextMessageContent) Type() EventType { return TypeTextMessageContent }

// Type returns TypeTextMessageEnd.
func (*TextMessageEnd) Type() EventType { return TypeTextMessageEnd }

// Type returns TypeTextMessageChunk.
func (*TextMessageChunk) Type() EventType { return TypeTextMessageChunk }

func (e *TextMessageStart) fields(s *shape) {
	s.text("messageId", &e.MessageID)
	wordOpt(s, "role", &e.Role, textRoles)
	s.textOpt("name", &e.Name)
	e.taggedFields(s)
}

func (e *TextMessageContent) fields(s *shape) {
	s.text("messageId", &e.MessageID)
	s.text("delta", &e.Delta)
	e.taggedFields(s)
}

func (e *TextMessageEnd) fields(s *shape) {
	s.text("messageId", &e.MessageID)
	e.taggedFields(s)
}

func (e *TextMessageChunk) fields(s *shape) {
	s.textOpt("messageId", &e.MessageID)
	wordOpt(s, "role", &e.Role, textRoles)
	s.textOpt("delta", &e.Delta)
	s.textOpt("name", &e.Name)
	e.taggedFields(s)
}
