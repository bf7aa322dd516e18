package agent

import (
	"slices"

	"github.com/askance-dev/askance/message"
)

// openBlocks are the parts of a reply that have begun and not ended.
type openBlocks struct {
	parts []part
	model bool // a call to the model is under way
}

// part is a block that has begun.
type part struct {
	kind message.EventType // of the event that began it
	id   string
}

// note records an event of the reply.
func (o *openBlocks) note(e message.Event) {
	switch e := e.(type) {
	case *message.ModelCallStart:
		o.model = true
	case *message.ModelCallEnd:
		o.model = false
	case *message.TextBlockStart:
		o.begin(e.Type(), e.BlockID)
	case *message.ThinkingBlockStart:
		o.begin(e.Type(), e.BlockID)
	case *message.DataBlockStart:
		o.begin(e.Type(), e.BlockID)
	case *message.ToolCallStart:
		o.begin(e.Type(), string(e.ToolCallID))
	case *message.TextBlockEnd:
		o.end(message.EventTextBlockStart, e.BlockID)
	case *message.ThinkingBlockEnd:
		o.end(message.EventThinkingBlockStart, e.BlockID)
	case *message.DataBlockEnd:
		o.end(message.EventDataBlockStart, e.BlockID)
	case *message.ToolCallEnd:
		o.end(message.EventToolCallStart, string(e.ToolCallID))
	default:
	}
}

func (o *openBlocks) begin(kind message.EventType, id string) {
	if p := (part{kind, id}); !slices.Contains(o.parts, p) {
		o.parts = append(o.parts, p)
	}
}

func (o *openBlocks) end(kind message.EventType, id string) {
	o.parts = slices.DeleteFunc(o.parts, func(p part) bool { return p == part{kind, id} })
}

// calls returns the tool calls without an end.
func (o *openBlocks) calls() []message.CallID {
	var out []message.CallID
	for _, p := range o.parts {
		if p.kind == message.EventToolCallStart {
			out = append(out, message.CallID(p.id))
		}
	}
	return out
}

// closeEvents returns the events that end the open blocks.
func (o *openBlocks) closeEvents(reply message.ReplyID) []message.Event {
	var out []message.Event
	for _, p := range o.parts {
		h := message.NewHeader(reply)
		switch p.kind {
		case message.EventTextBlockStart:
			out = append(out, &message.TextBlockEnd{EventHeader: h, BlockID: p.id})
		case message.EventThinkingBlockStart:
			out = append(out, &message.ThinkingBlockEnd{EventHeader: h, BlockID: p.id})
		case message.EventDataBlockStart:
			out = append(out, &message.DataBlockEnd{EventHeader: h, BlockID: p.id})
		case message.EventToolCallStart:
			out = append(out, &message.ToolCallEnd{EventHeader: h, ToolCallID: message.CallID(p.id)})
		}
	}
	if o.model {
		out = append(out, &message.ModelCallEnd{EventHeader: message.NewHeader(reply), FinishedReason: message.ModelInterrupted})
	}
	return out
}
