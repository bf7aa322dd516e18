package agui

import (
	"context"
	"fmt"
	"slices"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
	"github.com/askance-dev/askance/toolcall"
)

// projection is a thread as AG-UI events, up to a cursor: the state of a client that has seen
// everything up to it.
type projection struct {
	history *wire.History
	reply   message.ReplyID // the latest
	mapper  *wire.Mapper    // of the latest reply; nil: there is none
	open    []wire.Event    // the events that began the open items
	calls   pending
	asked   requests
	run     wire.Run // its Calls are those of earlier replies
}

// project maps the thread up to the cursor until. run continues from there.
func (t *thread) project(until uint64, run wire.Run) *projection {
	out := &projection{history: wire.NewHistory(nil), run: run}
	parks := t.parks
	for _, e := range t.entries {
		if e.seq > until {
			break
		}
		for ; len(parks) > 0 && parks[0].Through < e.seq; parks = parks[1:] {
			out.crossPark(parks[0])
		}
		out.take(e)
	}
	for ; len(parks) > 0 && parks[0].Through <= until; parks = parks[1:] {
		out.crossPark(parks[0])
	}
	return out
}

// crossPark continues after the boundary between two runs of a reply.
func (l *projection) crossPark(p *park) {
	if l.mapper == nil || l.reply != p.Reply || l.mapper.Ended() {
		return
	}
	l.mapper, l.open = l.mapper.Next(l.run), nil
	l.mapper.Start() // each run has its own beginning, which is not part of the projection
}

func (l *projection) take(e entry) {
	if e.turn != nil {
		l.addMessages(e.turn.Messages)
		return
	}
	id := e.event.ReplyID()
	if id == "" && (l.mapper == nil || isBookkeeping(e.event)) {
		return
	}
	if id != "" && (l.mapper == nil || id != l.reply) {
		l.begin(id)
	}
	l.calls.note(e.event)
	for _, o := range l.mapper.Map(e.event) {
		l.history.Apply(o)
		l.open = track(l.open, o)
	}
	l.asked.approve(e.event, l.history)
	if _, ok := e.event.(*message.RequireExternalExecution); ok {
		showPending(l.history, l.mapper)
	}
}

// showPending gives the client's own calls the arguments that it has to run: a runtime need not
// propose what it streamed.
func showPending(h *wire.History, m *wire.Mapper) {
	for id, c := range m.Pending() {
		h.ShowAsked(id, c.Name, c.Input)
	}
}

// begin starts the next reply. Calls of earlier replies are finished. What the client claims
// about calls and messages is ignored, so the ids are always the same.
func (l *projection) begin(id message.ReplyID) {
	l.run.Calls, l.run.Messages = map[string]bool{}, map[string]bool{}
	for _, m := range l.history.Messages() {
		l.run.Messages[m.ID] = true
		for _, c := range m.ToolCalls {
			l.run.Calls[c.ID] = true
		}
	}
	l.reply, l.open, l.calls, l.asked = id, nil, nil, requests{}
	l.mapper = wire.NewMapper(l.run, wire.Mapping{Request: func(b *message.ToolCallBlock, i *wire.Interrupt) {
		l.asked[b.ID] = &request{id: i.ID, block: *b, interrupt: i}
		l.history.ShowAsked(*i.ToolCallID, b.Name, b.Input)
	}})
	l.mapper.Start()
}

func (l *projection) addMessages(messages []*message.Msg) {
	for _, m := range messages {
		l.history.Apply(&wire.RunStarted{Input: &wire.RunInput{Messages: []wire.Message{userMessage(m)}}})
	}
}

// isBookkeeping reports whether an event is askance's own bookkeeping, which no client should
// see.
func isBookkeeping(e message.Event) bool {
	c, ok := e.(*message.Custom)
	return ok && c.Own()
}

// track updates the list of the events that began open items.
func track(open []wire.Event, e wire.Event) []wire.Event {
	kind, id, starts := itemOf(e)
	if kind == "" {
		return open
	}
	open = slices.DeleteFunc(open, func(o wire.Event) bool {
		k, i, _ := itemOf(o)
		return k == kind && i == id
	})
	if starts {
		open = append(open, e)
	}
	return open
}

