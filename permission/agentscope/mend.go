package agentscope

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// This file takes from a line what bash refuses and AgentScope's grammar reads
// all the same. Offsets stay, so that pieces can be cut from the line as given.

// mends has, for a part of the parser's complaint, what to do about the place
// that it names. One reports whether it has changed anything.
var mends = []struct {
	complaint string
	mend      func(t *tree, line []byte, at int) bool
}{
	{"statements must be separated", func(_ *tree, line []byte, at int) bool { return put(line, at-1, " \t", ';') }},
	{"case patterns must be separated", func(_ *tree, line []byte, at int) bool { return put(line, at-1, " \t", '|') }},
	{"`!` can only be used in full statements", func(_ *tree, line []byte, at int) bool { return put(line, at, "!", ' ') }},
	{"`;;` can only be used in a case clause", func(_ *tree, line []byte, at int) bool { return put(line, at+1, ";", ' ') }},
	{"can only immediately follow a statement", mendOperator},
	{"`}` can only be used to close a block", (*tree).mendBlock},
	{"inline variables cannot be arrays", (*tree).mendArray},
	{"must be followed by a statement list", (*tree).mendCompound},
	{"must be followed by a statement", mendTwice},
	{"`[[` must be followed by an expression", (*tree).mendTest},
	{"not a valid test operator", (*tree).mendTest},
	{"reached EOF without matching `(` with `)`", (*tree).mendSubshell},
	{"reached EOF without matching `{`", func(_ *tree, line []byte, at int) bool {
		return endsCommand(string(line[:at])) && put(line, at, "{", ' ')
	}},
	{"reached EOF without closing quote \"`\"", (*tree).mendBackquote},
	{"reached EOF without matching `[[`", func(t *tree, line []byte, at int) bool { return t.nothing(line, at, len(line), "test_command") }},
}

// mend changes the line where the parser stopped, if it is known how.
func (t *tree) mend(line string, fault syntax.ParseError) (string, bool) {
	for _, m := range mends {
		if out := []byte(line); strings.Contains(fault.Text, m.complaint) && m.mend(t, out, int(fault.Pos.Offset())) {
			return string(out), true
		}
	}
	return line, false
}

// put writes a sign in the place of one of those that are expected there.
func put(line []byte, at int, expected string, sign byte) bool {
	if at < 0 || at >= len(line) || strings.IndexByte(expected, line[at]) < 0 {
		return false
	}
	line[at] = sign
	return true
}

// mendOperator takes an operator away that follows another one.
func mendOperator(_ *tree, line []byte, at int) bool {
	mended := false
	for i := at; i < min(at+2, len(line)) && strings.IndexByte("&|;", line[i]) >= 0; i++ {
		line[i], mended = ' ', true
	}
	return mended
}

// mendTwice takes the second of two operators away.
func mendTwice(t *tree, line []byte, at int) bool {
	rest := strings.TrimLeft(string(line[at:]), "&|")
	second := len(line) - len(strings.TrimLeft(rest, " \t"))
	return second > at+len("|") && mendOperator(t, line, second)
}

// mendBlock takes the brackets of {ls;} off, which bash wants blanks in. A
// bracket that closes nothing is the name of a command.
func (*tree) mendBlock(line []byte, at int) bool {
	open := strings.LastIndexByte(string(line[:at]), '{')
	if open < 0 || !endsCommand(string(line[:open])) {
		return put(line, at, "}", '_')
	}
	return put(line, open, "{", ' ') && put(line, at, "}", ' ')
}

// endsCommand reports whether the next word of a line begins a command.
func endsCommand(before string) bool {
	before = strings.TrimRight(before, " \t")
	return before == "" || strings.IndexByte(";&|(\n", before[len(before)-1]) >= 0
}

// mendArray makes one word of an array that is given to a command.
func (*tree) mendArray(line []byte, at int) bool {
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

// compounds are the statements that bash wants commands in, by their first word.
// Those that begin with commands keep these.
var compounds = []struct {
	begin, end, kind string
	keeps            bool
}{
	{"for ", "done", "for_statement", false}, {"select ", "done", "for_statement", false}, {"while ", "done", "while_statement", true},
	{"until ", "done", "while_statement", true}, {"if ", "fi", "if_statement", true},
}

// mendCompound notes a statement without commands and takes it for one command
// that does nothing, or for those that it begins with.
func (t *tree) mendCompound(line []byte, at int) bool {
	text := string(line)
	begin, end, found := -1, 0, compounds[0]
	for _, c := range compounds {
		i, j := strings.LastIndex(text[:at], c.begin), strings.Index(text[at:], c.end)
		if rest := trim(text[at:]); j < 0 && (rest == "do" || rest == "then") {
			j = len(text) - at - len(c.end) // the line ends before the statement does
		}
		if i > begin && j+len(c.end) > 0 && endsCommand(text[:i]) {
			begin, end, found = i, at+j+len(c.end), c
		}
	}
	if begin < 0 || !found.keeps {
		return t.nothing(line, begin, end, found.kind)
	}
	copy(line[begin:], strings.Repeat(" ", len(found.begin)))
	copy(line[at:end], strings.Repeat(" ", end-at))
	if semicolon := strings.LastIndexByte(text[:at], ';'); semicolon > begin {
		line[semicolon] = ' ' // what follows joins the last of them
	}
	t.fault(found.kind, begin)
	return true
}

// mendSubshell reads what stands in a bracket that never closes.
func (t *tree) mendSubshell(line []byte, at int) bool {
	t.fault("subshell", at)
	return put(line, at, "(", ' ')
}

// mendBackquote takes what follows a last backquote for one word that is no
// plain one.
func (t *tree) mendBackquote(line []byte, at int) bool {
	if trim(string(line[at+1:])) == "" || inQuotes(string(line[:at])) {
		return false
	}
	t.fault("command_substitution", at)
	copy(line[at:], "$"+strings.Repeat("_", len(line)-at-1))
	return true
}

// mendTest does so with a test whose expression is none.
func (t *tree) mendTest(line []byte, at int) bool {
	text := string(line)
	begin := strings.LastIndex(text[:min(at+len("[["), len(text))], "[[")
	end := strings.Index(text[at:], "]]")
	if end < 0 {
		return false
	}
	return t.nothing(line, begin, at+end+len("]]"), "test_command")
}

func (t *tree) nothing(line []byte, begin, end int, kind string) bool {
	if begin < 0 || begin >= end {
		return false
	}
	t.fault(kind, begin)
	copy(line[begin:end], ":"+strings.Repeat(" ", end-begin-1))
	t.nothings = append(t.nothings, begin)
	return true
}
