package executor_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/executor/executortest"
)

// If a handler has no result, the worker reports none: neither a success nor a failure that
// looks safe to repeat.
func TestHandlerWithoutResult(t *testing.T) {
	for _, c := range []struct {
		err      error
		notBegun int
	}{
		{fmt.Errorf("the server died: %w", executor.ErrUnknownOutcome), 0},
		{fmt.Errorf("the server is not there: %w", executor.ErrNotBegun), 1},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			bubble(t, func(context.Context, executor.Task) (executor.Output, error) {
				return executor.Text("half"), c.err
			}, func(r *rig) {
				k := r.offer("call-1")
				time.Sleep(time.Second)
				r.wantRuns(1)
				r.wantTask(k, 1, 0)
				r.wantNotBegun(k, c.notBegun, "the server")
				beats := len(r.engine.Requests(executortest.OpHeartbeat))
				time.Sleep(time.Hour)
				synctest.Wait()
				if got := r.engine.Call(k); got.Result != nil || len(got.Late) != 0 {
					t.Errorf("the worker sent a result: %+v", got)
				}
				if n := len(r.engine.Requests(executortest.OpHeartbeat)); n != beats {
					t.Errorf("%d heartbeats after the end, so the lease never runs out", n-beats)
				}
				if err := r.worker.Close(); err != nil {
					t.Errorf("Close = %v", err)
				}
			})
		})
	}
}
