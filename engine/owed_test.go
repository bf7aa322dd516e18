package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/askance-dev/askance/engine/internal/view"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// The space that a call still needs falls with every step and is zero when the call ends.
func TestOwed(t *testing.T) {
	e := &Engine{core: &core{view: view.New(10)}}
	input := `"` + strings.Repeat("x", 10_000) + `"`
	call := toolcall.Call{Key: toolcall.Key{Space: "x", Session: "s", Reply: "r", Call: "c"}, Tool: "pay", Input: input}
	last := int64(1 << 30)
	for n, step := range []struct {
		state   message.ToolCallState
		claim   string
		records int64
	}{
		{message.ToolCallPending, "", 4}, {message.ToolCallAsking, "", 3}, {message.ToolCallSubmitted, "", 2}, {message.ToolCallSubmitted, "claim", 1}, {message.ToolCallFinished, "claim", 0},
	} {
		c := call
		c.State, c.Attempt.Claim, c.Records, c.First = step.state, step.claim, n+1, 1
		e.view.Apply(&toolcall.EventRecord{Call: &c, Path: []toolcall.Step{{Cause: fmt.Sprint(n), To: step.state}}}, uint64(n+1))
		call.First = c.First // every event record of a call has it
		got := e.Owed()
		least := step.records << 10 // the size of a record that tests of package journal measure
		if step.state == message.ToolCallAsking || step.state == message.ToolCallPending {
			least += int64(len(input)) // for an edit
		}
		if got < least || got > 3*least || got >= last {
			t.Errorf("a call that is %s (claim %q) needs %d bytes, want %d event records of at least %d in all", step.state, step.claim, got, step.records, least)
		}
		last = got
	}
}
