package agui

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
	"github.com/askance-dev/askance/toolcall"
)

// run is one request in progress.
type run struct {
	s       *Surface
	in      *wire.RunInput
	of      wire.Run
	peer    *gateway.Peer
	owner   engine.Client // the engine for the peer as the owner of its threads
	runner  *agent.Runner
	agent   string
	session message.SessionID
	log     *slog.Logger

	answered map[string]bool // interrupts that this run has answered
	approved map[message.CallID]*approvedCall
	parked   *park // the last park of the thread
}

type approvedCall struct {
	edited    message.RawJSON // the arguments, if the approval changed them
	delivered bool            // whether the client's result is delivered
}

// follower shows a run to its client: first what was before, then what comes.
type follower struct {
	*run
	out    *stream
	mapper *wire.Mapper
	reply  message.ReplyID
	seq    uint64  // cursor after the last event that was mapped
	calls  pending // calls of the reply that have no result yet
	asked  requests
	queued bool // another reply follows this one
}

// ownerOf returns the peer with only the role of an owner of threads, so no other role of the
// peer opens threads of others.
func ownerOf(p *gateway.Peer) *gateway.Peer {
	owner := *p
	owner.Roles = []toolcall.Role{toolcall.RoleRuntime}
	return &owner
}

// start sends the beginning of the run and, if the client lacks a part of it, the conversation.
func (f *follower) start(w *projection, always bool) error {
	err := f.out.send(&wire.RunStarted{
		Base:     wire.Base{Metadata: f.origin()},
		ThreadID: f.in.ThreadID, RunID: f.in.RunID, ProtocolVersion: new(wire.Version), ParentRunID: f.in.ParentRunID,
	})
	want := w.history.Messages()
	if err != nil || !always && !needsSnapshot(f.in.Messages, want) {
		return err
	}
	for _, messages := range planSnapshots(f.in.Messages, mergeMessages(f.in.Messages, want)) {
		if err := f.out.send(&wire.MessagesSnapshot{Messages: messages}); err != nil {
			return err
		}
	}
	return nil
}

// follow streams new events until the run ends: with its reply, to let people or the client
// respond, or with ctx.
func (f *follower) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	batches := make(chan gateway.EventBatch)
	done := make(chan error, 1)
	go func() {
		done <- f.peer.Feeds.Events(ctx, ownerOf(f.peer), f.session, f.seq, func(b gateway.EventBatch) error {
			select {
			case batches <- b:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
	alive := time.NewTicker(f.s.cfg.KeepAlive)
	defer alive.Stop()
	watch := &parkWatcher{f: f, parked: make(chan []*toolcall.Call), cancel: func() {}}
	defer watch.stop()
	watch.restart(ctx)
	for !f.out.ended {
		var err error
		select {
		case b := <-batches:
			err = f.take(ctx, b)
			watch.restart(ctx)
		case calls := <-watch.parked:
			err = f.park(ctx, calls)
			watch.retry(ctx)
		case <-alive.C:
			err = f.out.sse.KeepAlive()
		case err = <-done:
		}
		if err != nil {
			return f.endEarly(ctx, err)
		}
	}
	return nil
}

// endEarly ends a run that can no longer be followed. The turn continues.
func (f *follower) endEarly(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		if err = gateway.Ended(ctx); err == nil {
			return nil // the client is gone
		}
	}
	return f.out.send(runError(err))
}

func (f *follower) take(ctx context.Context, b gateway.EventBatch) error {
	for _, e := range b.Events {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		ev, err := message.DecodeEvent(e.Event)
		if err != nil {
			return message.Errorf(message.CodeInternal, "run", "the event at %d cannot be read: %w", e.Seq, err)
		}
		if err := f.mapEvent(ctx, e.Seq, ev); err != nil {
			return err
		}
	}
	f.seq = b.Through
	return f.deliverApproved(ctx)
}

// mapEvent maps one event. It ignores events of other replies.
func (f *follower) mapEvent(ctx context.Context, seq uint64, ev message.Event) error {
	if id := ev.ReplyID(); isBookkeeping(ev) || id != "" && id != f.reply {
		return nil
	}
	if end, ok := ev.(*message.ReplyEnd); ok && f.queued {
		return f.goOn(ctx, seq, end)
	}
	f.calls.note(ev)
	for _, e := range f.mapper.Map(ev) {
		if _, starts := e.(*wire.RunStarted); starts {
			continue
		}
		if err := f.out.send(e); err != nil {
			return err
		}
	}
	f.asked.approve(ev, f.out.history)
	return nil
}

// replyEndEvent is the name of the CUSTOM event which reports how a reply ended when its run
// continues with the next reply.
const replyEndEvent = "askance.reply_end"

// goOn ends a reply within the run, and begins the next one, which waited for that.
func (f *follower) goOn(ctx context.Context, seq uint64, end *message.ReplyEnd) error {
	t, err := readThread(ctx, f.owner, f.session)
	if err != nil {
		return err
	}
	turns := t.turnsAfter(seq)
	if len(turns) == 0 { // it was interrupted while it waited
		f.queued = false
		return f.mapEvent(ctx, seq, end)
	}
	value := map[string]any{"replyId": string(end.Reply), "finishedReason": string(end.FinishedReason)}
	if end.Error != nil {
		value["error"] = map[string]any{"type": string(end.Error.Type), "message": end.Error.Message}
	}
	closing, usage := f.mapper.Leave()
	if err := f.out.send(append(closing, &wire.Custom{Name: replyEndEvent, Value: object(value)})...); err != nil {
		return err
	}
	f.of.Usage = usage
	next := t.project(seq, f.run.run())
	next.addMessages(turns[0].Messages)
	next.begin(turns[0].Reply)
	f.reply, f.mapper, f.calls, f.asked = next.reply, next.mapper, next.calls, next.asked
	f.queued = len(turns) > 1
	return nil
}

// deliverApproved delivers the results that the client sent together with the approval of their
// calls: the client has already run these calls.
func (f *follower) deliverApproved(ctx context.Context) error {
	for _, b := range f.approvedResults() {
		if f.approved[b.ID].delivered {
			continue
		}
		err := f.deliverResults(ctx, f.reply, []message.ToolResultBlock{b})
		if isUncertain(err) {
			return nil // the parkWatcher tries again
		}
		if err != nil {
			return err
		}
		f.mapper.OmitResult(b.ID)
		f.approved[b.ID].delivered = true
	}
	return nil
}

// approvedResults returns the client's results for calls that this run has approved and that wait
// for a result.
func (f *follower) approvedResults() []message.ToolResultBlock {
	if len(f.approved) == 0 {
		return nil
	}
	waiting := f.mapper.Pending()
	maps.DeleteFunc(waiting, func(_ string, c message.ToolCallBlock) bool { _, ok := f.approved[c.ID]; return !ok })
	return f.resultsOf(waiting)
}

// brings reports whether the client sent the result of a call that was approved.
func (f *follower) brings(id message.CallID) bool {
	return slices.ContainsFunc(f.approvedResults(), func(b message.ToolResultBlock) bool { return b.ID == id })
}
