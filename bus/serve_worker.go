package bus

import (
	"context"

	"github.com/askance-dev/askance/message"
)

// The worker's requests have a subject each: tool and worker stand in it, and
// what a worker may not do it cannot even send.
var (
	startConversation     = conversation{KindStart, message.RoleWorker, map[Op]operation{OpStart: serve(Surface.Start)}}
	heartbeatConversation = conversation{KindHeartbeat, message.RoleWorker, map[Op]operation{OpHeartbeat: serve(Surface.Heartbeat)}}
	resultConversation    = conversation{KindResult, message.RoleWorker, map[Op]operation{OpResult: serve(Surface.Result)}}
	progressConversation  = conversation{KindWorkProgress, message.RoleWorker, map[Op]operation{OpProgress: serve(
		func(s Surface, ctx context.Context, r message.ProgressRequest) (struct{}, error) {
			return struct{}{}, s.Progress(ctx, r)
		})}}
)
