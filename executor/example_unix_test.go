//go:build unix

package executor_test

import (
	"context"
	"fmt"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/message"
)

// Any program can be a tool: input on standard input, result on standard
// output. No shell is involved.
func ExampleCommand() {
	shout, err := executor.Command{Argv: []string{"tr", "a-z", "A-Z"}}.Handler()
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := shout(context.Background(), executor.Task{Tool: "shout", Input: message.RawJSON(`{"text":"hello"}`)})
	fmt.Println(out.Content, err)
	// Output: {"TEXT":"HELLO"} <nil>
}
