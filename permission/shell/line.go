package shell

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// The limits of what an allow rule may cover. Deny and ask rules also see longer lines.
const (
	MaxBytes    = 16 << 10
	MaxCommands = 50 // simple commands of the line itself
)

// Line is one analysed command line. It does not change after [Parse] and may
// be used by several goroutines.
type Line struct {
	Text string
	// Hidden is set if a person cannot see what the line does. The line must then be
	// denied, even if a rule allows it.
	Hidden *Hidden
	// Commands are the simple commands that bash finds in the line, in order. An allow
	// rule must cover each of them. If the line does not parse, they are the ones
	// before the fault.
	Commands []Command
	// Nested are more commands that deny and ask rules look at: in substitutions and
	// control flow, run by wrappers such as env, in texts for other shells, and those
	// that only sh finds.
	Nested []Command
	// Reasons say why only a rule that is exactly the line can allow it, if any. A line
	// without reasons is static: every command and word is known before it runs, and
	// bash and sh agree on it.
	Reasons []Reason

	// unclear are the parts that could not be seen, so any deny rule may match there.
	unclear []Reason
	// crude are words that may each begin a command: the arguments of unknown programs,
	// and texts that no shell can parse.
	crude [][]Word
	// elsewhere are the folders that ParseIn was given.
	elsewhere []string
	// moved are the commands as seen from elsewhere and the folders that the line changes to.
	moved []Command
	// For [Line.ReadOnly]: the statements that bash and sh read, whether sh finds the
	// same commands, and whether bash cannot parse the line.
	stmts, posix []*syntax.Stmt
	agreed       bool
	broken       bool
	flows        bool // the line is static and has control flow
}

// Command is one simple command.
type Command struct {
	Argv      []Word   // the program and its arguments; empty for a bare assignment or redirect
	Assigns   []string // NAME=value before the program, as written
	Redirects []string // as written
	Offset    int      // in bytes, in the text; for a nested command, of the command that contains it
	// Via says how the line runs the command, such as "$(...)", "env" or "bash -c". It
	// is empty for Commands.
	Via []string

	piped    bool   // it reads the output of another command, or a file
	moved    bool   // it runs after the line changed the folder
	joint    string // the operator before it: && || |
	input    []Word // texts that it reads: <<EOF and <<<
	heard    []Word // what the command before it prints, if known
	assigned []Word // Assigns, as the program gets them
	files    []Word // files that it reads: <file
}

// Word is one word of a command.
type Word struct {
	// Text is the argument that the program gets, if Fixed, or else the word as written.
	Text string
	// Fixed words are exactly one argument, known before the line runs. Other words
	// stand for zero or more arguments.
	Fixed bool

	rooted bool   // a glob whose every match begins with "/" or "./"
	status bool   // one argument, in which only the number $? is not known
	head   string // the beginning of the first argument, if not Fixed
	bare   string // see Bare
}

// MarkHome and MarkPwd stand for $HOME and $PWD in Word.Bare: no word can have a NUL.
const (
	MarkHome = "\x00HOME"
	MarkPwd  = "\x00PWD"
)

// Bare returns the word without quotes. In one that is not Fixed, ~ is as written, a list in braces
// is *, and $ stands for everything that is not known before the line runs.
func (w Word) Bare() string {
	if w.Fixed {
		return w.Text
	}
	return cmp.Or(w.bare, "$")
}

// Args returns the texts of the words.
func (c *Command) Args() []string {
	args := make([]string, len(c.Argv))
	for i, w := range c.Argv {
		args[i] = w.Text
	}
	return args
}

// String returns the words joined by blanks, quoted where a shell needs it.
func (c *Command) String() string {
	return c.join("\"'\\ \t\n$`*?[]{}()<>|&;#!~")
}

// join joins the words by blanks. It quotes empty words and words with one of the
// characters.
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

// Static reports whether everything the line runs is known before it runs, so allow
// rules may cover it. It is false for lines beyond the limits.
func (l *Line) Static() bool { return len(l.Reasons) == 0 }

// Unread says why a part of the line, or of a text that it passes to a shell, was not read to
// the end, or returns nil if all of it was. The unread part may contain commands.
func (l *Line) Unread() *Reason {
	i := slices.IndexFunc(l.unclear, func(r Reason) bool {
		return r.Code == CodeSyntax || r.Code == CodeTooLong || r.Code == CodeTooMany
	})
	if i < 0 {
		return nil
	}
	return &l.unclear[i]
}

// Unclear says why the line may run commands that are not known before it runs, or returns nil.
func (l *Line) Unclear() *Reason {
	if len(l.unclear) == 0 {
		return nil
	}
	return &l.unclear[0]
}

// Parse analyses a command line. It accepts every text, and the result says what is
// wrong with it.
func Parse(text string) *Line { return ParseIn(text) }

// ParseIn is Parse for a line that runs in one of these folders, and not in the one that rules speak
// of: its commands count as commands after cd.
func ParseIn(text string, folders ...string) *Line {
	l, _ := parseCounted(text, folders...)
	return l
}

