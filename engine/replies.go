package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// replies handles whole replies: it interrupts them, and checks whether they are open.
type replies struct{ *core }

// lagLimit is how long a look at a reply waits for the watch before it reads the
// journal itself.
const lagLimit = 50 * time.Millisecond

// phaseAt returns the phase of a reply when the event record seq was written, or later. A view
// that has reached seq has every interrupt before it, except those of a later version.
func (rp *replies) phaseAt(ctx context.Context, reply toolcall.Key, seq uint64) (toolcall.ReplyPhase, error) {
	if come := rp.view.WaitFor(seq); come != nil {
		limit := time.NewTimer(lagLimit)
		defer limit.Stop()
		select {
		case <-come:
		case <-limit.C:
		case <-ctx.Done():
		case <-rp.store.Following().Done():
		}
	}
	if rp.view.Sequence() >= seq && !rp.store.HasSkipped() {
		if phase := rp.view.ReplyPhase(reply); phase != "" {
			return phase, nil
		}
	}
	state, _, err := rp.store.LastReply(ctx, reply)
	return state.Phase, err
}

// interruptReply writes the interrupt to the reply's own entity, then closes its open
// calls, then the reply. A proposal written after the interrupt sees it and closes
// itself.
func (rp *replies) interruptReply(ctx context.Context, by toolcall.Principal, r toolcall.InterruptRequest) ([]*toolcall.Call, error) {
	reply := toolcall.Key{Space: rp.space, Session: r.Session, Reply: r.Reply}
	if err := checkReplyKey(reply); err != nil {
		return nil, err
	}
	if len(r.Reason) > toolcall.MaxTextBytes {
		return nil, &message.Error{Code: message.CodeTooLarge, What: fmt.Sprintf("reason has %d bytes, the limit is %d", len(r.Reason), toolcall.MaxTextBytes), Hint: "shorten it"}
	}
	seq, ended, err := rp.markInterrupted(ctx, by, reply, r.Reason)
	if err == nil {
		err = rp.waitForView(ctx, seq)
	}
	if err != nil {
		return nil, err
	}
	if ended {
		seq = math.MaxUint64 // an earlier interrupt closed the calls and returned them
		// This request writes no record that comes after other engines' calls.
		if err := rp.store.Freshen(ctx, reply.SessionKey()); err != nil {
			return nil, err
		}
	}
	return rp.closeCalls(ctx, by, reply, seq)
}

// markInterrupted stores the interrupt, unless the reply has one, and returns its sequence.
// ended reports that the reply has ended, by its runtime or an earlier interrupt.
func (rp *replies) markInterrupted(ctx context.Context, by toolcall.Principal, reply toolcall.Key, reason string) (seq uint64, ended bool, err error) {
	state, at, err := store.Update(ctx, rp.store, rp.store.Reply(reply), func(ctx context.Context, state toolcall.ReplyState) (*toolcall.EventRecord, error) {
		if state.Over() {
			return nil, errNoChange
		}
		if len(rp.view.CallsOf(reply)) == 0 {
			if err := rp.store.CheckReply(ctx, reply); err != nil {
				return nil, err
			}
		}
		state.Phase, state.Reason = toolcall.ReplyInterrupted, reason
		rec := rp.store.NewRecord(by, baseNow().At)
		rec.Reply = &state
		return rec, nil
	})
	switch {
	case errors.Is(err, errNoChange):
		return at, state.Completed || state.Phase == toolcall.ReplyEnded, nil
	case err != nil:
		return 0, false, err
	}
	rp.lookLater(reply) // in case this request is canceled before everything is closed
	return at, false, nil
}

// completeReply stores the REPLY_END of a runtime, unless the reply has ended. Invariant: a
// reply has one REPLY_END, the first that is recorded.
func (rp *replies) completeReply(ctx context.Context, by toolcall.Principal, reply toolcall.Key, end message.RawJSON) (uint64, error) {
	_, at, err := store.Update(ctx, rp.store, rp.store.Reply(reply), func(_ context.Context, state toolcall.ReplyState) (*toolcall.EventRecord, error) {
		if state.Over() {
			return nil, errNoChange
		}
		state.Completed = true
		rec := rp.store.NewRecord(by, baseNow().At)
		rec.Reply, rec.End = &state, end
		return rec, nil
	})
	if errors.Is(err, errNoChange) {
		return at, nil
	}
	return at, err
}

// waitForView waits until the view has everything up to seq.
func (rp *replies) waitForView(ctx context.Context, seq uint64) error {
	err := rp.store.WaitForSequence(ctx, seq)
	switch {
	case err == nil:
		return nil
	case rp.store.Following().Err() != nil:
		return &message.Error{Code: message.CodeUnavailable, What: "this engine stopped following the journal; the interrupt is stored, and another engine will carry it out", Hint: "try again", Err: err}
	}
	return &message.Error{Code: message.CodeUnavailable, What: "this engine lags behind the journal; the interrupt is stored and will take effect", Hint: "try again"}
}

