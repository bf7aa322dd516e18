package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// turn is an open turn that runs here.
type turn struct {
	notes notes
	note  note
	rec   *Record
	agent Agent
	as    port
	log   *slog.Logger

	mu     sync.Mutex // guards thread
	thread *Thread
}

var _ Turn = (*turn)(nil)

func (t *turn) Session() message.SessionID        { return t.note.Session }
func (t *turn) Reply() message.ReplyID            { return t.note.Reply }
func (t *turn) Tools() []Tool                     { return slices.Clone(t.rec.Tools) }
func (t *turn) Input() map[string]message.RawJSON { return t.rec.Input }

// run runs the turn to its end, or until ctx ends.
func (t *turn) run(ctx context.Context) {
	running, cancel := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	from := t.thread.Through // no other goroutine has the thread yet
	watcher.Go(func() { t.watch(running, from, cancel) })
	err := t.waitForPlace(running)
	if err == nil {
		err = t.answer(running)
	}
	cancel(nil)
	watcher.Wait()
	if ctx.Err() != nil {
		return // the next process continues the turn
	}
	if err := t.finish(ctx, err); err != nil && ctx.Err() == nil {
		t.log.Error("the end of a turn could not be stored; the next process does it", "err", err)
	}
}

// waitForPlace waits until the turn is the session's open one, which it becomes
// once the turns before it have ended.
func (t *turn) waitForPlace(ctx context.Context) error {
	for {
		if err := t.sync(ctx); err != nil {
			return err
		}
		switch {
		case t.thread.Open == t.note.Reply:
			return nil
		case t.thread.queued(t.note.Reply) == nil:
			return ErrInterrupted
		case t.thread.Busy() == t.note.Reply:
			event, err := custom(TurnEvent, t.rec)
			if err == nil {
				err = t.send(ctx, event)
			}
			if err != nil {
				return err
			}
			continue
		}
		next := toolcall.EventsRequest{Session: t.note.Session, After: t.thread.Through, WaitMS: 25_000}
		if err := retry(ctx, func() error { _, err := t.as().Events(ctx, next); return err }); err != nil {
			return err
		}
	}
}

// answer prepares the reply and runs the agent.
func (t *turn) answer(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			t.log.Error("the agent panicked", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if err := t.repair(ctx); err != nil {
		return err
	}
	err = t.agent.Run(ctx, t)
	if err != nil && ctx.Err() == nil {
		t.log.Warn("the agent failed", "err", err)
	}
	return err
}

// repair begins the reply, or completes what an earlier process left unfinished.
func (t *turn) repair(ctx context.Context) error {
	if err := t.sync(ctx); err != nil {
		return err
	}
	switch r := t.reply(); {
	case r.interrupted:
		return ErrInterrupted
	case !r.begun:
		return t.send(ctx, &message.ReplyStart{EventHeader: message.NewHeader(t.note.Reply), Session: t.note.Session, Name: t.rec.Agent, Role: message.RoleAssistant})
	}
	return t.closeLoose(ctx, false)
}

// watch ends the run when the user interrupts the reply.
func (t *turn) watch(ctx context.Context, after uint64, cancel context.CancelCauseFunc) {
	for ctx.Err() == nil {
		var page toolcall.EventsReply
		err := retry(ctx, func() (err error) {
			page, err = t.as().Events(ctx, toolcall.EventsRequest{Session: t.note.Session, Reply: t.note.Reply, After: after, WaitMS: 25_000})
			return err
		})
		if err != nil {
			if ctx.Err() == nil {
				t.log.Warn("interrupts are not seen any more", "err", err)
			}
			return
		}
		after = page.Next
		for _, e := range page.Events {
			if ev, err := message.DecodeEvent(e.Event); err == nil && ev.Type() == message.EventUserInterrupt {
				cancel(ErrInterrupted)
				return
			}
		}
	}
}

func (t *turn) Conversation(ctx context.Context) ([]*message.Msg, error) {
	fresh := NewThread()
	if err := retry(ctx, func() error { return fresh.read(ctx, t.as(), t.note.Session) }); err != nil {
		return nil, err
	}
	if r := fresh.replies[t.note.Reply]; r != nil && r.msg != nil && len(r.msg.Content) == 0 {
		fresh.Messages = slices.DeleteFunc(fresh.Messages, func(m *message.Msg) bool { return m == r.msg })
	}
	return fresh.Messages, nil
}

func (t *turn) Emit(ctx context.Context, events ...message.Event) error {
	for i, e := range events {
		if e == nil || e.Type() == message.EventReplyStart || e.Type() == message.EventReplyEnd {
			return message.Errorf(message.CodeInvalid, "emit", "events[%d]: an agent does not begin or end its reply", i)
		}
		if c, ok := e.(*message.Custom); ok && c.Own() {
			return message.Errorf(message.CodeForbidden, "emit", "events[%d]: the name %s is one of askance's own", i, c.Name)
		}
		t.fill(e.Header())
	}
	return t.send(ctx, events...)
}

func (t *turn) fill(h *message.EventHeader) {
	full := message.NewHeader(t.note.Reply)
	h.ID = cmp.Or(h.ID, full.ID)
	h.CreatedAt = cmp.Or(h.CreatedAt, full.CreatedAt)
	h.Reply = t.note.Reply
}

func (t *turn) send(ctx context.Context, events ...message.Event) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return retry(ctx, func() error { return emit(ctx, t.as, t.note.Session, t.note.Reply, events...) }, message.ErrFull)
}

