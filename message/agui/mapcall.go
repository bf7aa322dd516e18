package agui

import (
	"cmp"
	"slices"

	"github.com/askance-dev/askance/message"
)

// callMapper maps the calls of a reply, their results, and what the reply waits for.
type callMapper struct {
	*scope
	known   map[message.CallID]*callState
	waiting []wait // in the order in which the waits began
}

// callState is what the mapper knows about a call.
type callState struct {
	name, wire       string // its name, and its id at the client
	answered, result bool   // whether the client has its result; whether this mapper sent it
}

// wait is a call that a parked reply waits for.
type wait struct {
	call      message.CallID
	name      string     // of the tool, for a call without an interrupt
	input     string     // the arguments that run, for such a call
	interrupt *Interrupt // set if a person is asked; else see client
	client    bool       // whether it is the client's own tool, and not a worker's
}

// call maps what a model writes for a call. A call that the client already has is not
// streamed again, because its arguments would be appended to the existing ones.
func (m *callMapper) call(e message.Event) []Event {
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
			return []Event{&ToolCallEnd{Tagged: m.taggedBase(e, nil), ToolCallID: m.wire(e.ToolCallID)}}
		}
	default:
	}
	return nil
}

func (m *callMapper) callStart(e message.Event, id message.CallID, name string, t Tagged) []Event {
	c, known := m.findShown(id)
	if known {
		c.name = cmp.Or(c.name, name)
		m.lose(e, LossOutOfPlace)
		return nil
	}
	c.name = name
	if m.round.parent == "" {
		m.round.parent = m.makeID(string(m.reply)+"/"+string(id), "calls")
	}
	m.round.called = true
	m.recordOpen(message.BlockToolCall, string(id), &ToolCallEnd{ToolCallID: c.wire})
	return []Event{&ToolCallStart{Tagged: t, ToolCallID: c.wire, ToolCallName: name, ParentMessageID: new(m.round.parent)}}
}

// findShown returns the state of a call, and whether the client has been shown it.
func (m *callMapper) findShown(id message.CallID) (*callState, bool) {
	c := m.known[id]
	if c != nil {
		return c, true
	}
	c = &callState{wire: m.wire(id)}
	m.known[id] = c
	if answered, inHistory := m.run.Calls[c.wire]; inHistory {
		c.answered = answered
		return c, true
	}
	return c, false
}

// wire returns the id of a call at the client: its own, unless the reply began here and the
// history has another call with that id. Models number their calls from one in each reply,
// but for the client one id is one call.
func (m *callMapper) wire(id message.CallID) string {
	if c := m.known[id]; c != nil {
		return c.wire
	}
	if _, taken := m.run.Calls[string(id)]; taken && m.fromStart {
		return string(m.reply) + "/" + string(id)
	}
	return string(id)
}

// callMeta contains the call's own id, if the client's differs.
func (m *callMapper) callMeta(id message.CallID) map[string]any {
	if m.wire(id) == string(id) {
		return nil
	}
	return map[string]any{"toolCallId": string(id)}
}

// showCall makes sure that the client has a call, with complete arguments.
func (m *callMapper) showCall(e message.Event, b *message.ToolCallBlock) (out []Event) {
	if _, known := m.findShown(b.ID); !known {
		delete(m.known, b.ID)
		t := m.plainBase()
		if more := m.callMeta(b.ID); more != nil {
			t.Metadata = object(map[string]any{sourceName: more})
		}
		out = m.callStart(e, b.ID, b.Name, t)
		out = append(out, &ToolCallArgs{Tagged: m.plainBase(), ToolCallID: m.wire(b.ID), Delta: b.Input})
	}
	return append(out, m.completeCall(b.ID)...)
}

// completeCall ends a call whose end was missing.
func (m *callMapper) completeCall(id message.CallID) []Event {
	at := blockKey{message.BlockToolCall, string(id)}
	if !slices.ContainsFunc(m.open, func(o opening) bool { return o.at == at }) {
		return nil
	}
	m.recordClosed(at.kind, at.id)
	return []Event{&ToolCallEnd{Tagged: m.plainBase(), ToolCallID: m.wire(id)}}
}

// resultOf collects the pieces of a result and sends it whole at its end.
func (m *callMapper) resultOf(e message.Event) []Event {
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

// result sends the outcome of a call, unless the client provided it itself.
func (m *callMapper) result(e message.Event, b *message.ToolResultBlock, t Tagged) []Event {
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
		m.round = round{}
	}
	return out
}

// resultContent returns a string or, if there is more than text, a list of parts.
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
			parts = append(parts, MediaPart(b))
		case *message.UnknownBlock:
			parts = append(parts, Part{Type: PartText, Text: string(b.Raw)})
		default: // a result contains no other blocks
		}
	}
	return Content{Parts: parts}
}

