package askance

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Caller calls tools through an engine: that of an [App], or another one over NATS. It is safe
// for concurrent use.
type Caller struct {
	client  engine.Client
	session message.SessionID
	agent   string
	closed  context.Context //nolint:containedctx // the life of the app; its cause says why it ended
}

// NewCaller calls tools through the engine behind client, such as a bus.Client of
// role runtime. session is the default of [InSession].
func NewCaller(client engine.Client, session message.SessionID) *Caller {
	return &Caller{client: client, session: session, closed: context.Background()}
}

// Result is the result of a call that succeeded: the tool ran, or a person
// responded in its place.
type Result struct {
	// Output is the text for the model.
	Output string
	// Call is the finished call. Its Input is what ran: an approver may have edited it.
	Call *toolcall.Call
}

// Decode decodes an output that is JSON into v.
func (r *Result) Decode(v any) error {
	if err := strictjson.UnmarshalOpen([]byte(r.Output), v, strictjson.MaxBytes(len(r.Output))); err != nil {
		return fmt.Errorf("read the output of %s: %w", r.Call.Tool, err)
	}
	return nil
}

// CallOption changes one call.
type CallOption func(*callOptions)

type callOptions struct {
	id       message.CallID
	session  message.SessionID
	keepOpen bool
	alone    bool
}

// ID names the call within its session. A call of the same tool with the same arguments and id
// is the same call: it runs once, also across restarts, and each caller gets its result. Other
// arguments under the same id are an error. Without ID, each Call makes a new call.
func ID(id string) CallOption { return func(o *callOptions) { o.id = message.CallID(id) } }

// InSession sets the conversation to which the call belongs.
func InSession(id string) CallOption {
	return func(o *callOptions) { o.session = message.SessionID(id) }
}

// KeepOpen leaves the call open when the context ends: it can still be approved
// and run. Call again with the same [ID] to wait for it.
func KeepOpen() CallOption { return func(o *callOptions) { o.keepOpen = true } }

// NoParent makes a call that does not belong to the call whose function makes it. A function
// needs it to call through an engine of another space, and to call after its own call was
// interrupted.
func NoParent() CallOption { return func(o *callOptions) { o.alone = true } }

const (
	// lookEvery is how often a wait looks whether its call is blocked: a wait ends only when the call is finished.
	lookEvery = 2 * time.Second
	// interruptTime bounds how long Call returns after its context ended.
	interruptTime = 5 * time.Second
)

// Call proposes a call of a tool and waits until it is finished: it was allowed and has run, or
// was denied, or a person responded in its place. This can take any time. args is a JSON text
// (string, []byte or json.RawMessage), which is passed on byte for byte, or a value that is
// encoded as JSON.
//
// An error is a *[CallError]. When ctx ends, Call interrupts the call: if it has not begun, it
// never runs; if its function is running, the function's context is cancelled.
//
// Calls are independent: any number may wait at the same time, also within a tool's function,
// and none waits for another. A call with the context of a function belongs to the call that
// the function runs: rules and people see that one as its parent.
func (c *Caller) Call(ctx context.Context, tool string, args any, opts ...CallOption) (*Result, error) {
	o := callOptions{session: c.session}
	for _, f := range opts {
		f(&o)
	}
	if o.id == "" {
		o.id = message.CallID("call_" + strings.ToLower(rand.Text()))
	}
	w := &waiter{client: c.client, tool: tool, session: o.session, id: o.id, keep: o.keepOpen, closed: c.closed}
	input, err := inputOf(args)
	if err != nil {
		return nil, w.fail(nil, ErrInvalid, err.Error(), "pass a JSON object")
	}
	ctx, cancel := c.untilClosed(ctx)
	defer cancel()
	if cause := w.ended(ctx); cause != nil {
		return nil, w.fail(nil, cause, "The tool was not called.", "nothing was proposed")
	}
	// Each call gets its own reply: tools that run serially within a reply would make a
	// call inside a tool's function wait for that function.
	r, err := w.propose(ctx, toolcall.ProposeRequest{Session: o.session, Reply: message.ReplyID(o.id), Agent: c.agent, Parent: parentOf(ctx, o),
		Calls: []message.ToolCallBlock{{ID: o.id, Name: tool, Input: input}}})
	if err != nil {
		return w.giveUp(ctx, nil, err)
	}
	return w.wait(ctx, r.Calls[0])
}

// propose repeats a proposal until it is known whether the call was stored: a stored call could
// run while its caller makes it again.
func (w *waiter) propose(ctx context.Context, r toolcall.ProposeRequest) (toolcall.ProposeReply, error) {
	for unsure := false; ; _ = sleep.For(ctx, lookEvery) { // Propose sees the end of ctx
		out, err := w.client.Propose(ctx, r)
		unsure = unsure || errors.Is(err, message.ErrUnknownOutcome)
		passing := errors.Is(err, message.ErrUnknownOutcome) || errors.Is(err, message.ErrUnavailable)
		if !unsure || !passing || w.ended(ctx) != nil {
			return out, err
		}
	}
}

