package agui

import (
	"slices"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// Role is who a message is from.
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

var (
	roles     = []Role{RoleDeveloper, RoleSystem, RoleUser, RoleAssistant, RoleTool, RoleReasoning, RoleActivity}
	textRoles = []Role{RoleDeveloper, RoleSystem, RoleAssistant, RoleUser}
	toolRoles = []Role{RoleTool}
)

// Message is one message of a conversation. Which members it has depends on its
// role; a member that the role does not have cannot be written.
type Message struct {
	ID   string
	Role Role
	// Content is required but for assistant, where nil is absent, and activity,
	// which has none. Only user and tool messages may have parts.
	Content       *Content
	Name          *string         // developer, system, user, assistant
	ToolCalls     []ToolCall      // assistant; nil: absent
	ToolCallID    string          // tool
	Error         *string         // tool: what went wrong
	ActivityType  string          // activity
	Activity      message.RawJSON // activity: the content, an object
	Encrypted     *string         // encryptedValue; not of activity
	Metadata      message.RawJSON // an object; nil: absent
	SubagentRunID *string
}

// ToolCall is a call within an assistant message. Arguments is text that need
// not be JSON.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string
	Encrypted *string         // encryptedValue
	Metadata  message.RawJSON // an object; nil: absent
}

// Content is a string, or, when Parts is not nil, a list of parts.
type Content struct {
	Text  string
	Parts []Part
}

// Text makes a content that is a string.
func Text(s string) *Content { return &Content{Text: s} }

// String is the content's text: the string, or the text parts in a row.
func (c Content) String() string {
	if c.Parts == nil {
		return c.Text
	}
	var sb strings.Builder
	for _, p := range c.Parts {
		sb.WriteString(p.Text)
	}
	return sb.String()
}

// PartType is the discriminator of a part.
type PartType string

// The kinds of parts.
const (
	PartText     PartType = "text"
	PartImage    PartType = "image"
	PartAudio    PartType = "audio"
	PartVideo    PartType = "video"
	PartDocument PartType = "document"
)

// partBinary is what peers older than 1.0 send in place of media parts.
const partBinary PartType = "binary"

var partTypes = []PartType{PartText, PartImage, PartAudio, PartVideo, PartDocument}

// Part is one part of a content: text, or media with a source.
type Part struct {
	Type     PartType
	ID       *string
	Text     string          // of a text part
	Source   *Source         // of a media part, required there
	Metadata message.RawJSON // anything but null; nil: absent

	legacy bool // read from a binary part
}

// SourceType is the discriminator of a source.
type SourceType string

// The kinds of sources.
const (
	SourceData SourceType = "data" // Value is base64; MimeType is required
	SourceURL  SourceType = "url"
	SourceFile SourceType = "file" // Value is a provider's handle; new in 1.0
)

var sourceTypes = []SourceType{SourceData, SourceURL, SourceFile}

// Source is where the bytes of a media part are.
type Source struct {
	Type     SourceType
	Value    string
	MimeType *string
	Provider *string // of a file
}

func (m *Message) fields(s *shape) {
	s.text("id", &m.ID)
	variant(s, "role", &m.Role, roles)
	of := "a message of this role"
	switch m.Role {
	case RoleActivity:
		s.text("activityType", &m.ActivityType)
		s.object("content", &m.Activity)
	case RoleTool:
		s.text("toolCallId", &m.ToolCallID)
		m.content(s, s.content)
		s.textOpt("error", &m.Error)
	case RoleUser:
		m.content(s, s.content)
	case RoleAssistant:
		if s.reading || m.Content != nil {
			m.assistantFields(s)
		}
		listOpt(s, "toolCalls", &m.ToolCalls, (*ToolCall).fields)
	case RoleDeveloper, RoleSystem, RoleReasoning:
		m.content(s, s.plainContent)
	}
	if slices.Contains(textRoles, m.Role) {
		s.textOpt("name", &m.Name)
	} else {
		s.refuseUnused("name", m.Name != nil, of)
	}
	if m.Role != RoleActivity {
		s.textOpt("encryptedValue", &m.Encrypted)
	}
	s.refuseUnused("encryptedValue", m.Role == RoleActivity && m.Encrypted != nil, of)
	s.refuseUnused("content", m.Role == RoleActivity && m.Content != nil, of)
	s.refuseUnused("toolCalls", m.Role != RoleAssistant && m.ToolCalls != nil, of)
	s.refuseUnused("toolCallId", m.Role != RoleTool && m.ToolCallID != "", of)
	s.refuseUnused("error", m.Role != RoleTool && m.Error != nil, of)
	s.refuseUnused("activityType", m.Role != RoleActivity && (m.ActivityType != "" || m.Activity != nil), of)
	s.objectOpt("metadata", &m.Metadata)
	s.textOpt("subagentRunId", &m.SubagentRunID)
}

