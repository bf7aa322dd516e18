package shell

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Limits of the work on hostile text. Text beyond them is searched word by word and
// counts as unclear.
const (
	maxText     = 64 << 10  // bytes of one text
	perText     = 256       // bytes that each text costs in addition to its own
	maxParse    = 256 << 10 // bytes of the line and all texts nested in it
	maxDepth    = 200       // of nested brackets
	maxLevels   = 8         // of nested texts
	maxAll      = 20_000    // commands of all kinds
	maxWrappers = 50        // programs that run each other, and brackets around them
)

type extractor struct {
	line   *Line
	text   string // being read
	base   int    // offset of a nested text; -1 for the line itself
	budget int
	level  int    // of nested texts
	fed    bool   // what the text runs reads unknown input
	heard  []Word // what the next command reads, if known
	work   *work
}

type runFinder struct{ *extractor }

type textFinder struct{ *extractor }

type fileFinder struct{ *extractor }

// readLine reads the line as bash and as sh do. It returns the top-level commands that
// sh finds.
func (e *extractor) readLine(text string) (posix []Command) {
	if !e.canAfford(text) {
		const why = "too long or too deeply nested to be read"
		e.line.addReason(CodeTooLong, 0, why)
		e.addUnclear(CodeTooLong, 0, why)
		textFinder{e}.splitCrudely(text)
		return nil
	}
	stmts, err := parse(text, syntax.LangBash)
	e.line.stmts = stmts
	e.fed = e.fed || changesInput(stmts)
	for _, s := range stmts {
		e.readStatement(s, e.fed)
	}
	fileFinder{e}.checkWritten(stmts)
	if closesInWord(stmts) {
		if apart := closing.ReplaceAllString(text, "$0 "); apart != text {
			textFinder{e}.readHanded(apart)
		} else {
			e.addUnclear(CodeSyntax, 0, "bash ends a word after <&- or >&-")
		}
	}
	if err != nil {
		e.line.addReason(CodeSyntax, 0, "does not parse: "+err.Error())
		e.line.stmts, e.line.broken = nil, true
		e.addUnclear(CodeSyntax, 0, "it does not parse")
		textFinder{e}.splitCrudely(text)
	}
	return e.readAsSh(text)
}

// closesInWord reports whether a text closes a descriptor with a word that goes on, which
// bash divides: <&-rm x closes the input and runs rm.
func closesInWord(stmts []*syntax.Stmt) bool {
	return anyNode(stmts, func(n syntax.Node) bool {
		r, ok := n.(*syntax.Redirect)
		if !ok || r.Op != syntax.DplIn && r.Op != syntax.DplOut || r.Word == nil {
			return false
		}
		first, isLit := r.Word.Parts[0].(*syntax.Lit)
		return isLit && strings.HasPrefix(first.Value, "-") && (len(first.Value) > 1 || len(r.Word.Parts) > 1)
	})
}

// anyNode reports whether one of the nodes of the statements is as asked.
func anyNode(stmts []*syntax.Stmt, is func(syntax.Node) bool) bool {
	found := false
	for _, s := range stmts {
		syntax.Walk(s, func(n syntax.Node) bool {
			found = found || is(n)
			return !found
		})
	}
	return found
}

var closing = regexp.MustCompile(`[<>]&[ \t]*-`)

// readAsSh finds what only sh would run: it reads "a &>f b" as two commands.
func (e *extractor) readAsSh(text string) []Command {
	sh := &extractor{line: &Line{Text: text}, text: text, base: e.base, budget: e.budget, level: e.level, fed: e.fed, work: e.work}
	stmts, err := parse(text, syntax.LangPOSIX)
	if err != nil && strings.Contains(text, "&>") { // the parser rejects &>, which sh reads as & and >
		sh.text = strings.ReplaceAll(text, "&>", "& >")
		stmts, _ = parse(sh.text, syntax.LangPOSIX)
	}
	for _, s := range stmts {
		sh.readStatement(s, e.fed)
	}
	e.budget = sh.budget
	e.line.posix, e.line.agreed = stmts, err == nil && sameAll(sh.line, e.line, sameWork)
	if !sameAll(sh.line, e.line, sameArgv) {
		e.adoptCommands(sh.line, []string{"sh"})
	}
	return sh.line.Commands
}

func sameAll(a, b *Line, same func(Command, Command) bool) bool {
	return slices.EqualFunc(a.Commands, b.Commands, same) && slices.EqualFunc(a.Nested, b.Nested, same)
}

// sameWork reports whether it makes no difference which of two commands runs: they are
// the same, or differ only in the arguments of a program that prints them.
func sameWork(a, b Command) bool {
	name, ok := a.program()
	other, too := b.program()
	return sameArgv(a, b) || ok && too && a.Argv[0] == b.Argv[0] && name == other && isSteady(name)
}

