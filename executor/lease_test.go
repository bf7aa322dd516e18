package executor_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"reflect"
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

// A queue that does not confirm the acknowledgement delays neither the run nor
// the heartbeats.
func TestUnconfirmedAcknowledgementDelaysNothing(t *testing.T) {
	var begun atomic.Int64
	handler := func(ctx context.Context, tk executor.Task) (executor.Output, error) {
		begun.Store(time.Now().UnixNano())
		return slow(3*time.Second)(ctx, tk)
	}
	bubble(t, handler, func(r *rig) {
		r.engine.Terms(toolcall.StartReply{LeaseMS: 2_000, HeartbeatMS: 500})
		r.engine.Faults(func(q executortest.Request) executortest.Fault {
			if q.Op == executortest.OpAck {
				return executortest.Silent
			}
			return executortest.None
		})
		offered := time.Now()
		r.wantResult(r.offer("call-1"), message.ToolResultSuccess, "ok")
		if late := time.Duration(begun.Load() - offered.UnixNano()); late != 0 {
			t.Errorf("the run began %s after the start was granted", late)
		}
		if n := len(r.engine.Requests(executortest.OpHeartbeat)); n < 5 {
			t.Errorf("%d heartbeats in 3 s, want one every 500 ms", n)
		}
		if took := time.Since(offered); took != 3*time.Second {
			t.Errorf("the result came after %s, want the 3 s of the run", took)
		}
		if err := r.worker.Close(); err != nil { // waits for the acknowledgement
			t.Error(err)
		}
	})
}

// A worker does not begin an attempt that, by the worker's own clock, the engine may have given
// up, and reports that to the engine.
func TestPassedLeaseIsNotBegun(t *testing.T) {
	cases := []struct {
		name  string
		lease time.Duration
		fault executortest.Fault // for the first start, which waits for 5 s
		runs  int32
	}{
		{"stored but not answered", 2 * time.Second, executortest.ReplyLost, 0},
		{"stored and answered with a quarter left", 6 * time.Second, executortest.ReplyLost, 0},
		{"stored and answered in time", 15 * time.Second, executortest.ReplyLost, 1},
		{"stored by the second request", 2 * time.Second, executortest.Silent, 1},
		{"too short", toolcall.MinLease - time.Millisecond, executortest.None, 0},
		{"none", 0, executortest.None, 0},
		{"shortest", toolcall.MinLease, executortest.None, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, ok, func(r *rig) {
				r.engine.Terms(toolcall.StartReply{LeaseMS: c.lease.Milliseconds()})
				r.engine.Faults(failFirst(executortest.OpStart, 1, c.fault))
				k := r.offer("call-1")
				time.Sleep(time.Minute)
				r.wantRuns(c.runs)
				r.wantTask(k, 1, 0)
				r.wantNotBegun(k, 1-int(c.runs), "")
			})
		})
	}
}

// Each wait between the granted start and the run counts against the lease.
func TestWaitBeforeTheRunCounts(t *testing.T) {
	for wait, runs := range map[time.Duration]int32{time.Second: 1, 1600 * time.Millisecond: 0, time.Hour: 0} {
		src := &slowSource{wait: wait}
		bubble(t, ok, func(r *rig) {
			src.keys = r.engine.Keys()
			r.engine.Terms(toolcall.StartReply{LeaseMS: 2_000})
			r.result(r.offer("call-0")) // the keys are fetched
			src.slow.Store(true)
			rec := r.engine.Record("call-1", `{"n":1}`)
			stranger := executortest.NewEngine(tool)
			src.keys = both(src.keys, stranger.Keys())
			r.engine.SignRepliesAs(stranger) // its key is looked up when it answers
			time.Sleep(2 * time.Second)
			r.engine.Offer(rec)
			time.Sleep(2 * time.Hour)
			r.wantRuns(1 + runs)
			r.wantNotBegun(rec.Call.Key, 1-int(runs), "had passed")
		}, executor.WithKeySource(src), executor.WithRequestTimeout(2*time.Hour))
	}
}

