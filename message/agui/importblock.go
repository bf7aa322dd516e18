package agui

import (
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// text reads the assistant's messages; AgentScope's replies have no others.
func (im *Importer) text(e Event) []message.Event {
	h, o := im.header(e)
	switch e := e.(type) {
	case *TextMessageStart:
		if e.Role != nil && *e.Role != RoleAssistant {
			im.foreign[e.MessageID] = true
			return im.asEvent(e)
		}
		if e.Name != nil {
			im.lose(e, LossGrouping)
		}
		return []message.Event{&message.TextBlockStart{EventHeader: h, BlockID: im.begin(itemText, e.MessageID, o)}}
	case *TextMessageContent:
		if im.foreign[e.MessageID] {
			return im.asEvent(e)
		}
		return []message.Event{&message.TextBlockDelta{EventHeader: h, BlockID: im.blocks[item{itemText, e.MessageID}], Delta: e.Delta}}
	case *TextMessageEnd:
		if im.foreign[e.MessageID] {
			delete(im.foreign, e.MessageID)
			return im.asEvent(e)
		}
		return []message.Event{&message.TextBlockEnd{EventHeader: h, BlockID: im.blocks[item{itemText, e.MessageID}]}}
	default:
		return nil
	}
}

// begin returns the block of a message that begins.
func (im *Importer) begin(kind itemKind, id string, o origin) string {
	block := o.text("blockId")
	if block == "" {
		block = id
	}
	im.blocks[item{kind, id}] = block
	return block
}

// reasoning reads the messages; spans, which AgentScope does not have, vanish.
func (im *Importer) reasoning(e Event) []message.Event {
	h, o := im.header(e)
	switch e := e.(type) {
	case *ReasoningMessageStart:
		return []message.Event{&message.ThinkingBlockStart{EventHeader: h, BlockID: im.begin(itemThought, e.MessageID, o)}}
	case *ReasoningMessageContent:
		return []message.Event{&message.ThinkingBlockDelta{EventHeader: h, BlockID: im.blocks[item{itemThought, e.MessageID}], Delta: e.Delta}}
	case *ReasoningMessageEnd:
		return []message.Event{&message.ThinkingBlockEnd{EventHeader: h, BlockID: im.blocks[item{itemThought, e.MessageID}]}}
	default:
		im.lose(e, LossGrouping)
		return nil
	}
}

func (im *Importer) call(e Event) []message.Event {
	h, o := im.header(e)
	switch e := e.(type) {
	case *ToolCallStart:
		if id := o.text("toolCallId"); id != "" {
			im.blocks[item{itemCall, e.ToolCallID}] = id
		}
		if e.ParentMessageID != nil {
			im.lose(e, LossGrouping)
		}
		im.calls[e.ToolCallID] = &importedCall{name: e.ToolCallName}
		im.settle(e.ToolCallID)
		im.asked = append(im.asked, e.ToolCallID)
		return []message.Event{&message.ToolCallStart{EventHeader: h, ToolCallID: im.callID(e.ToolCallID), ToolCallName: e.ToolCallName}}
	case *ToolCallArgs:
		im.calls[e.ToolCallID].input += e.Delta
		return []message.Event{&message.ToolCallDelta{EventHeader: h, ToolCallID: im.callID(e.ToolCallID), Delta: e.Delta}}
	case *ToolCallEnd:
		return []message.Event{&message.ToolCallEnd{EventHeader: h, ToolCallID: im.callID(e.ToolCallID)}}
	default:
		return nil
	}
}

// callID is the id of a call, which at the client may be another.
func (im *Importer) callID(wire string) message.CallID {
	if id, ok := im.blocks[item{itemCall, wire}]; ok {
		return message.CallID(id)
	}
	return message.CallID(wire)
}

// result gives a result as AgentScope streams it: start, pieces, end.
func (im *Importer) result(e *ToolCallResult) []message.Event {
	h, o := im.header(e)
	id, name := im.callID(e.ToolCallID), ""
	if c := im.calls[e.ToolCallID]; c != nil {
		name = c.name
	}
	im.settle(e.ToolCallID)
	out := []message.Event{&message.ToolResultStart{EventHeader: im.made(e), ToolCallID: id, ToolCallName: name}}
	if e.Content.Parts == nil && e.Content.Text != "" {
		out = append(out, &message.ToolResultTextDelta{EventHeader: im.made(e), ToolCallID: id, Delta: e.Content.Text})
	}
	for _, p := range e.Content.Parts {
		out = append(out, im.part(e, id, p))
	}
	state := message.ToolResultState(o.text("state"))
	if !state.Valid() {
		state = message.ToolResultSuccess
	}
	return append(out, &message.ToolResultEnd{EventHeader: h, ToolCallID: id, State: state})
}

func (im *Importer) part(e Event, id message.CallID, p Part) message.Event {
	d := &message.ToolResultDataDelta{EventHeader: im.made(e), ToolCallID: id}
	switch b := scopeBlock(p).(type) {
	case *message.DataBlock:
		d.BlockID = b.ID
		if d.BlockID == "" {
			d.BlockID = im.Codec.NewHeader("").ID
		}
		switch s := b.Source.(type) {
		case *message.Base64Source:
			d.MediaType, d.Data = s.MediaType, &s.Data
		case *message.URLSource:
			d.MediaType, d.URL = s.MediaType, &s.URL
		}
		return d
	case *message.TextBlock:
		if p.Type != PartText {
			im.lose(e, LossFile)
		}
		return &message.ToolResultTextDelta{EventHeader: d.EventHeader, ToolCallID: id, Delta: b.Text}
	default:
		return d
	}
}

// activity reads those that a Mapper makes of blocks.
func (im *Importer) activity(e *ActivitySnapshot) []message.Event {
	h, o := im.header(e)
	id := im.begin(itemActivity, e.MessageID, o)
	switch e.ActivityType {
	case ActivityData:
		var c struct {
			MediaType *string `json:"mediaType"`
			Data      *string `json:"data"`
		}
		if strictjson.Unmarshal(e.Content, &c, strictjson.MaxBytes(MaxFrameBytes)) != nil || c.MediaType == nil || c.Data == nil {
			break
		}
		return []message.Event{
			&message.DataBlockStart{EventHeader: im.made(e), BlockID: id, MediaType: *c.MediaType},
			&message.DataBlockDelta{EventHeader: im.made(e), BlockID: id, MediaType: *c.MediaType, Data: *c.Data},
			&message.DataBlockEnd{EventHeader: h, BlockID: id},
		}
	case ActivityHint:
		if hint := im.hint(e, h, id); hint != nil {
			return []message.Event{hint}
		}
	case ActivityCall:
		return nil // says what other events say
	}
	return im.asEvent(e)
}

// hint reads the content by AgentScope's own codec: as a HINT_BLOCK it has the
// same members, and AgentScope drops those that it does not know.
func (im *Importer) hint(e *ActivitySnapshot, h message.EventHeader, id string) message.Event {
	m := im.whole(e.Content)
	m["type"], m["block_id"], m["reply_id"] = string(message.EventHintBlock), id, ""
	raw := object(m)
	if raw == nil {
		return nil
	}
	back, err := im.Codec.DecodeEvent(raw)
	hint, ok := back.(*message.HintBlockEvent)
	if err != nil || !ok {
		return nil
	}
	hint.EventHeader = h
	return hint
}