// itemOf says what an event begins or ends; kind is "" if it does neither.
func itemOf(e wire.Event) (kind, id string, starts bool) {
	switch e := e.(type) {
	case *wire.StepStarted:
		return "step", e.StepName, true
	case *wire.StepFinished:
		return "step", e.StepName, false
	case *wire.TextMessageStart:
		return "text", e.MessageID, true
	case *wire.TextMessageEnd:
		return "text", e.MessageID, false
	case *wire.ReasoningStart:
		return "span", e.MessageID, true
	case *wire.ReasoningEnd:
		return "span", e.MessageID, false
	case *wire.ReasoningMessageStart:
		return "thought", e.MessageID, true
	case *wire.ReasoningMessageEnd:
		return "thought", e.MessageID, false
	case *wire.ToolCallStart:
		return "call", e.ToolCallID, true
	case *wire.ToolCallEnd:
		return "call", e.ToolCallID, false
	default:
		return "", "", false
	}
}

// entry is one event of a session.
type entry struct {
	seq   uint64
	event message.Event
	turn  *agent.Record // the turn that the event opened
	park  *park         // the ended run that the event records
}

// thread is a session as the journal has it.
type thread struct {
	session message.SessionID
	entries []entry
	parks   parks
	turns   *agent.Thread
	through uint64 // cursor after the last entry

	users map[string]*message.Msg // what users said, by id
	tools map[string]bool         // tools that frontends brought
}

// readThread reads a whole session as its owner sees it. An unknown session is empty.
func readThread(ctx context.Context, c engine.Client, session message.SessionID) (*thread, error) {
	t := &thread{
		session: session, turns: agent.NewThread(),
		users: map[string]*message.Msg{}, tools: map[string]bool{},
	}
	through, err := agent.EachEvent(ctx, c, toolcall.EventsRequest{Session: session}, func(seq uint64, e message.Event) error {
		t.add(seq, e)
		return nil
	})
	t.through = through
	return t, err
}

func (t *thread) add(seq uint64, ev message.Event) {
	en := entry{seq: seq, event: ev}
	before, queued := len(t.turns.Turns), len(t.turns.Queue)
	t.turns.Add(ev)
	if ev, ok := ev.(*message.Custom); ok {
		if len(t.turns.Turns) > before {
			en.turn = t.turns.Turns[before]
			t.noteTurn(en.turn)
		}
		if len(t.turns.Queue) > queued {
			t.noteTurn(t.turns.Queue[queued])
		}
		if en.park = parkOf(ev); en.park != nil {
			t.parks = append(t.parks, en.park)
		}
	}
	t.entries = append(t.entries, en)
}

func (t *thread) noteTurn(r *agent.Record) {
	for _, m := range r.Messages {
		t.users[m.ID] = m
	}
	for _, tool := range r.Tools {
		t.tools[tool.Name] = true
	}
}

// turnsAfter returns the turns that began after the cursor seq, or are queued.
func (t *thread) turnsAfter(seq uint64) []*agent.Record {
	var out []*agent.Record
	for _, e := range t.entries {
		if e.seq > seq && e.turn != nil {
			out = append(out, e.turn)
		}
	}
	return append(out, t.turns.Queue...)
}

// parks are the runs that ended to let people or the client respond, in order.
type parks []*park

// last returns the newest record, or nil if there is none.
func (p parks) last() *park {
	if len(p) == 0 {
		return nil
	}
	return p[len(p)-1]
}

// newMessages returns the messages of the person, and of the program in front of them, that the
// session does not have yet; nil if none is the person's. The server has the agent's messages,
// and ignores what a client sends as such.
func (t *thread) newMessages(in *wire.RunInput) []*wire.Message {
	var out []*wire.Message
	person := false
	for i := range in.Messages {
		m := &in.Messages[i]
		switch m.Role {
		case wire.RoleUser:
			person = person || t.users[m.ID] == nil
		case wire.RoleSystem, wire.RoleDeveloper:
		default:
			continue
		}
		if t.users[m.ID] == nil {
			out = append(out, m)
		}
	}
	if !person {
		return nil
	}
	return out
}

// checkKnown refuses a message of the person that changes one which the session has: the agent
// would never read it.
func (t *thread) checkKnown(in *wire.RunInput) error {
	for _, m := range in.Messages {
		if said := t.users[m.ID]; said != nil && m.Role == wire.RoleUser && !hasSameText(userMessage(said), m) {
			return &message.Error{Code: message.CodeConflict, Op: "run", What: fmt.Sprintf("the message %.60q was sent before with another text", m.ID), Hint: "give the new text an id of its own"}
		}
	}
	return nil
}
