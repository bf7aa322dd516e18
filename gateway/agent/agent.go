package agent

import (
	"context"
	"errors"
	"fmt"

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
	// reply. While no engine answers, or the store is full, Emit and Call wait.
	Emit(ctx context.Context, events ...message.Event) error
	// Call proposes tool calls and waits, for days if necessary, until every one has a result. It
	// first emits the TOOL_CALL_* events of calls that the agent has not emitted; for the others
	// the agent must have emitted TOOL_CALL_END. The results are in the order of the calls; a call
	// that was denied, rejected or refused has a result that says so. An error is never a result,
	// and repeating Call after an error runs nothing twice.
	Call(ctx context.Context, calls ...message.ToolCallBlock) ([]message.ToolResultBlock, error)
}

// ErrInterrupted is the cause of the end of a run whose reply the user interrupted.
var ErrInterrupted = errors.New("the reply was interrupted")

// ErrStopping is the cause of the end of runs when the process stops.
var ErrStopping = errors.New("the runner is stopping")

// ErrMaxIters ends a reply whose agent has called its model too often.
var ErrMaxIters = errors.New("the agent has reached its limit of iterations")

// ReplyError is an agent's error in the form that the user sees.
type ReplyError struct {
	Type message.ErrorType
	What string // for people; no internals
	Err  error  // the cause, for the log only
}

// Error returns all of it, for the log.
func (r *ReplyError) Error() string {
	if r.Err == nil {
		return fmt.Sprintf("%s: %s", r.Type, r.What)
	}
	return fmt.Sprintf("%s: %s: %v", r.Type, r.What, r.Err)
}

func (r *ReplyError) Unwrap() error { return r.Err }

// OpenTurnError refuses a message that arrives while a turn of its session is open. It unwraps to
// a *message.Error with CodeConflict.
type OpenTurnError struct {
	Session message.SessionID
	Reply   message.ReplyID // the reply that is open
}

func (e *OpenTurnError) Error() string { return e.Unwrap().Error() }

// Unwrap returns the error that clients receive.
func (e *OpenTurnError) Unwrap() error {
	return &message.Error{
		Code: message.CodeConflict, Op: "start turn",
		What: "the reply " + string(e.Reply) + " of the session " + string(e.Session) + " is not finished",
		Hint: "answer what it asks, wait for its end, or interrupt it; then send the message again",
	}
}

// errorInfoOf returns an agent's error in the form that the end of the reply shows.
func errorInfoOf(err error) *message.ErrorInfo {
	if f, ok := errors.AsType[*ReplyError](err); ok {
		if !f.Type.Valid() {
			return &message.ErrorInfo{Type: message.ErrorUnknown, Message: f.What}
		}
		return &message.ErrorInfo{Type: f.Type, Message: f.What}
	}
	if e, ok := errors.AsType[*message.Error](err); ok && e.Code != message.CodeInternal {
		return &message.ErrorInfo{Type: typeOf(e.Code), Message: (&message.Error{Code: e.Code, Op: e.Op, What: e.What, Hint: e.Hint}).Error()}
	}
	return &message.ErrorInfo{Type: message.ErrorInternal, Message: "the agent failed; the server's log says why"}
}

// typeOf returns AgentScope's error type for a code.
func typeOf(c message.Code) message.ErrorType {
	switch c {
	case message.CodeForbidden, message.CodeForeign:
		return message.ErrorPermission
	case message.CodeOverLimit:
		return message.ErrorRateLimit
	case message.CodeInvalid, message.CodeTooLarge, message.CodeNotFound, message.CodeConflict, message.CodeDigest, message.CodeFinished, message.CodeArchived, message.CodeState:
		return message.ErrorInvalidRequest
	case message.CodeOverloaded, message.CodeUnavailable, message.CodeUnknownOutcome:
		return message.ErrorConnection
	default:
		return message.ErrorInternal
	}
}
