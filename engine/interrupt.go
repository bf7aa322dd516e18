package engine

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func interruptStep(_ context.Context, m *toolcall.Machine) error {
	if m.Call().State == message.ToolCallFinished {
		return errNoChange
	}
	return m.Step(toolcall.Interrupted{Base: stamp()})
}

// interrupt writes the interrupt to the reply's own entity first, then closes
// every open call of the reply, then the reply. A proposal that was written
// before the interrupt is seen here; one that is written after it reads the
// interrupt and closes itself.
func (e *Engine) interrupt(ctx context.Context, by message.Principal, r message.InterruptRequest) ([]*message.Call, error) {
	reply := message.Key{Space: e.space, Session: r.Session, Reply: r.Reply}
	if err := validReply(reply); err != nil {
		return nil, opError("interrupt", err)
	}
	if len(r.Reason) > message.MaxTextBytes {
		return nil, &message.Error{Code: message.CodeTooLarge, Op: "interrupt", What: fmt.Sprintf("reason has %d bytes, the limit is %d", len(r.Reason), message.MaxTextBytes), Hint: "shorten it"}
	}
	seq, ended, err := e.markInterrupted(ctx, by, reply, r.Reason)
	if err == nil {
		err = e.reach(ctx, seq)
	}
	if err != nil {
		return nil, opError("interrupt", err)
	}
	if ended {
		seq = math.MaxUint64 // an earlier interrupt has closed, and told, what there was
	}
	return e.closeCalls(ctx, by, reply, seq)
}

// validReply checks the ids of a request that is about a whole reply.
func validReply(reply message.Key) error {
	reply.Call = "-"
	return reply.Validate()
}

// markInterrupted stores the interrupt and returns its sequence. An interrupt
// of a reply that is interrupted already is carried on, not refused; ended says
// that nothing is left to carry on.
func (e *Engine) markInterrupted(ctx context.Context, by message.Principal, reply message.Key, reason string) (seq uint64, ended bool, err error) {
	state, at, err := store.Update(ctx, e.store, "interrupt", e.store.Reply(reply), func(ctx context.Context, state message.ReplyState) (*message.EventRecord, error) {
		if state.Phase != message.ReplyOpen {
			return nil, errNoChange
		}
		if len(state.Batches) == 0 && len(e.view.CallsOf(reply)) == 0 {
			if err := e.store.CheckReply(ctx, reply); err != nil {
				return nil, err
			}
		}
		state.Phase, state.Reason = message.ReplyInterrupted, reason
		f := e.store.NewRecord(by, stamp().At)
		f.Reply = &state
		return f, nil
	})
	switch {
	case errors.Is(err, errNoChange):
		return at, state.Phase == message.ReplyEnded, nil
	case err != nil:
		return 0, false, err
	}
	e.replyLater(reply) // in case that this request is given up before all is closed
	return at, false, nil
}

// reach waits until the view has seen everything up to seq.
func (e *Engine) reach(ctx context.Context, seq uint64) error {
	err := e.store.WaitForSequence(ctx, seq)
	switch {
	case err == nil:
		return nil
	case e.store.Following().Err() != nil:
		return &message.Error{Code: message.CodeUnavailable, What: "this engine does not go on; the interrupt is stored and will be carried out by another", Hint: "ask again", Err: err}
	}
	return &message.Error{Code: message.CodeUnavailable, What: "the journal is not being followed fast enough; the interrupt is stored and will be carried out", Hint: "ask again"}
}

// closeCalls ends the open calls of an interrupted reply in the order of their
// proposal, then the reply itself. It returns what the interrupt at seq closed,
// whoever did it.
func (e *Engine) closeCalls(ctx context.Context, by message.Principal, reply message.Key, seq uint64) ([]*message.Call, error) {
	var out []*message.Call
	for _, c := range e.view.CallsOf(reply) {
		if c.Open() {
			next, err := e.update(ctx, "interrupt", c.Key, by, interruptStep)
			if err != nil && !errors.Is(err, message.ErrFinished) {
				return out, err
			}
			c = next // it may have ended by itself just before, and the view did not know yet
		}
		if c != nil && c.Cause == string(toolcall.Interrupt) && c.Seq > seq {
			out = append(out, c)
		}
	}
	return out, e.endReply(ctx, reply)
}

// endReply marks an interrupted reply as ended.
func (e *Engine) endReply(ctx context.Context, reply message.Key) error {
	_, _, err := store.Update(ctx, e.store, "interrupt", e.store.Reply(reply), func(_ context.Context, state message.ReplyState) (*message.EventRecord, error) {
		if state.Phase != message.ReplyInterrupted {
			return nil, errNoChange
		}
		state.Phase = message.ReplyEnded
		f := e.store.NewRecord(e.self(), stamp().At)
		f.Reply = &state
		return f, nil
	})
	if errors.Is(err, errNoChange) {
		return nil
	}
	return err
}

// closeReply carries out an interrupt whose writer did not live to do so, and
// closes a call that was written without knowledge of the interrupt by an
// engine that did not live to see it.
func (e *Engine) closeReply(ctx context.Context, reply message.Key, seq uint64) {
	if e.view.WaitFor(seq) != nil {
		e.replyLater(reply) // not seen to the end; a job does not wait for the watch
		return
	}
	if _, err := e.closeCalls(ctx, e.self(), reply, seq); err != nil && ctx.Err() == nil {
		e.log.Warn("an interrupt could not be carried out; it is tried again", "reply", reply.String(), "error", err)
		e.replyLater(reply)
	}
}
