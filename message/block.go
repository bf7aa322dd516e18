package message

import (
	"bytes"
	"slices"
	"strings"
)

// BlockType is the type of a content block, in AgentScope's spelling.
type BlockType string

// The block types of AgentScope 2.0.
const (
	BlockText       BlockType = "text"
	BlockThinking   BlockType = "thinking"
	BlockData       BlockType = "data"
	BlockHint       BlockType = "hint"
	BlockToolCall   BlockType = "tool_call"
	BlockToolResult BlockType = "tool_result"
)

// Block is one piece of a message's content. The set is closed: *TextBlock,
// *ThinkingBlock, *DataBlock, *HintBlock, *ToolCallBlock, *ToolResultBlock, and
// *UnknownBlock for every type that this version does not know. Switches over it should
// name all seven.
//
// Only pointers are blocks, so that an event can change one in place. Blocks
// are not safe for concurrent use.
//
//sumtype:decl
type Block interface {
	// Type returns the type of the block.
	Type() BlockType
	// BlockID is the block's id; for tool blocks it is the id of the call. Ids are unique at
	// most within a type, never across types.
	BlockID() string
	// MarshalJSON returns the block as AgentScope writes it: the type first, and every
	// field, including nulls.
	MarshalJSON() ([]byte, error)

	isBlock()
}

// TextBlock is text for people.
type TextBlock struct {
	Text       string  `json:"text" wire:"required"`
	ID         string  `json:"id" wire:"id"`
	CreatedAt  string  `json:"created_at" wire:"now"`
	FinishedAt *string `json:"finished_at"` // nil while the block is being written
}

// ThinkingBlock is a model's reasoning. Providers add members of their own, such as
// signature or redacted_thinking_data; they are kept in Extra and written back unchanged
// after the block's own fields.
type ThinkingBlock struct {
	Thinking   string   `json:"thinking" wire:"required"`
	ID         string   `json:"id" wire:"id"`
	CreatedAt  string   `json:"created_at" wire:"now"`
	FinishedAt *string  `json:"finished_at"`
	Extra      []Member `json:"-" wire:"extra"`
}

// Member is a named JSON value that is passed on unread.
type Member struct {
	Name  string
	Value RawJSON
}

// DataBlock is binary content: an image, a sound, a file.
type DataBlock struct {
	ID         string  `json:"id" wire:"id"`
	Source     Source  `json:"source" wire:"required"`
	Name       *string `json:"name"`
	CreatedAt  string  `json:"created_at" wire:"now"`
	FinishedAt *string `json:"finished_at"`
}

// HintBlock is an instruction inserted between the model's turns, such as a team message or
// a background result. Source is the sender's label, which may itself be a small JSON text.
// A hint arrives whole, so FinishedAt defaults to now.
type HintBlock struct {
	Hint       Content `json:"hint" wire:"required"`
	ID         string  `json:"id" wire:"id"`
	Source     *string `json:"source"`
	CreatedAt  string  `json:"created_at" wire:"now"`
	FinishedAt *string `json:"finished_at" wire:"now"`
}

// ToolCallBlock is a tool call that a model proposed. Input is the raw text of its arguments
// as the model wrote it. Whether it is a JSON object, or JSON at all, is checked when the
// call is decided.
type ToolCallBlock struct {
	ID             CallID           `json:"id" wire:"required"`
	Name           string           `json:"name" wire:"required"`
	Input          string           `json:"input" wire:"required"`
	State          ToolCallState    `json:"state" wire:"default=pending"`
	SuggestedRules []PermissionRule `json:"suggested_rules"`
	CreatedAt      string           `json:"created_at" wire:"now"`
	FinishedAt     *string          `json:"finished_at"` // end of the model's output, not of the call
}

// ToolResultBlock is the result of a call. ID is the id of the call.
type ToolResultBlock struct {
	ID         CallID          `json:"id" wire:"required"`
	Name       string          `json:"name" wire:"required"`
	Output     Content         `json:"output" wire:"required"`
	State      ToolResultState `json:"state" wire:"default=running"`
	Metadata   map[string]any  `json:"metadata"`
	CreatedAt  string          `json:"created_at" wire:"now"`
	FinishedAt *string         `json:"finished_at"`
}

// UnknownBlock is a block of a type that this version does not know. Raw is the whole block
// exactly as it was received, and it is written back unchanged.
type UnknownBlock struct {
	Kind BlockType
	ID   string // the id member of Raw, if it is a string
	Raw  RawJSON
}

