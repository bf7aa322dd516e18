package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// ReadOnly reports whether the line is proved to change nothing: every command
// of it only prints, whatever the files of the machine are. Reading is not
// changing, so the line may print a secret. False says nothing: the programs
// are those that AgentScope takes for read-only, without the arguments by which
// they are not.
//
// Beyond static lines it knows groups in braces, here-documents of plain text,
// a quote that never ends (no shell runs that), and, for programs such as echo
// that no argument can make change anything, globs and plain $NAME.
func (l *Line) ReadOnly() bool {
	switch {
	case l.Hidden != nil || len(l.Text) > MaxBytes:
		return false
	case l.Static():
		return l.prints()
	case l.broken:
		return closed(l.Text, "'") || closed(l.Text, `"`)
	}
	return l.agreed && len(l.stmts) > 0 && l.quiet()
}

// quiet says whether a line that is not static changes nothing.
func (l *Line) quiet() bool {
	for _, r := range l.Reasons {
		switch r.Code {
		case CodeExpansion, CodeGlob, CodeControl, CodeRedirect: // looked at one by one
		default:
			return false
		}
	}
	if strings.Contains(l.Text, "<<") && strings.Contains(l.Text, `\`) {
		return false // shells may differ about where the document ends
	}
	return quiet(l.stmts)
}

// prints says whether all commands of a static line are read-only.
func (l *Line) prints() bool {
	for i := range l.Commands {
		if !l.Commands[i].readOnly() {
			return false
		}
	}
	return true
}

// closed says whether the text lacks but a quote to be read-only.
func closed(text, quote string) bool {
	l := Parse(text + quote)
	return l.Static() && l.prints()
}

// readOnly says whether a static command changes nothing.
func (c *Command) readOnly() bool {
	p, ok := programs[c.Argv[0].Text]
	if !ok {
		return false
	}
	if why, _ := refused(c.Argv); why != "" {
		return false
	}
	args := c.Argv[1:]
	for p.subs != nil && len(args) > 0 {
		if !listed(p.globals, args[0].Text) {
			if p, ok = p.subs[args[0].Text]; !ok {
				return false
			}
		}
		args = args[1:]
	}
	return p.read != nil && p.read(args)
}

// quiet says whether statements that are not static change nothing.
func quiet(stmts []*syntax.Stmt) bool {
	for _, s := range stmts {
		if s.Background || s.Coprocess || s.Disown || !quietRedirects(s.Redirs) || !quietCommand(s.Cmd) {
			return false
		}
	}
	return true
}

func quietCommand(c syntax.Command) bool {
	switch c := c.(type) {
	case *syntax.CallExpr:
		return len(c.Assigns) == 0 && quietCall(c.Args)
	case *syntax.Block:
		return quiet(c.Stmts)
	case *syntax.BinaryCmd:
		return c.Op != syntax.PipeAll && quiet([]*syntax.Stmt{c.X, c.Y})
	}
	return false
}

// quietCall looks at one call: its words are known, or do not matter.
func quietCall(args []*syntax.Word) bool {
	cmd := Command{}
	static := true
	for _, a := range args {
		if !plainParts(a.Parts) {
			return false
		}
		r := readWord(a, "")
		for _, why := range r.why {
			if why.Code != CodeExpansion && why.Code != CodeGlob {
				return false
			}
			static = false
		}
		cmd.Argv = append(cmd.Argv, r.result())
	}
	first := cmd.Argv[0]
	if !first.Fixed || reserved[first.Text] {
		return false
	}
	return programs[first.Text].steady || static && cmd.readOnly()
}

// plainParts says whether parts of a word are text, quotes and plain $NAME.
func plainParts(parts []syntax.WordPart) bool {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(p.Value, "{}") {
				return false
			}
		case *syntax.SglQuoted:
			if p.Dollar {
				return false
			}
		case *syntax.DblQuoted:
			if p.Dollar || !plainParts(p.Parts) {
				return false
			}
		case *syntax.ParamExp:
			if !p.Short || p.Param == nil {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// quietRedirects knows /dev/null, descriptors, and here-documents without
// expansions and backslashes, about whose end all shells agree.
func quietRedirects(redirs []*syntax.Redirect) bool {
	for _, r := range redirs {
		switch {
		case r.Hdoc == nil && harmless(r):
		case r.Op == syntax.Hdoc && len(redirs) == 1 && r.N == nil && plainDocument(r):
		default:
			return false
		}
	}
	return true
}

func plainDocument(r *syntax.Redirect) bool {
	name := r.Word.Lit()
	if name == "" || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || r.Hdoc == nil {
		return false
	}
	for _, part := range r.Hdoc.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok || strings.ContainsAny(lit.Value, "\\$`") {
			return false
		}
	}
	return true
}
