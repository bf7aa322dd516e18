package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// The exit codes. They are a contract: scripts branch on them.
const (
	ExitOK          = 0
	ExitError       = 1
	ExitUsage       = 2
	ExitConflict    = 3
	ExitNotFound    = 4
	ExitUnavailable = 5
	ExitForbidden   = 6
	ExitFindings    = 7
	ExitDamaged     = 8
	ExitInterrupted = 130
)

// exitCodes documents them, for `askance help exit-codes`.
var exitCodes = []struct {
	code int
	what string
}{
	{ExitOK, "done"},
	{ExitError, "it failed for a reason that none of the others names"},
	{ExitUsage, "wrong flags or arguments, or input that is malformed, ambiguous or too large"},
	{ExitConflict, "somebody else was first, the question has changed, or the call is not in a state that takes this"},
	{ExitNotFound, "no such call, reply, session, tool or file"},
	{ExitUnavailable, "no engine, NATS or store: not reachable, in use by another process, or full; or too many answers of one reviewer: try again later"},
	{ExitForbidden, "this principal may not do that, or the data belongs to somebody else"},
	{ExitFindings, "a check found something: in a policy lint errors, failed tests, changed verdicts, a file to format; in a journal that it is not what it was"},
	{ExitDamaged, "the journal lost records or was changed: nothing is served; askance journal check says what is missing, a restart alone does not help"},
	{ExitInterrupted, "stopped by a signal"},
}

// usageError is a fault in how the command was called.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// findingsError ends a command that worked, and whose answer is no.
type findingsError struct{ what string }

func (e findingsError) Error() string { return e.what }

func findingsf(format string, args ...any) error { return findingsError{fmt.Sprintf(format, args...)} }

// errSignal is the cause with which a signal ends the context.
var errSignal = errors.New("stopped by a signal")

// ExitCode sorts an error into the documented exit codes.
func ExitCode(err error) int {
	var usage usageError
	var load *permission.LoadError
	var file *textfile.Error
	var odd *plainfile.KindError
	var findings findingsError
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, errSignal), errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.As(err, &findings):
		return ExitFindings
	case errors.As(err, &usage), errors.As(err, &load), errors.As(err, &file), errors.As(err, &odd):
		return ExitUsage
	}
	if errors.Is(err, message.ErrDamaged) { // wherever it stands: a supervisor branches on it
		return ExitDamaged
	}
	if me, ok := errors.AsType[*message.Error](err); ok {
		return exitCodeOf(me.Code)
	}
	return otherCode(err)
}

func exitCodeOf(code message.Code) int {
	switch code {
	case message.CodeInvalid, message.CodeTooLarge:
		return ExitUsage
	case message.CodeConflict, message.CodeDigest, message.CodeFinished, message.CodeState, message.CodeInterrupted, message.CodeSuperseded:
		return ExitConflict
	case message.CodeNotFound:
		return ExitNotFound
	case message.CodeUnavailable, message.CodeFull, message.CodeOverLimit, message.CodeUnknownOutcome:
		return ExitUnavailable
	case message.CodeForbidden, message.CodeForeign, message.CodeForeignStream:
		return ExitForbidden
	case message.CodeDamaged:
		return ExitDamaged
	}
	return ExitError
}

// errorDocument is an error as --json prints it.
type errorDocument struct {
	Error errorBody `json:"error"`
}

type errorBody struct {
	Exit int          `json:"exit"`
	Code message.Code `json:"code,omitzero"`
	Op   string       `json:"op,omitzero"`
	What string       `json:"what"`
	Hint string       `json:"hint,omitzero"`
	// State and Digest are those of the call that the error is about: the loser
	// of a race sees where it stands, and which question is open now.
	State  message.ToolCallState `json:"state,omitzero"`
	Digest string                `json:"digest,omitzero"`
}

func documentOf(err error) errorDocument {
	b := errorBody{Exit: ExitCode(err), What: err.Error()}
	if me, ok := errors.AsType[*message.Error](err); ok {
		b.Code, b.Op, b.What, b.Hint = me.Code, me.Op, me.What, me.Hint
		if me.Err != nil && me.Err.Error() != "" {
			b.What += ": " + me.Err.Error()
		}
		if c := me.Call; c != nil {
			b.State = c.State
			if c.State == message.ToolCallAsking {
				b.Digest = c.Digest
			}
		}
	}
	return errorDocument{b}
}

func exitCodeHelp() string {
	var b strings.Builder
	b.WriteString("Every command ends with one of these codes.\n\n")
	for _, c := range exitCodes {
		fmt.Fprintf(&b, "%5d  %s\n", c.code, c.what)
	}
	b.WriteString("\nWith --json an error is one JSON document on standard error, whose exit and\ncode members say the same.\n")
	return b.String()
}

// otherCode sorts errors of the operating system.
func otherCode(err error) int {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ExitNotFound
	case errors.Is(err, fs.ErrPermission):
		return ExitForbidden
	}
	return ExitError
}
