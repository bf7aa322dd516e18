package agentscope

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// repairs lists, for a part of the parser's error, the repair at the place that it
// names. A repair reports whether it changed anything.
var repairs = []struct {
	complaint string
	repair    func(t *tree, line []byte, at int) bool
}{
	{"statements must be separated", func(_ *tree, line []byte, at int) bool { return putSign(line, at-1, " \t", ';') }},
	{"case patterns must be separated", func(_ *tree, line []byte, at int) bool { return putSign(line, at-1, " \t", '|') }},
	{"`!` can only be used in full statements", func(_ *tree, line []byte, at int) bool { return putSign(line, at, "!", ' ') }},
	{"`;;` can only be used in a case clause", func(_ *tree, line []byte, at int) bool { return putSign(line, at+1, ";", ' ') }},
	{"can only immediately follow a statement", repairOperator},
	{"`}` can only be used to close a block", repairBlock},
	{"inline variables cannot be arrays", repairArray},
	{"must be followed by a statement list", repairCompound},
	{"must be followed by a statement", repairTwice},
	{"`[[` must be followed by an expression", repairTest},
	{"not a valid test operator", repairTest},
	{"reached EOF without matching `(` with `)`", repairSubshell},
	{"reached EOF without matching `{`", func(_ *tree, line []byte, at int) bool {
		return endsCommand(string(line[:at])) && putSign(line, at, "{", ' ')
	}},
	{"reached EOF without closing quote \"`\"", repairBackquote},
	{"reached EOF without matching `[[`", func(t *tree, line []byte, at int) bool {
		return t.replaceByNothing(line, at, len(line), "test_command")
	}},
}

func (t *tree) repair(line string, fault syntax.ParseError) (string, bool) {
	for _, m := range repairs {
		if out := []byte(line); strings.Contains(fault.Text, m.complaint) && m.repair(t, out, int(fault.Pos.Offset())) {
			return string(out), true
		}
	}
	return line, false
}

// putSign replaces a character with a sign, if it is one of the expected ones.
func putSign(line []byte, at int, expected string, sign byte) bool {
	if at < 0 || at >= len(line) || strings.IndexByte(expected, line[at]) < 0 {
		return false
	}
	line[at] = sign
	return true
}

// repairOperator removes an operator that follows another one.
func repairOperator(_ *tree, line []byte, at int) bool {
	repaired := false
	for i := at; i < min(at+2, len(line)) && strings.IndexByte("&|;", line[i]) >= 0; i++ {
		line[i], repaired = ' ', true
	}
	return repaired
}

// repairTwice removes the second of two operators.
func repairTwice(t *tree, line []byte, at int) bool {
	rest := strings.TrimLeft(string(line[at:]), "&|")
	second := len(line) - len(strings.TrimLeft(rest, " \t"))
	return second > at+len("|") && repairOperator(t, line, second)
}

// repairBlock removes the braces of {ls;}, where bash requires blanks. A brace that
// closes nothing becomes the name of a command.
func repairBlock(_ *tree, line []byte, at int) bool {
	open := strings.LastIndexByte(string(line[:at]), '{')
	if open < 0 || !endsCommand(string(line[:open])) {
		return putSign(line, at, "}", '_')
	}
	return putSign(line, open, "{", ' ') && putSign(line, at, "}", ' ')
}

// endsCommand reports whether the next word of a line begins a command.
func endsCommand(before string) bool {
	before = strings.TrimRight(before, " \t")
	return before == "" || strings.IndexByte(";&|(\n", before[len(before)-1]) >= 0
}

// repairArray makes one word of an array in the arguments of a command.
func repairArray(_ *tree, line []byte, at int) bool {
	begin := strings.IndexByte(string(line[at:]), '(')
	if begin < 0 {
		return false
	}
	end := strings.IndexByte(string(line[at+begin:]), ')')
	if end < 0 {
		return false
	}
	for i := at + begin; i <= at+begin+end; i++ {
		line[i] = '_'
	}
	return true
}

// compounds are the statements that bash does not accept without commands. Those that
// begin with commands keep them.
var compounds = []struct {
	begin, end, kind string
	keeps            bool
}{
	{"for ", "done", "for_statement", false}, {"select ", "done", "for_statement", false}, {"while ", "done", "while_statement", true},
	{"until ", "done", "while_statement", true}, {"if ", "fi", "if_statement", true},
}

// repairCompound records a statement without commands, and replaces it with one command
// that does nothing or with the commands that it begins with.
func repairCompound(t *tree, line []byte, at int) bool {
	text := string(line)
	begin, end, found := -1, 0, compounds[0]
	for _, c := range compounds {
		i, stop := strings.LastIndex(text[:at], c.begin), len(text)
		if j := strings.Index(text[at:], c.end); j >= 0 {
			stop = at + j + len(c.end)
		} else if rest := trimSpace(text[at:]); rest != "do" && rest != "then" { // the line ends before the statement
			continue
		}
		if i > begin && endsCommand(text[:i]) {
			begin, end, found = i, stop, c
		}
	}
	if begin < 0 || !found.keeps {
		return t.replaceByNothing(line, begin, end, found.kind)
	}
	copy(line[begin:], strings.Repeat(" ", len(found.begin)))
	copy(line[at:end], strings.Repeat(" ", end-at))
	if semicolon := strings.LastIndexByte(text[:at], ';'); semicolon > begin {
		line[semicolon] = ' ' // what follows belongs to the last of them
	}
	t.addFault(found.kind, begin)
	return true
}

