package executor

import (
	"context"

	"github.com/askance-dev/askance/toolcall"
)

// Transport is how a Worker reaches the engine, under the name and tool that
// it was made for. bus has the one over NATS, executortest one in memory. All
// methods may be called from several goroutines at once.
//
// The requests return a *message.Error when the engine answered with one. Any
// other error, and CodeUnavailable, means that nobody answered and that the
// request may or may not have arrived: the Worker sends it again.
type Transport interface {
	// Next waits for a task of the tool, one per call, until ctx ends. The
	// task stays in the caller's hands until it is acknowledged or released; the
	// journal may deliver it again meanwhile.
	Next(ctx context.Context) (toolcall.Task, error)
	// Start claims an attempt, or refuses it. The same claim sent again gets the
	// same permission. The Worker checks the engine's signature on the reply.
	Start(ctx context.Context, r toolcall.StartRequest) (toolcall.StartReply, error)
	// Heartbeat says that the attempt is alive and brings back cancel and stale.
	Heartbeat(ctx context.Context, r toolcall.HeartbeatRequest) (toolcall.HeartbeatReply, error)
	// Progress passes a line on, best effort.
	Progress(ctx context.Context, r toolcall.ProgressRequest) error
	// Result returns once the engine has stored the result, or that nothing ran, or noted that it came
	// too late. The same result sent again gets the same answer.
	Result(ctx context.Context, r toolcall.ResultRequest) (toolcall.ResultReply, error)
	// Cancels delivers the engine's cancel shortcuts to f, which does not block,
	// until stop is called. Losing one costs at most a heartbeat.
	Cancels(f func(r toolcall.HeartbeatRequest, reason string)) (stop func())
}
