package executor_test

import (
	"context"
	"errors"
	"log/slog"
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

const tool = "probe"

// rig is a worker that runs h against an engine in memory, on fake time.
type rig struct {
	t      *testing.T
	engine *executortest.Engine
	worker *executor.Worker
	runs   atomic.Int32 // how often h was called
	ran    chan error   // what Worker.Run returned
}

// bubble runs f with a started worker, on fake time. Goroutines that f leaves running fail the
// test.
func bubble(t *testing.T, h executor.Handler, f func(*rig), opts ...executor.WorkerOption) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, engine: executortest.NewEngine(tool), ran: make(chan error, 1)}
		counted := func(ctx context.Context, tk executor.Task) (executor.Output, error) {
			r.runs.Add(1)
			return h(ctx, tk)
		}
		opts = append([]executor.WorkerOption{executor.WithLogger(slog.New(slog.DiscardHandler))}, opts...)
		w, err := executor.NewWorker(r.engine, tool, counted, r.engine.Keys(), opts...)
		if err != nil {
			t.Fatal(err)
		}
		r.worker = w
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { r.ran <- w.Run(ctx) }()
		defer func() { _ = w.Close() }() // f checks the error if it matters
		synctest.Wait()
		f(r)
	})
}

// offer adds a new call to the queue.
func (r *rig) offer(id message.CallID) toolcall.Key {
	rec := r.engine.Record(id, `{"n":1}`)
	r.engine.Offer(rec)
	return rec.Call.Key
}

// result waits for the call's result.
func (r *rig) result(k toolcall.Key) message.ToolResultBlock {
	r.t.Helper()
	ctx, stop := context.WithTimeout(r.t.Context(), 24*time.Hour) // of fake time
	defer stop()
	res, err := r.engine.Wait(ctx, k)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

func (r *rig) wantResult(k toolcall.Key, state message.ToolResultState, text string) {
	r.t.Helper()
	if res := r.result(k); res.State != state || res.Output.String() != text {
		r.t.Errorf("result %s %q, want %s %q", res.State, res.Output.String(), state, text)
	}
}

func (r *rig) wantRuns(n int32) {
	r.t.Helper()
	if got := r.runs.Load(); got != n {
		r.t.Errorf("the handler was called %d times, want %d", got, n)
	}
}

// wantTask checks how often the call's task was acknowledged and released.
func (r *rig) wantTask(k toolcall.Key, acks, releases int) {
	r.t.Helper()
	if c := r.engine.Call(k); c.Acks != acks || len(c.Releases) != releases {
		r.t.Errorf("the task was acknowledged %d times and released %d times, want %d and %d", c.Acks, len(c.Releases), acks, releases)
	}
}

// ok is a handler that succeeds at once.
func ok(context.Context, executor.Task) (executor.Output, error) { return executor.Text("ok"), nil }

// untilCancelled is a handler that works until it is told to stop.
func untilCancelled(ctx context.Context, _ executor.Task) (executor.Output, error) {
	<-ctx.Done()
	return executor.Output{}, context.Cause(ctx)
}

// failFirst returns faults that hit the first n requests of op.
func failFirst(op executortest.Op, n int, f executortest.Fault) func(executortest.Request) executortest.Fault {
	return func(r executortest.Request) executortest.Fault {
		if r.Op == op && r.N <= n {
			return f
		}
		return executortest.None
	}
}

// outage returns faults that hit all requests except those for tasks while on is set.
func outage(on *atomic.Bool, f executortest.Fault) func(executortest.Request) executortest.Fault {
	return func(r executortest.Request) executortest.Fault {
		if on.Load() && r.Op != executortest.OpNext {
			return f
		}
		return executortest.None
	}
}

// wantUndelivered checks that err names exactly these calls.
func wantUndelivered(t *testing.T, err error, keys ...toolcall.Key) {
	t.Helper()
	u, is := errors.AsType[*executor.UndeliveredError](err)
	if !is || len(u.Attempts) != len(keys) {
		t.Fatalf("Run returned %v, want an UndeliveredError about %d attempts", err, len(keys))
	}
	for i, k := range keys {
		if u.Attempts[i].Key != k || !strings.Contains(err.Error(), k.String()+" attempt 1") {
			t.Errorf("undelivered is %s in %q, want %s", u.Attempts[i].Key, err, k)
		}
	}
}
