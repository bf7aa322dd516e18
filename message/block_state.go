package message

// ToolCallState is where a tool call stands. The zero value is no state; it is
// written as pending.
type ToolCallState string

// The states of a tool call, in AgentScope's words.
const (
	ToolCallPending   ToolCallState = "pending"   // proposed, not decided
	ToolCallAsking    ToolCallState = "asking"    // a person is asked
	ToolCallAllowed   ToolCallState = "allowed"   // may run
	ToolCallSubmitted ToolCallState = "submitted" // handed to somebody outside
	ToolCallFinished  ToolCallState = "finished"  // has its result; never moves again
)

// Valid reports whether s is one of AgentScope's states, spelled exactly so.
func (s ToolCallState) Valid() bool { return isWord(string(s), s.words()) }

func (ToolCallState) words() string { return "pending, asking, allowed, submitted, finished" }

// ToolResultState is how a tool call ended. The zero value is no state; it is
// written as running.
type ToolResultState string

// The states of a tool result, in AgentScope's words.
const (
	ToolResultSuccess     ToolResultState = "success"
	ToolResultError       ToolResultState = "error"
	ToolResultInterrupted ToolResultState = "interrupted"
	ToolResultDenied      ToolResultState = "denied"
	ToolResultRunning     ToolResultState = "running" // not ended yet
)

// Valid reports whether s is one of AgentScope's states, spelled exactly so.
func (s ToolResultState) Valid() bool { return isWord(string(s), s.words()) }

func (ToolResultState) words() string { return "success, error, interrupted, denied, running" }
