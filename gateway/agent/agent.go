package agent

import (
	"context"

	"github.com/askance-dev/askance/message"
)

// Agent answers a user's message by one reply. It is a function of the
// conversation: it keeps nothing between runs that it could not read from Turn
// again, so that a turn can go on in another process. Its methods may be called
// from many goroutines, but never twice at once for one session.
type Agent interface {
	// Info says what the agent is, for discovery.
	Info() Info
	// Run makes the reply t.Reply(), or goes on with it: after a restart the
	// conversation's last message is the unfinished reply, with the calls that it
	// has proposed and the results that are there. It returns nil when the reply is
	// complete; Runner then ends it (REPLY_END). An error ends it too: a *ReplyError
	// is shown as it says, a *message.Error by its text, ErrMaxIters as
	// AgentScope has it, and of any other, or a panic, only that the agent failed.
	// Run returns soon after ctx ends: because the user interrupted the reply
	// (the cause is ErrInterrupted), or because the process stops, and the turn
	// goes on in the next one.
	Run(ctx context.Context, t Turn) error
}

// Info describes an agent.
type Info struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Tools       []Tool `json:"tools"` // those that it calls without the frontend
}

// Tool is a tool as a model is told of it.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  message.RawJSON `json:"parameters,omitzero"` // JSON Schema of the arguments
	// Client marks a tool that the frontend brought with its request: it runs
	// there, and its result comes back with a later request.
	Client bool `json:"client,omitzero"`
}

// Turn is one reply in the making, as the agent sees it. Its methods may be
// called from many goroutines.
type Turn interface {
	Session() message.SessionID
	Reply() message.ReplyID
	// Conversation is the session so far, oldest first: the user's messages and
	// the replies. The last message is the user's, or the reply that is to be
	// continued, folded up to now.
	Conversation(ctx context.Context) ([]*message.Msg, error)
	// Tools are those the frontend brought with its request.
	Tools() []Tool
	// Input is what else the frontend sent (AG-UI's state, context and
	// forwardedProps), by name.
	Input() map[string]message.RawJSON
	// Emit streams events of the reply; REPLY_START and REPLY_END are the
	// Runner's. Headers that are empty are filled in. Ids of blocks differ within
	// the session, those of calls within the reply. While no engine answers it
	// waits for one.
	Emit(ctx context.Context, events ...message.Event) error
	// Call proposes tool calls and waits, days if need be, until every one has a
	// result. The TOOL_CALL_* events of calls that the agent has not emitted are
	// emitted first; of the others TOOL_CALL_END must have been. Results are in
	// the calls' order; one that was denied, rejected or refused has a result
	// that says so. An error is never a result: nothing ran twice because of it.
	Call(ctx context.Context, calls ...message.ToolCallBlock) ([]message.ToolResultBlock, error)
}
