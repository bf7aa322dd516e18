package replay

import (
	"context"
	"fmt"
	"slices"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
)

// Rebuilt is a message and of what it was made.
type Rebuilt struct {
	Msg    *message.Msg
	Events int
	Last   uint64 // sequence of the last event's record
	// Edited has the arguments that a person put in the place of the model's, of
	// each call that was edited. The format keeps the model's in the message.
	Edited map[message.CallID]string
}

// Message rebuilds the message of a reply from a session's events; of the last
// reply that began, if none is named. CodeNotFound: there are no such events.
func Message(ctx context.Context, c engine.Client, session message.SessionID, reply message.ReplyID) (*Rebuilt, error) {
	replies := map[message.ReplyID]*Rebuilt{}
	var last *Rebuilt
	err := Events(ctx, c, message.EventsRequest{V: 1, Session: session, Reply: reply}, func(se message.SequencedEvent) error {
		ev, err := message.DecodeEvent(se.Event)
		if err != nil {
			return fmt.Errorf("event of record %d: %w", se.Seq, err)
		}
		if ev.Type() == message.EventCustom {
			return nil // belongs to no reply
		}
		b := replies[ev.ReplyID()]
		if b == nil {
			b = new(Rebuilt)
			if b.Msg, err = empty(ev); err != nil {
				return err
			}
			replies[ev.ReplyID()], last = b, b
		}
		b.Events, b.Last = b.Events+1, se.Seq
		b.edits(ev)
		return message.Append(b.Msg, ev)
	})
	if err == nil && last == nil {
		err = &message.Error{Code: message.CodeNotFound, Op: "replay", What: fmt.Sprintf("the session %s has no such events", session), Hint: "askance events tail shows what there is"}
	}
	return last, err
}

// edits notes what calls are asked, confirmed or run with, if that is no longer
// what the model streamed.
func (b *Rebuilt) edits(ev message.Event) {
	for _, c := range named(ev) {
		i := slices.IndexFunc(b.Msg.Content, func(block message.Block) bool {
			t, ok := block.(*message.ToolCallBlock)
			return ok && t.ID == c.ID
		})
		if i < 0 {
			continue
		}
		if streamed := b.Msg.Content[i].(*message.ToolCallBlock).Input; c.Input != streamed {
			if b.Edited == nil {
				b.Edited = map[message.CallID]string{}
			}
			b.Edited[c.ID] = c.Input
		} else {
			delete(b.Edited, c.ID)
		}
	}
}

// named gives the calls that an event carries as a whole.
func named(ev message.Event) []message.ToolCallBlock {
	if ask, ok := ev.(*message.RequireUserConfirm); ok {
		return ask.ToolCalls
	}
	if run, ok := ev.(*message.RequireExternalExecution); ok {
		return run.ToolCalls
	}
	var out []message.ToolCallBlock
	if answer, ok := ev.(*message.UserConfirmResult); ok {
		for _, r := range answer.ConfirmResults {
			out = append(out, r.ToolCall)
		}
	}
	return out
}

// empty is the message that a reply's events build, before the first of them.
func empty(first message.Event) (*message.Msg, error) {
	name, role := "assistant", message.RoleAssistant
	if start, ok := first.(*message.ReplyStart); ok {
		name, role = start.Name, start.Role
	}
	m, err := message.AssistantMsg(name, message.List(), message.WithID(string(first.ReplyID())), message.WithCreatedAt(first.Header().CreatedAt))
	if err != nil {
		return nil, err
	}
	m.Role = role
	return m, nil
}
