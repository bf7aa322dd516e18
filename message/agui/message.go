package agui

import (
	"strings"

	"github.com/askance-dev/askance/message"
)

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

// String returns the content's text: the string, or the text of all parts.
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
