package agui

import (
	"github.com/askance-dev/askance/message"
)

// finish ends the run: it closes what is open and then sends the end, in the form that the
// peer understands.
func (m *Mapper) finish(base Base, outcome *Outcome) []Event {
	out := append(m.Start(), m.closeOpen()...)
	m.ended = true
	end := Event(&RunFinished{Base: base, ThreadID: m.run.ThreadID, RunID: m.run.RunID, Outcome: outcome, Usage: m.model.usage})
	if m.run.Peer == PeerLegacy {
		end, _ = m.run.Peer.Adapt(end)
	}
	return append(out, end)
}

func (m *Mapper) fail(base Base, text, code string) []Event {
	m.ended = true
	e := &RunError{Base: base, Message: text, Usage: m.model.usage}
	if code != "" {
		e.Code = &code
	}
	return []Event{e}
}

func (m *Mapper) replyEnd(e *message.ReplyEnd) []Event {
	base := m.base(e, map[string]any{"finishedReason": string(e.FinishedReason), "sessionId": string(e.Session)})
	switch e.FinishedReason {
	case message.FinishedError:
		text, code := "the reply failed", string(message.ErrorUnknown)
		if e.Error != nil {
			text, code = e.Error.Message, string(e.Error.Type)
		}
		return m.fail(base, text, code)
	case message.FinishedExceedMaxIters:
		if m.run.Peer == PeerLegacy {
			m.lose(e, LossCancelled)
			return m.fail(base, "the agent reached its limit of rounds", CodeExceedMaxIters)
		}
		return m.finish(base, &Outcome{Type: OutcomeCancelled})
	case message.FinishedInterrupted:
		if m.run.Peer == PeerLegacy {
			m.lose(e, LossCancelled)
		}
		return m.cancel(base)
	case message.FinishedCompleted, "":
		return m.finish(base, &Outcome{Type: OutcomeSuccess})
	default:
		return m.fail(base, "the reply ended for an unknown reason", string(message.ErrorUnknown))
	}
}

// Park ends the run of a reply that waits: as an interrupt if people are asked, or as a
// success if the client has to run its own tools. A worker that is still busy becomes an
// interrupt that anyone may resolve to look again. before are snapshots of state and
// messages, which older clients expect there. If the reply waits for nothing, the run ends
// as an error, never as a success.
func (m *Mapper) Park(before ...Event) []Event {
	if m.ended {
		return nil
	}
	var asked []Interrupt
	var pending []string
	for _, w := range m.calls.waiting {
		switch {
		case w.interrupt != nil:
			asked = append(asked, *w.interrupt)
		case w.client:
			pending = append(pending, m.calls.wire(w.call))
		default:
			asked = append(asked, m.busyInterrupt(w.call))
		}
	}
	outcome := &Outcome{Type: OutcomeInterrupt, Interrupts: asked}
	switch {
	case len(m.calls.waiting) == 0:
		return append(m.Start(), m.fail(Base{Timestamp: m.at}, "the run ended before its reply", CodeNotParked)...)
	case len(asked) == 0:
		outcome = &Outcome{Type: OutcomeSuccess, PendingToolCallIDs: pending}
	}
	out := append(m.Start(), m.closeOpen()...)
	for _, e := range before {
		adapted, _ := m.run.Peer.Adapt(e)
		out = append(out, adapted)
	}
	return append(out, m.finish(Base{Timestamp: m.at}, outcome)...)
}

// Leave ends the mapping of a reply whose run continues with another reply: it closes what
// is open, and returns the usage for [Run].Usage.
func (m *Mapper) Leave() ([]Event, []TokenUsage) {
	m.ended = true
	return m.closeOpen(), m.model.usage
}

// busyInterrupt is the interrupt for a call that a worker is running. The run's id makes
// the interrupt's id unique in the thread.
func (m *Mapper) busyInterrupt(id message.CallID) Interrupt {
	return Interrupt{
		ID: m.run.RunID + "/" + string(id) + "/running", Reason: ReasonExternal,
		ToolCallID: new(m.calls.wire(id)), Message: new("The tool is still running. Continue?"),
	}
}

func (m *Mapper) cancel(base Base) []Event {
	if m.run.Peer == PeerLegacy && m.run.Abandons {
		return m.finish(base, &Outcome{Type: OutcomeSuccess})
	}
	return m.finish(base, &Outcome{Type: OutcomeCancelled})
}
