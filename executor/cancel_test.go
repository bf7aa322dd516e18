package executor_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/executor/executortest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// causes runs until cancelled and records why and when.
type causes struct {
	cause error
	at    time.Time
}

func (c *causes) handler(ctx context.Context, _ executor.Task) (executor.Output, error) {
	<-ctx.Done()
	c.cause, c.at = context.Cause(ctx), time.Now()
	return executor.Output{}, c.cause
}

func TestCancelReachesTheHandler(t *testing.T) {
	cases := []struct {
		name     string
		shortcut bool
		within   time.Duration
	}{
		{"with the next heartbeat", false, 5 * time.Second},
		{"at once by the shortcut", true, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got causes
			bubble(t, got.handler, func(r *rig) {
				k := r.offer("call-1")
				time.Sleep(7 * time.Second)
				begun := time.Now()
				r.engine.Cancel(k, "the reply was interrupted", c.shortcut)
				r.wantResult(k, message.ToolResultInterrupted, "cancelled by the engine: the reply was interrupted")
				if !errors.Is(got.cause, executor.ErrCancelled) {
					t.Errorf("cause %v, want ErrCancelled", got.cause)
				}
				if took := got.at.Sub(begun); took > c.within {
					t.Errorf("it took %s, want at most %s", took, c.within)
				}
			})
		})
	}
}

func TestCancelForAnotherClaimIsIgnored(t *testing.T) {
	bubble(t, slow(time.Second), func(r *rig) {
		k := r.offer("call-1")
		synctest.Wait()
		r.engine.Shortcut(toolcall.HeartbeatRequest{V: 1, Key: k, Attempt: 1, Claim: "another worker's"}, "")
		r.engine.Shortcut(toolcall.HeartbeatRequest{V: 1, Key: k, Attempt: 2, Claim: r.engine.Call(k).Claim}, "")
		r.wantResult(k, message.ToolResultSuccess, "ok")
	})
}

// A cancel without a version has version 1.
func TestCancelWithoutVersion(t *testing.T) {
	bubble(t, untilCancelled, func(r *rig) {
		k := r.offer("call-1")
		synctest.Wait()
		begun := time.Now()
		r.engine.Shortcut(toolcall.HeartbeatRequest{Key: k, Attempt: 1, Claim: r.engine.Call(k).Claim}, "")
		r.wantResult(k, message.ToolResultInterrupted, "cancelled by the engine")
		if took := time.Since(begun); took != 0 {
			t.Errorf("it took %s, want less than a heartbeat interval", took)
		}
	})
}

// The call is cancelled after its start is durable but before the worker learns of the start.
// The handler never runs.
func TestCancelBeforeTheStartIsKnown(t *testing.T) {
	bubble(t, ok, func(r *rig) {
		r.engine.Faults(failFirst(executortest.OpStart, 1, executortest.ReplyLost))
		k := r.offer("call-1")
		synctest.Wait()
		r.engine.Cancel(k, "not needed", true)
		r.wantResult(k, message.ToolResultInterrupted, "cancelled by the engine: not needed")
		r.wantRuns(0)
	})
}

func TestStaleAttemptStopsWithinOneHeartbeat(t *testing.T) {
	var got causes
	bubble(t, got.handler, func(r *rig) {
		k := r.offer("call-1")
		synctest.Wait()
		begun := time.Now()
		r.engine.Supersede(k)
		time.Sleep(5*time.Second + time.Millisecond)
		synctest.Wait()
		if !errors.Is(got.cause, executor.ErrStale) || got.at.Sub(begun) > 5*time.Second {
			t.Errorf("cause %v after %s, want ErrStale within 5 s", got.cause, got.at.Sub(begun))
		}
		if c := r.engine.Call(k); c.Result != nil || len(c.Late) != 1 {
			t.Errorf("stored %v and %d late results, want none and one", c.Result, len(c.Late))
		}
	})
}

