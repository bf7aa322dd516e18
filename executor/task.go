package executor

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Handler runs one attempt of a tool call and returns its output.
//
// It is called at most once per attempt, in a new goroutine; attempts of different calls
// run at the same time if the Registry's caller or the Worker's slots allow it. It must
// return soon after ctx ends: nothing else stops it, and both the engine and Worker.Run
// wait for it. context.Cause(ctx) returns why ctx ended: ErrCancelled, ErrStale,
// ErrDeadline or ErrStopping.
//
// What it returns becomes the result:
//
//   - an Output and no error: the Output's own state, normally success, even if ctx has
//     ended meanwhile: the effect has happened and the record says so;
//   - an error: state error, with the error's text after the Output;
//   - an error after ctx ended: state interrupted, or error at the deadline;
//   - ErrNotBegun or ErrUnknownOutcome, from a Worker's Handler: no result;
//   - a panic: state error.
type Handler func(ctx context.Context, t Task) (Output, error)

// Task is one attempt as a Handler sees it.
type Task struct {
	Call toolcall.Key // identity of the call: space, session, reply, call
	Tool string
	// Input is the call's input as raw JSON, byte for byte what was decided.
	Input json.RawMessage
	// IdempotencyKey is the same for every attempt of this call and for no other
	// call. Pass it to the system that has the effect.
	IdempotencyKey string
	Attempt        int // 1, 2, …
	// Trace is the position of the run in a distributed trace, for the systems that the
	// tool calls, or "".
	Trace toolcall.Trace

	progress func(text string)
	begin    func() error // refuses an attempt that must no longer begin; nil: none is refused
}

// mayBegin returns why the attempt must not begin. It is called right before the effect
// can happen.
func (t Task) mayBegin() error {
	if t.begin == nil {
		return nil
	}
	return t.begin()
}

// CheckLease returns an error, which is ErrNotBegun, if the engine may have given up the attempt.
// A Handler that waits before the effect calls it right before the effect. Answered heartbeats
// renew the lease.
func (t Task) CheckLease() error {
	if err := t.mayBegin(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotBegun, err)
	}
	return nil
}

// Progress sends a line to the people who watch the call. It never blocks and is best
// effort: lines may be dropped if there are too many, and no one may be watching. It may be
// called from any goroutine. After the Handler has returned it does nothing.
func (t Task) Progress(text string) {
	if t.progress != nil {
		t.progress(text)
	}
}

// Progressf is Progress with fmt.Sprintf.
func (t Task) Progressf(format string, args ...any) { t.Progress(fmt.Sprintf(format, args...)) }

// Decode decodes the input into v, a pointer to a struct or a map. It refuses unknown or
// repeated members, and names that differ in case.
func (t Task) Decode(v any) error {
	if err := strictjson.Unmarshal(t.Input, v, strictjson.MaxBytes(toolcall.MaxInputBytes)); err != nil {
		return fmt.Errorf("read the input of %s: %w", t.Tool, err)
	}
	return nil
}

// Output is what a tool produced. The zero value is an empty text and success. Text and
// Textf create one.
type Output struct {
	// Content is a text, or a list of text and data blocks (message.List). In invalid
	// UTF-8, each broken sequence becomes U+FFFD (RepairedMember). Content that would make the result,
	// as JSON, larger than toolcall.MaxOutputBytes is cut, and the result becomes an
	// error, see OutputError.
	Content message.Content
	// State is success if empty. A tool can also return error, interrupted and denied;
	// any other state makes the result an error.
	State message.ToolResultState
	// Metadata is copied into the result and counts towards its size.
	Metadata map[string]any

	// dropped counts bytes that the producer did not keep because they were over the
	// limit.
	dropped int
}

// Text returns a successful output.
func Text(s string) Output { return Output{Content: message.Content{Text: s}} }

// Textf is Text with fmt.Sprintf.
func Textf(format string, args ...any) Output { return Text(fmt.Sprintf(format, args...)) }
