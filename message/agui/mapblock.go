package agui

import (
	"slices"
	"time"

	"github.com/askance-dev/askance/message"
)

// appender applies events to the buffer. Times and ids that events lack do not matter
// there.
var appender = message.Codec{
	Now:   func() time.Time { return time.Time{} },
	NewID: func() string { return "" },
}

// blockMapper maps text, thinking, data and hints.
type blockMapper struct{ *scope }

// block maps the events of text, thinking, data and hint blocks.
func (m *blockMapper) block(e message.Event) []Event {
	switch e := e.(type) {
	case *message.TextBlockStart:
		return m.textStart(e)
	case *message.TextBlockDelta:
		if id, ok := m.isOpen(e, message.BlockText, e.BlockID); ok {
			return []Event{&TextMessageContent{Tagged: m.taggedBase(e, nil), MessageID: id, Delta: e.Delta}}
		}
	case *message.TextBlockEnd:
		if id, ok := m.isOpen(e, message.BlockText, e.BlockID); ok {
			m.recordClosed(message.BlockText, e.BlockID)
			return []Event{&TextMessageEnd{Tagged: m.taggedBase(e, nil), MessageID: id}}
		}
	case *message.ThinkingBlockStart:
		return m.thinkingStart(e)
	case *message.ThinkingBlockDelta:
		if id, ok := m.isOpen(e, message.BlockThinking, e.BlockID); ok {
			return []Event{&ReasoningMessageContent{Tagged: m.taggedBase(e, nil), MessageID: id, Delta: e.Delta}}
		}
	case *message.ThinkingBlockEnd:
		if id, ok := m.isOpen(e, message.BlockThinking, e.BlockID); ok {
			m.recordClosed(message.BlockThinking, e.BlockID)
			return []Event{
				&ReasoningMessageEnd{Tagged: m.taggedBase(e, nil), MessageID: id},
				&ReasoningEnd{Tagged: m.plainBase(), MessageID: id},
			}
		}
	case *message.HintBlockEvent:
		return m.hint(e)
	default:
		return m.data(e)
	}
	return nil
}

// noteBlock names the block of a message whose id differs.
func noteBlock(id, block string) map[string]any {
	if id == block {
		return nil
	}
	return map[string]any{"blockId": block}
}

func (m *blockMapper) textStart(e *message.TextBlockStart) []Event {
	id, ok := m.nameMessage(e, message.BlockText, e.BlockID)
	if !ok {
		return nil
	}
	m.recordOpen(message.BlockText, e.BlockID, &TextMessageEnd{MessageID: id})
	if !m.round.called {
		m.round.parent = id
	}
	return []Event{&TextMessageStart{Tagged: m.taggedBase(e, noteBlock(id, e.BlockID)), MessageID: id, Role: new(RoleAssistant)}}
}

func (m *blockMapper) thinkingStart(e *message.ThinkingBlockStart) []Event {
	id, ok := m.nameMessage(e, message.BlockThinking, e.BlockID)
	if !ok {
		return nil
	}
	m.recordOpen(message.BlockThinking, e.BlockID, &ReasoningMessageEnd{MessageID: id}, &ReasoningEnd{MessageID: id})
	return []Event{
		&ReasoningStart{Tagged: m.plainBase(), MessageID: id},
		&ReasoningMessageStart{Tagged: m.taggedBase(e, noteBlock(id, e.BlockID)), MessageID: id},
	}
}

func (m *blockMapper) hint(e *message.HintBlockEvent) []Event {
	id, ok := m.nameMessage(e, message.BlockHint, e.BlockID)
	if !ok {
		return nil
	}
	content := map[string]any{"hint": e.Hint.Text}
	if e.Hint.IsList() {
		content["hint"] = e.Hint.Blocks
	}
	if e.Source != nil {
		content["source"] = *e.Source
	}
	raw := object(content)
	if raw == nil {
		m.lose(e, LossOutOfPlace)
		return nil
	}
	return []Event{&ActivitySnapshot{Tagged: m.taggedBase(e, noteBlock(id, e.BlockID)), MessageID: id, ActivityType: ActivityHint, Content: raw}}
}

// The activities that this package writes and reads.
const (
	ActivityData = sourceName + ".data" // mediaType, and data or url: media of the assistant
	ActivityHint = sourceName + ".hint" // source and hint: an instruction put between the model's turns
)

// data collects the pieces of a data block and shows it whole at its end.
func (m *blockMapper) data(e message.Event) []Event {
	if err := appender.Append(m.buffer, e); err != nil {
		m.lose(e, LossOutOfPlace)
		return nil
	}
	end, ok := e.(*message.DataBlockEnd)
	if !ok {
		if _, starts := e.(*message.DataBlockStart); !starts {
			m.lose(e, LossMediaStream)
		}
		return nil
	}
	for i, b := range m.buffer.Content {
		if d, ok := b.(*message.DataBlock); ok && d.ID == end.BlockID {
			m.buffer.Content = slices.Delete(m.buffer.Content, i, i+1)
			return m.showData(e, d)
		}
	}
	m.lose(e, LossOutOfPlace)
	return nil
}

func (m *blockMapper) showData(e message.Event, d *message.DataBlock) []Event {
	id, ok := m.nameMessage(e, message.BlockData, d.ID)
	if !ok {
		return nil
	}
	content := map[string]any{}
	switch s := d.Source.(type) {
	case *message.Base64Source:
		content["mediaType"], content["data"] = s.MediaType, s.Data
	case *message.URLSource:
		content["mediaType"], content["url"] = s.MediaType, s.URL
	}
	raw := object(content)
	if raw == nil {
		m.lose(e, LossOutOfPlace)
		return nil
	}
	return []Event{&ActivitySnapshot{Tagged: m.taggedBase(e, noteBlock(id, d.ID)), MessageID: id, ActivityType: ActivityData, Content: raw}}
}

func (m *blockMapper) custom(e *message.Custom) []Event {
	value := message.RawJSON("{}")
	if e.Value != nil {
		value = object(e.Value)
	}
	if value == nil {
		m.lose(e, LossOutOfPlace)
		return nil
	}
	return []Event{&Custom{Tagged: m.taggedBase(e, nil), Name: sourceName + "." + e.Name, Value: value}}
}
