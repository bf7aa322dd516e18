package agent

import (
	"context"

	"github.com/askance-dev/askance/message"
)

// Agent answers a user's message with one reply. It is a function of the conversation: between
// runs it keeps no state that it could not read again from Turn, so a turn can continue in
// another process. Its methods may be called from many goroutines, but only once at a time for
// each session.
type Agent interface {
	// Info says what the agent is, for discovery.
	Info() Info
	// Run makes the reply t.Reply(), or continues it: after a restart the last message of the
	// conversation is the unfinished reply, with its proposed calls and the results so far. Run
	// returns nil when the reply is complete; the Runner then ends it (REPLY_END). An error also
	// ends it: the user sees the Type and What of a *ReplyError, the text of a *message.Error,
	// AgentScope's form of ErrMaxIters, and for any other error or a panic only that the agent
	// failed. Run returns soon after ctx ends: because the user interrupted the reply (the cause
	// is ErrInterrupted), or because the process stops, and the next process continues the turn.
	Run(ctx context.Context, t Turn) error
}

// Info describes an agent.
type Info struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Tools       []Tool `json:"tools"` // the tools that it calls without the frontend
}

// Tool describes a tool to a model.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  message.RawJSON `json:"parameters,omitzero"` // JSON Schema of the arguments
	// Client marks a tool that the frontend sent with its request. The frontend runs it and sends
	// its result with a later request.
	Client bool `json:"client,omitzero"`
}

// Turn is a reply in progress, as its agent sees it. It is safe for concurrent use.
type Turn interface {
	Session() message.SessionID
	Reply() message.ReplyID
	// Conversation returns the session so far, oldest first: the user's messages and the replies.
	// The last message is the user's, or the unfinished reply with everything that it has so far.
	Conversation(ctx context.Context) ([]*message.Msg, error)
	// Tools returns the tools that the frontend sent with its request.
	Tools() []Tool
	// Input returns what else the frontend sent (AG-UI's state, context and forwardedProps), by
	// name.
	Input() map[string]message.RawJSON
	// Emit streams events of the reply; only the Runner emits REPLY_START and REPLY_END. It fills
	// in empty header fields. Block ids must be unique within the session, call ids within the
	// reply. While no engine answers, Emit waits for one.
	Emit(ctx context.Context, events ...message.Event) error
	// Call proposes tool calls and waits, for days if necessary, until every one has a result. It
	// first emits the TOOL_CALL_* events of calls that the agent has not emitted; for the others
	// the agent must have emitted TOOL_CALL_END. The results are in the order of the calls; a call
	// that was denied, rejected or refused has a result that says so. An error is never a result,
	// and repeating Call after an error runs nothing twice.
	Call(ctx context.Context, calls ...message.ToolCallBlock) ([]message.ToolResultBlock, error)
}
