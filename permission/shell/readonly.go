package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// ReadOnly reports whether the line is proved to change nothing: every command in it
// only prints, with any files on the machine. Reading is not changing, so the line may
// print a secret. False proves nothing: the accepted programs are those that AgentScope
// treats as read-only, without the arguments that make them change something.
//
// Beyond static lines it accepts groups in braces, here-documents, |&, files that are
// read, background commands, variables for language and appearance, and a quote that
// never ends, which no shell runs. For programs such as echo, which no argument can
// make change anything, it also accepts globs, braces, plain $NAME and sums of numbers.
func (l *Line) ReadOnly() bool {
	switch {
	case l.Hidden != nil || len(l.Text) > MaxBytes:
		return false
	case l.Static() && !l.flows:
		return !slices.ContainsFunc(l.Commands, func(c Command) bool { return !c.readOnly() })
	case l.broken:
		return isClosed(l.Text, "'") || isClosed(l.Text, `"`)
	case l.bashOnly():
		return l.isQuiet()
	}
	return l.agreed && l.isQuiet() && isQuiet(l.posix)
}

// bashOnly reports whether the line contains syntax that sh cannot read at all, so sh
// runs none of it: |& or <<<.
func (l *Line) bashOnly() bool {
	if strings.ContainsAny(l.Text, "\n\\`") || strings.Contains(l.Text, "$'") || strings.Contains(l.Text, `$"`) {
		return false // it may read another line, or end the quotes elsewhere
	}
	return anyNode(l.stmts, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.BinaryCmd:
			return n.Op == syntax.PipeAll
		case *syntax.Redirect:
			return n.Op == syntax.WordHdoc
		}
		return false
	})
}

