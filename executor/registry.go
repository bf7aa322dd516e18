package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Registry holds the Go functions that run in the engine's process, by tool name. It
// implements engine.Executor. The zero value is ready to use; all methods are safe for
// concurrent use.
type Registry struct {
	mu       sync.RWMutex // guards handlers
	handlers map[string]Handler
}

// Register makes h the handler of tool. A tool has one handler; registering
// another is an error, so that no handler is replaced by accident.
func (r *Registry) Register(tool string, h Handler) error {
	if tool == "" || h == nil {
		return fmt.Errorf("register tool %q: it needs a name and a handler", tool)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.handlers[tool]; ok {
		return fmt.Errorf("register tool %q: it already has a handler", tool)
	}
	if r.handlers == nil {
		r.handlers = make(map[string]Handler)
	}
	r.handlers[tool] = h
	return nil
}

// Has reports whether tool has a handler.
func (r *Registry) Has(tool string) bool { return r.handler(tool) != nil }

func (r *Registry) handler(tool string) Handler {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.handlers[tool]
}

// Run runs one attempt of the invocation's call and returns its result, which
// is never "running" and always within the documented limits. It refuses an
// invocation whose input differs from the call's. progress, if not nil, is called
// with lines of at most toolcall.MaxTextBytes until Run returns, one at a time but
// from any goroutine. Run returns when the handler does; Handler describes what
// happens when ctx ends.
func (r *Registry) Run(ctx context.Context, inv toolcall.Invocation, progress func(text string)) message.ToolResultBlock {
	if inv.Call == nil {
		return result(Task{}, Output{}, errors.New("the invocation names no call"))
	}
	t := Task{
		Call: inv.Call.Key, Tool: inv.Call.Tool, Input: inv.Input,
		IdempotencyKey: inv.IdempotencyKey, Attempt: inv.Call.Attempt.Number, Trace: inv.Call.Trace, progress: progress,
	}
	h := r.handler(t.Tool)
	if h == nil {
		return result(t, Output{}, fmt.Errorf("no handler is registered for the tool %q", t.Tool))
	}
	if string(inv.Input) != inv.Call.Input {
		return result(t, Output{}, errors.New("refused: the input is not the one that was decided"))
	}
	res, _ := invoke(ctx, h, t)
	return res
}

// invoke runs h once and turns every outcome into a result: no other code calls a
// Handler. If ctx has already ended, h is not called. err is the handler's error, for logs.
func invoke(ctx context.Context, h Handler, t Task) (res message.ToolResultBlock, err error) {
	defer func() { // methods of the handler's error or metadata can panic
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
			res = result(t, Output{}, err)
		}
	}()
	var out Output
	if err = ctx.Err(); err == nil {
		out, err = call(ctx, h, t)
	}
	if err != nil && ctx.Err() != nil {
		out, err = interruptedOutput(ctx, out, err)
	}
	return result(t, out, err), err
}

// call runs h in a new goroutine and waits for it, so that a handler that ends its
// goroutine (runtime.Goexit) does not end the caller's. Lines of progress reported after h
// returned are dropped.
func call(ctx context.Context, h Handler, t Task) (out Output, err error) {
	var gate gate
	report := t.progress
	t.progress = func(text string) {
		if report != nil {
			gate.pass(func() { report(line(text)) })
		}
	}
	defer gate.close()

	done := make(chan struct{})
	go func() {
		defer close(done)
		returned := false
		defer func() {
			if returned {
				return
			}
			if v := recover(); v != nil {
				out, err = Output{}, &PanicError{Value: v, Stack: debug.Stack()}
			} else {
				out, err = Output{}, errors.New("the tool ended its goroutine without a result")
			}
		}()
		if err = t.mayBegin(); err == nil {
			out, err = h(ctx, t)
		}
		returned = true
	}()
	<-done
	return out, err
}

// interruptedOutput returns the outcome of a handler that gave up because its context
// ended. A deadline counts as the tool's failure, everything else as an interruption.
func interruptedOutput(ctx context.Context, out Output, err error) (Output, error) {
	cause := context.Cause(ctx)
	noResult := errors.Is(err, ErrNotBegun) || errors.Is(err, ErrUnknownOutcome) // the Worker must see that
	if noResult || !errors.Is(err, cause) && !errors.Is(err, ctx.Err()) {
		cause = fmt.Errorf("%w: %w", cause, err)
	}
	out.State = message.ToolResultInterrupted
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		out.State = message.ToolResultError
	}
	return out, cause
}

// gate lets calls pass, one at a time, until it is closed; close waits for the
// current one.
type gate struct {
	mu     sync.Mutex // held while a call passes; guards closed
	closed bool
}

func (g *gate) pass(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		f()
	}
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}
