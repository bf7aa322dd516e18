package agui

import (
	"slices"

	"github.com/askance-dev/askance/message"
)

// call maps what a model writes of a call. A call that the client knows is
// never streamed again: its arguments would be joined to those that it has.
func (m *Mapper) call(e message.Event) []Event {
	switch e := e.(type) {
	case *message.ToolCallStart:
		return m.callStart(e, e.ToolCallID, e.ToolCallName, m.taggedBase(e, m.callMeta(e.ToolCallID)))
	case *message.ToolCallDelta:
		if _, ok := m.isOpen(e, message.BlockToolCall, string(e.ToolCallID)); ok {
			return []Event{&ToolCallArgs{Tagged: m.taggedBase(e, nil), ToolCallID: m.wire(e.ToolCallID), Delta: e.Delta}}
		}
	case *message.ToolCallEnd:
		if _, ok := m.isOpen(e, message.BlockToolCall, string(e.ToolCallID)); ok {
			m.recordClosed(message.BlockToolCall, string(e.ToolCallID))
			m.calls[e.ToolCallID].done = true
			return []Event{&ToolCallEnd{Tagged: m.taggedBase(e, nil), ToolCallID: m.wire(e.ToolCallID)}}
		}
	default:
	}
	return nil
}

func (m *Mapper) callStart(e message.Event, id message.CallID, name string, t Tagged) []Event {
	c, known := m.findShown(id)
	if known {
		if c.name == "" {
			c.name = name
		}
		m.lose(e, LossOutOfPlace)
		return nil
	}
	c.name = name
	if m.parent == "" {
		m.parent = m.makeID(string(m.reply)+"/"+string(id), "calls")
	}
	m.called = true
	m.recordOpen(message.BlockToolCall, string(id), &ToolCallEnd{ToolCallID: c.wire})
	return []Event{&ToolCallStart{Tagged: t, ToolCallID: c.wire, ToolCallName: name, ParentMessageID: new(m.parent)}}
}

// findShown returns the state of a call, and whether the client has been shown it.
func (m *Mapper) findShown(id message.CallID) (*callState, bool) {
	c := m.calls[id]
	if c != nil {
		return c, true
	}
	c = &callState{wire: m.wire(id)}
	m.calls[id] = c
	if answered, inHistory := m.run.Calls[c.wire]; inHistory {
		c.done, c.elsewhere, c.answered = true, true, answered
		return c, true
	}
	return c, false
}

// wire is the id of a call at the client: its own, unless the reply began here
// and the history has another call of that id. Models number their calls
// from one in each reply, and to the client one id is one call.
func (m *Mapper) wire(id message.CallID) string {
	if c := m.calls[id]; c != nil {
		return c.wire
	}
	if _, taken := m.run.Calls[string(id)]; taken && m.fromStart {
		return string(m.reply) + "/" + string(id)
	}
	return string(id)
}

// callMeta says which call it is, where the client's id does not.
func (m *Mapper) callMeta(id message.CallID) map[string]any {
	if m.wire(id) == string(id) {
		return nil
	}
	return map[string]any{"toolCallId": string(id)}
}

// showCall makes sure that the client knows a call, with complete arguments.
func (m *Mapper) showCall(e message.Event, b *message.ToolCallBlock) (out []Event) {
	if _, known := m.findShown(b.ID); !known {
		delete(m.calls, b.ID)
		t := m.plainBase()
		if more := m.callMeta(b.ID); more != nil {
			t.Metadata = object(map[string]any{sourceName: more})
		}
		out = m.callStart(e, b.ID, b.Name, t)
		out = append(out, &ToolCallArgs{Tagged: m.plainBase(), ToolCallID: m.wire(b.ID), Delta: b.Input})
	}
	return append(out, m.completeCall(b.ID)...)
}

// completeCall ends a call whose end was not seen.
func (m *Mapper) completeCall(id message.CallID) []Event {
	at := blockKey{message.BlockToolCall, string(id)}
	if !slices.ContainsFunc(m.open, func(o opening) bool { return o.at == at }) {
		return nil
	}
	m.recordClosed(at.kind, at.id)
	m.calls[id].done = true
	return []Event{&ToolCallEnd{Tagged: m.plainBase(), ToolCallID: m.wire(id)}}
}

