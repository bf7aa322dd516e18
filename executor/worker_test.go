package executor_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/executor/executortest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func TestSlotsBoundWhatRunsAtOnce(t *testing.T) {
	for _, slots := range []int{1, 2, 5} {
		bubble(t, untilCancelled, func(r *rig) {
			var keys []toolcall.Key
			for _, id := range []message.CallID{"a", "b", "c", "d"} {
				keys = append(keys, r.offer(id))
			}
			synctest.Wait()
			want := min(slots, len(keys))
			r.wantRuns(int32(want))
			taken := 0
			for _, k := range keys {
				taken += r.engine.Call(k).Delivered
			}
			if taken != want {
				t.Errorf("%d slots hold %d tasks, want %d, because no task may wait in a busy worker", slots, taken, want)
			}
			// A cancel that overtakes the start of a run prevents the run, so each round cancels only
			// calls that ran when the round began.
			for range keys {
				var running []toolcall.Key
				for _, k := range keys {
					if r.engine.Call(k).Delivered > 0 {
						running = append(running, k)
					}
				}
				for _, k := range running {
					r.engine.Cancel(k, "", true)
				}
				synctest.Wait()
			}
			r.wantRuns(int32(len(keys)))
		}, executor.WithSlots(slots))
	}
}

func TestCloseWaitsForWhatRuns(t *testing.T) {
	bubble(t, slow(15*time.Second), func(r *rig) {
		k := r.offer("call-1")
		synctest.Wait()
		next := r.engine.Record("call-2", `{}`)
		time.AfterFunc(time.Second, func() { r.engine.Offer(next) })
		begun := time.Now()
		if err := r.worker.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if took := time.Since(begun); took != 15*time.Second {
			t.Errorf("Close took %s, want the 15 s of the run", took)
		}
		r.wantResult(k, message.ToolResultSuccess, "ok")
		r.wantRuns(1)
		if c := r.engine.Call(next.Call.Key); c.Delivered != 0 {
			t.Error("a closing worker took another task")
		}
		if err := <-r.ran; err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := r.worker.Run(r.t.Context()); !errors.Is(err, executor.ErrClosed) {
			t.Errorf("Run again: %v, want ErrClosed", err)
		}
	})
}

// A run that must be aborted has no result: to the engine the worker looks dead.
func TestDrainTimeoutBreaksOffWithoutAResult(t *testing.T) {
	var got causes
	bubble(t, got.handler, func(r *rig) {
		k := r.offer("call-1")
		synctest.Wait()
		begun := time.Now()
		wantUndelivered(r.t, r.worker.Close(), k)
		if !errors.Is(got.cause, executor.ErrStopping) || got.at.Sub(begun) != 3*time.Second {
			t.Errorf("cause %v after %s, want ErrStopping after 3 s", got.cause, got.at.Sub(begun))
		}
		if n := len(r.engine.Requests(executortest.OpResult)); n != 0 {
			t.Errorf("%d results were sent, want none", n)
		}
	}, executor.WithDrainTimeout(3*time.Second))
}

// A handler that finishes despite the drain timeout has a result.
func TestResultAfterTheDrainTimeoutIsDelivered(t *testing.T) {
	bubble(t, slow(time.Minute), func(r *rig) {
		k := r.offer("call-1")
		synctest.Wait()
		r.engine.Faults(failFirst(executortest.OpResult, 1, executortest.Down))
		if err := r.worker.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		r.wantResult(k, message.ToolResultSuccess, "ok")
	}, executor.WithDrainTimeout(0))
}

func TestContextEndsRunLikeClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := executortest.NewEngine(tool)
		w := newWorker(t, e, e)
		ctx, stop := context.WithCancel(t.Context())
		rec := e.Record("call-1", `{}`)
		e.Offer(rec)
		time.AfterFunc(time.Second, stop)
		if err := w.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
		if c := e.Call(rec.Call.Key); c.Result == nil {
			t.Error("no result: Run did not wait for the handler")
		}
	})
}

func TestClosedWorkerNeverRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := executortest.NewEngine(tool)
		w := newWorker(t, e, e)
		if err := w.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := w.Run(t.Context()); !errors.Is(err, executor.ErrClosed) {
			t.Errorf("Run: %v, want ErrClosed", err)
		}
	})
}

// newWorker returns a worker that needs ten seconds for each call.
func newWorker(t *testing.T, tr executor.Transport, e *executortest.Engine) *executor.Worker {
	t.Helper()
	w, err := executor.NewWorker(tr, tool, slow(10*time.Second), e.Keys(), executor.WithLogger(slog.New(slog.DiscardHandler)), executor.WithName("w"))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestRunReportsThatItMayNotWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := executortest.NewEngine(tool)
		w := newWorker(t, e, e)
		e.Errors(func(executortest.Request) *message.Error {
			return &message.Error{Code: message.CodeForbidden, What: "worker w may not take the tool probe"}
		})
		if err := w.Run(t.Context()); !errors.Is(err, message.ErrForbidden) {
			t.Errorf("Run: %v, want ErrForbidden", err)
		}
	})
}

func TestRunWaitsForAnEngine(t *testing.T) {
	bubble(t, ok, func(r *rig) {
		r.wantResult(r.offer("call-0"), message.ToolResultSuccess, "ok")
		synctest.Wait()
		r.engine.Faults(func(q executortest.Request) executortest.Fault {
			if q.Op == executortest.OpNext {
				return executortest.Down
			}
			return executortest.None
		})
		r.wantResult(r.offer("call-1"), message.ToolResultSuccess, "ok") // the worker was already waiting in Next
		time.Sleep(time.Hour)
		k := r.offer("call-2")
		tries := len(r.engine.Requests(executortest.OpNext))
		if tries < 300 || tries > 1000 {
			t.Errorf("asked %d times in an hour, want about one every 5 to 10 s", tries)
		}
		r.engine.Faults(nil)
		r.wantResult(k, message.ToolResultSuccess, "ok")
	})
}

func TestNewWorkerRefuses(t *testing.T) {
	e := executortest.NewEngine(tool)
	cases := []struct {
		name      string
		transport executor.Transport
		tool      string
		handler   executor.Handler
		keys      toolcall.KeySet
		opts      []executor.WorkerOption
	}{
		{"no transport", nil, tool, ok, e.Keys(), nil},
		{"no tool", e, "", ok, e.Keys(), nil},
		{"no handler", e, tool, nil, e.Keys(), nil},
		{"no keys", e, tool, ok, toolcall.KeySet{}, nil},
		{"no slots", e, tool, ok, e.Keys(), []executor.WorkerOption{executor.WithSlots(0)}},
		{"negative drain", e, tool, ok, e.Keys(), []executor.WorkerOption{executor.WithDrainTimeout(-1)}},
		{"no logger", e, tool, ok, e.Keys(), []executor.WorkerOption{executor.WithLogger(nil)}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if _, err := executor.NewWorker(c.transport, c.tool, c.handler, c.keys, c.opts...); err == nil {
				t.Error("NewWorker accepted it")
			}
		})
	}
}
