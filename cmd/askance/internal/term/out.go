// Package term writes output for people: one Out for each stream, in colour only if
// the stream is a terminal and NO_COLOR is not set.
//
// All text of a model, a tool or another person passes through Safe or
// SafeLine before it is shown. Otherwise a tool call could carry escape
// sequences that paint another command over the one that a person is asked
// about, or letters that look like others. Package internal/reveal makes them
// visible, as in the inboxes. JSON output is for programs and is not changed.
package term

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"
	xterm "golang.org/x/term"

	"github.com/askance-dev/askance/internal/reveal"
)

// defaultWidth is the width of lines without a terminal.
const defaultWidth = 120

// bubbletea's initialization, which follows this, would ask the terminal for its background.
// A terminal that does not reply would delay every command by 5 s.
var _ = func() bool { lipgloss.SetHasDarkBackground(true); return true }()

// Out writes to one stream. Its methods may be called from several goroutines; a
// caller that writes lines that belong together needs its own lock.
type Out struct {
	io.Writer
	render *lipgloss.Renderer
	file   *os.File // nil: no terminal
}

// New wraps a stream.
func New(w io.Writer) *Out {
	o := &Out{Writer: w, render: lipgloss.NewRenderer(w)}
	if f, ok := w.(*os.File); ok && xterm.IsTerminal(int(f.Fd())) {
		o.file = f
	}
	return o
}

// Terminal reports whether the stream is a terminal.
func (o *Out) Terminal() bool { return o.file != nil }

// Width returns how many characters fit on a line.
func (o *Out) Width() int {
	if o.file == nil {
		return defaultWidth
	}
	if w, _, err := xterm.GetSize(int(o.file.Fd())); err == nil && w > 20 {
		return w
	}
	return defaultWidth
}

// Height returns how many lines the terminal has; 0 without one.
func (o *Out) Height() int {
	if o.file == nil {
		return 0
	}
	_, h, err := xterm.GetSize(int(o.file.Fd()))
	if err != nil {
		return 0
	}
	return h
}

// IsTerminal reports whether r is a terminal.
func IsTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && xterm.IsTerminal(int(f.Fd()))
}

// The colours are the terminal's own sixteen, so that they fit its background.
const (
	red     = lipgloss.Color("1")
	green   = lipgloss.Color("2")
	yellow  = lipgloss.Color("3")
	blue    = lipgloss.Color("4")
	magenta = lipgloss.Color("5")
	cyan    = lipgloss.Color("6")
	grey    = lipgloss.Color("8")
)

func (o *Out) paint(c lipgloss.TerminalColor, s string) string {
	return o.render.NewStyle().Foreground(c).Render(s)
}

// Good paints what went well.
func (o *Out) Good(s string) string { return o.paint(green, s) }

// Bad paints what failed or was denied.
func (o *Out) Bad(s string) string { return o.paint(red, s) }

// Ask paints what waits for a person.
func (o *Out) Ask(s string) string { return o.paint(yellow, s) }

// Work paints what is being done.
func (o *Out) Work(s string) string { return o.paint(blue, s) }

// Name paints names of tools and calls.
func (o *Out) Name(s string) string { return o.paint(cyan, s) }

// Who paints names of people, bots and programs.
func (o *Out) Who(s string) string { return o.paint(magenta, s) }

// Dim paints what is less important.
func (o *Out) Dim(s string) string { return o.paint(grey, s) }

// A request is urgent or soon due if it has at most this time left.
const (
	Urgent = 5 * time.Minute
	Soon   = 30 * time.Minute
)

// Due paints how much time is left; later is for what is not due soon.
func (o *Out) Due(ends, now time.Time, later func(string) string) func(string) string {
	switch left := ends.Sub(now); {
	case ends.IsZero():
		return o.Dim
	case left <= Urgent:
		return o.Bad
	case left <= Soon:
		return o.Ask
	}
	return later
}

