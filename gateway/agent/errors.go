package agent

import (
	"errors"
	"fmt"

	"github.com/askance-dev/askance/message"
)

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
func (f *ReplyError) Error() string {
	if f.Err == nil {
		return fmt.Sprintf("%s: %s", f.Type, f.What)
	}
	return fmt.Sprintf("%s: %s: %v", f.Type, f.What, f.Err)
}

// Unwrap returns the cause.
func (f *ReplyError) Unwrap() error { return f.Err }

// OpenTurnError refuses a message that arrives while a turn of its session is open. It unwraps to
// a *message.Error with CodeConflict.
type OpenTurnError struct {
	Session message.SessionID
	Reply   message.ReplyID // the reply that is open
}

// Error names the open turn.
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
