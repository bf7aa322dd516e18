package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/lipgloss/table"
	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/internal/strictjson"
)

// print prints a result: as one JSON document with --json, else as text.
func (env *environment) print(v any, text string) error {
	if env.json {
		return env.printDocument(v)
	}
	_, err := io.WriteString(env.out, text)
	return err
}

func (env *environment) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(env.out, format, args...)
	return err
}

// notef writes a message that is not part of the result to standard error.
func (env *environment) notef(format string, args ...any) {
	_, _ = fmt.Fprintf(env.err, format, args...)
}

// logsJSON reports whether a program reads the lines of w as JSON logs. A person at a terminal reads text.
func (cfg *config) logsJSON(w *term.Out) bool {
	return cfg.LogFormat == "json" && !w.Terminal()
}

// announcef is notef for a server or a worker: with JSON logs it writes a record.
func announcef(env *environment, format string, args ...any) {
	if env.json || env.cfg.logsJSON(env.err) {
		logRecord(env.err, slog.LevelInfo, strings.TrimSpace(fmt.Sprintf(format, args...)))
		return
	}
	env.notef(format, args...)
}

// logRecord writes a record of JSON logs, at any --log-level.
func logRecord(w io.Writer, level slog.Level, text string, attrs ...any) {
	slog.New(slog.NewJSONHandler(w, nil)).Log(context.Background(), level, text, attrs...)
}

// An outputFormat is how a result is printed.
type outputFormat string

const (
	formatText outputFormat = "text"
	formatWide outputFormat = "wide"
	formatName outputFormat = "name"
	formatJSON outputFormat = "json"
	formatYAML outputFormat = "yaml"
)

type formatFlag struct{ env *environment }

func (f formatFlag) String() string {
	if f.env == nil {
		return ""
	}
	return string(f.env.format)
}

// Type returns the name of the value in the help.
func (f formatFlag) Type() string { return "format" }

func (f formatFlag) Set(text string) error {
	if !slices.Contains(formatWords, text) {
		return fmt.Errorf("use %s", strings.Join(formatWords, ", "))
	}
	f.env.format = outputFormat(text)
	f.env.json = f.env.json || text == string(formatJSON) || text == string(formatYAML)
	return nil
}

var formatWords = []string{string(formatText), string(formatWide), string(formatName), string(formatJSON), string(formatYAML)}

// printsNames marks the commands that have a list of names.
const printsNames = "prints-names"

// checkFormat refuses a format that a command does not have.
func (env *environment) checkFormat(c *cobra.Command) error {
	f := c.Flags().Lookup("output")
	if _, ok := f.Value.(formatFlag); !ok {
		return nil // the command has a flag of its own with this name
	}
	switch {
	case f.Changed && env.format != formatJSON && env.json && c.Flags().Changed("json"):
		return usagef("--json and --output %s contradict each other: leave out one of them", env.format)
	case env.format == formatName && c.Annotations[printsNames] == "":
		return usagef("--output name is for lists of calls: use text, wide, json or yaml")
	}
	return nil
}

// printDocument prints one document: indented JSON, or YAML.
func (env *environment) printDocument(v any) error {
	b, err := strictjson.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	var text bytes.Buffer
	if env.format == formatYAML {
		err = textfile.WriteYAML(&text, b, "", true, false)
	} else {
		err = json.Indent(&text, append(b, '\n'), "", "  ")
	}
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	_, err = env.out.Write(text.Bytes())
	return err
}

// printItem prints one item of a stream: a line of JSON, or a document of YAML.
func (env *environment) printItem(v any) error {
	if env.format == formatYAML {
		if err := env.printf("---\n"); err != nil {
			return err
		}
		return env.printDocument(v)
	}
	return writeJSON(env.out, v)
}

