package agui

import (
	"cmp"
	"maps"
	"slices"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// History builds messages from the events of a stream like the client does, so that a
// server can restate the conversation: start with the messages of the run's input, apply
// what is sent, and [History.Snapshot] is what the client then has. It applies no patches
// (ACTIVITY_DELTA does not change an activity) and no encrypted reasoning, and keeps no
// state. It is not safe for concurrent use.
type History struct {
	messages []Message
}

// NewHistory starts with a conversation, which it does not change.
func NewHistory(messages []Message) *History {
	h := &History{}
	h.restate(messages)
	return h
}

// Messages returns the conversation, which belongs to the history.
func (h *History) Messages() []Message { return h.messages }

// Snapshot returns the event that restates the conversation, without activities and
// reasoning: a client keeps its own and does not send all of them back, so a snapshot with
// only some would drop the others.
func (h *History) Snapshot() *MessagesSnapshot {
	return &MessagesSnapshot{Messages: slices.DeleteFunc(slices.Clone(h.messages), isOwn)}
}

// isOwn reports whether the client keeps a message without the server.
func isOwn(m Message) bool { return m.Role == RoleActivity || m.Role == RoleReasoning }

// Apply applies the next event. A chunk event, and an event out of place, changes nothing.
func (h *History) Apply(e Event) {
	switch e := e.(type) {
	case *RunStarted:
		if e.Input != nil {
			h.add(e.Input.Messages)
		}
	case *MessagesSnapshot:
		h.restate(e.Messages)
	case *TextMessageStart:
		h.start(e, Message{ID: e.MessageID, Role: valueOr(e.Role, RoleAssistant), Name: e.Name, SubagentRunID: e.SubagentRunID})
	case *TextMessageContent:
		h.extend(e, e.MessageID, e.Delta)
	case *TextMessageEnd:
		h.end(e, e.MessageID)
	case *ReasoningMessageStart:
		h.start(e, Message{ID: e.MessageID, Role: RoleReasoning, SubagentRunID: e.SubagentRunID})
	case *ReasoningMessageContent:
		h.extend(e, e.MessageID, e.Delta)
	case *ReasoningMessageEnd:
		h.end(e, e.MessageID)
	case *ToolCallStart:
		h.call(e)
	case *ToolCallArgs:
		h.appendArguments(e, e.ToolCallID, e.Delta)
	case *ToolCallEnd:
		h.appendArguments(e, e.ToolCallID, "")
	case *ToolCallResult:
		h.result(e)
	case *ActivitySnapshot:
		h.activity(e)
	default: // the others do not affect messages
	}
}

func (h *History) find(id string) int {
	return slices.IndexFunc(h.messages, func(m Message) bool { return m.ID == id })
}

func (h *History) add(messages []Message) {
	for _, m := range messages {
		if h.find(m.ID) < 0 {
			h.messages = append(h.messages, cloneMessage(m))
		}
	}
}

// restate replaces, in place, the messages that the client does not keep without the server.
func (h *History) restate(messages []Message) {
	said := map[string]Message{}
	keeps := map[Role]bool{RoleActivity: true, RoleReasoning: true}
	for _, m := range messages {
		said[m.ID] = m
		keeps[m.Role] = false
	}
	var out []Message
	for _, m := range h.messages {
		if now, ok := said[m.ID]; ok {
			out = append(out, cloneMessage(now))
		} else if keeps[m.Role] {
			out = append(out, m)
		}
	}
	h.messages = out
	for _, m := range messages {
		if !slices.ContainsFunc(out, func(o Message) bool { return o.ID == m.ID }) {
			h.messages = append(h.messages, cloneMessage(m))
		}
	}
}

// cloneMessage returns a copy that may be changed.
func cloneMessage(m Message) Message {
	if m.Content != nil {
		c := *m.Content
		m.Content = &c
	}
	m.ToolCalls = slices.Clone(m.ToolCalls)
	return m
}

func (h *History) start(e Event, m Message) {
	i := h.find(m.ID)
	if i < 0 {
		i = len(h.messages)
		m.Content = Text("")
		h.messages = append(h.messages, m)
	}
	if h.messages[i].Role != RoleActivity {
		merge(&h.messages[i].Metadata, e)
	}
}

func (h *History) extend(e Event, id, delta string) {
	i := h.find(id)
	if i < 0 || h.messages[i].Role == RoleActivity {
		return
	}
	m := &h.messages[i]
	if m.Content == nil || m.Content.Parts != nil {
		m.Content = Text("")
	}
	m.Content.Text += delta
	merge(&m.Metadata, e)
}

func (h *History) end(e Event, id string) {
	if i := h.find(id); i >= 0 && h.messages[i].Role != RoleActivity {
		merge(&h.messages[i].Metadata, e)
	}
}

// findCall returns a call and the index of the message that contains it.
func (h *History) findCall(id string) (*ToolCall, int) {
	for i := range h.messages {
		for j := range h.messages[i].ToolCalls {
			if c := &h.messages[i].ToolCalls[j]; c.ID == id {
				return c, i
			}
		}
	}
	return nil, -1
}

func (h *History) call(e *ToolCallStart) {
	if c, _ := h.findCall(e.ToolCallID); c != nil {
		c.Name = e.ToolCallName
		merge(&c.Metadata, e)
		return
	}
	c := ToolCall{ID: e.ToolCallID, Name: e.ToolCallName}
	merge(&c.Metadata, e)
	parent, i := e.ToolCallID, -1
	if e.ParentMessageID != nil && *e.ParentMessageID != "" {
		if i = h.find(*e.ParentMessageID); i < 0 {
			parent = *e.ParentMessageID
		} else if h.messages[i].Role != RoleAssistant {
			i = -1
		}
	}
	if i < 0 {
		m := Message{ID: parent, Role: RoleAssistant}
		if h.find(parent) < 0 {
			m.SubagentRunID = e.SubagentRunID
		}
		i = len(h.messages)
		h.messages = append(h.messages, m)
	}
	h.messages[i].ToolCalls = append(h.messages[i].ToolCalls, c)
}

func (h *History) appendArguments(e Event, id, delta string) {
	if c, _ := h.findCall(id); c != nil {
		c.Arguments += delta
		merge(&c.Metadata, e)
	}
}

// ShowAsked gives a call the name and arguments of its approval request, or those that run, which a
// person or the client must see instead of what was streamed.
func (h *History) ShowAsked(id, name, arguments string) {
	if c, _ := h.findCall(id); c != nil {
		c.Name, c.Arguments = name, arguments
	}
}

// result inserts a tool message after the message of its call and the results that
// already follow it.
func (h *History) result(e *ToolCallResult) {
	content := e.Content
	m := Message{ID: e.MessageID, Role: RoleTool, ToolCallID: e.ToolCallID, Content: &content, SubagentRunID: e.SubagentRunID}
	merge(&m.Metadata, e)
	_, i := h.findCall(e.ToolCallID)
	if i < 0 {
		i = len(h.messages) - 1
	}
	for i++; i < len(h.messages) && h.messages[i].Role == RoleTool; i++ {
	}
	h.messages = slices.Insert(h.messages, i, m)
}

func (h *History) activity(e *ActivitySnapshot) {
	replace := valueOr(e.Replace, true)
	m := Message{ID: e.MessageID, Role: RoleActivity, ActivityType: e.ActivityType, Activity: e.Content, SubagentRunID: e.SubagentRunID}
	i := h.find(m.ID)
	switch {
	case i < 0:
		i = len(h.messages)
		h.messages = append(h.messages, m)
	case h.messages[i].Role == RoleActivity:
		if replace {
			m.Metadata = h.messages[i].Metadata
			h.messages[i] = m
		}
	case replace:
		h.messages[i] = m
	default:
		return
	}
	merge(&h.messages[i].Metadata, e)
}

// merge adds an event's metadata to the metadata of its subject; later values replace
// earlier ones.
func merge(into *message.RawJSON, e Event) {
	raw := e.Common().Metadata
	if raw == nil || *into == nil {
		if raw != nil {
			*into = raw
		}
		return
	}
	all, err := strictjson.Object(*into, strictjson.MaxBytes(len(*into)), strictjson.KeepBigIntegers())
	if err != nil {
		return
	}
	more, err := strictjson.Object(raw, strictjson.MaxBytes(len(raw)), strictjson.KeepBigIntegers())
	if err != nil {
		return
	}
	maps.Copy(all, more)
	if merged := object(all); merged != nil {
		*into = merged
	}
}

// Role says who a message is from.
type Role string

// The roles of AG-UI.
const (
	RoleDeveloper Role = "developer"
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
	RoleReasoning Role = "reasoning"
	RoleActivity  Role = "activity"
)

// Message is one message of a conversation. Its role determines which members it has; a
// member that the role does not have cannot be written.
type Message struct {
	ID           string `json:"id"`
	Role         Role   `json:"role" wire:"variant"`
	ToolCallID   string `json:"toolCallId" wire:"when=tool"`
	ActivityType string `json:"activityType" wire:"when=activity"`
	// Content is required except for assistant, where nil means absent. Only user and tool
	// messages may have parts.
	Content       *Content        `json:"content" wire:"when=developer system user assistant tool reasoning"`
	Activity      message.RawJSON `wire:"name=content,required,object,when=activity"`
	Error         *string         `json:"error" wire:"when=tool"`          // what went wrong
	ToolCalls     []ToolCall      `json:"toolCalls" wire:"when=assistant"` // nil if absent
	Name          *string         `json:"name" wire:"when=developer system user assistant"`
	Encrypted     *string         `json:"encryptedValue" wire:"when=developer system user assistant tool reasoning"`
	Metadata      message.RawJSON `json:"metadata" wire:"object"` // nil if absent
	SubagentRunID *string         `json:"subagentRunId"`
}

// ToolCall is a call within an assistant message. Arguments is text that need not be JSON.
type ToolCall struct {
	ID        string          `json:"id"`
	_         struct{}        `wire:"name=type,const=function"`
	Name      string          `json:"name" wire:"group=function"`
	Arguments string          `json:"arguments" wire:"group=function"`
	Encrypted *string         `json:"encryptedValue"`
	Metadata  message.RawJSON `json:"metadata" wire:"object"` // nil if absent
}

// Content is a string or, if Parts is not nil, a list of parts.
type Content struct {
	Text  string
	Parts []Part
}

// Text returns a content that is a string.
func Text(s string) *Content { return &Content{Text: s} }

// String returns the content's text: the string, or the text of all parts, each on its own
// line.
func (c Content) String() string {
	if c.Parts == nil {
		return c.Text
	}
	texts := make([]string, len(c.Parts))
	for i, p := range c.Parts {
		texts[i] = p.Text
	}
	return message.JoinTexts(texts)
}

// PartType is the type of a part.
type PartType string

// The kinds of parts.
const (
	PartText     PartType = "text"
	PartImage    PartType = "image"
	PartAudio    PartType = "audio"
	PartVideo    PartType = "video"
	PartDocument PartType = "document"
)

// partBinary is what peers before 1.0 send instead of media parts.
const partBinary PartType = "binary"

// Part is one part of a content: text, or media with a source.
type Part struct {
	Type     PartType        `json:"type" wire:"variant"`
	ID       *string         `json:"id"`
	Text     string          `json:"text" wire:"when=text"`
	Source   *Source         `json:"source" wire:"required,when=image audio video document"`
	Metadata message.RawJSON `json:"metadata" wire:"rescue"` // anything but null; nil if absent

	legacy bool // whether it was read from a binary part
}

// SourceType is the type of a source.
type SourceType string

// The kinds of sources.
const (
	SourceData SourceType = "data" // Value is base64; MimeType is required
	SourceURL  SourceType = "url"
	SourceFile SourceType = "file" // Value is a provider's handle; new in 1.0
)

// Source says where the bytes of a media part are.
type Source struct {
	Type     SourceType `json:"type" wire:"variant"`
	Value    string     `json:"value"`
	MimeType *string    `json:"mimeType"`
	Provider *string    `json:"provider" wire:"when=file"`
}

// ToolResults returns the results in the history for calls that the server waits for
// ([Mapper.Pending]: by the client's id, with the call's own id and the tool's name), in the
// order of the history. The first of several results for one call counts. A tool message
// with an error becomes a result of state error; the error is the output if there is no
// content, and otherwise in the metadata.
func (in *RunInput) ToolResults(waiting map[string]message.ToolCallBlock) []message.ToolResultBlock {
	var out []message.ToolResultBlock
	done := map[string]bool{}
	for _, m := range in.Messages {
		call, waits := waiting[m.ToolCallID]
		if m.Role != RoleTool || !waits || done[m.ToolCallID] || m.Content == nil {
			continue
		}
		done[m.ToolCallID] = true
		b := message.ToolResultBlock{ID: call.ID, Name: call.Name, Output: scopeContent(*m.Content), State: message.ToolResultSuccess}
		if m.Error != nil {
			b.State = message.ToolResultError
			if m.Content.Parts == nil && m.Content.Text == "" {
				b.Output.Text = *m.Error
			} else {
				b.Metadata = map[string]any{reservedName: map[string]any{"error": *m.Error}}
			}
		}
		out = append(out, b)
	}
	return out
}

// UserMsg converts a person's message to AgentScope: text and media. The name is the
// message's own, or else name. The caller's codec provides times and ids; the message's id
// is AG-UI's.
func (m *Message) UserMsg(codec message.Codec, name string) (*message.Msg, error) {
	if m.Role != RoleUser || m.Content == nil {
		return nil, message.Errorf(message.CodeInvalid, "read AG-UI message", "message %.60q is not a user message", m.ID)
	}
	if m.Name != nil {
		name = *m.Name
	}
	content := scopeContent(*m.Content)
	for i, b := range content.Blocks {
		switch b := b.(type) {
		case *message.TextBlock:
			content.Blocks[i] = codec.NewText(b.Text)
		case *message.DataBlock:
			d := codec.NewData(b.Source)
			d.ID = cmp.Or(b.ID, d.ID)
			content.Blocks[i] = d
		default: // scopeContent makes no other blocks
		}
	}
	return codec.UserMsg(name, content, message.WithID(m.ID))
}

// scopeContent converts parts to blocks. A handle that only a provider can read is kept as
// text, in AG-UI's form.
func scopeContent(c Content) message.Content {
	if c.Parts == nil {
		return message.Content{Text: c.Text}
	}
	out := message.List()
	for _, p := range c.Parts {
		out.Blocks = append(out.Blocks, scopeBlock(p))
	}
	return out
}

func scopeBlock(p Part) message.Block {
	if p.Type == PartText || p.Source == nil {
		return &message.TextBlock{Text: p.Text, ID: valueOr(p.ID, "")}
	}
	mime := valueOr(p.Source.MimeType, "application/octet-stream")
	switch p.Source.Type {
	case SourceData:
		return &message.DataBlock{ID: valueOr(p.ID, ""), Source: &message.Base64Source{Data: p.Source.Value, MediaType: mime}}
	case SourceURL:
		if src, err := message.NewURLSource(p.Source.Value, mime); err == nil {
			return &message.DataBlock{ID: valueOr(p.ID, ""), Source: src}
		}
	case SourceFile:
	}
	raw, err := format.Append(nil, &p)
	if err != nil {
		raw = nil
	}
	return &message.TextBlock{Text: string(raw), ID: valueOr(p.ID, "")}
}

// valueOr returns the value of an optional member, or what its absence means.
func valueOr[T any](p *T, absent T) T {
	if p == nil {
		return absent
	}
	return *p
}
