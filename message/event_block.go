package message

// TextBlockStart is TEXT_BLOCK_START: an empty text block is appended.
type TextBlockStart struct {
	EventHeader
	BlockID string `json:"block_id" wire:"required"`
}

// TextBlockDelta is TEXT_BLOCK_DELTA: text for the first text block with that id.
type TextBlockDelta struct {
	EventHeader
	BlockID string `json:"block_id" wire:"required"`
	Delta   string `json:"delta" wire:"required"`
}

// TextBlockEnd is TEXT_BLOCK_END: the text block is complete. Later deltas still count.
type TextBlockEnd struct {
	EventHeader
	BlockID string `json:"block_id" wire:"required"`
}

// ThinkingBlockStart is THINKING_BLOCK_START: an empty thinking block is appended.
type ThinkingBlockStart struct {
	EventHeader
	BlockID string `json:"block_id" wire:"required"`
}

// ThinkingBlockDelta is THINKING_BLOCK_DELTA: text for the first thinking block with that id.
type ThinkingBlockDelta struct {
	EventHeader
	BlockID string `json:"block_id" wire:"required"`
	Delta   string `json:"delta" wire:"required"`
}

// ThinkingBlockEnd is THINKING_BLOCK_END: the thinking block is complete.
type ThinkingBlockEnd struct {
	EventHeader
	BlockID string `json:"block_id" wire:"required"`
}

// DataBlockStart is DATA_BLOCK_START: a data block with an empty base64 source is appended.
type DataBlockStart struct {
	EventHeader
	BlockID   string `json:"block_id" wire:"required"`
	MediaType string `json:"media_type" wire:"required"`
}

// DataBlockDelta is DATA_BLOCK_DELTA: bytes for the first data block with that id. Data is
// base64 text with its own padding. MediaType is ignored.
type DataBlockDelta struct {
	EventHeader
	BlockID   string `json:"block_id" wire:"required"`
	Data      string `json:"data" wire:"required"`
	MediaType string `json:"media_type" wire:"required"`
}

// DataBlockEnd is DATA_BLOCK_END: the data block is complete.
type DataBlockEnd struct {
	EventHeader
	BlockID string `json:"block_id" wire:"required"`
}

// HintBlockEvent is HINT_BLOCK: a whole hint block is appended.
type HintBlockEvent struct {
	EventHeader
	BlockID string  `json:"block_id" wire:"required"`
	Source  *string `json:"source"`
	Hint    Content `json:"hint" wire:"required"`
}

func (*TextBlockStart) Type() EventType     { return EventTextBlockStart }
func (*TextBlockDelta) Type() EventType     { return EventTextBlockDelta }
func (*TextBlockEnd) Type() EventType       { return EventTextBlockEnd }
func (*ThinkingBlockStart) Type() EventType { return EventThinkingBlockStart }
func (*ThinkingBlockDelta) Type() EventType { return EventThinkingBlockDelta }
func (*ThinkingBlockEnd) Type() EventType   { return EventThinkingBlockEnd }
func (*DataBlockStart) Type() EventType     { return EventDataBlockStart }
func (*DataBlockDelta) Type() EventType     { return EventDataBlockDelta }
func (*DataBlockEnd) Type() EventType       { return EventDataBlockEnd }
func (*HintBlockEvent) Type() EventType     { return EventHintBlock }
