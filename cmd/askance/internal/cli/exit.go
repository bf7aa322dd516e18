package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
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
	ExitPartial     = 9
	ExitInterrupted = 130
)

var exitCodes = []struct {
	code int
	what string
}{
	{ExitOK, "success"},
	{ExitError, "failure for any other reason"},
	{ExitUsage, "wrong flags or arguments, or input that is malformed, ambiguous or too large"},
	{ExitConflict, "another person was first, the approval request changed, or the state of the call does not permit the operation"},
	{ExitNotFound, "no such call, reply, session, tool or file"},
	{ExitUnavailable, "the engine, NATS or the store is not reachable, full, or in use by another process; or one reviewer gave too many responses: try again later"},
	{ExitForbidden, "this principal lacks the permission, or the data belongs to another one"},
	{ExitFindings, "a check has findings: lint errors, failed tests, changed decisions or unformatted files of a policy; changed or missing records of a journal"},
	{ExitDamaged, "the journal lost records or was changed, so the engine refuses all requests; askance journal check lists what is missing; a restart does not help"},
	{ExitPartial, "some of several calls failed, or all for different reasons: the output names them"},
	{ExitInterrupted, "stopped by a signal"},
}

// usageError is a mistake in how the command was called.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// findingsError ends a command that worked and has findings.
type findingsError struct{ what string }

func (e findingsError) Error() string { return e.what }

func findingsf(format string, args ...any) error { return findingsError{fmt.Sprintf(format, args...)} }

// errSignal is the cause of a context that a signal canceled.
var errSignal = errors.New("stopped by a signal")

// ended returns the error of a command that follows something: errSignal, which is not
// reported, if a signal stopped it.
func ended(err error) error {
	if errors.Is(err, errSignal) {
		return errSignal
	}
	return err
}

// ExitCode returns the documented exit code for an error.
func ExitCode(err error) int {
	var usage usageError
	var load *permission.LoadError
	var file *textfile.Error
	var odd *plainfile.KindError
	var findings findingsError
	var partial partialError
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, errSignal), errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.As(err, &findings):
		return ExitFindings
	case errors.As(err, &partial):
		return partial.exit
	case errors.As(err, &usage), errors.As(err, &load), errors.As(err, &file), errors.As(err, &odd):
		return ExitUsage
	}
	if errors.Is(err, message.ErrDamaged) { // also deep in the chain: a supervisor branches on it
		return ExitDamaged
	}
	if me, ok := errors.AsType[*message.Error](err); ok {
		return exitCodeOf(me.Code)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ExitNotFound
	case errors.Is(err, fs.ErrPermission):
		return ExitForbidden
	}
	return ExitError
}

func exitCodeOf(code message.Code) int {
	switch code {
	case message.CodeInvalid, message.CodeTooLarge:
		return ExitUsage
	case message.CodeConflict, message.CodeDigest, message.CodeFinished, message.CodeArchived, message.CodeState, message.CodeInterrupted, message.CodeSuperseded:
		return ExitConflict
	case message.CodeNotFound:
		return ExitNotFound
	case message.CodeOverloaded, message.CodeUnavailable, message.CodeFull, message.CodeOverLimit, message.CodeUnknownOutcome:
		return ExitUnavailable
	case message.CodeForbidden, message.CodeForeign, message.CodeForeignStream:
		return ExitForbidden
	case message.CodeDamaged:
		return ExitDamaged
	}
	return ExitError
}

// errorBody is the member error of the document that --json prints for an error.
type errorBody struct {
	Exit int          `json:"exit"`
	Code message.Code `json:"code,omitzero"`
	Op   string       `json:"op,omitzero"`
	What string       `json:"what"`
	Hint string       `json:"hint,omitzero"`
	// State and Digest are those of the call that the error is about, so that the
	// loser of a race sees the present approval request.
	State  message.ToolCallState `json:"state,omitzero"`
	Digest string                `json:"digest,omitzero"`
}

// hintOf returns the hint of an error, with where the journal is, and without one that a signal made wrong.
func hintOf(env *environment, err error, e *message.Error) string {
	stopped := errors.Is(err, errSignal)
	switch {
	case stopped && (e.Code == message.CodeUnavailable || e.Code == message.CodeOverloaded):
		return ""
	case stopped && e.Code == message.CodeUnknownOutcome:
		return "the request may be recorded: see " + commandAgain(env, "show CALL") + "; " + e.Hint
	case e.Code == message.CodeDamaged && env.cfg.Server == "":
		at := flagsGiven(env, byCurrentContext, append(placeFlags, "creds", "keys", "anchor")...)
		return strings.NewReplacer("askance journal check", programName()+" journal check"+at, "askance journal accept-loss", programName()+" journal accept-loss"+at).Replace(e.Hint)
	}
	return e.Hint
}

// missingFileHint is what to do about a file that does not exist, if the error says no more.
func missingFileHint(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "check the path"
	}
	return ""
}

func errorBodyOf(env *environment, err error) errorBody {
	b := errorBody{Exit: ExitCode(err), What: err.Error(), Hint: missingFileHint(err)}
	if me, ok := errors.AsType[*message.Error](err); ok {
		b.Code, b.Op, b.What, b.Hint = me.Code, me.Op, me.What, cmp.Or(hintOf(env, err, me), b.Hint)
		if me.Err != nil && me.Err.Error() != "" {
			b.What += ": " + me.Err.Error()
		}
		if c := toolcall.CallOf(me); c != nil {
			b.State = c.State
			if c.State == message.ToolCallAsking {
				b.Digest = c.Digest
			}
		}
	}
	return b
}

func exitCodeHelp() string {
	var b strings.Builder
	b.WriteString("Every command ends with one of these exit codes.\n\n")
	for _, c := range exitCodes {
		fmt.Fprintf(&b, "%5d  %s\n", c.code, c.what)
	}
	b.WriteString("\nWith --json an error is one JSON document on standard error. Its members exit and\ncode have the same meaning.\n")
	return b.String()
}
