package message

import "github.com/askance-dev/askance/message/internal/weburl"

// MsgOption sets a field of a message that is being made.
type MsgOption func(*Msg)

// WithID sets the id instead of a generated one. For an assistant's message it
// is the reply's id.
func WithID(id string) MsgOption { return func(m *Msg) { m.ID = id } }

// WithCreatedAt sets created_at instead of now.
func WithCreatedAt(at string) MsgOption { return func(m *Msg) { m.CreatedAt = at } }

// UserMsg makes a message of a person: text and data. A string content becomes
// one text block. It is finished when it is created.
func (c Codec) UserMsg(name string, content Content, opts ...MsgOption) (*Msg, error) {
	return c.newMsg(RoleUser, name, content, opts)
}

// SystemMsg makes a message of the system: text only. Otherwise as UserMsg.
func (c Codec) SystemMsg(name string, content Content, opts ...MsgOption) (*Msg, error) {
	return c.newMsg(RoleSystem, name, content, opts)
}

// AssistantMsg makes a message of an agent: any blocks. It is not finished; for
// one that events build, give it an empty [List] and the reply's id.
func (c Codec) AssistantMsg(name string, content Content, opts ...MsgOption) (*Msg, error) {
	return c.newMsg(RoleAssistant, name, content, opts)
}

// UserMsg makes a message of a person with the zero Codec.
func UserMsg(name string, content Content, opts ...MsgOption) (*Msg, error) {
	return Codec{}.UserMsg(name, content, opts...)
}

// AssistantMsg makes a message of an agent with the zero Codec.
func AssistantMsg(name string, content Content, opts ...MsgOption) (*Msg, error) {
	return Codec{}.AssistantMsg(name, content, opts...)
}

func (c Codec) newMsg(role MsgRole, name string, content Content, opts []MsgOption) (*Msg, error) {
	m := &Msg{Name: name, Role: role, Content: content.Blocks}
	if !content.IsList() {
		m.Content = []Block{c.NewText(content.Text)}
	}
	for _, o := range opts {
		o(m)
	}
	if m.ID == "" {
		m.ID = c.newID()
	}
	if m.CreatedAt == "" {
		m.CreatedAt = c.now()
	}
	if m.FinishedAt == nil && role != RoleAssistant {
		m.FinishedAt = clonePtr(&m.CreatedAt)
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return m, nil
}

// NewText makes a text block with a fresh id, created now.
func (c Codec) NewText(text string) *TextBlock {
	return &TextBlock{Text: text, ID: c.newID(), CreatedAt: c.now()}
}

// NewData makes a data block with a fresh id, created now.
func (c Codec) NewData(src Source) *DataBlock {
	return &DataBlock{ID: c.newID(), Source: src, CreatedAt: c.now()}
}

// NewHeader makes the header of an event of that reply, with a fresh id,
// created now.
func (c Codec) NewHeader(reply ReplyID) EventHeader {
	return EventHeader{ID: c.newID(), CreatedAt: c.now(), Reply: reply}
}

// NewData makes a data block with the zero Codec.
func NewData(src Source) *DataBlock { return Codec{}.NewData(src) }

// NewHeader makes an event's header with the zero Codec.
func NewHeader(reply ReplyID) EventHeader { return Codec{}.NewHeader(reply) }

// NewURLSource makes a source that points to raw, an absolute URL, in its
// normal form.
func NewURLSource(raw, mediaType string) (*URLSource, error) {
	u, err := weburl.Normalize(raw)
	if err != nil {
		return nil, Errorf(CodeInvalid, "make url source", "%w", err)
	}
	return &URLSource{URL: u, MediaType: mediaType}, nil
}
