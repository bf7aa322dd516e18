// Package replay reads a session's AgentScope events and rebuilds messages only from
// them, as any frontend does.
package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Rebuilt is a message and how it was rebuilt.
type Rebuilt struct {
	Msg    *message.Msg
	Events int
	// Edited has the arguments of each call that a person edited. The message keeps
	// the model's, as the format requires.
	Edited map[message.CallID]string
}

// Message rebuilds the message of a reply from a session's events, by default of the
// last reply that began. It returns CodeNotFound if there are no such events.
func Message(ctx context.Context, c engine.Client, session message.SessionID, reply message.ReplyID) (*Rebuilt, error) {
	replies := map[message.ReplyID]*Rebuilt{}
	var last *Rebuilt
	err := Events(ctx, c, toolcall.EventsRequest{V: 1, Session: session, Reply: reply}, func(se toolcall.SequencedEvent) error {
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
			if b.Msg, err = newMessage(ev); err != nil {
				return err
			}
			replies[ev.ReplyID()], last = b, b
		}
		b.Events++
		b.edits(ev)
		return message.Append(b.Msg, ev)
	})
	if err == nil && last == nil {
		err = &message.Error{Code: message.CodeNotFound, Op: "replay", What: fmt.Sprintf("the session %s has no such events", session), Hint: "askance events tail shows what there is"}
	}
	return last, err
}

// edits records the arguments with which calls are asked, confirmed or run, if they
// are not those that the model streamed.
func (r *Rebuilt) edits(ev message.Event) {
	for _, c := range namedCalls(ev) {
		i := slices.IndexFunc(r.Msg.Content, func(block message.Block) bool {
			t, ok := block.(*message.ToolCallBlock)
			return ok && t.ID == c.ID
		})
		if i < 0 {
			continue
		}
		if streamed := r.Msg.Content[i].(*message.ToolCallBlock).Input; c.Input != streamed {
			if r.Edited == nil {
				r.Edited = map[message.CallID]string{}
			}
			r.Edited[c.ID] = c.Input
		} else {
			delete(r.Edited, c.ID)
		}
	}
}

// namedCalls returns the calls that an event carries as a whole.
func namedCalls(ev message.Event) []message.ToolCallBlock {
	if ask, ok := ev.(*message.RequireUserConfirm); ok {
		return ask.ToolCalls
	}
	if run, ok := ev.(*message.RequireExternalExecution); ok {
		return run.ToolCalls
	}
	var out []message.ToolCallBlock
	if result, ok := ev.(*message.UserConfirmResult); ok {
		for _, r := range result.ConfirmResults {
			out = append(out, r.ToolCall)
		}
	}
	return out
}

// Proposed returns the arguments with which people were first asked about a call, before any edit;
// "" if that was long after the proposal.
func Proposed(ctx context.Context, c engine.Client, call *toolcall.Call) (string, error) {
	page, err := c.Events(ctx, toolcall.EventsRequest{V: 1, Session: call.Session, Reply: call.Reply, After: call.First - 1})
	for _, se := range page.Events {
		ev, _ := message.DecodeEvent(se.Event) // of an unknown event nil, which names no call
		for _, named := range namedCalls(ev) {
			if named.ID == call.Call {
				return named.Input, nil
			}
		}
	}
	return "", err
}

// newMessage returns the empty message that a reply's events build.
func newMessage(first message.Event) (*message.Msg, error) {
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

const (
	// hold is how long an engine holds a request for future events.
	hold       = 20 * time.Second
	retryPause = 500 * time.Millisecond
)

// Events passes each event of a session after r.After to f, in the order of the journal, until
// there are no more. It ends early with f's error, or with the cause of ctx.
func Events(ctx context.Context, c engine.Client, r toolcall.EventsRequest, f func(toolcall.SequencedEvent) error) error {
	for {
		next, err := page(ctx, c, r, f)
		if err != nil {
			return err
		}
		if next == r.After {
			return nil
		}
		r.After = next
	}
}

// Follow is Events that continues with future events until ctx ends. If the engine is
// unreachable for a while, no events are lost.
func Follow(ctx context.Context, c engine.Client, r toolcall.EventsRequest, f func(toolcall.SequencedEvent) error) error {
	r.WaitMS = hold.Milliseconds()
	for {
		next, err := page(ctx, c, r, f)
		if errors.Is(err, message.ErrUnavailable) && ctx.Err() == nil {
			if err := sleep.For(ctx, retryPause); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		r.After = next
	}
}

func page(ctx context.Context, c engine.Client, r toolcall.EventsRequest, f func(toolcall.SequencedEvent) error) (next uint64, err error) {
	reply, err := c.Events(ctx, r)
	if ctx.Err() != nil {
		return r.After, context.Cause(ctx)
	}
	if err != nil {
		return r.After, err
	}
	for _, ev := range reply.Events {
		if err := f(ev); err != nil {
			return r.After, err
		}
	}
	return reply.Next, nil
}
