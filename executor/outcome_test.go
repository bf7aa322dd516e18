package executor_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/executor/executortest"
	"github.com/askance-dev/askance/toolcall"
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

// A handler without a result that also says why its context ended has none either: a server
// that did not answer before the deadline may still run the call.
func TestHandlerWithoutResultAtTheDeadline(t *testing.T) {
	for _, c := range []struct {
		err      error
		notBegun int
	}{
		{executor.ErrUnknownOutcome, 0},
		{executor.ErrNotBegun, 1},
	} {
		for name, why := range map[string]func(context.Context) error{"cause": context.Cause, "error": context.Context.Err} {
			t.Run(c.err.Error()+", "+name, func(t *testing.T) {
				bubble(t, func(ctx context.Context, _ executor.Task) (executor.Output, error) {
					<-ctx.Done()
					return executor.Output{}, fmt.Errorf("%w: the server did not answer: %w", c.err, why(ctx))
				}, func(r *rig) {
					r.engine.Terms(toolcall.StartReply{LeaseMS: 15_000, Deadline: time.Now().Add(10 * time.Second)})
					k := r.offer("call-1")
					time.Sleep(time.Minute)
					r.wantNotBegun(k, c.notBegun, "did not answer")
					if got := r.engine.Call(k); got.Result != nil || len(got.Late) != 0 {
						t.Errorf("the worker sent a result: %+v", got.Result)
					}
				})
			})
		}
	}
}