// adoptCommands adds the commands found in another text, or by another shell, to the
// nested commands.
func (e *extractor) adoptCommands(other *Line, via []string) {
	for _, list := range [][]Command{other.Commands, other.Nested} {
		e.work.steps += len(list)
		for _, c := range list {
			c.Via = append(slices.Clip(via), c.Via...)
			e.line.Nested = append(e.line.Nested, c)
		}
	}
	e.line.crude = append(e.line.crude, other.crude...)
	e.line.unclear = append(e.line.unclear, other.unclear...)
}

// parse reads a text as one shell does. With an error it returns the statements before
// the fault.
func parse(text string, lang syntax.LangVariant) (stmts []*syntax.Stmt, err error) {
	defer func() {
		if r := recover(); r != nil { // a fault of the parser, not of the text
			err = fmt.Errorf("the parser failed: %v", r)
		}
	}()
	// The parser may yield again after an error, so the loop continues.
	for s, fault := range syntax.NewParser(syntax.Variant(lang)).StmtsSeq(strings.NewReader(text)) {
		switch {
		case err != nil:
		case fault != nil:
			err = fault
		default:
			stmts = append(stmts, s)
		}
	}
	return stmts, err
}

func (e *extractor) canAfford(text string) bool {
	if len(text) > min(maxText, e.budget) || e.level > maxLevels {
		return false
	}
	e.budget -= len(text) + perText
	e.work.steps += 2 * len(text) // as bash and as sh
	// Every level needs an opening bracket, a backquote or a word.
	deep := 0
	for i := range len(text) {
		if strings.IndexByte("({[`", text[i]) >= 0 {
			deep++
		}
	}
	return deep <= maxDepth || isFlat(text)
}

// isFlat reports whether brackets, quoted or not, are never nested deeper than
// maxDepth.
func isFlat(text string) bool {
	depth, most := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{', '[':
			depth++
		case ')', '}', ']':
			depth = max(depth-1, 0)
		}
		most = max(most, depth)
	}
	return most <= maxDepth && strings.Count(text, "`") <= maxDepth
}

func (e *extractor) addUnclear(code Code, offset int, detail string) {
	e.line.unclear = append(e.line.unclear, Reason{Code: code, Offset: e.offsetInLine(offset), Detail: detail})
}

// offsetInLine converts an offset in text to an offset in the line.
func (e *extractor) offsetInLine(offset int) int {
	if e.base >= 0 {
		return e.base
	}
	return offset
}

func (e *extractor) source(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from < 0 || to > len(e.text) || from > to {
		return ""
	}
	return e.text[from:to]
}

// readStatement reads one statement of the line itself. Only calls that are joined by
// && || ; newlines and | add no reason.
func (e *extractor) readStatement(s *syntax.Stmt, piped bool) {
	offset := int(s.Pos().Offset())
	for _, why := range []struct {
		found  bool
		code   Code
		detail string
	}{
		{s.Negated, CodeNegation, "! turns the result of a command around"},
		{s.Background || s.Coprocess || s.Disown, CodeBackground, "runs in the background"},
	} {
		if why.found {
			e.line.addReason(why.code, offset, why.detail)
		}
	}
	switch c := s.Cmd.(type) {
	case nil:
		e.readCall(nil, s.Redirs, offset, piped)
	case *syntax.CallExpr:
		e.readCall(c, s.Redirs, offset, piped)
	case *syntax.BinaryCmd:
		e.readRedirects(s.Redirs)
		if c.Op == syntax.PipeAll {
			e.line.addReason(CodeControl, int(c.OpPos.Offset()), "|& is read differently by sh")
		}
		e.readStatement(c.X, piped)
		e.heard = e.printedWords(c)
		right := len(e.line.Commands)
		e.readStatement(c.Y, c.Op == syntax.Pipe || c.Op == syntax.PipeAll)
		if right < len(e.line.Commands) {
			e.line.Commands[right].joint = c.Op.String()
		}
	default:
		code, detail := kind(c)
		e.line.addReason(code, offset, detail)
		e.addNested(s, nil, piped)
	}
}

// printedWords returns what the left side of a pipe prints, if it is a plain echo.
func (e *extractor) printedWords(c *syntax.BinaryCmd) []Word {
	call, ok := c.X.Cmd.(*syntax.CallExpr)
	if !ok || c.Op != syntax.Pipe && c.Op != syntax.PipeAll || len(call.Args) < 2 || !printers[call.Args[0].Lit()] {
		return nil
	}
	words, _ := e.readWords(call.Args[1:], false)
	if slices.ContainsFunc(words, func(w Word) bool { return !w.Fixed }) {
		return nil
	}
	if text, exact := formatText(call.Args[0].Lit(), words); call.Args[0].Lit() == "printf" || !exact {
		words = append(words, Word{Text: text, Fixed: exact})
	}
	return words
}

func kind(c syntax.Command) (Code, string) {
	switch c.(type) {
	case *syntax.FuncDecl:
		return CodeFunction, "a function can take the name of a program"
	case *syntax.DeclClause:
		return CodeDeclaration, "a declaration changes what the commands after it do"
	case *syntax.LetClause, *syntax.ArithmCmd:
		return CodeDeclaration, "arithmetic changes variables"
	case *syntax.CoprocClause:
		return CodeBackground, "runs in the background"
	case *syntax.TimeClause:
		return CodeControl, "time is a word of bash and a program of sh"
	}
	return CodeControl, "a part of the control flow is more than plain commands"
}

