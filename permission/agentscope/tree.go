package agentscope

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// tree is the part of a command line's syntax tree that AgentScope's checks look at.
// Upstream parses with tree-sitter's grammar of bash. The names here are those of that
// grammar, which also defines what is a command, a word or a redirect. Offsets are in
// bytes of the text.
type tree struct {
	text  string
	chars []rune // nil: pieces are cut by bytes
	// commands are in the order of their text, and include nested ones.
	commands []command
	// redirects are the targets of file redirects that are plain words.
	redirects []span
	// dynamic is the kind of the first node that cannot be analysed; "" if there is none.
	dynamic   string
	dynamicAt int

	document bool  // a here-document is being read
	nothings []int // offsets of commands that only replace a statement
}

type command struct {
	span
	nested  bool // it is inside another command
	name    span
	assigns []span // the names of variables
	words   []span // arguments that are plain words: not quoted, not numbers
}

type span struct{ start, end int }

func (s span) of(text string) string { return text[s.start:s.end] }

// maxRepairs bounds how often a text that does not parse is cut and parsed again.
const maxRepairs = 16

// parseTree parses a line. If the text does not parse, it reads the part before the
// error, like a parser that recovers from errors.
func parseTree(text string) *tree {
	t := &tree{text: text}
	if !utf8.ValidString(text) || !isShallow(text) {
		t.dynamic = "ERROR" // tree-sitter's name for text that it cannot read
		return t
	}
	rest := withBlanks(text)
	if n := len(rest) - len(strings.TrimRight(rest, `\`)); n%2 == 1 {
		rest = rest[:len(rest)-1]
	}
	for range maxRepairs {
		f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(rest), "")
		var fault syntax.ParseError
		if errors.As(err, &fault) && int(fault.Pos.Offset()) < len(rest) {
			if repaired, ok := t.repair(rest, fault); ok {
				rest = repaired
				continue
			}
			at := int(fault.Pos.Offset())
			t.addMissing(text, at)
			t.addUnclosed(text, at)
			rest = rest[:at]
			continue
		}
		if f != nil {
			t.readStatements(f.Stmts, false)
		}
		break
	}
	slices.SortStableFunc(t.commands, func(a, b command) int { return cmp.Compare(a.start, b.start) })
	return t
}

func spanOf(n syntax.Node) span { return span{int(n.Pos().Offset()), int(n.End().Offset())} }

// addNode records a node that cannot be analysed; the first one in the text is kept.
func (t *tree) addNode(kind string, n syntax.Node) { t.addFault(kind, int(n.Pos().Offset())) }

func (t *tree) addFault(kind string, at int) {
	if t.dynamic == "" || at < t.dynamicAt {
		t.dynamic, t.dynamicAt = kind, at
	}
}

func (t *tree) readStatements(stmts []*syntax.Stmt, nested bool) {
	for _, s := range stmts {
		t.readStatement(s, nested)
	}
}

func (t *tree) readStatement(s *syntax.Stmt, nested bool) {
	if s == nil {
		return
	}
	t.readCommand(s, s.Cmd, nested)
	for _, r := range s.Redirs {
		t.readRedirect(r, nested)
	}
}

func (t *tree) readCommand(s *syntax.Stmt, c syntax.Command, nested bool) {
	switch c := c.(type) {
	case *syntax.CallExpr:
		t.readCall(s, c, nested)
	case *syntax.BinaryCmd:
		t.readStatement(c.X, nested)
		t.readStatement(c.Y, nested)
	case *syntax.Block:
		t.readStatements(c.Stmts, nested)
	case *syntax.Subshell:
		t.addNode("subshell", c)
		t.readStatements(c.Stmts, nested)
	case *syntax.FuncDecl:
		t.addNode("function_definition", c)
		t.readStatement(c.Body, nested)
	case *syntax.TestClause:
		t.addNode("test_command", c)
		t.readInside(c, nested)
	case nil:
	default:
		t.readControl(c, nested)
	}
}

func (t *tree) readControl(c syntax.Command, nested bool) {
	switch c := c.(type) {
	case *syntax.IfClause:
		t.addNode("if_statement", c)
	case *syntax.WhileClause:
		t.addNode("while_statement", c)
	case *syntax.ForClause:
		if _, counts := c.Loop.(*syntax.CStyleLoop); !counts { // the grammar has another name for this one
			t.addNode("for_statement", c)
		}
	case *syntax.CaseClause:
		t.addNode("case_statement", c)
	}
	t.readInside(c, nested)
}

func (t *tree) readInside(n syntax.Node, nested bool) {
	first := true
	syntax.Walk(n, func(n syntax.Node) bool {
		if first {
			first = false
			return true
		}
		switch n := n.(type) {
		case *syntax.Stmt:
			t.readStatement(n, nested)
			return false
		case *syntax.Word:
			t.readExpansions(n, nested)
			return false
		}
		return n != nil
	})
}

// notCommands are builtins for which the grammar has separate statements.
var notCommands = map[string]bool{"unset": true, "unsetenv": true}

func (t *tree) readCall(s *syntax.Stmt, call *syntax.CallExpr, nested bool) {
	for _, a := range call.Assigns {
		t.readInside(a, nested || len(call.Args) > 0)
	}
	if len(call.Args) == 0 {
		t.readAssignment(s, nested)
		return
	}
	name := call.Args[0]
	switch lit := name.Lit(); {
	case slices.Contains(t.nothings, int(name.Pos().Offset())):
		return
	case lit == "[":
		t.addNode("test_command", call)
		fallthrough
	case notCommands[lit] && len(call.Assigns) == 0:
		for _, w := range call.Args {
			t.readExpansions(w, nested)
		}
		return
	}
	if name = t.withoutSet(call); name == nil {
		return
	}
	c := command{span: span{spanOf(call).start, spanOf(name).end}, name: spanOf(name), nested: nested}
	if name != call.Args[0] {
		c.start = c.name.start
	}
	if lit := name.Lit(); len(call.Assigns) == 0 && len(call.Args) > 1 && strings.Contains(lit, ",") { // a list of words, whose brackets are not part of the name
		c.name.start += len(lit) - len(strings.TrimLeft(lit, "{"))
		c.start = c.name.start
	}
	for _, a := range call.Assigns {
		c.assigns = append(c.assigns, spanOf(a.Name))
	}
	t.readExpansions(name, true)
	for _, w := range call.Args[slices.Index(call.Args, name)+1:] {
		if t.isLostDash(call, w, s.Redirs) {
			continue
		}
		if followsRedirect(name, w, s.Redirs) { // the grammar reads it as another target
			t.readTarget(w)
			t.readExpansions(w, true)
			continue
		}
		c.end = spanOf(w).end
		t.readArgument(&c, w)
	}
	for _, r := range s.Redirs {
		at := spanOf(r)
		if r.Op == syntax.WordHdoc || at.start < c.start {
			c.start, c.end = min(c.start, at.start), max(c.end, spanOf(r.Word).end)
		}
	}
	t.commands = append(t.commands, c)
}

// readAssignment reads a statement without a command. If it has a redirect, the grammar
// reads it as a command.
func (t *tree) readAssignment(s *syntax.Stmt, nested bool) {
	if n := len(s.Redirs); n > 0 {
		start := int(s.Pos().Offset())
		t.commands = append(t.commands, command{span: span{start, spanOf(s.Redirs[n-1].Word).end}, name: span{start, start}, nested: nested})
	}
}

func (t *tree) readArgument(c *command, w *syntax.Word) {
	if at := spanOf(w); plainWord(w) && !number.MatchString(at.of(t.text)) {
		c.words = append(c.words, at)
	}
	t.readExpansions(w, true)
}

// number matches what the grammar calls a number; such an argument is not a word.
var number = regexp.MustCompile(`^-?(0x)?[0-9]+(#[0-9A-Za-z@_]+)?$`)

func plainWord(w *syntax.Word) bool {
	if len(w.Parts) != 1 {
		return false
	}
	lit, ok := w.Parts[0].(*syntax.Lit)
	return ok && (lit.Value == "{" || !strings.ContainsAny(lit.Value, "{}")) && !strings.HasPrefix(lit.Value, "[")
}

func (t *tree) readExpansions(w *syntax.Word, nested bool) {
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			if n.Backquotes && t.document {
				return false
			}
			t.addNode("command_substitution", n)
			t.readStatements(n.Stmts, nested)
			return false
		case *syntax.ProcSubst:
			t.addNode("process_substitution", n)
			t.readStatements(n.Stmts, nested)
			return false
		case *syntax.ParamExp:
			if !n.Short {
				t.addNode("expansion", n)
			}
		case *syntax.ExtGlob:
			t.addNode("subshell", n)
		}
		return n != nil
	})
}

// readRedirect records the target of a file redirect. The grammar reads all words after
// it as more targets.
func (t *tree) readRedirect(r *syntax.Redirect, nested bool) {
	if r.Hdoc != nil {
		t.document = true // the grammar reads no backquotes in it
		t.readExpansions(r.Hdoc, nested)
		t.document = false
		return
	}
	if r.Op != syntax.WordHdoc && r.Word.Lit() != "-" {
		t.readTarget(r.Word)
	}
	t.readExpansions(r.Word, nested)
}

func (t *tree) readTarget(w *syntax.Word) {
	if at := spanOf(w); plainWord(w) && !number.MatchString(at.of(t.text)) {
		t.redirects = append(t.redirects, at)
	}
}

// followsRedirect reports whether a word comes after a redirect that comes after the
// name of its command.
func followsRedirect(name, w *syntax.Word, redirs []*syntax.Redirect) bool {
	return slices.ContainsFunc(redirs, func(r *syntax.Redirect) bool {
		return r.Hdoc == nil && r.Op != syntax.WordHdoc && r.Pos().Offset() > name.Pos().Offset() && r.Pos().Offset() < w.Pos().Offset()
	})
}
