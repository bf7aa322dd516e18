package message

// BlockType is the discriminator of a content block, in AgentScope's words.
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
// *UnknownBlock for every type that this version does not know. Switches over
// it name all seven.
//
// Only pointers are blocks, so that an event can change one in place. Blocks
// are not safe for concurrent use.
//
//sumtype:decl
type Block interface {
	// Type is the discriminator.
	Type() BlockType
	// BlockID is the block's id; for tool blocks the id of the call. Ids are
	// unique within a type at best, never across types.
	BlockID() string
	// MarshalJSON gives the block as AgentScope writes it: every field, nulls
	// included, the type first.
	MarshalJSON() ([]byte, error)

	isBlock()
}

// TextBlock is text that people read.
type TextBlock struct {
	Text       string  `json:"text" wire:"required"`
	ID         string  `json:"id" wire:"id"`
	CreatedAt  string  `json:"created_at" wire:"now"`
	FinishedAt *string `json:"finished_at"` // nil while the block is being written
}

// ThinkingBlock is a model's reasoning. Providers add members of their own,
// such as signature or redacted_thinking_data; they are kept in Extra and
// written back, byte for byte, after the block's own fields.
type ThinkingBlock struct {
	Thinking   string   `json:"thinking" wire:"required"`
	ID         string   `json:"id" wire:"id"`
	CreatedAt  string   `json:"created_at" wire:"now"`
	FinishedAt *string  `json:"finished_at"`
	Extra      []Member `json:"-" wire:"extra"`
}

// Member is a named JSON value that is passed through unread.
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

// HintBlock is an instruction put between the model's turns: a team message, a
// background result. Source is the sender's label, which may itself be a small
// JSON text. A hint arrives whole, so FinishedAt defaults to now.
type HintBlock struct {
	Hint       Content `json:"hint" wire:"required"`
	ID         string  `json:"id" wire:"id"`
	Source     *string `json:"source"`
	CreatedAt  string  `json:"created_at" wire:"now"`
	FinishedAt *string `json:"finished_at" wire:"now"`
}

// ToolCallBlock is a tool call that a model proposed. Input is the raw text of
// its arguments as the model wrote it; that it is a JSON object, or JSON at
// all, is for whoever decides about the call to check.
type ToolCallBlock struct {
	ID             CallID           `json:"id" wire:"required"`
	Name           string           `json:"name" wire:"required"`
	Input          string           `json:"input" wire:"required"`
	State          ToolCallState    `json:"state" wire:"default=pending"`
	SuggestedRules []PermissionRule `json:"suggested_rules"`
	CreatedAt      string           `json:"created_at" wire:"now"`
	FinishedAt     *string          `json:"finished_at"` // end of the model's output, not of the call
}

// ToolResultBlock is what became of a call. ID is the id of the call.
type ToolResultBlock struct {
	ID         CallID          `json:"id" wire:"required"`
	Name       string          `json:"name" wire:"required"`
	Output     Content         `json:"output" wire:"required"`
	State      ToolResultState `json:"state" wire:"default=running"`
	Metadata   map[string]any  `json:"metadata"`
	CreatedAt  string          `json:"created_at" wire:"now"`
	FinishedAt *string         `json:"finished_at"`
}

// UnknownBlock is a block of a type that this version does not know. Raw is
// the whole block exactly as it came and is written back exactly so.
type UnknownBlock struct {
	Kind BlockType
	ID   string // the id member of Raw, if it is a string
	Raw  RawJSON
}

// Type returns BlockText.
func (*TextBlock) Type() BlockType { return BlockText }

// Type returns BlockThinking.
func (*ThinkingBlock) Type() BlockType { return BlockThinking }

// Type returns BlockData.
func (*DataBlock) Type() BlockType { return BlockData }

// Type returns BlockHint.
func (*HintBlock) Type() BlockType { return BlockHint }

// Type returns BlockToolCall.
func (*ToolCallBlock) Type() BlockType { return BlockToolCall }

// Type returns BlockToolResult.
func (*ToolResultBlock) Type() BlockType { return BlockToolResult }

// Type returns the type that the block named.
func (b *UnknownBlock) Type() BlockType { return b.Kind }

// BlockID returns ID.
func (b *TextBlock) BlockID() string { return b.ID }

// BlockID returns ID.
func (b *ThinkingBlock) BlockID() string { return b.ID }

// BlockID returns ID.
func (b *DataBlock) BlockID() string { return b.ID }

// BlockID returns ID.
func (b *HintBlock) BlockID() string { return b.ID }

// BlockID returns the call's id.
func (b *ToolCallBlock) BlockID() string { return string(b.ID) }

// BlockID returns the call's id.
func (b *ToolResultBlock) BlockID() string { return string(b.ID) }

// BlockID returns ID.
func (b *UnknownBlock) BlockID() string { return b.ID }

func (*TextBlock) isBlock()       {}
func (*ThinkingBlock) isBlock()   {}
func (*DataBlock) isBlock()       {}
func (*HintBlock) isBlock()       {}
func (*ToolCallBlock) isBlock()   {}
func (*ToolResultBlock) isBlock() {}
func (*UnknownBlock) isBlock()    {}
