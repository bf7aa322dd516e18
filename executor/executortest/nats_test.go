package executortest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/executor/executortest"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

func TestMain(m *testing.M) { bustest.Main(m) }

// natsRunner is a real deployment: an engine that allows everything, a worker and a runtime, on
// one server.
type natsRunner struct {
	t       *testing.T
	tool    string
	runtime *bus.Client
	calls   atomic.Int32
	lost    atomic.Int32 // attempts that an engine counted as lost

	mu      sync.Mutex // guards the fields below
	lines   map[toolcall.Key][]toolcall.ProgressRequest
	results map[toolcall.Key]message.ToolResultBlock
	changed chan struct{} // closed and replaced with every result
}

// overNATS runs workers over NATS.
func overNATS(t *testing.T) executortest.New {
	return over(t, func(r *natsRunner, b *bustest.Bus, space toolcall.SpaceID, _ *engine.Engine) (executor.Transport, error) {
		return bus.NewWorker(connect(r.t, b, "worker"), space, r.tool, "worker", nil)
	})
}

// connectWorker connects the worker of a runner.
type connectWorker func(*natsRunner, *bustest.Bus, toolcall.SpaceID, *engine.Engine) (executor.Transport, error)

// over starts one server; every Runner has a space of its own on it.
func over(t *testing.T, worker connectWorker) executortest.New {
	b := bustest.New(t)
	var spaces atomic.Int32
	return func(t *testing.T, tool string, h executor.Handler) executortest.Runner {
		space := toolcall.SpaceID(fmt.Sprint("space-", spaces.Add(1)))
		r := newRunner(t, b, space, tool)
		e, _ := r.startEngine(b, space)
		transport, err := worker(r, b, space, e)
		if err != nil {
			t.Fatal(err)
		}
		r.startWorker(transport, b, h)
		return r
	}
}

// newRunner returns a runner with a runtime, but without an engine or a worker.
func newRunner(t *testing.T, b *bustest.Bus, space toolcall.SpaceID, tool string) *natsRunner {
	t.Helper()
	r := &natsRunner{
		t: t, tool: tool, changed: make(chan struct{}),
		lines: map[toolcall.Key][]toolcall.ProgressRequest{}, results: map[toolcall.Key]message.ToolResultBlock{},
	}
	var err error
	if r.runtime, err = bus.NewClient(connect(t, b, "runtime"), space, toolcall.Principal{Role: toolcall.RoleRuntime, Name: "runtime"}); err != nil {
		t.Fatal(err)
	}
	return r
}

// lease is the lease of the tool. A worker on a busy machine must not lose it.
const lease = 3 * time.Second

func (r *natsRunner) startEngine(b *bustest.Bus, space toolcall.SpaceID) (e *engine.Engine, stop func()) {
	t := r.t
	nc := connect(t, b, "engine")
	j, err := journal.Open(t.Context(), nc, space, b.Keys(), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	known := permission.Tool{Name: r.tool}
	policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{
		{Name: "all", Tools: []string{r.tool}, Behavior: message.BehaviorAllow},
	}}, permission.Options{Tools: []permission.Tool{known}})
	if err != nil {
		t.Fatal(err)
	}
	e, err = engine.New(space, j, policy, []engine.Tool{{Tool: known, Placement: toolcall.PlaceRemote, ConcurrencySafe: true, Lease: lease}},
		engine.WithSignals(heard{bus.NewSignals(nc, space, nil), r}), engine.WithSigningKey(b.Keys().Signer()))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	s, err := bus.Serve(context.WithoutCancel(t.Context()), nc, j, func(p toolcall.Principal, queue toolcall.Queue) api.Caller {
		if p.Role == toolcall.RoleWorker {
			return e.Worker(p, queue)
		}
		return e.As(p)
	}, bus.ServiceOptions{Observer: e})
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() { s.Close(); _ = e.Close() }) // Close always returns nil
	t.Cleanup(stop)

	ctx, unwatch := context.WithCancel(context.WithoutCancel(t.Context()))
	watched := make(chan error, 1)
	go func() { watched <- j.Watch(ctx, 0, r) }()
	t.Cleanup(func() {
		unwatch()
		if err := <-watched; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch: %v", err)
		}
	})
	return e, stop
}