func writeJSON(w io.Writer, v any) error {
	b, err := strictjson.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// writeOutput calls write for a file, which appears when it is complete, or for standard
// output if path is empty.
func (env *environment) writeOutput(path string, write func(io.Writer) error) error {
	if path == "" {
		return write(env.out)
	}
	return writeFile(path, 0o600, write)
}

// replaceFile writes a file completely or not at all.
func replaceFile(path string, data []byte, mode os.FileMode) error {
	return writeFile(path, mode, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// rewriteInPlace is replaceFile for a file that may exist: it keeps a symbolic link to it, and its
// mode. A new file gets mode.
func rewriteInPlace(path string, data []byte, mode os.FileMode) error {
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	return replaceFile(path, data, mode)
}

func writeFile(path string, mode os.FileMode, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".askance-*")
	if err != nil { // about another name than that of the caller
		return &fs.PathError{Op: "open", Path: path, Err: errors.Unwrap(err)}
	}
	defer func() { _ = os.Remove(f.Name()) }() // renamed by then, if all went well
	if err = write(f); err == nil {
		err = f.Chmod(mode)
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return &fs.PathError{Op: "replace", Path: path, Err: errors.Unwrap(err)}
	}
	return nil
}

// tableText lays out rows below a heading, without borders. If a terminal is too narrow for a
// column of each, it lists the cells of each row below each other.
func tableText(out *term.Out, heads []string, rows [][]string) string {
	styled := make([]string, len(heads))
	for i, h := range heads {
		styled[i] = out.Dim(h)
	}
	t := table.New().Border(lipgloss.HiddenBorder()).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderHeader(false).BorderColumn(false).
		StyleFunc(func(int, int) lipgloss.Style { return lipgloss.NewStyle().PaddingRight(2) }).
		Headers(styled...).Rows(rows...)
	var b strings.Builder
	for line := range strings.Lines(t.Render() + "\n") {
		line = strings.TrimRight(line, " \n")
		if out.Terminal() && ansi.StringWidth(line) > out.Width() {
			return rowSheets(out, heads, rows)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// rowSheets lists each row as a sheet, headed by its first cell.
func rowSheets(out *term.Out, heads []string, rows [][]string) string {
	width := 0
	for _, h := range heads[1:] {
		width = max(width, len(h))
	}
	var b strings.Builder
	for _, row := range rows {
		s := newSheet(out, width, row[0])
		for i, cell := range row[1:] {
			s.row(heads[i+1], cell)
		}
		b.WriteString(s.String())
	}
	return b.String()
}

// sheet is a text with labelled rows below a heading.
type sheet struct {
	strings.Builder
	out   *term.Out
	width int // of the labels
}

func newSheet(out *term.Out, width int, heading string) *sheet {
	s := &sheet{out: out, width: width}
	s.line(heading)
	return s
}

func (s *sheet) line(text string) { s.WriteString(text + "\n") }

// row adds a labelled row, unless its text is empty. A text of one line continues below itself on
// a narrow terminal; one of several lines is quoted, so it gets no line ends.
func (s *sheet) row(label, text string) {
	if text != "" {
		if s.out.Terminal() && !strings.Contains(text, "\n") {
			indent := s.width + 3
			text = strings.TrimLeft(term.Indent(ansi.Wordwrap(text, s.out.Width()-indent, ""), strings.Repeat(" ", indent)), " ")
		}
		_, _ = fmt.Fprintf(s, "  %s %s\n", s.out.Dim(fmt.Sprintf("%-*s", s.width, label)), text)
	}
}

// lines adds a row for each line of a text, with the label before the first one. It ignores a nil paint.
func (s *sheet) lines(label, text string, paint func(string) string) {
	for line := range strings.SplitSeq(term.Safe(text), "\n") {
		if line == "" {
			continue
		}
		if paint != nil {
			line = paint(line)
		}
		s.row(label, line)
		label = ""
	}
}

func (s *sheet) rowf(label, format string, args ...any) {
	s.row(label, fmt.Sprintf(format, args...))
}

func count(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