func (*TextBlock) Type() BlockType       { return BlockText }
func (*ThinkingBlock) Type() BlockType   { return BlockThinking }
func (*DataBlock) Type() BlockType       { return BlockData }
func (*HintBlock) Type() BlockType       { return BlockHint }
func (*ToolCallBlock) Type() BlockType   { return BlockToolCall }
func (*ToolResultBlock) Type() BlockType { return BlockToolResult }

// Type returns the type named by the block.
func (b *UnknownBlock) Type() BlockType { return b.Kind }

func (t *TextBlock) BlockID() string     { return t.ID }
func (t *ThinkingBlock) BlockID() string { return t.ID }
func (d *DataBlock) BlockID() string     { return d.ID }
func (h *HintBlock) BlockID() string     { return h.ID }

// BlockID returns the call's id.
func (t *ToolCallBlock) BlockID() string { return string(t.ID) }

// BlockID returns the call's id.
func (t *ToolResultBlock) BlockID() string { return string(t.ID) }
func (b *UnknownBlock) BlockID() string    { return b.ID }

func (*TextBlock) isBlock()       {}
func (*ThinkingBlock) isBlock()   {}
func (*DataBlock) isBlock()       {}
func (*HintBlock) isBlock()       {}
func (*ToolCallBlock) isBlock()   {}
func (*ToolResultBlock) isBlock() {}
func (*UnknownBlock) isBlock()    {}

// ToolCallState is the state of a tool call. The zero value is not a state and is written as
// pending.
type ToolCallState string

// The states of a tool call, in AgentScope's spelling.
const (
	ToolCallPending   ToolCallState = "pending"   // proposed, not decided
	ToolCallAsking    ToolCallState = "asking"    // a person is asked
	ToolCallAllowed   ToolCallState = "allowed"   // may run
	ToolCallSubmitted ToolCallState = "submitted" // runs outside askance
	ToolCallFinished  ToolCallState = "finished"  // has its result; cannot change
)

// Valid reports whether s is exactly one of AgentScope's states.
func (s ToolCallState) Valid() bool { return isWord(string(s), s.words()) }

func (ToolCallState) words() string { return "pending, asking, allowed, submitted, finished" }

// ToolResultState is how a tool call ended. The zero value is not a state and is written as
// running.
type ToolResultState string

// The states of a tool result, in AgentScope's spelling.
const (
	ToolResultSuccess     ToolResultState = "success"
	ToolResultError       ToolResultState = "error"
	ToolResultInterrupted ToolResultState = "interrupted"
	ToolResultDenied      ToolResultState = "denied"
	ToolResultRunning     ToolResultState = "running" // not ended yet
)

// Valid reports whether s is exactly one of AgentScope's states.
func (s ToolResultState) Valid() bool { return isWord(string(s), s.words()) }

func (ToolResultState) words() string { return "success, error, interrupted, denied, running" }

// Content is the output of a tool result or the content of a hint: a string, or a list of
// text and data blocks. The two differ on the wire. If Blocks is not nil, even if empty, it
// is a list and Text is ignored; the zero value is the empty string.
type Content struct {
	Text   string
	Blocks []Block
}

// List makes a Content that is a list, which is empty without arguments. Only text, data and
// unknown blocks can be written.
func List(blocks ...Block) Content {
	if blocks == nil {
		blocks = []Block{}
	}
	return Content{Blocks: blocks}
}

// IsList reports whether the content is a list of blocks.
func (c Content) IsList() bool { return c.Blocks != nil }

// String returns the content's text: the string itself, or the text blocks of the list, each
// on its own line. A block of an unknown type is shown as its JSON.
func (c Content) String() string {
	if !c.IsList() {
		return c.Text
	}
	var texts []string
	for _, b := range c.Blocks {
		switch b := b.(type) {
		case *TextBlock:
			texts = append(texts, b.Text)
		case *UnknownBlock:
			texts = append(texts, string(b.Raw))
		default: // data has no text
		}
	}
	return JoinTexts(texts)
}

// JoinTexts joins the texts of blocks, with a line break between two of them.
func JoinTexts(texts []string) string {
	var sb strings.Builder
	ended := true // the line before
	for _, t := range texts {
		if t == "" {
			continue
		}
		if !ended {
			sb.WriteByte('\n')
		}
		sb.WriteString(t)
		ended = strings.HasSuffix(t, "\n")
	}
	return sb.String()
}

// contentHolds reports whether a Content may contain a block of type t: AgentScope's text
// and data, and unknown types.
func contentHolds(t BlockType) bool {
	switch t {
	case BlockThinking, BlockHint, BlockToolCall, BlockToolResult:
		return false
	}
	return true
}

// SourceType is the type of a data block's source.
type SourceType string

