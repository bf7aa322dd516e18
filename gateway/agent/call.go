package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Call implements Turn.
func (t *turn) Call(ctx context.Context, calls ...message.ToolCallBlock) ([]message.ToolResultBlock, error) {
	if len(calls) == 0 {
		return nil, nil
	}
	if err := t.announce(ctx, calls); err != nil {
		return nil, err
	}
	if err := t.propose(ctx, calls); err != nil {
		return nil, err
	}
	done, err := t.wait(ctx, calls)
	if err != nil {
		return nil, err
	}
	out := make([]message.ToolResultBlock, len(done))
	for i, c := range done {
		out[i] = *c.Result
	}
	return out, nil
}

// announce emits the TOOL_CALL_* events of calls that have none.
func (t *turn) announce(ctx context.Context, calls []message.ToolCallBlock) error {
	if err := t.sync(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var events []message.Event
	for _, c := range calls {
		header := func() message.EventHeader { return message.NewHeader(t.note.Reply) }
		var said *message.ToolCallBlock
		if m := t.reply().msg; m != nil {
			said = m.ToolCall(c.ID)
		}
		switch {
		case said == nil:
			events = append(events,
				&message.ToolCallStart{EventHeader: header(), ToolCallID: c.ID, ToolCallName: c.Name},
				&message.ToolCallDelta{EventHeader: header(), ToolCallID: c.ID, Delta: c.Input},
				&message.ToolCallEnd{EventHeader: header(), ToolCallID: c.ID})
		case said.Name != c.Name || said.Input != c.Input:
			return message.Errorf(message.CodeInvalid, "call", "the call %s was emitted with another tool or other arguments", c.ID)
		case said.FinishedAt == nil:
			return message.Errorf(message.CodeInvalid, "call", "the call %s has no TOOL_CALL_END: it is not complete", c.ID)
		}
	}
	return t.send(ctx, events...)
}

// propose proposes calls to the engine, which recognizes those that it already has.
func (t *turn) propose(ctx context.Context, calls []message.ToolCallBlock) error {
	req := toolcall.ProposeRequest{V: 1, Session: t.note.Session, Reply: t.note.Reply, Agent: t.rec.Agent}
	for _, c := range calls {
		req.Calls = append(req.Calls, message.ToolCallBlock{ID: c.ID, Name: c.Name, Input: c.Input})
	}
	for _, tool := range t.rec.Tools {
		req.Tools = append(req.Tools, toolcall.ToolDefinition{Name: tool.Name, Description: tool.Description, InputSchema: tool.Parameters})
	}
	return retry(ctx, func() error {
		_, err := t.as().Propose(ctx, req)
		return err
	}, message.ErrFull)
}

// wait waits until every call is finished.
func (t *turn) wait(ctx context.Context, calls []message.ToolCallBlock) ([]*toolcall.Call, error) {
	req := toolcall.WaitRequest{V: 1, Session: t.note.Session, Reply: t.note.Reply, Until: toolcall.UntilFinished}
	for _, c := range calls {
		req.Calls = append(req.Calls, c.ID)
	}
	for {
		var w toolcall.WaitReply
		err := retry(ctx, func() (err error) {
			w, err = t.as().Wait(ctx, req)
			return err
		})
		switch {
		case err != nil:
			return nil, err
		case w.Done:
			return w.Calls, t.checkInterrupted(ctx, w.Calls)
		}
	}
}

// checkInterrupted returns ErrInterrupted if the calls ended because the reply was interrupted.
func (t *turn) checkInterrupted(ctx context.Context, calls []*toolcall.Call) error {
	if !slices.ContainsFunc(calls, func(c *toolcall.Call) bool { return c.Result == nil || c.Result.State == message.ToolResultInterrupted }) {
		return nil
	}
	if err := t.sync(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reply().interrupted {
		return ErrInterrupted
	}
	return nil
}

// closeLoose ends the open blocks of the reply. An incomplete tool call is proposed without
// arguments, so it gets a result and cannot run. all includes complete calls that were never
// proposed.
func (t *turn) closeLoose(ctx context.Context, all bool) error {
	if err := t.sync(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	r := t.reply()
	events := r.blocks.closeEvents(t.note.Reply)
	loose := r.blocks.calls()
	var unanswered []message.ToolCallBlock
	if r.msg != nil {
		for _, c := range message.BlocksOf[*message.ToolCallBlock](r.msg) {
			if r.msg.ToolResult(c.ID) == nil {
				unanswered = append(unanswered, *c)
			}
		}
	}
	t.mu.Unlock()
	if err := t.send(ctx, events...); err != nil {
		return err
	}
	return t.giveUp(ctx, unanswered, func(id message.CallID) bool {
		return all || slices.Contains(loose, id)
	})
}

// giveUp proposes, without arguments, the selected calls that were never proposed.
func (t *turn) giveUp(ctx context.Context, calls []message.ToolCallBlock, which func(message.CallID) bool) error {
	for _, c := range calls {
		if !which(c.ID) {
			continue
		}
		key := toolcall.Key{Session: t.note.Session, Reply: t.note.Reply, Call: c.ID}
		err := retry(ctx, func() error {
			_, err := t.as().Show(ctx, toolcall.ShowRequest{Key: key})
			return err
		})
		if errors.Is(err, message.ErrNotFound) {
			c.Input = ""
			err = t.propose(ctx, []message.ToolCallBlock{c})
		}
		if err != nil {
			return fmt.Errorf("give up the call %s: %w", c.ID, err)
		}
	}
	return nil
}
