package executor

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Registry holds the Go functions that run beside the engine, by tool name. It
// is an engine.Executor. The zero value is ready; all methods may be called
// from several goroutines at once.
type Registry struct {
	mu       sync.RWMutex // guards handlers
	handlers map[string]Handler
}

// Register makes h the handler of tool. A tool has one handler; registering
// another is an error, so that none is replaced by accident.
func (r *Registry) Register(tool string, h Handler) error {
	if tool == "" || h == nil {
		return fmt.Errorf("register tool %q: it needs a name and a handler", tool)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.handlers[tool]; ok {
		return fmt.Errorf("register tool %q: it has a handler already", tool)
	}
	if r.handlers == nil {
		r.handlers = make(map[string]Handler)
	}
	r.handlers[tool] = h
	return nil
}

// Has reports whether tool has a handler.
func (r *Registry) Has(tool string) bool { return r.handler(tool) != nil }

// Tools lists the tools that have a handler, sorted.
func (r *Registry) Tools() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	tools := make([]string, 0, len(r.handlers))
	for t := range r.handlers {
		tools = append(tools, t)
	}
	slices.Sort(tools)
	return tools
}

func (r *Registry) handler(tool string) Handler {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.handlers[tool]
}

// Run runs one attempt of the invocation's call and returns its result, which
// is never "running" and always within the documented limits. It refuses an
// invocation whose input is not the call's own. progress, if not nil, gets
// lines of at most toolcall.MaxTextBytes until Run returns, one at a time but
// from any goroutine. Run returns when the handler does; see Handler
// for what an ended ctx means.
func (r *Registry) Run(ctx context.Context, inv toolcall.Invocation, progress func(text string)) message.ToolResultBlock {
	if inv.Call == nil {
		return result(Task{}, Output{}, fmt.Errorf("the invocation names no call"))
	}
	t := Task{
		Call: inv.Call.Key, Tool: inv.Call.Tool, Input: inv.Input,
		IdempotencyKey: inv.IdempotencyKey, Attempt: inv.Call.Attempt.Number, progress: progress,
	}
	h := r.handler(t.Tool)
	if h == nil {
		return result(t, Output{}, fmt.Errorf("no handler is registered for the tool %q", t.Tool))
	}
	if string(inv.Input) != inv.Call.Input {
		return result(t, Output{}, fmt.Errorf("refused: the input is not the one that was decided"))
	}
	res, _ := invoke(ctx, h, t)
	return res
}
