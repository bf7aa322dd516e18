package agui

import (
	"slices"
	"strconv"

	"github.com/askance-dev/askance/message"
)

func (m *Mapper) modelStart(e *message.ModelCallStart) []Event {
	out := m.endModel()
	m.model++
	m.modelNow, m.parent, m.called = e.ModelName, "", false
	name := "model:" + strconv.Itoa(m.model)
	m.recordOpen(blockStep, name, &StepFinished{StepName: name})
	return append(out, &StepStarted{Tagged: m.taggedBase(e, map[string]any{"modelName": e.ModelName}), StepName: name})
}

// endModel ends the step of a call of the model whose end was not seen.
func (m *Mapper) endModel() []Event {
	i := slices.IndexFunc(m.open, func(o opening) bool { return o.at.kind == blockStep })
	if i < 0 {
		return nil
	}
	o := m.open[i]
	m.open = slices.Delete(m.open, i, i+1)
	return stampTime(o.close, m.at)
}

func (m *Mapper) modelEnd(e *message.ModelCallEnd) []Event {
	m.countUsage(e)
	out := m.endModel()
	if out == nil {
		m.lose(e, LossOutOfPlace)
		return nil
	}
	if s, ok := out[0].(*StepFinished); ok {
		s.Base = m.base(e, map[string]any{
			"finishedReason": string(e.FinishedReason), "inputTokens": e.InputTokens, "outputTokens": e.OutputTokens,
			"cacheInputTokens": e.CacheInputTokens, "cacheCreationInputTokens": e.CacheCreationInputTokens,
		})
	}
	m.modelNow = ""
	return out
}

// countUsage adds a call of the model to the run's usage. AG-UI's parts are parts of
// its totals; where AgentScope's are larger than the input, its input cannot
// include them, and they are left out.
func (m *Mapper) countUsage(e *message.ModelCallEnd) {
	i := slices.IndexFunc(m.usage, func(u TokenUsage) bool {
		return u.Model == nil && m.modelNow == "" || u.Model != nil && *u.Model == m.modelNow
	})
	if i < 0 {
		i = len(m.usage)
		m.usage = append(m.usage, TokenUsage{})
		if m.modelNow != "" {
			m.usage[i].Model = new(m.modelNow)
		}
	}
	u := &m.usage[i]
	add(&u.InputTokens, e.InputTokens)
	add(&u.OutputTokens, e.OutputTokens)
	if e.CacheInputTokens < 0 || e.CacheCreationInputTokens < 0 ||
		e.CacheInputTokens > e.InputTokens || e.CacheCreationInputTokens > e.InputTokens-e.CacheInputTokens {
		m.lose(e, LossUsageParts)
		return
	}
	if e.CacheInputTokens > 0 {
		add(&u.CachedInputTokens, e.CacheInputTokens)
	}
	if e.CacheCreationInputTokens > 0 {
		add(&u.CacheWriteInputTokens, e.CacheCreationInputTokens)
	}
}

// add keeps a counter within what AG-UI can say.
func add(total **int64, n int64) {
	sum := max(n, 0)
	if *total != nil {
		sum = min(sum, maxSafe) + **total
	}
	*total = new(min(sum, maxSafe))
}

// stampTime gives events that are made up their time.
func stampTime(events []Event, at *int64) []Event {
	for _, e := range events {
		e.Common().Timestamp = at
	}
	return events
}

// closeOpen closes all that is open, the latest first.
func (m *Mapper) closeOpen() (out []Event) {
	for _, o := range slices.Backward(m.open) {
		if o.at.kind == message.BlockToolCall {
			m.calls[message.CallID(o.at.id)].done = true
		}
		out = append(out, stampTime(o.close, m.at)...)
	}
	m.open = nil
	return out
}

// finish ends the run: what is open is closed, then comes the end, as the peer
// can read it.
func (m *Mapper) finish(base Base, outcome *Outcome) []Event {
	out := append(m.Start(), m.closeOpen()...)
	m.ended = true
	end := Event(&RunFinished{Base: base, ThreadID: m.run.ThreadID, RunID: m.run.RunID, Outcome: outcome, Usage: m.usage})
	if m.run.Peer == PeerLegacy {
		end, _ = m.run.Peer.Adapt(end)
	}
	return append(out, end)
}

func (m *Mapper) fail(base Base, text, code string) []Event {
	m.ended = true
	e := &RunError{Base: base, Message: text, Usage: m.usage}
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

// Park ends the run of a reply that waits: as interrupt if people are asked,
// as success if the client is to run its own tools. A worker that is still busy
// becomes an interrupt that anyone may resolve to look again. before are
// snapshots of state and messages, which older clients expect there. If the
// reply waits for nothing, the run ends as an error, never as a success.
func (m *Mapper) Park(before ...Event) []Event {
	if m.ended {
		return nil
	}
	var asked []Interrupt
	var pending []string
	for _, w := range m.waiting {
		switch {
		case w.interrupt != nil:
			asked = append(asked, *w.interrupt)
		case w.client:
			pending = append(pending, m.wire(w.call))
		default:
			asked = append(asked, m.busyInterrupt(w.call))
		}
	}
	outcome := &Outcome{Type: OutcomeInterrupt, Interrupts: asked}
	switch {
	case len(m.waiting) == 0:
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

// busyInterrupt is the interrupt of a call that a worker is running. The run's id makes
// its own unique in the thread.
func (m *Mapper) busyInterrupt(id message.CallID) Interrupt {
	return Interrupt{
		ID: m.run.RunID + "/" + string(id) + "/running", Reason: ReasonExternal,
		ToolCallID: new(m.wire(id)), Message: new("The tool is still running. Continue?"),
	}
}

// Fail ends the run as an error, unless it has ended.
func (m *Mapper) Fail(text, code string) []Event {
	if m.ended {
		return nil
	}
	return append(m.Start(), m.fail(Base{Timestamp: m.at}, text, code)...)
}

// Cancel ends the run as cancelled, unless it has ended. A person stopped it on
// purpose, and no REPLY_END says so.
func (m *Mapper) Cancel() []Event {
	if m.ended {
		return nil
	}
	return m.cancel(Base{Timestamp: m.at})
}

func (m *Mapper) cancel(base Base) []Event {
	if m.run.Peer == PeerLegacy && m.run.Abandons {
		return m.finish(base, &Outcome{Type: OutcomeSuccess})
	}
	return m.finish(base, &Outcome{Type: OutcomeCancelled})
}