// A Command checks the lease again right before it starts its program. If no other handler wraps
// the Command, nothing ran.
func TestCommandLooksAtTheLeaseOnceMore(t *testing.T) {
	command, err := executor.Command{Argv: []string{os.Args[0]}}.Handler() // it never starts
	if err != nil {
		t.Fatal(err)
	}
	late := func(ctx context.Context, tk executor.Task) (executor.Output, error) {
		time.Sleep(3 * time.Second)
		return command(ctx, tk)
	}
	silent := func(q executortest.Request) executortest.Fault {
		if q.Op == executortest.OpHeartbeat {
			return executortest.Silent
		}
		return executortest.None
	}
	bubble(t, late, func(r *rig) {
		r.engine.Terms(toolcall.StartReply{LeaseMS: 2_000})
		r.engine.Faults(silent)
		k := r.offer("call-1")
		if res := r.result(k); res.State != message.ToolResultError || !strings.Contains(res.Output.String(), "was not begun") {
			t.Errorf("result %s %q, want an error, because the handler around the command may have acted", res.State, res.Output.String())
		}
		r.wantNotBegun(k, 0, "")
	})
	bubble(t, late, func(r *rig) {
		r.engine.Terms(toolcall.StartReply{LeaseMS: 2_000})
		r.engine.Faults(silent)
		k := r.offer("call-1")
		time.Sleep(time.Minute)
		r.wantNotBegun(k, 1, "had passed")
		if c := r.engine.Call(k); c.Result != nil {
			t.Errorf("the call has the result %+v", c.Result)
		}
	}, executor.WithCommand())
}

// A Command within a Handler starts however long the Handler ran before it, because answered
// heartbeats renew the lease.
func TestHeartbeatsRenewTheLeaseOfACommand(t *testing.T) {
	command, err := executor.Command{Argv: []string{os.Args[0], "-test.run=^$"}}.Handler()
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, func(ctx context.Context, tk executor.Task) (executor.Output, error) {
		time.Sleep(time.Minute)
		return command(ctx, tk)
	}, func(r *rig) {
		r.engine.Terms(toolcall.StartReply{LeaseMS: 2_000})
		if res := r.result(r.offer("call-1")); res.State != message.ToolResultSuccess {
			t.Errorf("result %s %q, want success", res.State, res.Output.String())
		}
	})
}

// slowSource is a KeySource that answers slowly.
type slowSource struct {
	slow atomic.Bool
	wait time.Duration
	keys toolcall.KeySet
}

func (s *slowSource) Keys(context.Context) (toolcall.KeySet, error) {
	if s.slow.Load() {
		time.Sleep(s.wait)
	}
	return s.keys, nil
}

func both(a, b toolcall.KeySet) toolcall.KeySet {
	out := toolcall.KeySet{}
	for _, s := range []toolcall.KeySet{a, b} {
		maps.Copy(out, s)
	}
	return out
}

// A worker that stops between the granted start and the run gives the attempt back, so the
// outcome is not unknown.
func TestStoppingBeforeTheRunGivesTheAttemptBack(t *testing.T) {
	src := &slowSource{wait: 2 * time.Second}
	bubble(t, ok, func(r *rig) {
		src.keys = r.engine.Keys()
		r.result(r.offer("call-0")) // the keys are fetched
		src.slow.Store(true)
		stranger := executortest.NewEngine(tool)
		src.keys = both(src.keys, stranger.Keys())
		r.engine.SignRepliesAs(stranger) // its key is looked up when it answers
		time.Sleep(2 * time.Second)
		k := r.offer("call-1")
		synctest.Wait() // the worker is looking up the keys
		if err := r.worker.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		r.wantRuns(1)
		r.wantNotBegun(k, 1, "stopping")
	}, executor.WithKeySource(src), executor.WithDrainTimeout(0))
}

// wantNotBegun checks how often an attempt was given back, and with which reason.
func (r *rig) wantNotBegun(k toolcall.Key, n int, text string) {
	r.t.Helper()
	got := r.engine.Call(k).NotBegun
	if len(got) != n {
		r.t.Fatalf("attempts were given back %d times, want %d: %q", len(got), n, got)
	}
	for _, why := range got {
		if why == "" || !strings.Contains(why, text) {
			r.t.Errorf("an attempt was given back with the reason %q, want %q", why, text)
		}
	}
}

