package bus

import (
	"context"
	"time"

	"github.com/askance-dev/askance/message"
)

// maxHeld is how long the service holds a request that waits for something.
const maxHeld = 25 * time.Second

// Reading is the same for everybody who may, except for what the engine shows
// to whom: a runtime sees its own sessions.
var (
	listOp = paged(Surface.List,
		func(r *message.ListRequest) *int { return &r.Limit },
		func(r message.ListReply) int { return len(r.Calls) })
	showOp   = serve(Surface.Show)
	infoOp   = serve(func(s Surface, ctx context.Context, _ struct{}) (message.InfoReply, error) { return s.Info(ctx) })
	eventsOp = paged(func(s Surface, ctx context.Context, r message.EventsRequest) (message.EventsReply, error) {
		r.WaitMS = min(r.WaitMS, maxHeld.Milliseconds())
		return s.Events(ctx, r)
	},
		func(r *message.EventsRequest) *int { return &r.Limit },
		func(r message.EventsReply) int { return len(r.Events) })
	waitOp = serve(func(s Surface, ctx context.Context, r message.WaitRequest) (message.WaitReply, error) {
		if r.TimeoutMS <= 0 || r.TimeoutMS > maxHeld.Milliseconds() {
			r.TimeoutMS = maxHeld.Milliseconds()
		}
		return s.Wait(ctx, r)
	})
)

// proposeConversation: what a runtime does with its own sessions.
var proposeConversation = conversation{KindPropose, message.RoleRuntime, map[Op]operation{
	OpPropose: serve(Surface.Propose),
	// The gateway, which has records of its own among its events, lives beside
	// the engine and does not come this way.
	OpEmit: serve(func(s Surface, ctx context.Context, r message.EmitRequest) (message.EmitReply, error) {
		if err := r.Foreign(); err != nil {
			return message.EmitReply{}, err
		}
		return s.Emit(ctx, r)
	}),
	OpReport: serve(Surface.Report),
	OpWait:   waitOp,
	OpEvents: eventsOp,
	OpList:   listOp,
	OpShow:   showOp,
	OpInfo:   infoOp,
}}

// interruptConversation has a subject of its own, so that it can be granted by
// itself and is never queued behind proposals.
var interruptConversation = conversation{KindInterrupt, message.RoleRuntime, map[Op]operation{
	OpInterrupt: serve(Surface.Interrupt),
}}