// MediaPart returns the part for a data block.
func MediaPart(b *message.DataBlock) Part {
	p := Part{ID: &b.ID, Source: &Source{Type: SourceURL}}
	switch s := b.Source.(type) {
	case *message.Base64Source:
		p.Type, p.Source = mediaPart(s.MediaType), &Source{Type: SourceData, Value: s.Data, MimeType: &s.MediaType}
	case *message.URLSource:
		p.Type, p.Source = mediaPart(s.MediaType), &Source{Type: SourceURL, Value: s.URL, MimeType: &s.MediaType}
	}
	return p
}

// mapTurn maps the events with which a reply hands calls to people and others, and gets
// them back.
func (m *callMapper) mapTurn(e message.Event) (out []Event) {
	switch e := e.(type) {
	case *message.RequireUserConfirm:
		for i := range e.ToolCalls {
			out = append(out, m.ask(e, &e.ToolCalls[i])...)
		}
	case *message.UserConfirmResult:
		m.lose(e, LossResponse)
		for _, r := range e.ConfirmResults { // answered on another surface
			m.resolve(r.ToolCall.ID)
		}
	case *message.RequireExternalExecution:
		for i := range e.ToolCalls {
			out = append(out, m.handOver(e, &e.ToolCalls[i])...)
		}
	case *message.ExternalExecutionResult:
		for i := range e.ExecutionResults {
			out = append(out, m.bringResult(e, &e.ExecutionResults[i])...)
		}
	default:
	}
	return out
}

// ask holds an approval request until the reply parks, because AG-UI asks by ending the run.
func (m *callMapper) ask(e message.Event, b *message.ToolCallBlock) []Event {
	out := m.showCall(e, b)
	m.resolve(b.ID)
	i := m.request(e, b)
	if m.opt.Request != nil {
		m.opt.Request(b, i)
	}
	m.waiting = append(m.waiting, wait{call: b.ID, interrupt: i})
	m.lose(e, LossRequestTime)
	return out
}

// request makes the interrupt of a call. Its schema always offers edits, and rules if some
// were suggested. The metadata contains the arguments to review, which an edit may have
// changed since they were streamed.
func (m *callMapper) request(e message.Event, b *message.ToolCallBlock) *Interrupt {
	asked := map[string]any{"toolCallId": string(b.ID), "toolName": b.Name, "arguments": b.Input}
	if len(b.SuggestedRules) > 0 {
		asked["suggestedRules"] = b.SuggestedRules
	}
	return &Interrupt{
		ID: m.makeID(e.Header().ID+"/"+string(b.ID), "again"), Reason: ReasonToolCall, ToolCallID: new(m.wire(b.ID)),
		Message: new("Allow " + b.Name + "?"), ResponseSchema: ResponseSchema(true, len(b.SuggestedRules) > 0),
		Metadata: object(map[string]any{"askance": asked}),
	}
}

// ResponseSchema is the schema of the response to an approval request: a boolean approved
// and, if they are offered, an object editedArgs that replaces all arguments, and a list of
// rules to remember.
func ResponseSchema(edits, rules bool) message.RawJSON {
	s := `{"type":"object","properties":{"approved":{"type":"boolean"}`
	if edits {
		s += `,"editedArgs":{"type":"object"}`
	}
	if rules {
		s += `,"rules":{"type":"array","items":{"type":"object"}}`
	}
	return message.RawJSON(s + `},"required":["approved"]}`)
}

func (m *callMapper) handOver(e message.Event, b *message.ToolCallBlock) []Event {
	out := m.showCall(e, b)
	m.resolve(b.ID)
	client := m.run.ClientTools[b.Name]
	if !client {
		m.lose(e, LossExternal)
	}
	if c, _ := m.findShown(b.ID); !c.answered {
		m.waiting = append(m.waiting, wait{call: b.ID, name: b.Name, input: b.Input, client: client})
	}
	return out
}

// bringResult sends a result from outside, unless events of its own follow, which is the
// case once the call has a TOOL_RESULT_START.
func (m *callMapper) bringResult(e message.Event, b *message.ToolResultBlock) []Event {
	m.resolve(b.ID)
	if c, _ := m.findShown(b.ID); c.result || m.buffer.ToolResult(b.ID) != nil {
		return nil
	}
	return m.result(e, b, m.taggedBase(e, map[string]any{"state": string(b.State)}))
}

// resolve removes a call from those that the reply waits for.
func (m *callMapper) resolve(id message.CallID) {
	m.waiting = slices.DeleteFunc(m.waiting, func(w wait) bool { return w.call == id })
}
