// Package agent is how an agent runtime plugs into the gateway: a message of a
// user goes in, events come out. Runner drives turns: it keeps the user's
// messages and the agent's events in the journal, waits for people without
// holding a connection, and goes on with open turns after a restart.
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
	// complete; Runner then ends it (REPLY_END). An error ends it too, and is shown
	// as the type and text of a *message.Error; it never repeats a tool call. Run
	// returns soon after ctx ends; if the cause is ErrParked or the process stops,
	// the turn goes on later.
	Run(ctx context.Context, t Turn) error
}

// Info describes an agent.
type Info struct {
	Name        string
	Description string
	Tools       []Tool // those that it may call by itself
}

// Tool is a tool as a model is told of it.
type Tool struct {
	Name        string
	Description string
	Parameters  message.RawJSON // JSON Schema of the arguments
	// Client marks a tool that the frontend brought with its request: it runs
	// there, and its result comes back with the next request.
	Client bool
}

// Turn is one reply in the making, as the agent sees it.
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
	// Emit streams events of the reply. Headers that are empty are filled in.
	Emit(ctx context.Context, events ...message.Event) error
	// Call proposes tool calls (after their TOOL_CALL_* events are emitted by it)
	// and waits, days if need be, until every one has a result. Results are in
	// the calls' order. An error is never a result: nothing ran twice because of
	// it, and the turn may be continued.
	Call(ctx context.Context, calls ...message.ToolCallBlock) ([]message.ToolResultBlock, error)
}
