package executor_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/executor/executortest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// source is a KeySource that a test changes.
type source struct {
	mu    sync.Mutex // guards the fields below
	keys  toolcall.KeySet
	err   error
	asked int
}

func (s *source) Keys(context.Context) (toolcall.KeySet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return maps.Clone(s.keys), s.err
}

func (s *source) set(err error, sets ...toolcall.KeySet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.err = toolcall.KeySet{}, err
	for _, k := range sets {
		maps.Copy(s.keys, k)
	}
}

// Across a rotation a worker runs what the old key signed and, as soon as it can know the new
// key, what the new key signed. It does not run what a retired key signed.
func TestRotatedKeys(t *testing.T) {
	src := &source{}
	bubble(t, ok, func(r *rig) {
		src.set(nil, r.engine.Keys())
		next := executortest.NewEngine(tool) // signs with its own key
		signed := func(id message.CallID, by *executortest.Engine) toolcall.Key {
			rec := r.engine.Record(id, `{"n":1}`)
			by.Sign(rec)
			r.engine.Offer(rec)
			synctest.Wait()
			return rec.Call.Key
		}
		r.wantResult(signed("before", r.engine), message.ToolResultSuccess, "ok")
		unknown := signed("unknown", next)
		r.wantRuns(1)
		r.wantTask(unknown, 1, 0) // the engine offers the call again, to a worker that knows the key

		src.set(nil, r.engine.Keys(), next.Keys())
		time.Sleep(2 * time.Second)
		r.wantResult(signed("new", next), message.ToolResultSuccess, "ok")
		r.wantResult(signed("in flight", r.engine), message.ToolResultSuccess, "ok")

		r.engine.SignRepliesAs(next)
		src.set(nil, next.Keys())
		time.Sleep(11 * time.Second)
		retired := signed("retired", r.engine)
		r.wantTask(retired, 1, 0)
		r.wantRuns(3)
		src.set(errors.New("disk on fire"), r.engine.Keys())
		time.Sleep(11 * time.Second)
		r.wantTask(signed("still retired", r.engine), 1, 0)
		r.wantResult(signed("still good", next), message.ToolResultSuccess, "ok")
		r.wantRuns(4)
	}, executor.WithKeySource(src))
}

// An expired task signed by an unknown key is not delivered forever.
func TestExpiredTaskOfAnUnknownKey(t *testing.T) {
	bubble(t, ok, func(r *rig) {
		rec := r.engine.Record("call-1", `{"n":1}`)
		g := rec.Call.Attempt.Grant
		g.NotBefore, g.Expires = g.NotBefore.Add(-2*time.Hour), g.Expires.Add(-2*time.Hour)
		executortest.NewEngine(tool).Sign(rec)
		r.engine.Offer(rec)
		synctest.Wait()
		r.wantRuns(0)
		r.wantTask(rec.Call.Key, 1, 0)
		if n := len(r.engine.Requests(executortest.OpStart)); n != 0 {
			t.Errorf("%d starts were requested, want none", n)
		}
	})
}

// Tasks signed by unknown keys do not cause a flood of requests for keys.
func TestKeysAreNotAskedForTooOften(t *testing.T) {
	src := &source{}
	bubble(t, ok, func(r *rig) {
		src.set(nil, r.engine.Keys())
		stranger := executortest.NewEngine(tool)
		for range 50 {
			rec := r.engine.Record("x", `{"n":1}`)
			stranger.Sign(rec)
			r.engine.Offer(rec)
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait() // the last task is over
		src.mu.Lock()
		defer src.mu.Unlock()
		if src.asked < 2 || src.asked > 6 {
			t.Errorf("the source was asked %d times in five seconds", src.asked)
		}
	}, executor.WithKeySource(src))
}

// A task of another space, such as one that a replaced token brings, is not run, and ends the worker
// before it takes more.
func TestTaskOfAnotherSpace(t *testing.T) {
	for space, runs := range map[toolcall.SpaceID]int32{"test": 1, "other": 0} {
		t.Run(string(space), func(t *testing.T) {
			bubble(t, ok, func(r *rig) {
				k := r.offer("call-1")
				synctest.Wait()
				r.wantRuns(runs)
				r.wantTask(k, 1, 0)
				if starts := r.engine.Requests(executortest.OpStart); len(starts) != 1 {
					t.Errorf("%d starts were requested, want 1", len(starts))
				}
				if runs > 0 {
					return
				}
				if err := r.worker.Close(); !errors.Is(err, message.ErrInvalid) || !strings.Contains(err.Error(), "check the worker's token") {
					t.Errorf("the worker ended with %v", err)
				}
				if k := r.offer("call-2"); r.engine.Call(k).Delivered != 0 {
					t.Error("it took another task")
				}
			}, executor.WithSpace(space))
		})
	}
}
