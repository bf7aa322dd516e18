package agui

import (
	"context"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
	"github.com/askance-dev/askance/toolcall"
)

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

	users map[string]bool // ids of the users' messages
	tools map[string]bool // tools that frontends brought
}

// readThread reads a whole session as its owner sees it. An unknown session is empty.
func readThread(ctx context.Context, c engine.Client, session message.SessionID) (*thread, error) {
	t := &thread{
		session: session, turns: agent.NewThread(),
		users: map[string]bool{}, tools: map[string]bool{},
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
		t.users[m.ID] = true
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
			person = person || !t.users[m.ID]
		case wire.RoleSystem, wire.RoleDeveloper:
		default:
			continue
		}
		if !t.users[m.ID] {
			out = append(out, m)
		}
	}
	if !person {
		return nil
	}
	return out
}
