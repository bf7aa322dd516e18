package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// The limits of what an allow rule may cover. Deny and ask rules see longer
// lines too.
const (
	MaxBytes    = 16 << 10
	MaxCommands = 50 // simple commands of the line itself
)

// Line is one analysed command line. It does not change after [Parse] and may
// be used by several goroutines.
type Line struct {
	Text string
	// Hidden is set if a person cannot see what the line does; then it is to be
	// denied, also if a rule allows it.
	Hidden *Hidden
	// Commands are the simple commands that bash finds in the line, in their
	// order: each one that an allow rule has to cover. Of a line that does not
	// parse they are those before the fault.
	Commands []Command
	// Nested are further commands that deny and ask rules look at: in
	// substitutions and control flow, behind wrappers such as env, in texts for
	// other shells, and those that sh alone finds.
	Nested []Command
	// Reasons say why no rule can allow the line. A line without reasons is
	// static: every command and every word of it is known before it runs, and
	// bash and sh agree on it.
	Reasons []Reason

	// unclear are the parts that could not be seen, so that no deny rule can be
	// said not to match.
	unclear []Reason
	// crude are words that each may begin a command: the arguments of programs
	// that are not known, and texts that no shell could read.
	crude [][]Word
	// moved are commands as seen from the folders that the line changes to.
	moved []Command
	// For [Line.ReadOnly]: what bash and sh read, whether sh finds the same
	// commands, and whether bash cannot read it.
	stmts, posix []*syntax.Stmt
	agreed       bool
	broken       bool
}

// Command is one simple command.
type Command struct {
	Argv      []Word   // the program and its arguments; empty for a bare assignment or redirect
	Assigns   []string // NAME=value before the program, as written
	Redirects []string // as written
	Offset    int      // in bytes, in the text; of a nested one that of the command it stands in
	// Via says how the line comes to run the command: "$(...)", "env",
	// "bash -c". Empty for Commands.
	Via []string

	piped    bool   // it reads what another command writes, or a file
	input    []Word // texts that it reads: <<EOF and <<<
	heard    []Word // what the command before it prints, where that is known
	assigned []Word // Assigns, as the program gets them
	files    []Word // files that it reads: <file
}

// Word is one word of a command.
type Word struct {
	// Text is what the program gets, if Fixed, else the word as written.
	Text string
	// Fixed words are exactly one argument, known before the line runs. Any
	// other stands for no, one or several arguments.
	Fixed bool

	rooted bool   // a glob whose every match begins with "/" or "./"
	head   string // what the first argument begins with, if not Fixed
}

// Args gives the texts of the words.
func (c *Command) Args() []string {
	args := make([]string, len(c.Argv))
	for i, w := range c.Argv {
		args[i] = w.Text
	}
	return args
}

// String is the words joined by blanks, quoted where a shell needs it.
func (c *Command) String() string {
	return c.join("\"'\\ \t\n$`*?[]{}()<>|&;#!~")
}

// join joins the words by blanks. Words that have one of the characters, and
// empty ones, are quoted.
func (c *Command) join(quote string) string {
	args := make([]string, len(c.Argv))
	for i, w := range c.Argv {
		args[i] = w.Text
		if w.Fixed && (w.Text == "" || strings.ContainsAny(w.Text, quote)) {
			args[i] = "'" + strings.ReplaceAll(w.Text, "'", `'\''`) + "'"
		}
	}
	return strings.Join(args, " ")
}

// Static reports whether everything the line runs is known before it runs, so
// that allow rules may cover it. Lines beyond the limits are not.
func (l *Line) Static() bool { return len(l.Reasons) == 0 }

// Parse analyses a command line. It accepts every text: what is wrong with it
// stands in the result.
func Parse(text string) *Line {
	l, _ := parseCounted(text)
	return l
}

// parseCounted is Parse, and says how many steps it took.
func parseCounted(text string) (*Line, int) {
	l := &Line{Text: text, Hidden: findHidden(text)}
	if l.Hidden != nil {
		l.addReason(CodeHidden, l.Hidden.Offset, l.Hidden.String())
	}
	if len(text) > MaxBytes {
		l.addReason(CodeTooLong, MaxBytes, "longer than 16 KiB")
	}
	x := &extractor{line: l, text: text, base: -1, budget: maxParse, work: newWork()}
	posix := x.readLine(text)
	if len(l.Commands) > MaxCommands {
		l.addReason(CodeTooMany, l.Commands[MaxCommands].Offset, "more than 50 commands")
	}
	if len(l.Commands) == 0 && len(l.Reasons) == 0 {
		l.addReason(CodeEmpty, 0, "there is no command")
	}
	l.compareWithPosix(posix)
	l.checkFolder()
	l.addSeenElsewhere()
	slices.SortStableFunc(l.Reasons, func(a, b Reason) int { return a.Offset - b.Offset })
	return l, x.work.steps
}

func (l *Line) addReason(code Code, offset int, detail string) {
	l.Reasons = append(l.Reasons, Reason{Code: code, Offset: offset, Detail: detail})
}

// compareWithPosix lets the three readings of the line vote. Only a line that has no
// other fault needs it.
func (l *Line) compareWithPosix(posix []Command) {
	if len(l.Reasons) > 0 {
		return
	}
	plain, ok := readPlain(l.Text)
	if !ok || !sameCommands(l.Commands, plain) || !slices.EqualFunc(l.Commands, posix, sameArgv) {
		l.addReason(CodeShells, 0, "bash and sh may read it differently")
	}
}

func sameCommands(cmds []Command, plain []plainCommand) bool {
	return slices.EqualFunc(cmds, plain, func(c Command, p plainCommand) bool {
		return c.piped == p.piped && slices.EqualFunc(c.Argv, p.words, func(w Word, q plainWord) bool {
			return q.glob && w.rooted || w.Fixed && w.Text == q.text
		})
	})
}

func sameArgv(a, b Command) bool { return slices.Equal(a.Argv, b.Argv) }
