package agui

import (
	"slices"
	"strconv"
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

// modelMapper maps model calls, which are the steps of a run, and counts their usage.
type modelMapper struct {
	*scope
	count int    // model calls in this run
	name  string // of the model that is writing
	usage []TokenUsage
}

func (m *modelMapper) modelStart(e *message.ModelCallStart) []Event {
	out := m.endModel()
	m.count++
	m.name, m.round = e.ModelName, round{}
	name := "model:" + strconv.Itoa(m.count)
	m.recordOpen(blockStep, name, &StepFinished{StepName: name})
	return append(out, &StepStarted{Tagged: m.taggedBase(e, map[string]any{"modelName": e.ModelName}), StepName: name})
}

// endModel ends the step of a model call whose end was missing.
func (m *modelMapper) endModel() []Event {
	i := slices.IndexFunc(m.open, func(o opening) bool { return o.at.kind == blockStep })
	if i < 0 {
		return nil
	}
	o := m.open[i]
	m.open = slices.Delete(m.open, i, i+1)
	return stampTime(o.close, m.at)
}

func (m *modelMapper) modelEnd(e *message.ModelCallEnd) []Event {
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
	m.name = ""
	return out
}

// countUsage adds a model call to the run's usage. AG-UI's cache counters are parts of its
// totals; if AgentScope's are larger than the input, the input cannot include them, and they
// are left out.
func (m *modelMapper) countUsage(e *message.ModelCallEnd) {
	i := slices.IndexFunc(m.usage, func(u TokenUsage) bool {
		return u.Model == nil && m.name == "" || u.Model != nil && *u.Model == m.name
	})
	if i < 0 {
		i = len(m.usage)
		m.usage = append(m.usage, TokenUsage{})
		if m.name != "" {
			m.usage[i].Model = new(m.name)
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

// add keeps a counter within AG-UI's range.
func add(total **int64, n int64) {
	sum := max(n, 0)
	if *total != nil {
		sum = min(sum, maxSafe) + **total
	}
	*total = new(min(sum, maxSafe))
}

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
