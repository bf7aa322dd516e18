package executor

import (
	"fmt"

	"github.com/askance-dev/askance/message"
)

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