// content is a required content of the kind that codec reads and writes.
func (m *Message) content(s *shape, codec func(string, *Content)) {
	if s.reading {
		m.Content = new(Content)
	}
	if m.Content == nil {
		s.fail("content", -1, strictjson.Wrong(strictjson.ErrMissingMember, "%q", "content"))
		return
	}
	codec("content", m.Content)
}

func (m *Message) assistantFields(s *shape) {
	if s.reading {
		if _, ok := s.findOptional("content"); !ok {
			return
		}
	}
	m.content(s, s.plainContent)
}

// plainContent is a content that must be a string.
func (s *shape) plainContent(name string, c *Content) {
	s.refuseUnused(name, c.Parts != nil, "a message of this role")
	s.text(name, &c.Text)
}

// content is a required string or list of parts.
func (s *shape) content(name string, c *Content) {
	if !s.reading {
		if c.Parts != nil {
			list(s, name, &c.Parts, (*Part).fields)
		} else {
			s.text(name, &c.Text)
		}
		return
	}
	m, ok := s.require(name)
	switch {
	case !ok:
	case strictjson.KindOf(m.Value) == "array":
		readList(s, name, m, &c.Parts, (*Part).fields)
		c.Parts = slices.DeleteFunc(c.Parts, func(p Part) bool { return p.legacy && isRepeated(p, c.Parts) })
	case strictjson.KindOf(m.Value) == "string":
		s.readText(name, m, &c.Text)
	default:
		s.fail(name, m.Offset, strictjson.Wrong(strictjson.ErrType, "want string or array, got %s", strictjson.KindOf(m.Value)))
	}
}

func (c *ToolCall) fields(s *shape) {
	s.text("id", &c.ID)
	s.constant("type", "function")
	nested(s, "function", c, func(c *ToolCall, s *shape) {
		s.text("name", &c.Name)
		s.text("arguments", &c.Arguments)
	})
	s.textOpt("encryptedValue", &c.Encrypted)
	s.objectOpt("metadata", &c.Metadata)
}

func (p *Part) fields(s *shape) {
	if s.reading && !s.log.strict && p.readBinary(s) {
		return
	}
	variant(s, "type", &p.Type, partTypes)
	s.textOpt("id", &p.ID)
	if p.Type == PartText {
		s.text("text", &p.Text)
		s.refuseUnused("source", p.Source != nil, "a text part")
	} else {
		s.refuseUnused("text", p.Text != "", "a media part")
		p.source(s)
		s.rescueNull("metadata")
	}
	s.rawOpt("metadata", &p.Metadata)
}

func (p *Part) source(s *shape) {
	if s.reading {
		p.Source = new(Source)
	}
	if p.Source == nil {
		s.fail("source", -1, strictjson.Wrong(strictjson.ErrMissingMember, "%q", "source"))
		return
	}
	nested(s, "source", p.Source, (*Source).fields)
}

func (x *Source) fields(s *shape) {
	variant(s, "type", &x.Type, sourceTypes)
	s.text("value", &x.Value)
	if x.Type == SourceData && s.err == nil && !s.reading && x.MimeType == nil {
		s.fail("mimeType", -1, strictjson.Wrong(strictjson.ErrMissingMember, "%q", "mimeType"))
	}
	if x.Type == SourceData && s.reading {
		s.require("mimeType")
	}
	s.textOpt("mimeType", &x.MimeType)
	if x.Type == SourceFile {
		s.textOpt("provider", &x.Provider)
	}
	s.refuseUnused("provider", x.Type != SourceFile && x.Provider != nil, "this source")
}
