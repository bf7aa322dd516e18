package executor

import (
	"errors"
	"fmt"
	"strings"

	"github.com/askance-dev/askance/toolcall"
)

// Reasons why a Handler's context ended; see context.Cause.
var (
	// ErrCancelled: the engine cancelled the attempt, for example because the reply was
	// interrupted. The cause's text includes the reason, if one was given.
	ErrCancelled = errors.New("cancelled by the engine")
	// ErrStale: this attempt is no longer the current one; another may be
	// running. Stop at once, the result will not count.
	ErrStale = errors.New("the attempt is no longer the current one")
	// ErrDeadline: the attempt ran longer than the tool is permitted to run.
	ErrDeadline = errors.New("the deadline of the attempt passed")
	// ErrStopping: the worker is shutting down and its drain timeout is over.
	ErrStopping = errors.New("the worker is stopping")
)

// Errors that a Handler that acts outside of the worker's process returns, wrapped, when it
// has no result. Only a Worker treats them specially; in a Registry they are results with
// state error.
var (
	// ErrNotBegun: nothing of the attempt ran, and nothing of it will. The Worker
	// returns the attempt, and the engine offers the call again.
	ErrNotBegun = errors.New("nothing of the attempt ran")
	// ErrUnknownOutcome: the effect may or may not have happened. The Worker reports no
	// result. The lease ends, and the engine starts an idempotent tool again under the
	// same key; any other call waits for an operator.
	ErrUnknownOutcome = errors.New("it is not known whether the tool ran")
)

// ErrClosed is returned by Worker.Run if the worker was closed, or was already run once.
var ErrClosed = errors.New("executor: the worker was closed or has run before")

// UndeliveredError says that a worker had to stop before it could deliver the outcome of
// attempts: each of them started, and its lease will expire. The engine then offers
// idempotent calls again and leaves the others to an operator.
type UndeliveredError struct {
	Attempts []toolcall.HeartbeatRequest // in the order in which they were given up
}

// Error names the attempts.
func (e *UndeliveredError) Error() string {
	names := make([]string, len(e.Attempts))
	for i, a := range e.Attempts {
		names[i] = fmt.Sprintf("%s attempt %d", a.Key, a.Attempt)
	}
	return fmt.Sprintf("executor: stopped before an engine accepted the outcome of %s; the lease of each will expire, and then the engine decides", strings.Join(names, ", "))
}

// OutputError says that a tool's output was larger than a result may be. The
// result has state error, keeps as much of the text as fits and ends with this
// error's text.
type OutputError struct {
	Bytes int // size of the whole output; for text, as a JSON string
	Limit int
}

// Error returns a text that says that the tool itself ran.
func (e *OutputError) Error() string {
	return fmt.Sprintf("the tool ran to its end, but its output of %d bytes is over the limit of %d and was cut; "+
		"let the tool store large outputs elsewhere and return a reference", e.Bytes, e.Limit)
}

// PanicError is the error of a Handler that panicked.
type PanicError struct {
	Value any
	Stack []byte // for the log; never part of a result
}

// Error returns the panic's value without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("the tool panicked: %v", e.Value) }

// ExitError says that a command ended with a status other than zero.
type ExitError struct {
	Status string // as the operating system reports it, e.g. "exit status 2" or "signal: killed"
	Code   int    // the exit code, -1 if a signal ended the command
	Stderr string // the last lines of standard error
}

// Error returns the status and the last lines of standard error.
func (e *ExitError) Error() string {
	if e.Stderr == "" {
		return "the command ended with " + e.Status
	}
	return "the command ended with " + e.Status + ": " + e.Stderr
}
