package agui

import (
	"maps"
	"slices"

	"github.com/askance-dev/askance/message"
)

// Run is what a [Mapper] needs to know about the run that it writes.
type Run struct {
	ThreadID string
	RunID    string
	Parent   *string // the run that spawned this one
	Peer     Peer
	// ClientTools are the names of the tools that the client executes.
	ClientTools map[string]bool
	// Calls are the calls that the client knows from the history; true means that it also
	// has their result.
	Calls map[string]bool
	// Messages are the ids of messages of earlier replies: a block with the same id gets
	// another one.
	Messages map[string]bool
	// Usage is the usage of the run's earlier replies.
	Usage []TokenUsage
	// Abandons is set if the run cancels everything that the thread waited for. A peer before
	// 1.0, which has no cancelled outcome, then gets a success, because a RUN_ERROR would
	// leave it waiting.
	Abandons bool
}

// RunOf returns the run of an input. Its error is that of [PeerOf].
func RunOf(in *RunInput) (Run, error) {
	peer, err := PeerOf(in.ProtocolVersion)
	r := Run{
		ThreadID: in.ThreadID, RunID: in.RunID, Parent: in.ParentRunID, Peer: peer,
		ClientTools: map[string]bool{}, Calls: map[string]bool{},
	}
	r.Abandons = len(in.Resume) > 0 && !slices.ContainsFunc(in.Resume, func(e ResumeEntry) bool { return e.Status != ResumeCancelled })
	for _, t := range in.Tools {
		r.ClientTools[t.Name] = true
	}
	for _, m := range in.Messages {
		for _, c := range m.ToolCalls {
			if _, known := r.Calls[c.ID]; !known {
				r.Calls[c.ID] = false
			}
		}
		if m.Role == RoleTool {
			r.Calls[m.ToolCallID] = true
		}
	}
	return r, err
}

// Mapping sets how a [Mapper] maps. The zero value is ready to use.
type Mapping struct {
	// Request, if set, changes the interrupt of an approval request. It is called once for
	// each call of a REQUIRE_USER_CONFIRM; the id must stay unique in the thread.
	Request func(call *message.ToolCallBlock, i *Interrupt)
	// OnLoss, if set, is called for everything in an event that AG-UI cannot represent.
	OnLoss func(e message.Event, loss Loss)
}

// Loss names something that a mapping cannot represent. The package documentation lists all
// losses.
type Loss string

// The losses, by what is lost.
const (
	// To AG-UI.
	LossTime         Loss = "time"
	LossMetadata     Loss = "metadata"
	LossUsageParts   Loss = "usage-parts"
	LossMediaStream  Loss = "media-stream"
	LossResultStream Loss = "result-stream"
	LossResultState  Loss = "result-state"
	LossRequestTime  Loss = "request-time"
	LossResponse     Loss = "answer"
	LossExternal     Loss = "external"
	LossMaxIters     Loss = "max-iters"
	LossOutOfPlace   Loss = "out-of-place"
	LossTyped        Loss = "typed"
	// To peers before 1.0.
	LossCancelled   Loss = "cancelled"
	LossPending     Loss = "pending"
	LossResultMedia Loss = "result-media"
)

// Mapper turns the AgentScope events of one reply into the AG-UI events of one
// run, in an order that the client accepts for every order of the input.
//
// A reply may take several runs: it parks when people or the client have to respond
// ([Mapper.Park]), and the run with the responses uses the mapper that [Mapper.Next]
// returns. A Mapper is not safe for concurrent use.
type Mapper struct {
	*scope
	started, ended bool
	bound          bool // to a reply

	blocks blockMapper
	calls  callMapper
	model  modelMapper
}

// NewMapper returns a mapper for a run that begins with a reply.
func NewMapper(run Run, opt Mapping) *Mapper {
	s := &scope{
		run: run, opt: opt, names: map[blockKey]string{}, used: map[string]bool{},
		buffer: &message.Msg{Role: message.RoleAssistant},
	}
	maps.Copy(s.used, run.Messages)
	return &Mapper{
		scope: s, blocks: blockMapper{s}, model: modelMapper{scope: s, usage: slices.Clone(run.Usage)},
		calls: callMapper{scope: s, known: map[message.CallID]*callState{}},
	}
}

// Next returns the mapper for the run that continues the same reply. The old mapper must
// not be used afterwards. An approval request that is still open is shown again with the
// same interrupt and id.
func (m *Mapper) Next(run Run) *Mapper {
	s := *m.scope
	s.run, s.open, s.at, s.round = run, nil, nil, round{}
	for _, c := range m.calls.known {
		c.answered = c.answered || run.Calls[c.wire]
	}
	return &Mapper{
		scope: &s, bound: m.bound, blocks: blockMapper{&s}, model: modelMapper{scope: &s, name: m.model.name},
		calls: callMapper{scope: &s, known: m.calls.known, waiting: slices.Clone(m.calls.waiting)},
	}
}

