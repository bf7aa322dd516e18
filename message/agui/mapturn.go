package agui

import (
	"slices"

	"github.com/askance-dev/askance/message"
)

// mapTurn maps the events by which a reply hands calls to people and others, and
// gets them back.
func (m *Mapper) mapTurn(e message.Event) (out []Event) {
	switch e := e.(type) {
	case *message.RequireUserConfirm:
		for i := range e.ToolCalls {
			out = append(out, m.ask(e, &e.ToolCalls[i])...)
		}
	case *message.UserConfirmResult:
		m.lose(e, LossResponse)
		for i := range e.ConfirmResults {
			out = append(out, m.answer(&e.ConfirmResults[i])...)
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

// ask holds an approval request back until the reply parks: AG-UI asks by ending the run.
func (m *Mapper) ask(e message.Event, b *message.ToolCallBlock) []Event {
	out := m.showCall(e, b)
	m.resolve(b.ID)
	i := m.request(e, b)
	if m.opt.Request != nil {
		m.opt.Request(b, i)
	}
	m.waiting = append(m.waiting, wait{call: b.ID, interrupt: i})
	m.lose(e, LossRequestTime)
	return append(out, m.state(b.ID, message.ToolCallAsking)...)
}

// approval request is the interrupt of a call. The schema of the answer offers what is
// possible: edits always, rules where some were suggested. The arguments that
// are asked about are in the metadata, because an edit may have made others of
// those that were streamed.
func (m *Mapper) request(e message.Event, b *message.ToolCallBlock) *Interrupt {
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

// ResponseSchema is the schema of the answer to an approval request about a call: a
// boolean approved and, where they are offered, an object editedArgs, which
// takes the place of all arguments, and a list of rules to remember.
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

// answer takes an approval request back that was answered elsewhere.
func (m *Mapper) answer(r *message.ConfirmResult) []Event {
	m.resolve(r.ToolCall.ID)
	if r.Confirmed {
		return m.state(r.ToolCall.ID, message.ToolCallAllowed)
	}
	return m.state(r.ToolCall.ID, message.ToolCallFinished)
}

func (m *Mapper) handOver(e message.Event, b *message.ToolCallBlock) []Event {
	out := m.showCall(e, b)
	m.resolve(b.ID)
	client := m.run.ClientTools[b.Name]
	if !client {
		m.lose(e, LossExternal)
	}
	if c, _ := m.findShown(b.ID); !c.answered {
		m.waiting = append(m.waiting, wait{call: b.ID, name: b.Name, client: client})
	}
	return append(out, m.state(b.ID, message.ToolCallSubmitted)...)
}

// bringResult sends a result from outside, if no events of its own carry it:
// they do once the call has a TOOL_RESULT_START.
func (m *Mapper) bringResult(e message.Event, b *message.ToolResultBlock) []Event {
	m.resolve(b.ID)
	if c, _ := m.findShown(b.ID); c.result || m.buffer.ToolResult(b.ID) != nil {
		return nil
	}
	return m.result(e, b, m.taggedBase(e, map[string]any{"state": string(b.State)}))
}

// resolve takes a call off the list of those that the reply waits for.
func (m *Mapper) resolve(id message.CallID) {
	m.waiting = slices.DeleteFunc(m.waiting, func(w wait) bool { return w.call == id })
}
