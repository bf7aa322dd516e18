package executor

import (
	"context"
	"time"
)

// delayed is a context that ends d after parent did, with the cause given.
// release frees it and waits for its goroutine.
func delayed(parent context.Context, d time.Duration, cause error) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	ended := make(chan struct{})
	stop := context.AfterFunc(parent, func() {
		defer close(ended)
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			cancel(cause)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		if !stop() {
			<-ended
		}
	}
}