// parseCounted is Parse, and also returns the number of steps it took.
func parseCounted(text string, folders ...string) (*Line, int) {
	l := &Line{Text: text, Hidden: findHidden(text), elsewhere: folders}
	if l.Hidden != nil {
		l.addReason(CodeHidden, l.Hidden.Offset, l.Hidden.String())
	}
	if len(text) > MaxBytes {
		l.addReason(CodeTooLong, MaxBytes, "longer than 16 KiB")
	}
	x := &extractor{line: l, text: text, base: -1, budget: maxParse, work: &work{inners: map[textKey]*Line{}, aliases: map[string]Word{}}}
	posix := x.readLine(text)
	if len(l.Commands) > MaxCommands {
		l.addReason(CodeTooMany, l.Commands[MaxCommands].Offset, "more than 50 commands")
	}
	if len(l.Commands) == 0 && len(l.Reasons) == 0 {
		l.addReason(CodeEmpty, 0, "there is no command")
	}
	l.compareWithPosix(posix)
	x.readFlow()
	l.checkFolder()
	l.addSeenElsewhere()
	slices.SortStableFunc(l.Reasons, func(a, b Reason) int { return a.Offset - b.Offset })
	return l, x.work.steps
}

func (l *Line) addReason(code Code, offset int, detail string) {
	l.Reasons = append(l.Reasons, Reason{Code: code, Offset: offset, Detail: detail})
}

// compareWithPosix adds a reason unless the three readings of the line agree. Only
// lines without another reason need it.
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
			return q.glob && w.rooted || w.Fixed && !q.status && w.Text == q.text || w.status && q.status && w.bare == strings.ReplaceAll(q.text, "$?", "$")
		})
	})
}

func sameArgv(a, b Command) bool { return slices.Equal(a.Argv, b.Argv) }

// Code names why no allow rule covers a line or one of its commands.
type Code string

// The codes. Codes for the text of the line come first, codes for the rules last.
const (
	CodeHidden      Code = "hidden_character"  // a person cannot see what runs; the line is denied
	CodeTooLong     Code = "too_long"          // over MaxBytes
	CodeTooMany     Code = "too_many_commands" // over MaxCommands
	CodeEmpty       Code = "no_command"        // nothing runs
	CodeSyntax      Code = "syntax"            // does not parse
	CodeShells      Code = "shells_differ"     // bash and sh read it differently, or a reader is not sure
	CodeBackground  Code = "background"        // &, coproc
	CodeNegation    Code = "negation"          // ! command
	CodeControl     Code = "control_flow"      // if, for, case, subshells, groups, [[ ]], (( )), |&
	CodeFunction    Code = "function"          // a definition hides the program of that name
	CodeRedirect    Code = "redirect"          // to or from anything but /dev/null and standard descriptors
	CodeAssignment  Code = "assignment"        // NAME=value
	CodeDeclaration Code = "declaration"       // export, alias, set, eval and others that change the shell
	CodeSubst       Code = "substitution"      // $( ), backquotes, <( ), >( )
	CodeExpansion   Code = "expansion"         // $NAME, ${ }, $(( )), ~
	CodeGlob        Code = "glob"              // *, ?, [ ] that do not begin with ./ or /
	CodeBraces      Code = "braces"            // {a,b}
	CodeQuoting     Code = "quoting"           // $'...' and $"..."
	CodeFolder      Code = "changes_folder"    // cd together with git or another program that the folder configures
	CodeNoRule      Code = "no_rule"           // no rule names the command
	CodeOption      Code = "option"            // a rule names the command, but does not cover what its arguments do
	CodeNoTable     Code = "unknown_program"   // a rule names the command, but the effect of its options is not known
)

// Reason is one reason and its place in the text.
type Reason struct {
	Code   Code
	Offset int    // in bytes, of the command or the part concerned
	Detail string // for people; may quote the text
}

// String returns the detail with the code.
func (r Reason) String() string {
	if r.Detail == "" {
		return string(r.Code)
	}
	return fmt.Sprintf("%s (%s)", r.Detail, r.Code)
}

// Hidden is a character that hides what runs from a person who reads the command. A
// line that contains one is denied without asking, because people could not answer the
// approval request.
type Hidden struct {
	Offset int    // in bytes
	Char   rune   // utf8.RuneError where the text is not UTF-8
	What   string // the kind of character
}

// String names the character and its place.
func (h *Hidden) String() string {
	if h.Char == utf8.RuneError {
		return fmt.Sprintf("%s at byte %d", h.What, h.Offset)
	}
	return fmt.Sprintf("%s U+%04X at byte %d", h.What, h.Char, h.Offset)
}

func findHidden(text string) *Hidden {
	for i := 0; i < len(text); {
		if c := text[i]; c >= ' ' && c < 0x7f || c == '\n' || c == '\t' {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && size == 1 {
			return &Hidden{Offset: i, Char: utf8.RuneError, What: "invalid UTF-8"}
		}
		if what := hiddenKind(r); what != "" {
			return &Hidden{Offset: i, Char: r, What: what}
		}
		i += size
	}
	return nil
}

func hiddenKind(r rune) string {
	switch {
	case r == '\n' || r == '\t':
		return ""
	case unicode.Is(unicode.Cc, r):
		return "control character"
	case unicode.Is(unicode.Cf, r):
		return "format character"
	case r == 0x2028 || r == 0x2029:
		return "line separator"
	case emojiStyle(r):
		return "" // part of common emoji; oddRune lets no allow rule cover it
	case unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r), unicode.Is(unicode.Variation_Selector, r):
		return "invisible character"
	}
	return ""
}

// emojiStyle reports whether r is a variation selector; some choose between text and emoji.
func emojiStyle(r rune) bool { return r >= 0xFE00 && r <= 0xFE0F }

// oddRune reports whether a character outside quotes may look like something else, such
// as a blank or nothing. Lines with one are asked about.
func oddRune(r rune) bool {
	return r >= utf8.RuneSelf && (emojiStyle(r) || !unicode.IsPrint(r))
}