// The time until the deadline is the engine's, even if the clock of one of both is wrong.
func TestDeadlineReachesTheHandler(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		var got causes
		bubble(t, got.handler, func(r *rig) {
			begun := time.Now()
			r.engine.Ahead(ahead)
			r.engine.Terms(toolcall.StartReply{LeaseMS: 15_000, HeartbeatMS: 5_000, Deadline: begun.Add(ahead + 42*time.Second)})
			k := r.offer("call-1")
			r.wantResult(k, message.ToolResultError, "the deadline of the attempt passed")
			if !errors.Is(got.cause, executor.ErrDeadline) || got.at.Sub(begun) != 42*time.Second {
				t.Errorf("cause %v after %s, want ErrDeadline after 42 s", got.cause, got.at.Sub(begun))
			}
		})
	}
}

func TestDeadlineThatHasPassedRunsNothing(t *testing.T) {
	bubble(t, ok, func(r *rig) {
		r.engine.Terms(toolcall.StartReply{LeaseMS: 15_000, Deadline: time.Now()})
		r.wantResult(r.offer("call-1"), message.ToolResultError, "the deadline of the attempt passed")
		r.wantRuns(0)
	})
}

// Unanswered heartbeats do not stop a run.
func TestRunOutlivesUnansweredHeartbeats(t *testing.T) {
	for name, fault := range map[string]executortest.Fault{"silent": executortest.Silent, "down": executortest.Down} {
		t.Run(name, func(t *testing.T) {
			bubble(t, slow(10*time.Minute), func(r *rig) {
				var down atomic.Bool
				r.engine.Faults(outage(&down, fault))
				k := r.offer("call-1")
				synctest.Wait()
				down.Store(true)
				time.Sleep(9 * time.Minute)
				down.Store(false)
				r.wantResult(k, message.ToolResultSuccess, "ok")
				r.wantRuns(1)
			})
		})
	}
}

// An engine may answer a heartbeat with an error.
func TestHeartbeatErrors(t *testing.T) {
	cases := map[message.Code]error{
		message.CodeSuperseded:  executor.ErrStale,
		message.CodeFinished:    executor.ErrStale,
		message.CodeNotFound:    executor.ErrStale,
		message.CodeInterrupted: executor.ErrCancelled,
		message.CodeInternal:    executor.ErrDeadline, // runs until its deadline
	}
	for code, want := range cases {
		t.Run(string(code), func(t *testing.T) {
			var got causes
			bubble(t, got.handler, func(r *rig) {
				r.engine.Terms(toolcall.StartReply{LeaseMS: 15_000, Deadline: time.Now().Add(time.Minute)}) // beats every 5 s
				r.engine.Errors(func(q executortest.Request) *message.Error {
					if q.Op == executortest.OpHeartbeat {
						return &message.Error{Code: code, What: "no"}
					}
					return nil
				})
				r.result(r.offer("call-1"))
				if !errors.Is(got.cause, want) {
					t.Errorf("cause %v, want %v", got.cause, want)
				}
			})
		})
	}
}

// A worker renews the lease in time even if the engine names no interval, or one that is too
// long for the lease.
func TestHeartbeatKeepsTheLease(t *testing.T) {
	for _, named := range []int64{0, 5_000, 60_000} {
		testHeartbeatKeepsTheLease(t, named)
	}
}

func testHeartbeatKeepsTheLease(t *testing.T, named int64) {
	bubble(t, slow(time.Minute), func(r *rig) {
		r.engine.Terms(toolcall.StartReply{LeaseMS: 15_000, HeartbeatMS: named})
		r.result(r.offer("call-1"))
		if n := len(r.engine.Requests(executortest.OpHeartbeat)); n < 11 || n > 12 {
			t.Errorf("%d heartbeats in a minute, want one every 5 s", n)
		}
	})
}

func TestPanicIsAnError(t *testing.T) {
	bubble(t, func(context.Context, executor.Task) (executor.Output, error) { panic("boom") }, func(r *rig) {
		for _, id := range []message.CallID{"call-1", "call-2"} { // the worker continues
			res := r.result(r.offer(id))
			if res.State != message.ToolResultError || res.Output.String() != "the tool panicked: boom" || strings.Contains(res.Output.String(), ".go") {
				t.Errorf("result %s %q", res.State, res.Output.String())
			}
		}
	})
}