// parentOf returns the call to whose function ctx belongs; nil: there is none.
func parentOf(ctx context.Context, o callOptions) *toolcall.ParentKey {
	task, ok := TaskFrom(ctx)
	if !ok || o.alone {
		return nil
	}
	return &toolcall.ParentKey{Session: task.Call.Session, Reply: task.Call.Reply, Call: task.Call.Call}
}

// untilClosed returns a context that ends with ctx or when the app closes.
func (c *Caller) untilClosed(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.closed, func() { cancel(context.Cause(c.closed)) })
	return ctx, func() { stop(); cancel(nil) }
}

func inputOf(args any) (string, error) {
	switch v := args.(type) {
	case nil:
		return "{}", nil
	case string:
		return v, nil
	case []byte:
		return string(v), nil
	case json.RawMessage:
		return string(v), nil
	}
	raw, err := json.Marshal(args)
	return string(raw), err
}

type waiter struct {
	client  engine.Client
	tool    string
	session message.SessionID
	id      message.CallID
	keep    bool
	closed  context.Context //nolint:containedctx // that of the Caller
}

// ended says why the caller has stopped waiting; nil if it still waits.
func (w *waiter) ended(ctx context.Context) error {
	if err := context.Cause(w.closed); err != nil {
		return err
	}
	return context.Cause(ctx)
}

func (w *waiter) wait(ctx context.Context, c *toolcall.Call) (*Result, error) {
	for {
		switch c.Phase() {
		case toolcall.PhaseFinished:
			return w.finish(ctx, c)
		case toolcall.PhaseBlocked:
			e, reason := blockedEnding(c)
			return nil, w.fail(c, e.err, reason, e.hint)
		case toolcall.PhaseWaiting, toolcall.PhaseAsking, toolcall.PhaseReady, toolcall.PhaseQueued, toolcall.PhaseRunning, toolcall.PhaseRetrying:
		}
		next, err := w.look(ctx, lookEvery)
		switch {
		case err == nil:
			c = next
		case w.ended(ctx) != nil:
			return w.giveUp(ctx, c, err)
		case errors.Is(err, message.ErrUnavailable): // another engine goes on with the call
			_ = sleep.For(ctx, lookEvery) // the next request sees the end of ctx
		default:
			return nil, w.fail(c, err, "The result of the tool call could not be read. Do not repeat it.", "call again with the same id")
		}
	}
}

// look returns the call as soon as it is finished, or as it is after most.
func (w *waiter) look(ctx context.Context, most time.Duration) (*toolcall.Call, error) {
	r, err := w.client.Wait(ctx, toolcall.WaitRequest{
		Session: w.session, Reply: message.ReplyID(w.id), Calls: []message.CallID{w.id}, TimeoutMS: max(most.Milliseconds(), 1),
	})
	if err != nil {
		return nil, err
	}
	return r.Calls[0], nil
}

// giveUp interrupts the call whose caller's context ended, unless it is to stay open. c is the
// call as last seen; nil if it was not seen.
func (w *waiter) giveUp(ctx context.Context, c *toolcall.Call, err error) (*Result, error) {
	cause := w.ended(ctx)
	const open = "The tool call is still open. Do not repeat it."
	switch {
	case cause == nil: // the proposal failed
		return nil, w.fail(c, err, "The tool could not be called: "+message.AsError("call", err).What, "")
	case errors.Is(cause, ErrClosed):
		return nil, w.fail(c, cause, open, "open the app again: open calls continue")
	case w.keep:
		return nil, w.fail(c, cause, open, "call again with the same id")
	}
	ctx2, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptTime)
	defer cancel()
	_, err = w.client.Interrupt(ctx2, toolcall.InterruptRequest{Session: w.session, Reply: message.ReplyID(w.id), Reason: cause.Error()})
	if err == nil {
		if last, lerr := w.look(ctx2, time.Millisecond); lerr == nil {
			c = last
		}
	}
	switch {
	case err != nil:
		return nil, w.fail(c, fmt.Errorf("%w; the call was not interrupted: %w", cause, err), open, "interrupt its reply: the call can still run")
	case c != nil && !c.Open():
		return w.finish(ctx, c) // it may have finished before the interrupt
	}
	return nil, w.fail(c, endedBy(ctx, ErrInterrupted), "The tool call has been interrupted.", "")
}

func (w *waiter) finish(ctx context.Context, c *toolcall.Call) (*Result, error) {
	text := textOf(c.Result)
	e := resultEnding(c)
	if e.err == nil {
		return &Result{Output: text, Call: c}, nil
	}
	return nil, w.fail(c, endedBy(ctx, e.err), text, e.hint)
}

func (w *waiter) fail(c *toolcall.Call, err error, reason, hint string) error {
	return &CallError{Tool: w.tool, ID: w.id, Session: w.session, Reason: reason, Call: c, Err: err, hint: hint}
}

// textOf returns the text of a result. Its other blocks are in the call.
func textOf(r *message.ToolResultBlock) string {
	switch {
	case r == nil:
		return ""
	case !r.Output.IsList():
		return r.Output.Text
	}
	var parts []string
	for _, b := range r.Output.Blocks {
		if t, ok := b.(*message.TextBlock); ok {
			parts = append(parts, t.Text)
		}
	}
	return strings.Join(parts, "\n")
}