func (r *natsRunner) startWorker(transport executor.Transport, b *bustest.Bus, h executor.Handler) {
	w, err := executor.NewWorker(transport, r.tool, h, toolcall.NewKeySet(b.Keys().Public()),
		executor.WithSlots(2), executor.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		r.t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- w.Run(context.WithoutCancel(r.t.Context())) }()
	r.t.Cleanup(func() {
		if err := errors.Join(w.Close(), <-ran); err != nil {
			r.t.Errorf("Worker: %v", err)
		}
	})
}

// Call proposes the call in its own reply, so that an interrupt ends only this call. The result
// is the worker's, which for an interrupted call is a late result.
func (r *natsRunner) Call(ctx context.Context, input string) executortest.Outcome {
	id := fmt.Sprint(r.calls.Add(1))
	reply := message.ReplyID("reply-" + id)
	quiet := context.WithoutCancel(ctx)
	rep, err := r.runtime.Propose(quiet, toolcall.ProposeRequest{Session: "s", Reply: reply, Calls: []message.ToolCallBlock{
		{ID: message.CallID("call-" + id), Name: r.tool, Input: input, State: message.ToolCallPending},
	}})
	if err != nil {
		return executortest.Outcome{Result: message.ToolResultBlock{Output: message.Content{Text: err.Error()}}}
	}
	out := executortest.Outcome{Key: rep.Calls[0].Key}
	if !r.await(ctx, &out) {
		if _, err := r.runtime.Interrupt(quiet, toolcall.InterruptRequest{Session: "s", Reply: reply, Reason: context.Cause(ctx).Error()}); err != nil {
			r.t.Errorf("interrupt: %v", err)
		}
		r.await(quiet, &out)
	}
	return out
}

// await waits for the worker's result and fills in out. It reports whether the result arrived
// before ctx ended.
func (r *natsRunner) await(ctx context.Context, out *executortest.Outcome) bool {
	for {
		r.mu.Lock()
		res, ok := r.results[out.Key]
		changed := r.changed
		lines := slices.Clone(r.lines[out.Key])
		r.mu.Unlock()
		if ok {
			slices.SortFunc(lines, func(a, b toolcall.ProgressRequest) int { return a.N - b.N })
			for _, l := range lines {
				out.Progress = append(out.Progress, l.Text)
			}
			out.Result = res
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// Record implements engine.Sink. It picks the results from the event records except those of an
// interrupt, because the worker's own results follow.
func (r *natsRunner) Record(rec toolcall.JournalEntry) {
	if rec.Invalid != nil {
		r.t.Errorf("invalid record: %v", rec.Invalid)
		return
	}
	record := rec.Record
	if record == nil || record.Call == nil {
		return
	}
	if slices.ContainsFunc(record.Path, func(s toolcall.Step) bool { return s.Cause == string(toolcall.CauseSuspend) }) {
		r.lost.Add(1)
	}
	res := record.Call.Result
	switch {
	case record.Note != nil:
		res = record.Note.Result
	case record.Call.Cause == "interrupt":
		return
	}
	if res == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results[record.Call.Key] = *res
	close(r.changed)
	r.changed = make(chan struct{})
}

// CaughtUp implements engine.Sink.
func (r *natsRunner) CaughtUp() {}

// heard records the progress that an engine passes on.
type heard struct {
	engine.Signals
	r *natsRunner
}

func (h heard) Progress(c *toolcall.Call, p toolcall.ProgressRequest) {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	h.r.lines[c.Key] = append(h.r.lines[c.Key], p)
}

// connect opens a connection that is closed at the end of t. The connections that bustest opens
// end with the server's test.
func connect(t *testing.T, b *bustest.Bus, principal string) *nats.Conn {
	t.Helper()
	nc, err := b.Connect(context.WithoutCancel(t.Context()), bus.ConnectOptions{Principal: principal})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}
