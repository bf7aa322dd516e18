package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/askance-dev/askance/message"
)

// invoke runs h once and turns whatever happens into a result: this is the
// only place where a Handler is called. A context that has ended already keeps
// it from being called at all. err is what the handler failed with, for logs.
func invoke(ctx context.Context, h Handler, t Task) (res message.ToolResultBlock, err error) {
	defer func() { // of an error or metadata whose own methods panic
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
		out, err = stopped(ctx, out, err)
	}
	return result(t, out, err), err
}

// call runs h in a goroutine of its own, so that a handler which ends its
// goroutine (runtime.Goexit) does not take the caller's along, and waits for
// it. Lines of progress reported after h returned are dropped.
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

// stopped is the outcome of a handler that gave up because its context ended.
// A deadline is the tool's failure; everything else is an interruption.
func stopped(ctx context.Context, out Output, err error) (Output, error) {
	cause := context.Cause(ctx)
	if !errors.Is(err, cause) && !errors.Is(err, ctx.Err()) {
		cause = fmt.Errorf("%w: %w", cause, err)
	}
	out.State = message.ToolResultInterrupted
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		out.State = message.ToolResultError
	}
	return out, cause
}

// gate lets calls pass, one at a time, until it is closed; close waits for the
// one inside.
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
