package executor_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/executor/executortest"
	"github.com/askance-dev/askance/message"
)

func TestUnansweredStartIsRepeatedWithTheSameClaim(t *testing.T) {
	for name, fault := range map[string]executortest.Fault{
		"reply lost": executortest.ReplyLost, "request lost": executortest.Silent, "no engine": executortest.Down,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, ok, func(r *rig) {
				r.engine.Faults(failFirst(executortest.OpStart, 2, fault))
				k := r.offer("call-1")
				r.wantResult(k, message.ToolResultSuccess, "ok")
				synctest.Wait()
				r.wantRuns(1)
				r.wantTask(k, 1, 0)
				starts := r.engine.Requests(executortest.OpStart)
				if len(starts) != 3 {
					r.t.Fatalf("%d starts, want 3", len(starts))
				}
				for _, s := range starts {
					if s.Claim != starts[0].Claim || s.Claim == "" {
						t.Errorf("claims %q and %q, want one", s.Claim, starts[0].Claim)
					}
				}
			})
		})
	}
}

// A start whose reply was lost may be almost as old as its lease when the worker learns of it,
// so the worker sends the first heartbeat at once.
func TestLateStartBeatsAtOnce(t *testing.T) {
	for lost, beats := range map[int]int{0: 0, 1: 1} {
		bubble(t, slow(time.Second), func(r *rig) {
			r.engine.Faults(failFirst(executortest.OpStart, lost, executortest.ReplyLost))
			r.result(r.offer("call-1"))
			if n := len(r.engine.Requests(executortest.OpHeartbeat)); n != beats {
				t.Errorf("%d heartbeats in the first second after %d lost replies, want %d", n, lost, beats)
			}
		})
	}
}

// The worker has the task, but the engine is down for longer than any lease. Nothing runs until
// the engine is back and has granted the start.
func TestNothingRunsBeforeTheStartIsDurable(t *testing.T) {
	bubble(t, ok, func(r *rig) {
		var down atomic.Bool
		down.Store(true)
		r.engine.Faults(outage(&down, executortest.Silent))
		k := r.offer("call-1")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		r.wantRuns(0)
		r.wantTask(k, 0, 0)
		down.Store(false)
		r.wantResult(k, message.ToolResultSuccess, "ok")
		r.wantRuns(1)
	})
}

func TestStartThatIsAnsweredWithNo(t *testing.T) {
	cases := []struct {
		code           message.Code
		acks, releases int
		runs           int32
	}{
		{message.CodeFinished, 1, 0, 0},
		{message.CodeSuperseded, 1, 0, 0},
		{message.CodeInterrupted, 1, 0, 0},
		{message.CodeNotFound, 1, 0, 0},
		{message.CodeState, 1, 0, 0},
		{message.CodeForbidden, 0, 1, 0},
		{message.CodeInvalid, 0, 1, 0},
		// These errors may be temporary: the second start is granted.
		{message.CodeUnavailable, 1, 0, 1},
		{message.CodeUnknownOutcome, 1, 0, 1},
		{message.CodeFull, 1, 0, 1},
		{message.CodeInternal, 1, 0, 1},
	}
	for _, c := range cases {
		t.Run(string(c.code), func(t *testing.T) {
			bubble(t, ok, func(r *rig) {
				r.engine.Errors(func(q executortest.Request) *message.Error {
					if q.Op == executortest.OpStart && q.N == 1 {
						return &message.Error{Code: c.code, What: "no"}
					}
					return nil
				})
				k := r.offer("call-1")
				time.Sleep(time.Minute)
				r.wantRuns(c.runs)
				r.wantTask(k, c.acks, c.releases)
			})
		})
	}
}

func TestTasksOfOlderAttemptsAreDropped(t *testing.T) {
	bubble(t, ok, func(r *rig) {
		old := r.engine.Record("call-1", `{"n":1}`)
		r.engine.Offer(r.engine.Attempt("call-1", `{"n":1}`, 2))
		r.engine.Offer(old)
		r.result(old.Call.Key)
		synctest.Wait()
		r.wantRuns(1)
		r.wantTask(old.Call.Key, 2, 0)
	})
}

// Two deliveries of one task make two claims but only one run.
func TestRedeliveredTaskRunsOnce(t *testing.T) {
	bubble(t, ok, func(r *rig) {
		rec := r.engine.Record("call-1", `{"n":1}`)
		for range 4 {
			r.engine.Offer(rec)
		}
		r.wantResult(rec.Call.Key, message.ToolResultSuccess, "ok")
		synctest.Wait()
		r.wantRuns(1)
		r.wantTask(rec.Call.Key, 4, 0)
	}, executor.WithSlots(2))
}

// While the first delivery waits for its lost reply, the second is refused. The first still
// gets its reply.
func TestRedeliveryDuringALostStartReply(t *testing.T) {
	bubble(t, ok, func(r *rig) {
		r.engine.Faults(failFirst(executortest.OpStart, 1, executortest.ReplyLost))
		rec := r.engine.Record("call-1", `{"n":1}`)
		r.engine.Offer(rec)
		synctest.Wait()
		r.engine.Offer(rec)
		r.wantResult(rec.Call.Key, message.ToolResultSuccess, "ok")
		synctest.Wait()
		r.wantRuns(1)
		r.wantTask(rec.Call.Key, 2, 0)
	}, executor.WithSlots(2))
}

// A worker that must stop gives back the tasks it never started.
func TestStoppingGivesBackUnstartedTasks(t *testing.T) {
	bubble(t, ok, func(r *rig) {
		var down atomic.Bool
		down.Store(true)
		r.engine.Faults(outage(&down, executortest.Down))
		k := r.offer("call-1")
		synctest.Wait()
		begun := time.Now()
		if err := r.worker.Close(); err != nil {
			t.Errorf("Close: %v, want nil, because no result was pending", err)
		}
		if took := time.Since(begun); took > executor.DefaultDrainTimeout {
			t.Errorf("Close took %s, want at most the drain timeout", took)
		}
		r.wantRuns(0)
		r.wantTask(k, 0, 1)
	})
}