// A start reply that no trusted engine signed for this exact request runs nothing and ends
// nothing: the worker asks again until an engine answers.
func TestForgedStartReplies(t *testing.T) {
	stranger := executortest.NewEngine(tool)
	cases := map[string]func(r *rig) func(*toolcall.StartReply){
		"unsigned":  func(*rig) func(*toolcall.StartReply) { return func(s *toolcall.StartReply) { s.Sig = "" } },
		"no base64": func(*rig) func(*toolcall.StartReply) { return func(s *toolcall.StartReply) { s.Sig = "!" } },
		"no members": func(*rig) func(*toolcall.StartReply) {
			return func(s *toolcall.StartReply) { *s = toolcall.StartReply{} }
		},
		"signature of a stranger under the engine's key id": func(*rig) func(*toolcall.StartReply) {
			return func(s *toolcall.StartReply) {
				id := s.KeyID
				stranger.SignReply(s)
				s.KeyID = id
			}
		},
		"signed by a stranger": func(*rig) func(*toolcall.StartReply) { return stranger.SignReply },
	}
	kind := reflect.TypeFor[toolcall.StartReply]()
	for _, f := range reflect.VisibleFields(kind) {
		if f.Anonymous || f.Name == "Lease" && f.Type.Kind() == reflect.String {
			continue // not sent
		}
		cases["another "+f.Name] = func(*rig) func(*toolcall.StartReply) {
			return func(s *toolcall.StartReply) { change(t, reflect.ValueOf(s).Elem().FieldByIndex(f.Index)) }
		}
	}
	// The engine itself signed each of these replies, but for something else.
	for name, turn := range map[string]func(*toolcall.StartReply){
		"for another call":    func(s *toolcall.StartReply) { s.Call = "other"; s.IdempotencyKey = s.Key.IdempotencyKey() },
		"for another space":   func(s *toolcall.StartReply) { s.Space = "other"; s.IdempotencyKey = s.Key.IdempotencyKey() },
		"for another attempt": func(s *toolcall.StartReply) { s.Attempt++ },
		"for another claim":   func(s *toolcall.StartReply) { s.Claim = "other" },
		"for no claim":        func(s *toolcall.StartReply) { s.Claim = "" },
		"for another request": func(s *toolcall.StartReply) { s.Request = "other" },
		"for another grant":   func(s *toolcall.StartReply) { s.Nonce = "other" },
	} {
		cases[name] = func(r *rig) func(*toolcall.StartReply) {
			return func(s *toolcall.StartReply) { turn(s); r.engine.SignReply(s) }
		}
	}
	for name, forge := range cases {
		t.Run(name, func(t *testing.T) {
			bubble(t, ok, func(r *rig) {
				r.engine.Forge(forge(r))
				k := r.offer("call-1")
				time.Sleep(3 * time.Second)
				r.wantRuns(0)
				if n := len(r.engine.Requests(executortest.OpStart)); n < 3 {
					t.Errorf("%d starts in three seconds, want the worker to ask again", n)
				}
				r.engine.Forge(nil)
				r.wantResult(k, message.ToolResultSuccess, "ok")
				synctest.Wait()
				r.wantRuns(1)
				r.wantTask(k, 1, 0)

				r.engine.Forge(forge(r))
				k = r.offer("call-2")
				time.Sleep(time.Minute)
				r.wantRuns(1)
				r.wantNotBegun(k, 1, "verify start reply")
				r.wantTask(k, 0, 1)
			})
		})
	}
}

// If the program of a Command cannot start, the fault lies with this worker, so the call goes to
// another worker.
func TestCommandThatCannotStartIsGivenBack(t *testing.T) {
	command, err := executor.Command{Argv: []string{os.Args[0]}, Dir: filepath.Join(t.TempDir(), "missing")}.Handler()
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, command, func(r *rig) {
		k := r.offer("call-1")
		time.Sleep(time.Minute)
		r.wantNotBegun(k, 1, "start ")
	}, executor.WithCommand())
}

// change sets v to a different value.
func change(t *testing.T, v reflect.Value) {
	t.Helper()
	switch x := v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(x.Add(time.Second)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "A")
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	default:
		t.Fatalf("change does not support the type %s", v.Type())
	}
}

// A process does not begin the same grant twice, even if an engine grants the start again.
func TestGrantRunsOnce(t *testing.T) {
	bubble(t, ok, func(r *rig) {
		rec := r.engine.Record("call-1", `{"n":1}`)
		r.engine.Offer(rec)
		r.wantResult(rec.Call.Key, message.ToolResultSuccess, "ok")
		r.engine.Forget(rec.Call.Key)
		r.engine.Offer(rec)
		synctest.Wait()
		r.wantRuns(1)
		if n := len(r.engine.Requests(executortest.OpResult)); n != 1 {
			t.Errorf("%d results, want one, from the single run", n)
		}
	})
}