func (e *extractor) readCall(c *syntax.CallExpr, redirs []*syntax.Redirect, offset int, piped bool) {
	cmd, why := e.makeCommand(c, redirs, offset)
	cmd.piped, cmd.heard, e.heard = piped || isFedByFile(redirs), e.heard, nil
	e.line.Reasons = append(e.line.Reasons, why...)
	e.readRedirects(redirs)
	if len(cmd.Assigns) > 0 {
		e.line.addReason(CodeAssignment, offset, "a variable can change which program runs and what it does")
	}
	if name, ok := cmd.program(); ok && changesShell[name] {
		e.line.addReason(CodeDeclaration, offset, name+" changes what the shell does next, or runs a text")
	}
	e.line.Commands = append(e.line.Commands, cmd)
	runFinder{e}.addRunBy(cmd)
	e.readExpansions(c, redirs)
}

func (e *extractor) readExpansions(c *syntax.CallExpr, redirs []*syntax.Redirect) {
	if c != nil && (len(c.Assigns) > 0 || slices.ContainsFunc(c.Args, holdsNodes)) {
		e.addNested(c, nil, false)
	}
	for _, r := range redirs {
		if holdsNodes(r.Word) || holdsNodes(r.Hdoc) {
			e.addNested(r, nil, false)
		}
	}
}

// holdsNodes reports whether a word, which may be nil, is more than text.
func holdsNodes(w *syntax.Word) bool {
	return w != nil && slices.ContainsFunc(w.Parts, func(p syntax.WordPart) bool {
		switch p := p.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
			return false
		case *syntax.DblQuoted:
			return slices.ContainsFunc(p.Parts, func(p syntax.WordPart) bool { _, text := p.(*syntax.Lit); return !text })
		}
		return true
	})
}

// makeCommand makes a Command from a call, which may be nil.
func (e *extractor) makeCommand(c *syntax.CallExpr, redirs []*syntax.Redirect, offset int) (Command, []Reason) {
	cmd := Command{Offset: e.offsetInLine(offset)}
	for _, r := range redirs {
		cmd.Redirects = append(cmd.Redirects, e.source(r))
		if w := e.readInput(r); w != nil {
			cmd.input = append(cmd.input, *w)
		}
		if r.Op == syntax.RdrIn && r.Word != nil {
			cmd.files = append(cmd.files, e.readWordOf(r.Word).result())
		}
	}
	if c == nil {
		return cmd, nil
	}
	for _, a := range c.Assigns {
		cmd.Assigns = append(cmd.Assigns, e.source(a))
		cmd.assigned = append(cmd.assigned, textFinder{e}.assignmentsOf(a)...)
	}
	for _, a := range c.Args {
		if intoElement.MatchString(e.source(a)) {
			e.addIndex(a)
		}
	}
	var why []Reason
	cmd.Argv, why = e.readWords(c.Args, len(c.Args) > 0 && c.Args[0].Lit() == "echo")
	return cmd, why
}

// intoElement matches the word before a redirect that puts its descriptor into an element
// of an array: exec {a[1]}>f evaluates the index.
var intoElement = regexp.MustCompile(`^\{[A-Za-z_][A-Za-z_0-9]*\[`)

// program returns the name of the program as the tables have it; false if it is not
// known before the line runs.
func (c *Command) program() (string, bool) {
	if len(c.Argv) == 0 || !c.Argv[0].Fixed {
		return "", false
	}
	return programName(c.Argv[0].Text), true
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// readRedirects adds a reason for redirects that touch more than /dev/null and the
// standard descriptors.
func (e *extractor) readRedirects(redirs []*syntax.Redirect) {
	for _, r := range redirs {
		if isHarmless(r) {
			continue
		}
		e.line.addReason(CodeRedirect, int(r.Pos().Offset()), "redirects to or from something other than /dev/null: "+clipText(e.source(r)))
		if r.Word != nil {
			e.line.Reasons = append(e.line.Reasons, e.readWordOf(r.Word).why...)
		}
	}
}

// isHarmless reports whether a redirect touches only /dev/null or another standard
// descriptor.
func isHarmless(r *syntax.Redirect) bool {
	if r.Word == nil || r.N != nil && strings.Trim(r.N.Value, "0123456789") != "" {
		return false
	}
	w := readWord(r.Word, "").result()
	switch r.Op {
	case syntax.RdrOut, syntax.AppOut, syntax.RdrIn:
		return w.Fixed && w.Text == "/dev/null"
	case syntax.DplOut:
		return w.Fixed && !isInput(r.N) && (w.Text == "1" || w.Text == "2")
	}
	return false
}

// isInput reports whether the descriptor of a redirect is the input: 0, 00.
func isInput(n *syntax.Lit) bool { return n != nil && strings.Trim(n.Value, "0") == "" }