func (l *Line) isQuiet() bool {
	for _, r := range l.Reasons {
		switch r.Code {
		case CodeExpansion, CodeGlob, CodeBraces, CodeQuoting, CodeControl, CodeRedirect, CodeBackground, CodeAssignment: // looked at one by one
		default:
			return false
		}
	}
	if strings.Contains(l.Text, "<<") && strings.Contains(l.Text, `\`) {
		return false // shells may differ about where the document ends
	}
	return len(l.stmts) > 0 && isQuiet(l.stmts)
}

// isClosed reports whether the text lacks only a quote to be read-only with any
// arguments.
func isClosed(text, quote string) bool {
	l := Parse(text + quote)
	return l.Static() && !slices.ContainsFunc(l.Commands, func(c Command) bool { return !isSteady(c.Argv[0].Text) })
}

func (c *Command) readOnly() bool {
	r := review{argv: c.Argv, first: 1, last: len(c.Argv)}
	why, known := r.refuse()
	return known && why == "" && (r.entry.reads || r.entry.lists && r.operands == 0)
}

func isQuiet(stmts []*syntax.Stmt) bool {
	return !slices.ContainsFunc(stmts, func(s *syntax.Stmt) bool {
		return s.Coprocess || s.Disown || !areQuietRedirects(s.Redirs) || !isQuietCommand(s.Cmd)
	})
}

func isQuietCommand(c syntax.Command) bool {
	switch c := c.(type) {
	case *syntax.CallExpr:
		return len(c.Args) > 0 && !slices.ContainsFunc(c.Assigns, func(a *syntax.Assign) bool { return !isQuietAssign(a) }) && isQuietCall(c.Args)
	case *syntax.Block:
		return isQuiet(c.Stmts)
	case *syntax.BinaryCmd:
		return isQuiet([]*syntax.Stmt{c.X, c.Y})
	}
	return false
}

// quietNames are the variables that change only how programs print, and names that
// serve as placeholders in examples.
var quietNames = setOf("NODE_ENV PYTHONUNBUFFERED RUST_LOG LANG NO_COLOR FORCE_COLOR DEBUG VERBOSE CI TZ LC_ALL LC_CTYPE " +
	"COLUMNS LINES CLICOLOR CLICOLOR_FORCE FOO BAR")

// isQuietAssign reports whether a variable before a command cannot make it change
// anything. No program gives a single-letter variable a meaning of its own.
func isQuietAssign(a *syntax.Assign) bool {
	if a.Append || a.Naked || a.Index != nil || a.Array != nil || a.Name == nil {
		return false
	}
	value := ""
	if a.Value != nil {
		if value = a.Value.Lit(); value == "" {
			return false
		}
	}
	name := a.Name.Value
	letter := len(name) == 1 && name != "_"
	return (letter || quietNames[name]) && strings.Trim(value, plainSigns) == ""
}

const plainSigns = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

// isQuietCall reports whether one call changes nothing: its words are known, or do not matter.
func isQuietCall(args []*syntax.Word) bool {
	for _, a := range args {
		if !plainParts(a.Parts) {
			return false
		}
	}
	first := readWord(args[0], args[0].Lit())
	cmd := Command{Argv: []Word{first.result()}}
	name := cmd.Argv[0]
	if !name.Fixed || reserved[name.Text] || strings.ContainsAny(name.Text, "{}") {
		return false
	}
	static := len(first.why) == 0
	for i, a := range args[1:] {
		words := standInWords(a)
		if words == nil && name.Text == "git" && slices.ContainsFunc(args[1:i+1], func(w *syntax.Word) bool { return w.Lit() == "--" }) {
			words = []Word{{Text: "x", Fixed: true}} // it is always the name of a file
		}
		static = static && words != nil
		cmd.Argv = append(cmd.Argv, words...)
	}
	return isSteady(name.Text) || static && cmd.readOnly()
}

// standInWords returns words to check in place of one: the word itself if it is known,
// or paths if it stands for paths with a known beginning, which cannot be options. It
// returns nil if the word is not known.
func standInWords(a *syntax.Word) []Word {
	lit := a.Lit()
	r := readWord(a, lit)
	if len(r.why) == 0 && !strings.ContainsAny(lit, "{}") {
		return []Word{r.result()}
	}
	home := lit == "~" || strings.HasPrefix(lit, "~/")
	for _, why := range r.why {
		if why.Code != CodeGlob && (why.Code != CodeExpansion || !home) {
			return nil
		}
	}
	begin := lit
	if i := strings.IndexAny(lit, "*?["); i >= 0 {
		begin = lit[:i]
	}
	if home {
		begin = "/" + begin
	}
	if begin == "" || begin[0] == '-' || strings.ContainsAny(lit, `{}\`) {
		return nil
	}
	path := Word{Text: begin + "x", Fixed: true}
	return []Word{path, path} // a pattern can stand for several
}

// plainParts reports whether the parts of a word are text, quotes, plain $NAME and sums
// of numbers.
func plainParts(parts []syntax.WordPart) bool {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
		case *syntax.SglQuoted:
			if p.Dollar && strings.Contains(p.Value, `\`) {
				return false // to sh it may end elsewhere
			}
		case *syntax.DblQuoted:
			if p.Dollar || !plainParts(p.Parts) {
				return false
			}
		case *syntax.ParamExp:
			if !p.Short || p.Param == nil {
				return false
			}
		case *syntax.ArithmExp:
			if p.Bracket || p.Unsigned || !areNumbers(p.X) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// areNumbers reports whether an expression contains only numbers: the value of a
// variable would be evaluated again.
func areNumbers(x syntax.ArithmExpr) bool {
	switch x := x.(type) {
	case *syntax.Word:
		return isDigits(x.Lit())
	case *syntax.ParenArithm:
		return areNumbers(x.X)
	case *syntax.BinaryArithm:
		switch x.Op {
		case syntax.Add, syntax.Sub, syntax.Mul, syntax.Quo, syntax.Rem:
			return areNumbers(x.X) && areNumbers(x.Y)
		}
	}
	return false
}

// areQuietRedirects accepts /dev/null, descriptors, files that are read, <<< and
// here-documents whose end all shells agree on.
func areQuietRedirects(redirs []*syntax.Redirect) bool {
	for _, r := range redirs {
		switch {
		case r.Hdoc == nil && isHarmless(r):
		case len(redirs) > 1 || r.N != nil || r.Word == nil:
			return false
		case r.Op == syntax.RdrIn:
			w := readWord(r.Word, r.Word.Lit())
			if file := w.result(); len(w.why) > 0 || !file.Fixed || strings.Contains(file.Text, "/dev/") {
				return false // /dev/tcp/host/port is a connection
			}
		case r.Op == syntax.WordHdoc:
			if !plainParts(r.Word.Parts) {
				return false
			}
		case !plainDocument(r):
			return false
		}
	}
	return true
}

// singleLit returns the text in double quotes if they contain only text.
func singleLit(q *syntax.DblQuoted) (string, bool) {
	if q.Dollar || len(q.Parts) != 1 {
		return "", false
	}
	lit, ok := q.Parts[0].(*syntax.Lit)
	if !ok {
		return "", false
	}
	return lit.Value, true
}

// plainDocument accepts documents that end with a word of capital letters, quoted or
// not. No other line may look like that word.
func plainDocument(r *syntax.Redirect) bool {
	if r.Hdoc == nil || r.Op != syntax.Hdoc && r.Op != syntax.DashHdoc {
		return false
	}
	name, quoted := r.Word.Lit(), false
	if len(r.Word.Parts) == 1 {
		switch q := r.Word.Parts[0].(type) {
		case *syntax.SglQuoted:
			if !q.Dollar {
				name, quoted = q.Value, true
			}
		case *syntax.DblQuoted:
			if lit, ok := singleLit(q); ok {
				name, quoted = lit, true
			}
		}
	}
	if name == "" || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return false
	}
	for _, part := range r.Hdoc.Parts {
		lit, ok := part.(*syntax.Lit)
		switch {
		case !ok:
			if !plainParts([]syntax.WordPart{part}) {
				return false
			}
		case !quoted && strings.ContainsAny(lit.Value, "\\$`"):
			return false
		default:
			for line := range strings.SplitSeq(lit.Value, "\n") {
				if strings.TrimSpace(line) == name {
					return false
				}
			}
		}
	}
	return true
}

// AdmitsOptions reports whether an allow rule for the program, such as git:*, covers
// the command: none of its arguments makes it run another program, write a file that
// the rule does not name, or load configuration.
func (c *Command) AdmitsOptions() bool {
	if len(c.Argv) == 0 || !c.Argv[0].Fixed || len(c.Assigns) > 0 {
		return false
	}
	p, err := Compile(c.Argv[0].Text + ":*")
	return err == nil && coverOne(c, []*Pattern{p}).Covered
}