// The source types of AgentScope 2.0.
const (
	SourceBase64 SourceType = "base64"
	SourceURL    SourceType = "url"
)

// Source says where a data block's bytes are: *Base64Source or *URLSource.
//
//sumtype:decl
type Source interface {
	// Type returns the type of the source.
	Type() SourceType
	// MarshalJSON returns the source as AgentScope writes it.
	MarshalJSON() ([]byte, error)

	isSource()
}

// Base64Source contains the bytes. Data is not checked to be base64 until an event appends
// to it.
type Base64Source struct {
	Data      string `json:"data" wire:"required"`
	MediaType string `json:"media_type" wire:"required"`
}

// URLSource points to the bytes. URL is absolute, and is normalised according to the WHATWG
// URL standard whenever it is read or written.
type URLSource struct {
	URL       string `json:"url" wire:"required,rule=url"`
	MediaType string `json:"media_type" wire:"required"`
}

func (*Base64Source) Type() SourceType { return SourceBase64 }
func (*URLSource) Type() SourceType    { return SourceURL }

func (*Base64Source) isSource() {}
func (*URLSource) isSource()    {}

// Each kind of identifier has its own type, so that a CallID is never passed where a ReplyID
// is meant. All are opaque text: AgentScope accepts any string, and models make up call ids,
// which may repeat across replies.
type (
	// SessionID names a conversation (AgentScope's session_id).
	SessionID string
	// ReplyID names one assistant reply (AgentScope's reply_id; equal to the id
	// of the message that the reply builds).
	ReplyID string
	// CallID names a tool call within one reply (AgentScope's tool_call_id).
	CallID string
)

// Clone returns a deep copy of the message.
func (m *Msg) Clone() *Msg {
	d := *m
	d.Content = cloneBlocks(m.Content)
	d.Metadata = cloneMap(m.Metadata)
	d.Usage = clonePtr(m.Usage)
	d.FinishedAt = clonePtr(m.FinishedAt)
	d.FinishedReason = clonePtr(m.FinishedReason)
	d.StructuredOutput = cloneMap(m.StructuredOutput)
	d.Error = clonePtr(m.Error)
	return &d
}

// Clone returns a deep copy of the content.
func (c Content) Clone() Content { return Content{Text: c.Text, Blocks: cloneBlocks(c.Blocks)} }

func cloneBlocks(blocks []Block) []Block {
	if blocks == nil {
		return nil
	}
	out := make([]Block, len(blocks))
	for i, b := range blocks {
		out[i] = cloneBlock(b)
	}
	return out
}

func cloneBlock(b Block) Block {
	switch b := b.(type) {
	case *TextBlock:
		d := *b
		d.FinishedAt = clonePtr(b.FinishedAt)
		return &d
	case *ThinkingBlock:
		d := *b
		d.FinishedAt = clonePtr(b.FinishedAt)
		d.Extra = slices.Clone(b.Extra)
		return &d
	case *DataBlock:
		d := *b
		d.Source, d.Name, d.FinishedAt = cloneSource(b.Source), clonePtr(b.Name), clonePtr(b.FinishedAt)
		return &d
	case *HintBlock:
		d := *b
		d.Hint, d.Source, d.FinishedAt = b.Hint.Clone(), clonePtr(b.Source), clonePtr(b.FinishedAt)
		return &d
	case *ToolCallBlock:
		d := *b
		d.SuggestedRules, d.FinishedAt = cloneRules(b.SuggestedRules), clonePtr(b.FinishedAt)
		return &d
	case *ToolResultBlock:
		return b.clone()
	case *UnknownBlock:
		d := *b
		d.Raw = bytes.Clone(b.Raw)
		return &d
	}
	return nil
}

func (t *ToolResultBlock) clone() *ToolResultBlock {
	d := *t
	d.Output, d.Metadata, d.FinishedAt = t.Output.Clone(), cloneMap(t.Metadata), clonePtr(t.FinishedAt)
	return &d
}

func cloneSource(s Source) Source {
	switch s := s.(type) {
	case *Base64Source:
		return clonePtr(s)
	case *URLSource:
		return clonePtr(s)
	}
	return nil
}

func cloneRules(rules []PermissionRule) []PermissionRule {
	out := slices.Clone(rules)
	for i := range out {
		out[i].RuleContent = clonePtr(out[i].RuleContent)
	}
	return out
}

func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// cloneMap copies a JSON object as decoded; values of other types are shared.
func cloneMap(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = cloneAny(v)
	}
	return out
}

func cloneAny(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return cloneMap(v)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = cloneAny(e)
		}
		return out
	}
	return v
}
