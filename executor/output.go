package executor

import (
	"fmt"

	"github.com/askance-dev/askance/message"
)

// Output is what a tool produced. The zero value is the empty text and
// success. Text, Textf, Blocks and Failed make one.
type Output struct {
	// Content is a text, or a list of text and data blocks. Text that is not
	// UTF-8 is repaired (U+FFFD for each broken sequence). What would make the
	// result, as JSON, larger than message.MaxOutputBytes is cut and makes it an
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

// Blocks is a successful output of text and data blocks. The blocks are not
// changed, and must not be by the caller afterwards.
func Blocks(blocks ...message.Block) Output {
	return Output{Content: message.List(blocks...)}
}

// Failed is an output that says for itself that the tool failed. Returning an
// error from the Handler does the same; Failed is for a failure that is the
// whole, ready-made answer.
func Failed(text string) Output {
	return Output{Content: message.Content{Text: text}, State: message.ToolResultError}
}
