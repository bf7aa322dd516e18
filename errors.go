package askance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// These errors say why a call has no result. errors.Is finds them in the [CallError] of
// [Caller.Call].
var (
	// ErrInvalid: the tool is unknown, or the arguments do not fit its schema.
	ErrInvalid = errors.New("the arguments do not fit the tool")
	// ErrDenied: a rule denies the call.
	ErrDenied = errors.New("the policy denies it")
	// ErrRejected: a person rejected the call. The reason has the feedback.
	ErrRejected = errors.New("a person rejected it")
	// ErrExpired: no approver responded in time.
	ErrExpired = errors.New("no approver responded in time")
	// ErrRevoked: the approval was revoked before the call started.
	ErrRevoked = errors.New("the approval was revoked")
	// ErrInterrupted: the call was interrupted. The context's error says whether its caller
	// did that. A function that had begun may have had its effect.
	ErrInterrupted = errors.New("the call was interrupted")
	// ErrFailed: the function ran and returned an error.
	ErrFailed = errors.New("the tool failed")
	// ErrUnknownOutcome: an attempt was cut off, so the call may have had its effect.
	// The call stays open until an operator resolves it.
	ErrUnknownOutcome = errors.New("it is not known whether the call happened")
	// ErrBlocked: nothing can run the call now. It stays open.
	ErrBlocked = errors.New("the call cannot run now")
	// ErrClosed: the app was closed first. The call stays open in the journal.
	ErrClosed = errors.New("the app is closed")
)

// CallError says why a call has no result.
type CallError struct {
	Tool string
	// ID and Session name the call: the same call again, with [ID], waits for it.
	ID      message.CallID
	Session message.SessionID
	// Reason is a text for the model.
	Reason string
	// Call is the call as it was last seen; nil if the engine could not be asked.
	Call *toolcall.Call
	// Err is one of the errors of this package, or why the engine could not be asked.
	Err error

	hint string
}

// Error says what failed, why, and what to do.
func (e *CallError) Error() string {
	s := fmt.Sprintf("call %s of %s: %v", e.ID, e.Tool, e.Err)
	if e.Call != nil && e.Reason != "" {
		s += ": " + forPeople.Replace(e.Reason)
	}
	if e.hint != "" {
		s += " (" + e.hint + ")"
	}
	return s
}

// forPeople removes the tags that mark a text for models.
var forPeople = strings.NewReplacer("<system-reminder>", "", "</system-reminder>", "")

// Unwrap returns Err.
func (e *CallError) Unwrap() error { return e.Err }

// ending is the error that the caller of an ended call gets, and what to do about it.
type ending struct {
	err  error
	hint string
}

// endings has the causes that finish a call without a result of the tool.
var endings = map[toolcall.Cause]ending{
	toolcall.CauseRefuse:    {ErrInvalid, "correct the arguments"},
	toolcall.CauseDeny:      {ErrDenied, "do something else, or change the policy"},
	toolcall.CauseReject:    {ErrRejected, "follow the feedback"},
	toolcall.CauseExpire:    {ErrExpired, "call again when an approver is available"},
	toolcall.CauseRevoke:    {ErrRevoked, "ask the person who revoked it"},
	toolcall.CauseInterrupt: {ErrInterrupted, "call again if it is still needed"},
}

// blockedEnding returns the ending of a blocked call, and the text for the model.
func blockedEnding(c *toolcall.Call) (ending, string) {
	switch c.Blocked {
	case toolcall.BlockedUnknown, toolcall.BlockedDeadLetter:
		return ending{ErrUnknownOutcome, "an operator must resolve it: askance resolve"},
			"The tool call may have taken effect. Do not repeat it: a person will find out what happened."
	case toolcall.BlockedClock, toolcall.BlockedKey:
		return ending{ErrBlocked, c.BlockedReason}, "The tool cannot run now. The call stays open: do not repeat it."
	case toolcall.BlockedReturned:
		return ending{ErrBlocked, c.ReturnText() + "; correct that, then let it run: askance resolve --outcome run_again"},
			"The tool's worker cannot run the call now. The call stays open: do not repeat it."
	case toolcall.NotBlocked, toolcall.BlockedNoWorker:
	}
	return ending{ErrBlocked, "start a worker for the tool, or resolve the call: askance resolve"},
		"No worker can run the tool now. The call stays open: do not repeat it."
}

// resultEnding returns the ending of a call that finished with a result. Its error is nil if
// the call succeeded.
func resultEnding(c *toolcall.Call) ending {
	if e, ok := endings[toolcall.Cause(c.Cause)]; ok {
		if errors.Is(e.err, ErrInterrupted) && c.Begun > 0 {
			e.hint = "it may have taken effect: find out before you call again"
		}
		if errors.Is(e.err, ErrRejected) && !slices.ContainsFunc(c.Votes, func(v toolcall.Vote) bool { return v.Feedback != "" }) {
			e.hint = ""
		}
		return e
	}
	switch {
	case c.Result == nil:
		return ending{ErrUnknownOutcome, "show the call: askance show"}
	case c.Result.State == message.ToolResultSuccess:
		return ending{}
	case c.Result.State == message.ToolResultInterrupted:
		return ending{ErrInterrupted, "it may have taken effect: find out before you call again"}
	case c.Result.State == message.ToolResultDenied:
		return ending{ErrDenied, "do something else"}
	}
	return ending{ErrFailed, "the reason says why"}
}

// endedBy adds the reason why the caller's context ended to err.
func endedBy(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, ErrInterrupted) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
