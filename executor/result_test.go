package executor_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/executor/executortest"
	"github.com/askance-dev/askance/message"
)

// slow works for d, and ignores its context.
func slow(d time.Duration) executor.Handler {
	return func(context.Context, executor.Task) (executor.Output, error) {
		time.Sleep(d)
		return executor.Text("ok"), nil
	}
}

func TestUnansweredResultIsRepeated(t *testing.T) {
	for name, fault := range map[string]executortest.Fault{
		"reply lost": executortest.ReplyLost, "request lost": executortest.Silent, "no engine": executortest.Down,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, ok, func(r *rig) {
				r.engine.Faults(failFirst(executortest.OpResult, 3, fault))
				k := r.offer("call-1")
				time.Sleep(time.Hour)
				r.wantResult(k, message.ToolResultSuccess, "ok")
				if n := len(r.engine.Requests(executortest.OpResult)); n != 4 {
					t.Errorf("%d results sent, want 4: none after the answer", n)
				}
				r.wantRuns(1)
			})
		})
	}
}

// The engine is down for ten minutes during a run. The handler notices nothing, and the result
// arrives when the engine is back.
func TestResultOutlivesAnOutage(t *testing.T) {
	bubble(t, slow(time.Minute), func(r *rig) {
		var down atomic.Bool
		r.engine.Faults(outage(&down, executortest.Silent))
		k := r.offer("call-1")
		time.Sleep(10 * time.Second)
		down.Store(true)
		time.Sleep(10 * time.Minute)
		down.Store(false)
		begun := time.Now()
		r.wantResult(k, message.ToolResultSuccess, "ok")
		if took := time.Since(begun); took > 15*time.Second {
			t.Errorf("the result came %s after the engine, want at most one back-off and one try", took)
		}
		r.wantRuns(1)
	})
}

// Heartbeats must renew the lease while the result waits for its answer.
func TestHeartbeatsGoOnWhileTheResultWaits(t *testing.T) {
	bubble(t, ok, func(r *rig) {
		r.engine.Faults(func(q executortest.Request) executortest.Fault {
			if q.Op == executortest.OpResult {
				return executortest.Down
			}
			return executortest.None
		})
		r.offer("call-1")
		time.Sleep(time.Minute + time.Millisecond)
		if n := len(r.engine.Requests(executortest.OpHeartbeat)); n != 12 {
			t.Errorf("%d heartbeats in a minute, want 12", n)
		}
		r.engine.Faults(nil)
	})
}

func TestLateResultIsSentOnceAndDropped(t *testing.T) {
	bubble(t, slow(time.Second), func(r *rig) {
		k := r.offer("call-1")
		synctest.Wait()
		r.engine.Supersede(k)
		time.Sleep(time.Hour)
		if c := r.engine.Call(k); len(c.Late) != 1 || c.Result != nil {
			t.Errorf("%d late results, stored %v; want one late and none stored", len(c.Late), c.Result)
		}
	})
}

// If the engine refuses to store a tool's result, the call still ends.
func TestRefusedResultIsReplacedByAnError(t *testing.T) {
	bubble(t, ok, func(r *rig) {
		r.engine.Errors(func(q executortest.Request) *message.Error {
			if q.Op == executortest.OpResult && q.N == 1 {
				return &message.Error{Code: message.CodeTooLarge, What: "the result is too large"}
			}
			return nil
		})
		k := r.offer("call-1")
		r.wantResult(k, message.ToolResultError, "the tool ran and ended with state success, but the engine refused its result: the result is too large")
		r.wantRuns(1)
	})
}

func TestStoppingDeliversResultsFirst(t *testing.T) {
	bubble(t, slow(10*time.Second), func(r *rig) {
		var down atomic.Bool
		r.engine.Faults(outage(&down, executortest.Down))
		k := r.offer("call-1")
		synctest.Wait()
		down.Store(true)
		time.AfterFunc(15*time.Second, func() { down.Store(false) })
		if err := r.worker.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		r.wantResult(k, message.ToolResultSuccess, "ok")
	})
}

func TestStoppingGivesUpWhenNoEngineComesBack(t *testing.T) {
	bubble(t, ok, func(r *rig) {
		r.engine.Faults(func(q executortest.Request) executortest.Fault {
			if q.Op == executortest.OpResult {
				return executortest.Silent
			}
			return executortest.None
		})
		k := r.offer("call-1")
		synctest.Wait()
		begun := time.Now()
		err := r.worker.Close()
		wantUndelivered(r.t, err, k)
		if took := time.Since(begun); took > executor.DefaultDrainTimeout+5*time.Second {
			t.Errorf("Close took %s", took)
		}
		if again := r.worker.Close(); !errors.Is(again, err) {
			t.Errorf("Close again: %v, want the same", again)
		}
	})
}
