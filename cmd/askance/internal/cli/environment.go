package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/charmbracelet/huh"

	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// environment is what the commands of one run share: streams, settings, log.
type environment struct {
	in  io.Reader
	out *term.Out
	err *term.Out

	format       outputFormat
	json         bool   // the result is for programs: JSON or YAML
	settingsFile string // "" looks for askance.yaml
	cfg          config
	found        found  // where the settings come from
	context      string // the context in use; "": none
	offline      bool   // act on a data folder without a server
	command      string // the command that was called, for errors

	log *slog.Logger
}

func (env *environment) report(err error) {
	if env.json {
		_ = writeJSON(env.err, map[string]errorBody{"error": errorBodyOf(env, err)}) // nowhere to report that to
		return
	}
	if err == errSignal { //nolint:errorlint // nothing failed: a person ended a command that follows
		return
	}
	if env.cfg.logsJSON(env.err) {
		b := errorBodyOf(env, err)
		logRecord(env.err, slog.LevelError, b.What, "error", b)
		return
	}
	what, hint := err.Error(), fileHint(err)
	if me, ok := errors.AsType[*message.Error](err); ok {
		if before, found := strings.CutSuffix(what, " ("+me.Hint+")"); found && me.Hint != "" {
			what, hint = before, hintOf(env, err, me)
		}
		if me.Op != "" { // operations are for programs
			what = regexp.MustCompile(`(?m)(^|: )`+regexp.QuoteMeta(me.Op)+": ").ReplaceAllString(what, "$1")
		}
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok && strings.HasSuffix(at.Op, "stat") {
		switch before, after, is := strings.Cut(what, at.Op+" "+at.Path); { // so are those of the system
		case is && strings.Contains(before, at.Path):
			what = before + strings.TrimPrefix(after, ": ")
		case is:
			what = before + at.Path + after
		}
	}
	text := env.err.Bad("error: ") + term.Safe(what) + "\n"
	if hint != "" {
		text += "hint: " + term.Safe(hint) + "\n"
	}
	if _, ok := errors.AsType[usageError](err); ok {
		text += env.err.Dim("See "+env.command+" --help.") + "\n"
	}
	_, _ = io.WriteString(env.err, text)
}

// shownAttr makes the text of a log record safe for a terminal.
func shownAttr(_ []string, at slog.Attr) slog.Attr {
	if s := at.Value.String(); at.Value.Kind() == slog.KindString || at.Value.Kind() == slog.KindAny {
		if at.Value.Kind() == slog.KindAny { // an error, perhaps of several lines
			s = strings.ReplaceAll(s, "\n", "; ")
		}
		if safe := term.SafeLine(s); safe != at.Value.String() {
			at.Value = slog.StringValue(safe)
		}
	}
	return at
}

// files returns the folder in the data folder with the files of the space.
func (env *environment) files() node.Dir {
	return node.Dir(env.cfg.dir()).Files(env.cfg.spaceID())
}

// fileOr returns the file or folder of a flag, or else the one in the data folder.
func (env *environment) fileOr(flag, given string, own func(node.Dir) string) (string, error) {
	switch {
	case given != "":
		return given, nil
	case env.cfg.dir() == "":
		return "", usagef("cannot find a home folder for the data folder: pass --data or --%s", flag)
	}
	return own(node.Dir(env.cfg.dir())), nil
}

func (env *environment) isInteractive() bool {
	return !env.json && term.IsTerminal(env.in) && env.err.Terminal()
}

// readText returns the value of a flag that is a text, @FILE, or - for standard
// input. It refuses more than limit bytes.
func (env *environment) readText(flag, value string, limit int) (string, error) {
	if value == "-" {
		b, err := env.readStandardInput(flag, limit)
		return string(b), err
	}
	path, isFile := strings.CutPrefix(value, "@")
	if !isFile {
		return value, nil
	}
	b, err := textfile.ReadHanded(flag, path, limit)
	return string(b), err
}

// readFile reads a file that may be a pipe, or standard input if the path is -.
func readFile(env *environment, kind, path string, limit int) ([]byte, error) {
	if path == "-" {
		return env.readStandardInput(kind, limit)
	}
	return textfile.ReadHanded(kind, path, limit)
}

func (env *environment) readStandardInput(kind string, limit int) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(env.in, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("%s: read standard input: %w", kind, err)
	}
	if len(b) > limit {
		return nil, usagef("%s: standard input is longer than %d bytes; shorten it", kind, limit)
	}
	return b, nil
}

// errAborted says that a person left a prompt without a response.
var errAborted = errors.New("canceled: nothing was sent")

// interrupted is errAborted after ctrl+c: the command ends as if stopped by a signal.
type interrupted struct{ error }

func (i interrupted) Unwrap() []error { return []error{i.error, errSignal} }

// runForm asks a person. It ends with ctx, for instance when another person responds
// first. A terminal that cannot move its cursor gets plain lines.
func (env *environment) runForm(ctx context.Context, fields ...huh.Field) error {
	plain := os.Getenv("ACCESSIBLE") != "" || os.Getenv("TERM") == "dumb"
	f := huh.NewForm(huh.NewGroup(fields...)).WithInput(env.in).WithOutput(env.err).WithShowHelp(true).WithAccessible(plain).WithTheme(huh.ThemeBase())
	done := make(chan error, 1)
	go func() { done <- f.RunWithContext(ctx) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		if !plain {
			<-done //nolint:errcheck // the form restores the terminal before it ends
		} // a plain form waits for a line that may never come
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, huh.ErrUserAborted):
		return interrupted{errAborted}
	}
	return err
}

// confirm asks for yes or no, and returns refused for no, which is selected first.
func (env *environment) confirm(ctx context.Context, title string, refused error) error {
	var yes bool
	err := env.runForm(ctx, huh.NewConfirm().Title(term.SafeLine(title)).Affirmative("Yes").Negative("No").Value(&yes))
	if err == nil && !yes {
		return refused
	}
	return err
}

// confirmUnless shows a text and asks the person, unless the flag --yes confirms the purpose.
func confirmUnless(ctx context.Context, env *environment, yes bool, purpose, shown, title string) error {
	if yes {
		return nil
	}
	if !env.isInteractive() {
		return usagef("not a terminal: pass --yes to %s", purpose)
	}
	env.notef("%s", shown)
	return env.confirm(ctx, title, errAborted)
}

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
	case errors.Is(err, syscall.ENOSPC):
		return ExitUnavailable
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
	// loser of a race sees the current approval request.
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

// fileHint is what to do about a file that cannot be used, if the error says no more.
func fileHint(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "check the path"
	case errors.Is(err, fs.ErrPermission):
		return "give this user access to it, or choose another path"
	case errors.Is(err, syscall.ENOSPC):
		return "free disk space"
	case errors.Is(err, syscall.EMFILE):
		return "raise the limit of open files: ulimit -n"
	case errors.Is(err, syscall.EROFS):
		return "remount the file system to be writable, or choose another path"
	}
	return ""
}

func errorBodyOf(env *environment, err error) errorBody {
	b := errorBody{Exit: ExitCode(err), What: err.Error(), Hint: fileHint(err)}
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