// repairSubshell reads the text after a bracket that never closes.
func repairSubshell(t *tree, line []byte, at int) bool {
	t.addFault("subshell", at)
	return putSign(line, at, "(", ' ')
}

// repairBackquote reads the text after a last backquote as one word that is not plain.
func repairBackquote(t *tree, line []byte, at int) bool {
	if trimSpace(string(line[at+1:])) == "" || inQuotes(string(line[:at])) {
		return false
	}
	t.addFault("command_substitution", at)
	copy(line[at:], "$"+strings.Repeat("_", len(line)-at-1))
	return true
}

// repairTest replaces a test without a valid expression with a command that does nothing.
func repairTest(t *tree, line []byte, at int) bool {
	text := string(line)
	begin := strings.LastIndex(text[:min(at+len("[["), len(text))], "[[")
	end := strings.Index(text[at:], "]]")
	if end < 0 {
		return false
	}
	return t.replaceByNothing(line, begin, at+end+len("]]"), "test_command")
}

func (t *tree) replaceByNothing(line []byte, begin, end int, kind string) bool {
	if begin < 0 || begin >= end {
		return false
	}
	t.addFault(kind, begin)
	copy(line[begin:end], ":"+strings.Repeat(" ", end-begin-1))
	t.nothings = append(t.nothings, begin)
	return true
}

// plainNames changes words that are reserved in bash but not in the grammar, where they
// are names of commands. Only offsets are taken from the result, no text.
var plainNames = strings.NewReplacer("\v", " ", "\f", " ", "\r", " ", "let", "Let", "coproc", "Coproc", "time", "Time")

// withBlanks returns the text with blanks in place of what the grammar skips and bash
// does not: an operator without a command before it, and the end of a continued line,
// even within a word. Offsets do not change.
func withBlanks(text string) string {
	out := []byte(plainNames.Replace(text))
	start := len(text) - len(strings.TrimLeft(text, " \t\n"))
	for _, op := range []string{"&&", "||", "|&", "|", ";;", ";", "&"} {
		if strings.HasPrefix(text[start:], op) {
			copy(out[start:], "  "[:len(op)])
			break
		}
	}
	if strings.Contains(text, "#") || strings.Contains(text, "<<") {
		return string(out) // a comment and a document end with their lines
	}
	slashes := 0
	for i, c := range out {
		switch {
		case c == '\\':
			slashes++
			continue
		case c == '\n' && slashes%2 == 1:
			out[i-1], out[i] = ' ', ' '
		}
		slashes = 0
	}
	return string(out)
}

// addMissing records the command that is missing after a last operator.
func (t *tree) addMissing(text string, at int) {
	op, _, _ := strings.Cut(text[at:], "#")
	if op = trimSpace(op); op == "&&" || op == "||" || op == "|" || op == "|&" {
		end := span{len(text), len(text)}
		t.commands = append(t.commands, command{span: end, name: end})
	}
}

// addUnclosed records brackets at the error that the grammar reads and bash does not:
// ls (a), or $(a without its end.
func (t *tree) addUnclosed(text string, at int) {
	bad := text[at:]
	if inQuotes(text[:at]) {
		return
	}
	for _, open := range []struct{ sign, kind string }{{"$(", "command_substitution"}, {"<(", "process_substitution"}} {
		if inner, ok := strings.CutPrefix(bad, open.sign); ok && trimSpace(inner) != "" && inner[0] != '(' {
			t.addFault(open.kind, at)
			return
		}
	}
	i := strings.IndexAny(bad, "('\"`")
	if i < 0 || bad[i] != '(' {
		return
	}
	if inner, _, ok := strings.Cut(bad[i+1:], ")"); ok && (at+i == 0 || trimSpace(inner) != "") {
		t.addFault("subshell", at+i)
	}
}

func inQuotes(text string) bool { return strings.Count(text, `"`)%2 == 1 }

// withoutSet returns the name of a command, or nil if it has none. The grammar reads a
// set of characters in its place as a test, and the word after it as the command.
func (t *tree) withoutSet(call *syntax.CallExpr) *syntax.Word {
	lit := call.Args[0].Lit()
	if len(call.Assigns) > 0 || !strings.HasPrefix(lit, "[") || !strings.Contains(lit, "]") {
		return call.Args[0]
	}
	t.addNode("test_command", call)
	if len(call.Args) == 1 {
		return nil
	}
	return call.Args[1]
}

// isLostDash reports whether a word is a last - that the grammar loses because a
// here-document or a numbered descriptor follows.
func (t *tree) isLostDash(call *syntax.CallExpr, w *syntax.Word, redirs []*syntax.Redirect) bool {
	if w.Lit() != "-" || w != call.Args[len(call.Args)-1] {
		return false
	}
	return slices.ContainsFunc(redirs, func(r *syntax.Redirect) bool {
		return (r.Hdoc != nil || r.N != nil) && r.Pos().After(w.End()) && trimSpace(t.text[w.End().Offset():r.Pos().Offset()]) == ""
	})
}