// Bold makes a heading.
func (o *Out) Bold(s string) string { return o.render.NewStyle().Bold(true).Render(s) }

// Selected marks the line that keys act on.
func (o *Out) Selected(s string) string { return o.render.NewStyle().Reverse(true).Render(s) }

// Safe makes text harmless for a terminal and its reader with [reveal.Text], as the
// inboxes do: the same text looks the same everywhere.
func Safe(s string) string { return reveal.Text(s) }

// SafeLine is Safe for a single line: newlines and tabs also become marks.
func SafeLine(s string) string { return reveal.Line(s) }

// SafeName is SafeLine for names of people and programs, which stay readable in every script.
func SafeName(s string) string { return reveal.MarkedName(s) }

// Clip shortens a line to n columns of a terminal.
func Clip(s string, n int) string {
	if n < 1 {
		return s
	}
	return ansi.Truncate(s, n, "…")
}

// Wrapper breaks a stream of text into indented lines between words. Call Write for
// each piece, and Flush at the end. It is not safe for concurrent use.
type Wrapper struct {
	Out    func(string)
	Indent string
	Width  int

	word string
	col  int // characters on the current line, without the indent
}

// Write adds the next piece. A word is shown when the character after it has arrived.
func (w *Wrapper) Write(text string) {
	for _, r := range text {
		switch r {
		case '\n':
			w.endWord()
			w.newline()
		case ' ', '\t':
			w.endWord()
		default:
			w.word += string(r)
		}
	}
}

// Flush shows what is left and ends the line.
func (w *Wrapper) Flush() {
	w.endWord()
	if w.col > 0 {
		w.newline()
	}
}

func (w *Wrapper) newline() {
	w.Out("\n")
	w.col = 0
}

func (w *Wrapper) endWord() {
	if w.word == "" {
		return
	}
	n := utf8.RuneCountInString(w.word)
	if w.col > 0 && len(w.Indent)+w.col+1+n > w.Width {
		w.newline()
	}
	if w.col == 0 {
		w.Out(w.Indent + w.word)
		w.col = n
	} else {
		w.Out(" " + w.word)
		w.col += 1 + n
	}
	w.word = ""
}

// labelOf finds what is before the text of an item or an indented line, such as the name of a flag.
var labelOf = regexp.MustCompile(`^ +\S+(?: \S+)*?  +|^ {6,}|^- `)

// Fit breaks the lines of a help text after n columns. It fills paragraphs again, and continues
// the text of an item or a labelled line below itself. It does not break commands and their comments.
func Fit(text string, n int) string {
	var b strings.Builder
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for used := 1; len(lines) > 0; lines, used = lines[used:], 1 {
		label := labelOf.FindString(lines[0])
		if isProse(lines[0]) {
			for used < len(lines) && isProse(lines[used]) {
				used++
			}
		}
		part := strings.Join(lines[:used], "\n")
		isLong := slices.ContainsFunc(lines[:used], func(line string) bool { return utf8.RuneCountInString(line) > n })
		canBreak := isProse(part) || label != "" && len(label) < n-20 && !strings.Contains(part, "  # ")
		if isLong && canBreak {
			part = label + Below(strings.ReplaceAll(part[len(label):], "\n", " "), len(label), n)
		}
		b.WriteString(part + "\n")
	}
	return b.String()
}

// Below breaks a text that begins after indent columns between words, so that it ends after n
// columns and continues below its begin.
func Below(text string, indent, n int) string {
	var b strings.Builder
	w := Wrapper{Out: func(s string) { b.WriteString(s) }, Indent: strings.Repeat(" ", indent), Width: n}
	w.Write(text)
	w.Flush()
	return strings.TrimSpace(b.String())
}

func isProse(line string) bool {
	return line != "" && line[0] != ' ' && !strings.HasPrefix(line, "- ")
}

// Indent puts a prefix before each line of text.
func Indent(text, prefix string) string {
	return prefix + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+prefix)
}
