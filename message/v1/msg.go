package v1

import "github.com/askance-dev/askance/message"

// Dialect is one of the two forms that go by the name of AgentScope 1.x.
type Dialect int

// The dialects.
const (
	// V1 is the dialect that 1.0.0 to 1.0.21 write.
	V1 Dialect = iota
	// V01 is the dialect that 0.1.3 to 0.1.7 write, with __module__ and __name__, flat
	// urls and file blocks. Dicts of 0.1.0 to 0.1.2 are also read as V01.
	V01
)

// String returns the releases that write the dialect.
func (d Dialect) String() string {
	if d == V01 {
		return "AgentScope 0.1.x"
	}
	return "AgentScope 1.x"
}

// Msg is one message dict.
type Msg struct {
	// Dialect is the dialect in which the dict was read. It does not affect writing;
	// see Codec.Dialect.
	Dialect Dialect
	ID      string
	Name    string
	Role    message.MsgRole
	Content Content
	// Metadata is any JSON value in V01, an object in V1; nil is null.
	Metadata message.RawJSON
	// Timestamp is local time without a zone, unchanged.
	Timestamp string
	// InvocationID is read from V1 dicts and never written, as in upstream.
	InvocationID string
}

// Content is a string, or a list of blocks if Blocks is not nil.
type Content struct {
	Text   string
	Blocks []Block
}

// List returns a Content that is a list; without arguments it is empty.
func List(blocks ...Block) Content {
	if blocks == nil {
		blocks = []Block{}
	}
	return Content{Blocks: blocks}
}

// IsList reports whether the content is a list of blocks.
func (c Content) IsList() bool { return c.Blocks != nil }

// BlockType is the discriminator of a block.
type BlockType string

// The block types. V01 has no thinking, V1 no file.
const (
	BlockText       BlockType = "text"
	BlockThinking   BlockType = "thinking"
	BlockImage      BlockType = "image"
	BlockAudio      BlockType = "audio"
	BlockVideo      BlockType = "video"
	BlockFile       BlockType = "file"
	BlockToolUse    BlockType = "tool_use"
	BlockToolResult BlockType = "tool_result"
)

// Block is one piece of content. The set is closed: *TextBlock,
// *ThinkingBlock, *MediaBlock, *ToolUseBlock, *ToolResultBlock, and
// *UnknownBlock for blocks that V1 accepts without checking them. Extra contains
// members that the block type does not have; V1 keeps them, V01 drops them.
//
//sumtype:decl
type Block interface {
	// Type is the discriminator.
	Type() BlockType

	isBlock()
}

// TextBlock is text.
type TextBlock struct {
	Text  string           `json:"text" wire:"required"`
	Extra []message.Member `json:"-" wire:"extra"`
}

// ThinkingBlock is a model's reasoning.
type ThinkingBlock struct {
	Thinking string           `json:"thinking" wire:"required"`
	Extra    []message.Member `json:"-" wire:"extra"`
}

// MediaBlock is an image, audio, video or file block: URL is set, or Data
// (base64) and MediaType are.
type MediaBlock struct {
	Kind      BlockType // BlockImage, BlockAudio, BlockVideo or BlockFile
	URL       string
	Data      string
	MediaType string
	Extra     []message.Member

	flat bool // it is written as in 0.1.x
}

// ToolUseBlock is a tool call. RawInput is the input as the model sent it; V1
// has it since 1.0.14.
type ToolUseBlock struct {
	ID       message.CallID   `json:"id" wire:"required"`
	Name     string           `json:"name" wire:"required"`
	Input    message.RawJSON  `json:"input" wire:"required,object"`
	RawInput *string          `json:"raw_input" wire:"omit"`
	Extra    []message.Member `json:"-" wire:"extra"`
}

// ToolResultBlock is the result of the call with that id. Name may be missing
// in V01.
type ToolResultBlock struct {
	ID     message.CallID   `json:"id" wire:"required"`
	Name   string           `json:"name" wire:"null"`
	Output Output           `json:"output" wire:"required"`
	Extra  []message.Member `json:"-" wire:"extra"`
}

// Output is a string, a list of blocks if Blocks is not nil, or, in V01, any
// other JSON value if Raw is not nil.
type Output struct {
	Text   string
	Blocks []Block
	Raw    message.RawJSON
}

// UnknownBlock is a block that V1 accepts unread: one without a type, or with an
// unknown type. Raw is the whole block, unchanged.
type UnknownBlock struct {
	Kind BlockType // "" if there was none
	Raw  message.RawJSON
}

func (*TextBlock) Type() BlockType     { return BlockText }
func (*ThinkingBlock) Type() BlockType { return BlockThinking }

// Type returns Kind.
func (b *MediaBlock) Type() BlockType    { return b.Kind }
func (*ToolUseBlock) Type() BlockType    { return BlockToolUse }
func (*ToolResultBlock) Type() BlockType { return BlockToolResult }

// Type returns the type that the block named.
func (b *UnknownBlock) Type() BlockType { return b.Kind }

func (*TextBlock) isBlock()       {}
func (*ThinkingBlock) isBlock()   {}
func (*MediaBlock) isBlock()      {}
func (*ToolUseBlock) isBlock()    {}
func (*ToolResultBlock) isBlock() {}
func (*UnknownBlock) isBlock()    {}
