package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/charmbracelet/huh"

	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/message"
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
	what, hint := err.Error(), missingFileHint(err)
	if me, ok := errors.AsType[*message.Error](err); ok {
		if before, found := strings.CutSuffix(what, " ("+me.Hint+")"); found && me.Hint != "" {
			what, hint = before, hintOf(env, err, me)
		}
		what = strings.TrimPrefix(what, me.Op+": ") // operations are for programs
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