// state shows where a call stands, if that is wanted.
func (m *Mapper) state(id message.CallID, state message.ToolCallState) []Event {
	if !m.opt.CallStates {
		return nil
	}
	content := object(map[string]any{"toolCallId": m.wire(id), "state": string(state)})
	if content == nil {
		return nil
	}
	return []Event{&ActivitySnapshot{
		Tagged: m.plainBase(), MessageID: string(m.reply) + "/" + string(id) + "/state",
		ActivityType: ActivityCall, Content: content,
	}}
}

// resultOf collects the pieces of a result and sends it whole at its end.
func (m *Mapper) resultOf(e message.Event) []Event {
	var id message.CallID
	switch e := e.(type) {
	case *message.ToolResultStart:
		id = e.ToolCallID
	case *message.ToolResultTextDelta:
		id = e.ToolCallID
	case *message.ToolResultDataDelta:
		id = e.ToolCallID
	case *message.ToolResultEnd:
		id = e.ToolCallID
	default:
	}
	c, _ := m.findShown(id)
	if c.result {
		m.lose(e, LossOutOfPlace)
		return nil
	}
	if m.buffer.ToolResult(id) == nil {
		m.buffer.Content = append(m.buffer.Content, &message.ToolResultBlock{ID: id, Name: c.name, Output: message.List()})
	}
	if _, starts := e.(*message.ToolResultStart); starts {
		return nil
	}
	if err := appender.Append(m.buffer, e); err != nil {
		m.lose(e, LossOutOfPlace)
		return nil
	}
	end, ok := e.(*message.ToolResultEnd)
	if !ok {
		m.lose(e, LossResultStream)
		return nil
	}
	b := m.buffer.ToolResult(id)
	m.buffer.Content = slices.DeleteFunc(m.buffer.Content, func(o message.Block) bool { return o == message.Block(b) })
	return m.result(e, b, m.taggedBase(e, map[string]any{"state": string(end.State)}))
}

// result sends what became of a call, unless the client said so itself.
func (m *Mapper) result(e message.Event, b *message.ToolResultBlock, t Tagged) []Event {
	c, _ := m.findShown(b.ID)
	m.resolve(b.ID)
	out := m.completeCall(b.ID)
	c.result = true
	if !c.answered {
		if b.State != message.ToolResultSuccess {
			m.lose(e, LossResultState)
		}
		out = append(out, &ToolCallResult{
			Tagged: t, MessageID: m.makeID(string(m.reply)+"/"+string(b.ID)+"/result", "again"),
			ToolCallID: c.wire, Content: resultContent(b.Output), Role: new(RoleTool),
		})
		m.parent, m.called = "", false // what follows belongs to another round
	}
	return append(out, m.state(b.ID, message.ToolCallFinished)...)
}

// resultContent is a string, or if there is more than text, a list of parts.
func resultContent(c message.Content) Content {
	media := slices.ContainsFunc(c.Blocks, func(b message.Block) bool { return b.Type() != message.BlockText })
	if !media {
		return Content{Text: c.String()}
	}
	parts := make([]Part, 0, len(c.Blocks))
	for _, b := range c.Blocks {
		switch b := b.(type) {
		case *message.TextBlock:
			parts = append(parts, Part{Type: PartText, Text: b.Text})
		case *message.DataBlock:
			parts = append(parts, dataPart(b))
		case *message.UnknownBlock:
			parts = append(parts, Part{Type: PartText, Text: string(b.Raw)})
		default: // no other block can stand in a result
		}
	}
	return Content{Parts: parts}
}

func dataPart(b *message.DataBlock) Part {
	p := Part{ID: &b.ID, Source: &Source{Type: SourceURL}}
	switch s := b.Source.(type) {
	case *message.Base64Source:
		p.Type, p.Source = mediaPart(s.MediaType), &Source{Type: SourceData, Value: s.Data, MimeType: &s.MediaType}
	case *message.URLSource:
		p.Type, p.Source = mediaPart(s.MediaType), &Source{Type: SourceURL, Value: s.URL, MimeType: &s.MediaType}
	}
	return p
}
