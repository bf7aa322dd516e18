package shell

import (
	"regexp"
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// NamesPrograms reports whether the program of every command, nested ones included, is
// known before the line runs; arguments need not be.
func (l *Line) NamesPrograms() bool {
	unknown := func(c Command) bool { return len(c.Argv) > 0 && !c.Argv[0].Fixed }
	return l.Hidden == nil && len(l.unclear) == 0 && !slices.ContainsFunc(l.Commands, unknown) && !slices.ContainsFunc(l.Nested, unknown)
}

// flow collects the commands of control flow: if, while, until, for, case, groups,
// subshells and !.
type flow struct {
	*extractor
	commands []Command
}

// readFlow makes a line with control flow static if everything it runs is plain
// commands on which the readers for bash and sh and the plain reader agree.
func (e *extractor) readFlow() {
	l := e.line
	if !l.agreed || l.broken || len(l.unclear) > 0 || len(l.Reasons) == 0 ||
		slices.ContainsFunc(l.Reasons, func(r Reason) bool { return r.Code != CodeControl && r.Code != CodeNegation }) {
		return
	}
	f := &flow{extractor: e}
	if !f.areStatements(l.stmts, false) || len(f.commands) == 0 || len(f.commands) > MaxCommands {
		return
	}
	l.Commands, l.Reasons, l.flows = f.commands, nil, true
}

func (f *flow) areStatements(stmts []*syntax.Stmt, piped bool) bool {
	return !slices.ContainsFunc(stmts, func(s *syntax.Stmt) bool { return !f.isStatement(s, piped) })
}

func (f *flow) isStatement(s *syntax.Stmt, piped bool) bool {
	if s.Background || s.Coprocess || s.Disown || slices.ContainsFunc(s.Redirs, func(r *syntax.Redirect) bool { return !isHarmless(r) }) {
		return false
	}
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		return f.isCall(c, s, piped)
	case *syntax.BinaryCmd:
		return c.Op != syntax.PipeAll && f.isStatement(c.X, piped) && f.isStatement(c.Y, piped || c.Op == syntax.Pipe)
	case *syntax.Block:
		return f.areStatements(c.Stmts, piped)
	case *syntax.Subshell:
		return f.areStatements(c.Stmts, piped)
	case *syntax.WhileClause:
		return f.areStatements(c.Cond, piped) && f.areStatements(c.Do, piped)
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			if !f.areStatements(c.Cond, piped) || !f.areStatements(c.Then, piped) {
				return false
			}
		}
		return true
	case *syntax.ForClause:
		iter, words := c.Loop.(*syntax.WordIter)
		return words && !c.Select && iter.InPos.IsValid() && !isSetting.MatchString(iter.Name.Value) &&
			f.areFixed(iter.Items) && f.areStatements(c.Do, piped)
	case *syntax.CaseClause:
		for _, item := range c.Items {
			if slices.ContainsFunc(item.Patterns, holdsNodes) || !f.areStatements(item.Stmts, piped) {
				return false
			}
		}
		return f.areFixed([]*syntax.Word{c.Word})
	}
	return false
}

// isSetting matches variables from which programs take settings, if the environment has them.
var isSetting = regexp.MustCompile(`[A-Z]|^(?:p?npm|yarn)_|_proxy$`)

func (f *flow) areFixed(words []*syntax.Word) bool {
	_, why := f.readWords(words, false)
	return len(why) == 0
}

// isCall reports whether a call is plain. A call that changes the folder or the shell
// would change what the commands of a loop mean.
func (f *flow) isCall(c *syntax.CallExpr, s *syntax.Stmt, piped bool) bool {
	cmd, why := f.makeCommand(c, s.Redirs, int(s.Pos().Offset()))
	cmd.piped = piped
	name, ok := cmd.program()
	if !ok || len(why) > 0 || len(c.Assigns) > 0 || changesShell[name] || changesFolder[name] {
		return false
	}
	plain, ok := readPlain(f.source(c))
	if !ok || len(plain) != 1 || !sameCommands([]Command{{Argv: cmd.Argv}}, plain) {
		return false
	}
	f.commands = append(f.commands, cmd)
	return true
}
