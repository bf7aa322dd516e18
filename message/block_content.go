package message

import "strings"

// Content is what a tool result's output or a hint holds: a string, or a list
// of text and data blocks. The two are different on the wire. Blocks that is
// not nil makes it a list (an empty one included) and Text is ignored; the
// zero value is the empty string.
type Content struct {
	Text   string
	Blocks []Block
}

// List makes a Content that is a list, an empty one without arguments. Blocks
// other than text, data and unknown ones cannot be written.
func List(blocks ...Block) Content {
	if blocks == nil {
		blocks = []Block{}
	}
	return Content{Blocks: blocks}
}

// IsList reports whether the content is a list of blocks.
func (c Content) IsList() bool { return c.Blocks != nil }

// String is the content's text: the string itself, or the text blocks of the
// list without anything between them, as streamed deltas put them together.
func (c Content) String() string {
	if !c.IsList() {
		return c.Text
	}
	var sb strings.Builder
	for _, b := range c.Blocks {
		if t, ok := b.(*TextBlock); ok {
			sb.WriteString(t.Text)
		}
	}
	return sb.String()
}

// contentHolds reports whether a block of type t may stand in a Content:
// AgentScope's text and data, and types that did not exist yet when this was
// written.
func contentHolds(t BlockType) bool {
	switch t {
	case BlockThinking, BlockHint, BlockToolCall, BlockToolResult:
		return false
	}
	return true
}