// closeCalls ends the open calls of an interrupted reply in the order in which they were
// proposed, then the reply itself. It returns the calls that the interrupt at seq closed,
// including those that another engine closed.
func (rp *replies) closeCalls(ctx context.Context, by toolcall.Principal, reply toolcall.Key, seq uint64) ([]*toolcall.Call, error) {
	var out []*toolcall.Call
	for _, c := range rp.view.CallsOf(reply) {
		if c.Open() {
			next, err := rp.update(ctx, "interrupt", c.Key, by, closeInterrupted)
			if err != nil && !errors.Is(err, message.ErrFinished) {
				return out, err
			}
			c = next // it may have ended just before, unknown to the view
		}
		if c != nil && c.Cause == string(toolcall.CauseInterrupt) && c.Seq > seq {
			out = append(out, c)
		}
	}
	return out, rp.endReply(ctx, reply)
}

// endReply marks an interrupted reply as ended.
func (rp *replies) endReply(ctx context.Context, reply toolcall.Key) error {
	_, _, err := store.Update(ctx, rp.store, rp.store.Reply(reply), func(_ context.Context, state toolcall.ReplyState) (*toolcall.EventRecord, error) {
		if state.Phase != toolcall.ReplyInterrupted {
			return nil, errNoChange
		}
		state.Phase = toolcall.ReplyEnded
		rec := rp.store.NewRecord(rp.selfPrincipal(), baseNow().At)
		rec.Reply = &state
		return rec, nil
	})
	if errors.Is(err, errNoChange) {
		return nil
	}
	return err
}

// closeReply finishes an interrupt whose engine died, and closes a call whose engine died
// before it saw the interrupt.
func (rp *replies) closeReply(ctx context.Context, reply toolcall.Key, seq uint64) {
	if rp.view.WaitFor(seq) != nil {
		rp.lookLater(reply) // the view lags; a background step does not wait for the watch
		return
	}
	if _, err := rp.closeCalls(ctx, rp.selfPrincipal(), reply, seq); err != nil && ctx.Err() == nil {
		rp.log.Warn("cannot carry out an interrupt; will try again", "reply", reply.String(), "error", err)
		rp.lookLater(reply)
	}
}

func closeInterrupted(_ context.Context, m *toolcall.Machine) error {
	if m.Call().State == message.ToolCallFinished {
		return errNoChange
	}
	return m.Step(toolcall.Interrupted{Base: baseNow()})
}

func interruptedError(reply toolcall.Key) error {
	return &message.Error{Code: message.CodeInterrupted, What: "the reply " + string(reply.Reply) + " was interrupted", Hint: "start a new reply"}
}

// checkReplyKey checks the ids of a request about a whole reply.
func checkReplyKey(reply toolcall.Key) error {
	reply.Call = "-"
	return reply.Validate()
}

// sessions binds each session to the runtime that first used it.
type sessions struct{ *core }

// bindSession binds a session to the runtime that first uses it, and refuses every other
// runtime. It also stores the tool definitions that the session lacks.
func (s *sessions) bindSession(ctx context.Context, by toolcall.Principal, session toolcall.Key, tools ...*toolcall.DeclaredTool) (toolcall.SessionState, error) {
	var next toolcall.SessionState
	var news bool
	own := func(state toolcall.SessionState) (err error) {
		reserved := strings.HasPrefix(string(session.Session), toolcall.GatewaySessions) && by.Name != toolcall.GatewayName
		if state.Runtime != "" && state.Runtime != by.Name || reserved {
			return foreignSessionError(session.Session)
		}
		state.Key = session
		next, news, err = state.With(tools)
		return err
	}
	known, seq := s.view.Session(session)
	if err := own(known); err == nil && known.Runtime != "" && !news || known.Runtime != "" && known.Runtime != by.Name {
		return next, err
	}
	binding := store.Entity[toolcall.SessionState]{
		Key:   session,
		Known: func() (toolcall.SessionState, uint64, bool) { return known, seq, true }, // the write finds out whether it is bound
		Read: func(ctx context.Context) (toolcall.SessionState, uint64, error) {
			return s.store.LastSession(ctx, session)
		},
	}
	var rec *toolcall.EventRecord
	_, seq, err := store.Update(ctx, s.store, binding, func(_ context.Context, state toolcall.SessionState) (*toolcall.EventRecord, error) {
		if err := own(state); err != nil {
			return nil, err
		}
		if state.Runtime != "" && !news {
			return nil, errNoChange
		}
		rec = s.store.NewRecord(by, baseNow().At)
		next.Runtime = by.Name
		rec.Session = &next
		return rec, nil
	})
	switch {
	case errors.Is(err, errNoChange):
		return next, nil
	case err == nil:
		s.view.Apply(rec, seq) // the decisions about the calls depend on it
	}
	return next, err
}

// checkSession restricts runtimes to the sessions that are bound to them. An unknown
// session belongs to no runtime.
func (s *sessions) checkSession(ctx context.Context, by toolcall.Principal, id message.SessionID) error {
	if by.Role != toolcall.RoleRuntime {
		return nil
	}
	session := toolcall.Key{Space: s.space, Session: id}
	state, _ := s.view.Session(session)
	if state.Runtime == "" { // the view may not have it yet
		var err error
		if state, _, err = s.store.LastSession(ctx, session); err != nil {
			return err
		}
	}
	if state.Runtime != "" && state.Runtime != by.Name {
		return foreignSessionError(id)
	}
	return nil
}

func foreignSessionError(s message.SessionID) error {
	return &message.Error{Code: message.CodeForeign, What: "the session " + string(s) + " belongs to another runtime", Hint: "use a session of your own"}
}
