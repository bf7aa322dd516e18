package message

import "github.com/askance-dev/askance/message/internal/weburl"

// MsgOption sets a field of a new message.
type MsgOption func(*Msg)

// WithID sets the id, which is otherwise generated. For an assistant's message it is the
// reply's id.
func WithID(id string) MsgOption { return func(m *Msg) { m.ID = id } }

// WithCreatedAt sets created_at instead of now.
func WithCreatedAt(at string) MsgOption { return func(m *Msg) { m.CreatedAt = at } }

// UserMsg returns a person's message: text and data. A string content becomes one text block.
// It is finished when created.
func (c Codec) UserMsg(name string, content Content, opts ...MsgOption) (*Msg, error) {
	return c.newMsg(RoleUser, name, content, opts)
}

// SystemMsg returns a system message: text only. Otherwise it is like UserMsg.
func (c Codec) SystemMsg(name string, content Content, opts ...MsgOption) (*Msg, error) {
	return c.newMsg(RoleSystem, name, content, opts)
}

// AssistantMsg returns an agent's message: any blocks. It is not finished; if events build it,
// pass an empty [List] and the reply's id.
func (c Codec) AssistantMsg(name string, content Content, opts ...MsgOption) (*Msg, error) {
	return c.newMsg(RoleAssistant, name, content, opts)
}

// UserMsg is Codec.UserMsg with the zero Codec.
func UserMsg(name string, content Content, opts ...MsgOption) (*Msg, error) {
	return Codec{}.UserMsg(name, content, opts...)
}

// AssistantMsg is Codec.AssistantMsg with the zero Codec.
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

// NewText returns a text block with a new id, created now.
func (c Codec) NewText(text string) *TextBlock {
	return &TextBlock{Text: text, ID: c.newID(), CreatedAt: c.now()}
}

// NewData returns a data block with a new id, created now.
func (c Codec) NewData(src Source) *DataBlock {
	return &DataBlock{ID: c.newID(), Source: src, CreatedAt: c.now()}
}

// NewHeader returns the header of an event of a reply, with a new id, created now.
func (c Codec) NewHeader(reply ReplyID) EventHeader {
	return EventHeader{ID: c.newID(), CreatedAt: c.now(), Reply: reply}
}

// NewData is Codec.NewData with the zero Codec.
func NewData(src Source) *DataBlock { return Codec{}.NewData(src) }

// NewHeader is Codec.NewHeader with the zero Codec.
func NewHeader(reply ReplyID) EventHeader { return Codec{}.NewHeader(reply) }

// NewURLSource returns a source that points to raw, an absolute URL, in normal form.
func NewURLSource(raw, mediaType string) (*URLSource, error) {
	u, err := weburl.Normalize(raw)
	if err != nil {
		return nil, Errorf(CodeInvalid, "make url source", "%w", err)
	}
	return &URLSource{URL: u, MediaType: mediaType}, nil
}
