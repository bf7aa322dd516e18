package agui

import (
	"context"
	"log/slog"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
	"github.com/askance-dev/askance/toolcall"
)

// run is one request at work.
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
	parked   *park           // the last one of the thread
}

// follower shows a run to its client: what was before, then what comes.
type follower struct {
	*run
	out    *stream
	mapper *wire.Mapper
	reply  message.ReplyID
	seq    uint64  // cursor behind the last event that was mapped
	calls  pending // calls of the reply that have no result yet
	asked  requests
}

// ownerOf is the peer as owner of its threads alone: so it reads, and no other
// role of it opens threads of others.
func ownerOf(p *gateway.Peer) *gateway.Peer {
	owner := *p
	owner.Roles = []toolcall.Role{toolcall.RoleRuntime}
	return &owner
}

// start sends the beginning of the run and, if the client lacks something of
// what was before, the conversation.
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

// follow streams what comes until the run ends: with its reply, because people
// or the client are to answer, or because ctx does.
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
	watch := newParkWatcher(f)
	defer watch.stop()
	watch.restart(ctx)
	for !f.out.ended {
		var err error
		select {
		case b := <-batches:
			err = f.take(b)
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

// endEarly ends a run that cannot be followed any further. The turn goes on.
func (f *follower) endEarly(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		if err = gateway.Ended(ctx); err == nil {
			return nil // the client is gone
		}
	}
	return f.out.fail(err)
}

// take maps what has come.
func (f *follower) take(b gateway.EventBatch) error {
	for _, e := range b.Events {
		ev, err := message.DecodeEvent(e.Event)
		if err != nil {
			return message.Errorf(message.CodeInternal, "run", "the event at %d cannot be read: %w", e.Seq, err)
		}
		if err := f.mapEvent(ev); err != nil {
			return err
		}
	}
	f.seq = b.Through
	return nil
}

// mapEvent maps one event. Those of other replies are not of this run.
func (f *follower) mapEvent(ev message.Event) error {
	if id := ev.ReplyID(); isBookkeeping(ev) || id != "" && id != f.reply {
		return nil
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
	return nil
}