// Pending returns the client's own calls that the reply waits for, with the arguments that run, by
// the client's id, for [RunInput.ToolResults].
func (m *Mapper) Pending() map[string]message.ToolCallBlock {
	out := map[string]message.ToolCallBlock{}
	for _, w := range m.calls.waiting {
		if w.client {
			out[m.calls.wire(w.call)] = message.ToolCallBlock{ID: w.call, Name: w.name, Input: w.input}
		}
	}
	return out
}

// Waits reports whether the reply waits for people, the client or a worker, as [Mapper.Park] says.
func (m *Mapper) Waits() bool { return len(m.calls.waiting) > 0 }

// Withhold makes the reply wait for a call that has no result as for that of a worker: the client
// must not run it, although its tool may have the name of one of the client's.
func (m *Mapper) Withhold(id message.CallID) {
	if c := m.calls.known[id]; c == nil || c.answered || c.result {
		return
	}
	m.calls.resolve(id)
	m.calls.waiting = append(m.calls.waiting, wait{call: id})
}

// OmitResult leaves out the result of a call that the client provides itself.
func (m *Mapper) OmitResult(id message.CallID) {
	c, _ := m.calls.findShown(id)
	c.answered = true
}

// Ended reports whether the run has its RUN_FINISHED or RUN_ERROR. Later events are lost.
func (m *Mapper) Ended() bool { return m.ended }

// Start begins the run, if it has not begun. The first event does so too.
func (m *Mapper) Start() []Event {
	if m.started || m.ended {
		return nil
	}
	m.started = true
	base := Base{Timestamp: m.at}
	if m.bound {
		base.Metadata = object(map[string]any{sourceName: map[string]any{"replyId": string(m.reply)}})
	}
	return []Event{&RunStarted{
		Base: base, ThreadID: m.run.ThreadID, RunID: m.run.RunID,
		ProtocolVersion: new(Version), ParentRunID: m.run.Parent,
	}}
}

// Map returns the AG-UI events for e, if any. Events of another reply than the first one,
// and events out of place, are lost.
func (m *Mapper) Map(e message.Event) []Event {
	if m.ended || m.isForeign(e) {
		m.lose(e, LossOutOfPlace)
		return nil
	}
	m.readTime(e)
	out := m.begin(e)
	out = append(out, m.event(e)...)
	for i, o := range out {
		adapted, lost := m.run.Peer.Adapt(o)
		out[i] = adapted
		for _, l := range lost {
			m.lose(e, l)
		}
	}
	return out
}

// isForeign reports whether an event belongs to another reply. An event without a reply
// belongs to any.
func (m *Mapper) isForeign(e message.Event) bool {
	id := e.ReplyID()
	switch e.(type) {
	case *message.Custom:
		return false
	case *message.UnknownEvent:
		if id == "" {
			return false
		}
	default:
	}
	if !m.bound {
		m.bound, m.reply, m.buffer.ID = true, id, string(id)
	}
	return id != m.reply
}

// begin opens the run at its first event. REPLY_START adds its metadata.
func (m *Mapper) begin(e message.Event) []Event {
	out := m.Start()
	s, ok := e.(*message.ReplyStart)
	m.fromStart = m.fromStart || ok
	if !ok || out == nil {
		return out
	}
	if r, ok := out[0].(*RunStarted); ok {
		r.Base = m.base(e, map[string]any{
			"sessionId": string(s.Session), "replyId": string(s.Reply), "name": s.Name, "role": string(s.Role),
		})
	}
	return out
}

// event maps one event of a run that has begun.
func (m *Mapper) event(e message.Event) []Event {
	switch e := e.(type) {
	case *message.ReplyStart, *message.UserInterrupt:
		return nil // the run's beginning; the effects of an interrupt arrive as other events
	case *message.ExceedMaxIters:
		m.lose(e, LossMaxIters)
		return nil
	case *message.ReplyEnd:
		return m.replyEnd(e)
	case *message.ModelCallStart:
		return m.model.modelStart(e)
	case *message.ModelCallEnd:
		return m.model.modelEnd(e)
	case *message.Custom:
		return m.blocks.custom(e)
	case *message.UnknownEvent:
		m.lose(e, LossTyped)
		return []Event{&Raw{Tagged: Tagged{Base: m.base(e, nil)}, Event: e.Raw, Source: new(sourceName)}}
	case *message.TextBlockStart, *message.TextBlockDelta, *message.TextBlockEnd,
		*message.ThinkingBlockStart, *message.ThinkingBlockDelta, *message.ThinkingBlockEnd,
		*message.DataBlockStart, *message.DataBlockDelta, *message.DataBlockEnd, *message.HintBlockEvent:
		return m.blocks.block(e)
	case *message.ToolCallStart, *message.ToolCallDelta, *message.ToolCallEnd:
		return m.calls.call(e)
	case *message.ToolResultStart, *message.ToolResultTextDelta, *message.ToolResultDataDelta, *message.ToolResultEnd:
		return m.calls.resultOf(e)
	case *message.RequireUserConfirm, *message.UserConfirmResult,
		*message.RequireExternalExecution, *message.ExternalExecutionResult:
		return m.calls.mapTurn(e)
	default:
		m.lose(e, LossTyped)
		return nil
	}
}