// sync reads what was written to the session since the last sync.
func (t *turn) sync(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return retry(ctx, func() error { return t.thread.read(ctx, t.as(), t.note.Session) })
}

// reply returns the reply as of the last sync.
func (t *turn) reply() *reply {
	return cmp.Or(t.thread.replies[t.note.Reply], &reply{}) // it may still wait for its place
}

// finish ends the reply and records that the turn is closed. The engine ends an interrupted reply
// itself.
func (t *turn) finish(ctx context.Context, failed error) error {
	if err := t.end(ctx, failed); err != nil && !errors.Is(err, message.ErrInterrupted) && !errors.Is(err, ErrInterrupted) {
		return err
	}
	return retry(ctx, func() error { return t.notes.recordClosed(ctx, t.note) }, message.ErrFull)
}

func (t *turn) end(ctx context.Context, failed error) error {
	if err := t.checkOpen(ctx); err != nil {
		return err
	}
	if err := t.closeLoose(ctx, true); err != nil {
		return err
	}
	if closed, err := t.interruptOpen(ctx, failed); closed || err != nil {
		return err
	}
	if err := t.checkOpen(ctx); err != nil {
		return err
	}
	return t.send(ctx, t.endEvents(failed)...)
}

// checkOpen returns an error if the reply was interrupted or has ended.
func (t *turn) checkOpen(ctx context.Context) error {
	if err := t.sync(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.reply(); r.interrupted || r.ended {
		return ErrInterrupted
	}
	return nil
}

// interruptOpen interrupts the reply if some of its calls are still open: its agent no longer
// waits for them.
func (t *turn) interruptOpen(ctx context.Context, failed error) (bool, error) {
	var open toolcall.ListReply
	err := retry(ctx, func() (err error) {
		open, err = t.as().List(ctx, toolcall.ListRequest{V: 1, Session: t.note.Session, Reply: t.note.Reply})
		return err
	})
	if err != nil || len(open.Calls) == 0 {
		return false, err
	}
	reason := "the agent ended its reply without waiting"
	if failed != nil {
		reason = errorInfoOf(failed).Message
	}
	return true, retry(ctx, func() error {
		_, err := t.as().Interrupt(ctx, toolcall.InterruptRequest{V: 1, Session: t.note.Session, Reply: t.note.Reply, Reason: reason})
		return err
	})
}

func (t *turn) endEvents(failed error) []message.Event {
	end := &message.ReplyEnd{EventHeader: message.NewHeader(t.note.Reply), Session: t.note.Session, FinishedReason: message.FinishedCompleted}
	switch {
	case failed == nil:
	case errors.Is(failed, ErrMaxIters):
		end.FinishedReason = message.FinishedExceedMaxIters
		return []message.Event{&message.ExceedMaxIters{EventHeader: message.NewHeader(t.note.Reply), Name: t.rec.Agent}, end}
	default:
		end.FinishedReason, end.Error = message.FinishedError, errorInfoOf(failed)
	}
	return []message.Event{end}
}

func (t *turn) Call(ctx context.Context, calls ...message.ToolCallBlock) ([]message.ToolResultBlock, error) {
	if len(calls) == 0 {
		return nil, nil
	}
	fresh, err := t.notGivenUp(ctx, calls)
	if err != nil {
		return nil, err
	}
	if err := t.announce(ctx, fresh); err != nil {
		return nil, err
	}
	if err := t.propose(ctx, fresh); err != nil {
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

// notGivenUp returns the calls without those that repair gave up because they were incomplete: an
// agent that does the same again after a restart gets their results.
func (t *turn) notGivenUp(ctx context.Context, calls []message.ToolCallBlock) (out []message.ToolCallBlock, err error) {
	if err := t.sync(ctx); err != nil {
		return nil, err
	}
	t.mu.Lock()
	m := t.reply().msg
	t.mu.Unlock()
	for _, c := range calls {
		if m != nil && m.ToolResult(c.ID) != nil {
			var shown toolcall.ShowReply
			key := toolcall.Key{Session: t.note.Session, Reply: t.note.Reply, Call: c.ID}
			err := retry(ctx, func() (err error) {
				shown, err = t.as().Show(ctx, toolcall.ShowRequest{Key: key})
				return err
			})
			if err != nil {
				return nil, err
			}
			if shown.Call.Cause == string(toolcall.CauseRefuse) && shown.Call.Input == "" {
				continue
			}
		}
		out = append(out, c)
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
	if len(calls) == 0 {
		return nil
	}
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
