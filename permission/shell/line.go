package shell

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

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
	flows        bool // it is static, with control flow
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
	moved    bool   // it runs in another folder than the line
	joint    string // the operator before it: && || |
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

// Unread says why a part of the line, or of a text that it hands to a shell, was
// not read to its end; nil if all of it was. Commands may stand in that part.
func (l *Line) Unread() *Reason {
	i := slices.IndexFunc(l.unclear, func(r Reason) bool {
		return r.Code == CodeSyntax || r.Code == CodeTooLong || r.Code == CodeTooMany
	})
	if i < 0 {
		return nil
	}
	return &l.unclear[i]
}

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
	x.readFlow()
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

// Code names why no allow rule covers a line or one of its commands.
type Code string

// The codes. What is found in the text of the line comes first, what is found
// against rules last.
const (
	CodeHidden      Code = "hidden_character"  // a person cannot see what runs: denied
	CodeTooLong     Code = "too_long"          // over MaxBytes
	CodeTooMany     Code = "too_many_commands" // over MaxCommands
	CodeEmpty       Code = "no_command"        // nothing runs
	CodeSyntax      Code = "syntax"            // does not parse
	CodeShells      Code = "shells_differ"     // bash and sh read it differently, or a reader is not sure
	CodeBackground  Code = "background"        // &, coproc
	CodeNegation    Code = "negation"          // ! command
	CodeControl     Code = "control_flow"      // if, for, case, subshells, groups, [[ ]], (( )), |&
	CodeFunction    Code = "function"          // a definition hides the program of that name
	CodeRedirect    Code = "redirect"          // to or from anything but /dev/null and other descriptors
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
	CodeNoTable     Code = "unknown_program"   // a rule names the command, but what its options do is not known
)

// Reason is one reason with its place in the text.
type Reason struct {
	Code   Code
	Offset int    // in bytes; of the command or of the very part
	Detail string // in words, may quote the text
}

// String gives the detail with the code.
func (r Reason) String() string {
	if r.Detail == "" {
		return string(r.Code)
	}
	return fmt.Sprintf("%s (%s)", r.Detail, r.Code)
}

// Hidden is a character that hides from a person who reads a command what
// runs. A line that has one is denied, not asked about: no person could
// answer the approval request.
type Hidden struct {
	Offset int    // in bytes
	Char   rune   // utf8.RuneError where the text is not UTF-8
	What   string // the kind of character, in words
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

// emojiStyle are the variation selectors that choose between text and emoji.
func emojiStyle(r rune) bool { return r >= 0xFE00 && r <= 0xFE0F }

// oddRune says whether a character, outside quotes, may look like something
// else: like a blank, or like nothing. Such lines are asked about.
func oddRune(r rune) bool {
	return r >= utf8.RuneSelf && (emojiStyle(r) || !unicode.IsPrint(r))
}
