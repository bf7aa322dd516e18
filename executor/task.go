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
// It is called at most once per attempt, from a goroutine of its own; attempts
// of different calls run at once as far as the Registry's caller or the
// Worker's slots allow. It must return soon after ctx ends: nothing else stops
// it, and both the engine and Worker.Run wait for it. context.Cause(ctx) says
// why it ended: ErrCancelled, ErrStale, ErrDeadline or ErrStopping.
//
// What it returns becomes the result:
//
//   - an Output and no error: the Output's own state, normally success, even
//     when ctx ended meanwhile: the effect is there and the record says so;
//   - an error: state error, its text after what the Output holds;
//   - an error after ctx ended: state interrupted, or error at the deadline;
//   - ErrNotBegun or ErrUnknownOutcome, of a Worker's Handler: no result;
//   - a panic: state error.
type Handler func(ctx context.Context, t Task) (Output, error)

// Task is one attempt as a Handler sees it.
type Task struct {
	Call toolcall.Key // identity of the call: space, session, reply, call
	Tool string
	// Input is the raw JSON to run with, byte for byte what was decided.
	Input json.RawMessage
	// IdempotencyKey is the same for every attempt of this call and for no other
	// call. Pass it to the system that has the effect.
	IdempotencyKey string
	Attempt        int // 1, 2, …
	// Trace is the position of the run in a distributed trace, for the systems that the
	// tool calls; "": none.
	Trace toolcall.Trace

	progress func(text string)
	begin    func() error // refuses what must not begin any more; nil: nothing does
}

// mayBegin is asked right before the effect can happen.
func (t Task) mayBegin() error {
	if t.begin == nil {
		return nil
	}
	return t.begin()
}

// Progress passes a line on to the people who watch the call. It never blocks,
// is best effort (lines may be dropped when they come too fast, and no one
// may be listening) and may be called from any goroutine; after the Handler
// has returned it does nothing.
func (t Task) Progress(text string) {
	if t.progress != nil {
		t.progress(text)
	}
}

// Progressf is Progress with fmt.Sprintf.
func (t Task) Progressf(format string, args ...any) { t.Progress(fmt.Sprintf(format, args...)) }

// Decode reads the input into v, a pointer to a struct or a map, and refuses
// what v has no place for: names in other case, unknown or repeated members.
func (t Task) Decode(v any) error {
	if err := strictjson.Unmarshal(t.Input, v, strictjson.MaxBytes(toolcall.MaxInputBytes)); err != nil {
		return fmt.Errorf("read the input of %s: %w", t.Tool, err)
	}
	return nil
}

// Output is what a tool produced. The zero value is the empty text and
// success. Text and Textf make one.
type Output struct {
	// Content is a text, or a list of text and data blocks (message.List). Text that is not
	// UTF-8 is repaired (U+FFFD for each broken sequence). What would make the
	// result, as JSON, larger than toolcall.MaxOutputBytes is cut and makes it an
	// error, see OutputError.
	Content message.Content
	// State is success when empty. Error, interrupted and denied are the others
	// that a tool may say of itself; anything else makes the result an error.
	State message.ToolResultState
	// Metadata goes into the result unread. It counts for the size.
	Metadata map[string]any

	// dropped counts bytes that the producer did not keep, because they were
	// over the limit already.
	dropped int
}

// Text is a successful output.
func Text(s string) Output { return Output{Content: message.Content{Text: s}} }

// Textf is Text with fmt.Sprintf.
func Textf(format string, args ...any) Output { return Text(fmt.Sprintf(format, args...)) }
