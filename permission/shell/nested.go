package shell

import (
	"reflect"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// addNested adds every command below a node to the nested commands: in substitutions,
// control flow and functions. A call that is the node itself is not added.
//
// piped says that the node reads the output of the command before it.
func (e *extractor) addNested(node syntax.Node, via []string, piped bool) {
	w := &nestedWalk{extractor: e, via: via, reads: map[syntax.Node]bool{node: piped}}
	syntax.Walk(node, func(n syntax.Node) bool {
		if n == nil {
			w.path, w.pipes = w.path[:len(w.path)-1], w.pipes[:len(w.pipes)-1]
			return true
		}
		w.enterNode(n)
		w.addNode(n)
		return true
	})
}

// nestedWalk is a walk through the nodes below one, with the nodes around the current one.
type nestedWalk struct {
	*extractor
	via   []string             // how the line leads to the first node
	path  []string             // how each node around the current one leads to it
	pipes []bool               // for each of them, whether it reads unknown input
	reads map[syntax.Node]bool // the nodes that read the output of a command
}

func (w *nestedWalk) enterNode(n syntax.Node) {
	w.path, w.pipes = append(w.path, viaName(n)), append(w.pipes, w.reads[n] || w.readsUnknown() || feedsUnknown(n))
	if b, ok := n.(*syntax.BinaryCmd); ok && b.Op != syntax.AndStmt && b.Op != syntax.OrStmt {
		w.reads[b.Y] = true
	}
}

// readsUnknown reports whether the current node reads unknown input.
func (w *nestedWalk) readsUnknown() bool { return len(w.pipes) > 0 && w.pipes[len(w.pipes)-1] }

// addNode adds the commands of the current node itself, not those of the nodes in it.
func (w *nestedWalk) addNode(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.Stmt:
		w.addStatement(n, w.joinVia(w.via, w.path), w.readsUnknown())
	case *syntax.CoprocClause:
		if n.Name != nil && n.Stmt.Cmd == nil { // coproc sh <f runs sh
			w.addNestedCall(&syntax.CallExpr{Args: []*syntax.Word{n.Name}}, n.Stmt, w.joinVia(w.via, w.path), w.readsUnknown())
		}
	case *syntax.CmdSubst:
		if text := w.source(n); n.Backquotes && strings.HasPrefix(text, "`") && strings.Contains(text, "\\`") { // the parser ends words there
			textFinder{w.extractor}.readPossible(backquoted.Replace(strings.Trim(text, "`")))
		}
	case *syntax.WordIter:
		for _, item := range n.Items { // for x in 'a[$(rm y)]'; do ((x)); done
			if text := w.readWordOf(item).result().Text; strings.Contains(text, "$(") || strings.Contains(text, "`") {
				textFinder{w.extractor}.splitCrudely(text)
			}
		}
	case *syntax.Assign:
		w.addIndex(n.Index)
	case *syntax.ArrayElem:
		w.addIndex(n.Index)
	default:
		if isEvaluatedTwice(n) {
			textFinder{w.extractor}.splitCrudely(strings.TrimLeft(w.source(n), "$("))
			w.addQuoted(n)
		}
	}
}

// backquoted makes text between backquotes what bash reads.
var backquoted = strings.NewReplacer(`\\`, `\`, "\\`", "`", `\$`, "$")

// isEvaluatedTwice reports whether a node contains arithmetic, in which an index is
// evaluated again, quoted or not.
func isEvaluatedTwice(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.LetClause, *syntax.ArithmCmd, *syntax.ArithmExp, *syntax.CStyleLoop:
		return true
	case *syntax.ParamExp:
		return n.Index != nil || n.Slice != nil
	}
	return false
}

// addIndex adds the commands of an index, which may be nil.
func (e *extractor) addIndex(index syntax.Node) {
	if index != nil {
		textFinder{e}.splitCrudely(e.source(index))
		e.addQuoted(index)
	}
}

// addQuoted adds the commands of single-quoted text in arithmetic: there bash expands
// $(...) in these quotes, too.
func (e *extractor) addQuoted(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		if q, ok := n.(*syntax.SglQuoted); ok && strings.ContainsAny(q.Value, "$`") {
			textFinder{e}.readPossible(q.Value)
			textFinder{e}.readPossible(strings.ReplaceAll(q.Value, `"`, "")) // one may have no end
		}
		return true
	})
}

// feedsUnknown reports whether the contents of a node read unknown input: for a
// statement a file, for >(...) and coproc what is written into it, for a function the
// input of its calls.
func feedsUnknown(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.Stmt:
		return isFedByFile(n.Redirs)
	case *syntax.ProcSubst:
		return n.Op == syntax.CmdOut
	case *syntax.FuncDecl, *syntax.CoprocClause:
		return true
	}
	return false
}

// isFedByFile reports whether a redirect feeds a file into a command.
func isFedByFile(redirs []*syntax.Redirect) bool {
	for _, r := range redirs {
		switch r.Op {
		case syntax.RdrIn, syntax.RdrInOut, syntax.DplIn:
			if !isHarmless(r) {
				return true
			}
		case syntax.DplOut:
			if isInput(r.N) { // bash >&/dev/tcp/h/1 0>&1
				return true
			}
		}
	}
	return false
}

func (e *extractor) addStatement(s *syntax.Stmt, via []string, piped bool) {
	switch c := s.Cmd.(type) {
	case nil:
		e.addNestedCall(nil, s, via, piped)
	case *syntax.CallExpr:
		e.addNestedCall(c, s, via, piped)
	case *syntax.DeclClause:
		e.addDeclaration(c, s, via)
	default:
		for _, r := range s.Redirs {
			if w := e.readInput(r); w != nil {
				runFinder{e}.readShellText(*w, e.offsetInLine(int(s.Pos().Offset())), append(via, "<<"), false)
			}
		}
	}
}

