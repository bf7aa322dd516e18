package executortest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// New starts something that runs tool with h, at least two calls at once, and
// stops it when the test ends.
type New func(t *testing.T, tool string, h executor.Handler) Runner

// Runner runs calls of one tool. Call is safe for concurrent use.
type Runner interface {
	// Call runs a new call with the input and returns how it ended. When ctx ends, Call
	// cancels the call and keeps waiting.
	Call(ctx context.Context, input string) Outcome
}

// Outcome is how a call ended.
type Outcome struct {
	Key      toolcall.Key
	Result   message.ToolResultBlock
	Progress []string // the lines that arrived, in the order of their numbers
}

// Local runs tools in a Registry, as an engine does in its process.
func Local(t *testing.T, tool string, h executor.Handler) Runner {
	r := &local{tool: tool}
	if err := r.registry.Register(tool, h); err != nil {
		t.Fatal(err)
	}
	return r
}

type local struct {
	tool     string
	registry executor.Registry
	names    names
}

func (l *local) Call(ctx context.Context, input string) Outcome {
	out := Outcome{Key: l.names.next()}
	var mu sync.Mutex // guards out.Progress
	out.Result = l.registry.Run(ctx, toolcall.Invocation{
		Call: &toolcall.Call{
			Key: out.Key, Tool: l.tool, Input: input, State: message.ToolCallSubmitted,
			Placement: toolcall.PlaceLocal, Attempt: toolcall.Attempt{Number: 1, Claim: "local"},
		},
		Input: message.RawJSON(input), IdempotencyKey: out.Key.IdempotencyKey(),
	}, func(text string) {
		mu.Lock()
		defer mu.Unlock()
		out.Progress = append(out.Progress, text)
	})
	return out
}

// Remote runs tools in a Worker that is connected to an Engine in memory.
func Remote(t *testing.T, tool string, h executor.Handler) Runner {
	r := &remote{engine: NewEngine(tool)}
	w, err := executor.NewWorker(r.engine, tool, h, r.engine.Keys(),
		executor.WithSlots(2), executor.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- w.Run(context.Background()) }()
	t.Cleanup(func() {
		_ = w.Close() // Run returns the same error
		if err := <-ran; err != nil && !errors.Is(err, executor.ErrClosed) {
			t.Errorf("Worker.Run: %v", err)
		}
	})
	return r
}

type remote struct {
	engine *Engine
	names  names
}

func (r *remote) Call(ctx context.Context, input string) Outcome {
	out := Outcome{Key: r.names.next()}
	r.engine.Offer(r.engine.Record(out.Key.Call, input))
	res, err := r.engine.Wait(ctx, out.Key)
	if ctx.Err() != nil {
		r.engine.Cancel(out.Key, context.Cause(ctx).Error(), true)
		res, err = r.engine.Wait(context.Background(), out.Key)
	}
	if err != nil {
		res.Output.Text = err.Error()
	}
	out.Result, out.Progress = res, r.engine.Lines(out.Key)
	return out
}

// AfterLease runs a call whose lease passes without an answered heartbeat. The handler that h
// returns runs it, and is to wait for passed before its effect. AfterLease returns why the
// worker returned the attempt, or the result.
func AfterLease(t *testing.T, tool string, h func(passed <-chan struct{}) executor.Handler) string {
	t.Helper()
	e := NewEngine(tool)
	e.Terms(toolcall.StartReply{LeaseMS: toolcall.MinLease.Milliseconds(), HeartbeatMS: toolcall.MinLease.Milliseconds() / 5})
	passed := make(chan struct{})
	e.Faults(func(r Request) Fault {
		if r.Op != OpHeartbeat {
			return None
		}
		if r.N == 6 {
			close(passed)
		}
		return Silent
	})
	w, err := executor.NewWorker(e, tool, h(passed), e.Keys(), executor.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- w.Run(context.WithoutCancel(t.Context())) }()
	rec := e.Record("late", "{}")
	e.Offer(rec)
	var end string
	err = e.until(t.Context(), func() bool {
		s := e.state(rec.Call.Key)
		if s.result != nil {
			end = s.result.Output.String()
		}
		return s.result != nil || len(s.notBegun) > 0
	})
	if c := e.Call(rec.Call.Key); len(c.NotBegun) > 0 {
		end = c.NotBegun[0]
	}
	if err := errors.Join(err, w.Close(), <-ran); err != nil {
		t.Fatal(err)
	}
	return end
}

// names gives each call its own key.
type names struct {
	mu sync.Mutex // guards n
	n  int
}

func (n *names) next() toolcall.Key {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.n++
	return Key(message.CallID(fmt.Sprintf("call-%d", n.n)))
}
