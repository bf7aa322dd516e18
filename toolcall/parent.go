package toolcall

import (
	"fmt"

	"github.com/askance-dev/askance/message"
)

// MaxDepth bounds how deep calls may be nested within calls.
const MaxDepth = 16

// ParentKey names the call within which the calls of a proposal are made, such as the
// call that started a sub-agent.
type ParentKey struct {
	Session message.SessionID `json:"session_id"`
	Reply   message.ReplyID   `json:"reply_id"`
	Call    message.CallID    `json:"tool_call_id"`
}

// Parent is the call within which another one was made, in its state at that time.
type Parent struct {
	ParentKey
	Tool    string `json:"tool_name"`
	Runtime string `json:"runtime"`
	Agent   string `json:"agent,omitzero"`
	Depth   int    `json:"depth"` // of the call that has this parent; 1 if the parent itself has none
}

// Depth is the number of calls around this one.
func (c *Call) Depth() int {
	if c.Parent == nil {
		return 0
	}
	return c.Parent.Depth
}

// AsParent returns the call as the parent of new calls. The call must be allowed, and must
// not have been ended from outside.
func (c *Call) AsParent() (*Parent, error) {
	refuse := func(code message.Code, what, hint string) error {
		return &message.Error{Code: code, Call: ErrorCall(c), What: what, Hint: hint}
	}
	switch {
	case c.State == message.ToolCallPending || c.State == message.ToolCallAsking:
		return nil, refuse(message.CodeState, "the call "+string(c.Call)+" is not allowed yet", "propose calls within it once it runs")
	case !c.Open() && c.Result != nil && c.Result.State == message.ToolResultInterrupted:
		return nil, refuse(message.CodeInterrupted, "the call "+string(c.Call)+" was interrupted", "stop its sub-agent")
	case !c.Open() && c.Result != nil && c.Result.State == message.ToolResultDenied:
		return nil, refuse(message.CodeState, "the call "+string(c.Call)+" was denied", "do not run it")
	case c.Cause == string(CauseRefuse) || c.Cause == string(CauseRespond):
		return nil, refuse(message.CodeState, "the call "+string(c.Call)+" ended without running its tool", "do not run it")
	case c.Depth() >= MaxDepth:
		return nil, refuse(message.CodeTooLarge, fmt.Sprintf("the call %s is at depth %d, the limit is %d", c.Call, c.Depth(), MaxDepth), "nest calls less deeply")
	}
	return &Parent{
		ParentKey: ParentKey{Session: c.Session, Reply: c.Reply, Call: c.Call}, Tool: c.Tool, Runtime: c.Runtime, Agent: c.Agent, Depth: c.Depth() + 1,
	}, nil
}