// readInput returns the text that a redirect feeds in, or nil if it feeds in a file.
func (e *extractor) readInput(r *syntax.Redirect) *Word {
	var text Word
	switch {
	case r.Op == syntax.WordHdoc:
		text = e.readWordOf(r.Word).result()
	case r.Hdoc != nil:
		text = e.readDocument(r)
	default:
		return nil
	}
	return &text
}

func (e *extractor) addNestedCall(c *syntax.CallExpr, s *syntax.Stmt, via []string, piped bool) {
	cmd, _ := e.makeCommand(c, s.Redirs, int(s.Pos().Offset()))
	cmd.Via, cmd.piped = via, piped || isFedByFile(s.Redirs)
	e.addCommand(cmd)
}

func (e *extractor) addDeclaration(d *syntax.DeclClause, s *syntax.Stmt, via []string) {
	cmd := Command{Offset: e.offsetInLine(int(s.Pos().Offset())), Via: via, Argv: []Word{{Text: d.Variant.Value, Fixed: true}}}
	for _, a := range d.Args {
		cmd.Argv = append(cmd.Argv, Word{Text: e.source(a)})
		if a.Value != nil {
			textFinder{e}.splitCrudely(e.source(a.Value)) // declare 'a[$(rm x)]=1'
		}
		for _, w := range (textFinder{e}).assignmentsOf(a) { // export EDITOR='rm x'
			textFinder{e}.checkSetting(w, cmd.Offset)
		}
	}
	e.addCommand(cmd)
}

// joinVia says how the nodes of a path lead to their contents. For very long paths it
// uses the last nodes.
func (e *extractor) joinVia(outer, path []string) []string {
	via := append([]string{}, outer...)
	for _, p := range path[max(0, len(path)-maxDepth):] {
		if p != "" && (len(via) == 0 || via[len(via)-1] != p) {
			via = append(via, p)
		}
	}
	return via
}

// viaNames say how nodes lead to the commands in them.
var viaNames = map[reflect.Type]string{
	reflect.TypeFor[*syntax.CmdSubst](): "$(...)", reflect.TypeFor[*syntax.ProcSubst](): "<(...)",
	reflect.TypeFor[*syntax.Subshell](): "(...)", reflect.TypeFor[*syntax.Block](): "{...}",
	reflect.TypeFor[*syntax.IfClause](): "if", reflect.TypeFor[*syntax.WhileClause](): "while",
	reflect.TypeFor[*syntax.ForClause](): "for", reflect.TypeFor[*syntax.CaseClause](): "case",
	reflect.TypeFor[*syntax.FuncDecl](): "function", reflect.TypeFor[*syntax.TimeClause](): "time",
	reflect.TypeFor[*syntax.CoprocClause](): "coproc",
}

func viaName(n syntax.Node) string {
	if c, ok := n.(*syntax.CmdSubst); ok && c.Backquotes {
		return "`...`"
	}
	return viaNames[reflect.TypeOf(n)]
}

func (e *extractor) addCommand(cmd Command) {
	if len(e.line.Nested) >= maxAll || len(cmd.Via) > maxWrappers {
		e.addUnclear(CodeTooMany, cmd.Offset, "more commands, or more of them in one another, than can be looked at")
		runFinder{e}.guessCommands(cmd.Argv)
		return
	}
	e.line.Nested = append(e.line.Nested, cmd)
	runFinder{e}.addRunBy(cmd)
}

type work struct {
	inners map[textKey]*Line // nested texts that were read before
	// aliases are what the text sets as aliases of the shell, by name, and of git, by alias.NAME.
	aliases map[string]Word
	// unpacks says that the text names variables that may make xz a.xz unpack.
	unpacks bool
	// steps counts the work done: bytes parsed or split into words, and words and
	// commands looked at.
	steps int
}

// setAlias sets an alias. Texts that were read before may run something else from now on.
func (w *work) setAlias(name string, value Word) {
	w.aliases[name] = value
	clear(w.inners)
}

// textKey is everything that the reading of a nested text depends on, except its place and the aliases.
type textKey struct {
	text  string
	level int
	fed   bool
}

// perTaken is the cost of reusing one command of a text that was read before, in bytes
// of text.
const perTaken = 16

// readInner analyses a nested text. The line is read as bash and as sh, which both find
// the same texts, so each is read only once. Reusing a result also costs budget: a text
// could contain the same text many times, at every level.
func (e *extractor) readInner(text string, offset int, fed bool) *Line {
	key := textKey{text, e.level + 1, fed}
	if found, ok := e.work.inners[key]; ok {
		cost := perTaken * (2 + len(found.Commands) + len(found.Nested) + len(found.crude) + len(found.unclear))
		if cost <= e.budget {
			e.budget -= cost
			return found.at(offset)
		}
	}
	in := &extractor{line: &Line{Text: text}, text: text, base: offset, budget: e.budget, level: e.level + 1, fed: fed, work: e.work}
	in.readLine(text)
	e.budget = in.budget
	e.work.inners[key] = in.line
	return in.line.at(offset)
}

// at returns a copy of the line at another offset. The caller may change it.
func (l *Line) at(offset int) *Line {
	moved := *l
	for _, list := range []*[]Command{&moved.Commands, &moved.Nested} {
		*list = slices.Clone(*list)
		for i := range *list {
			(*list)[i].Offset = offset
		}
	}
	moved.unclear = slices.Clone(l.unclear)
	for i := range moved.unclear {
		moved.unclear[i].Offset = offset
	}
	return &moved
}
