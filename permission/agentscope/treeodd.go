package agentscope

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// This file knows where AgentScope's grammar reads a line otherwise than bash
// does, though both read it.

// plainNames takes from words what bash reserves them for, and the grammar does
// not: there they are the names of commands. No text is taken from what it gives,
// only offsets.
var plainNames = strings.NewReplacer("\v", " ", "\f", " ", "\r", " ", "let", "Let", "coproc", "Coproc", "time", "Time")

// withBlanks is the text with blanks for what the grammar skips and bash does not:
// an operator without a command before it, and a line that goes on, within a
// word too. Offsets stay.
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

// addUnclosed records brackets at the fault that the grammar reads and bash does
// not: ls (a), or $(a without its end.
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

// inQuotes reports whether a quote is open at the end of a text.
func inQuotes(text string) bool { return strings.Count(text, `"`)%2 == 1 }

// withoutSet is the name of a command; nil if it has none. The grammar takes a
// set of characters in its place for a test, and what follows for a command.
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

// lostDash reports whether a word is a last - that the grammar loses, because a
// document or a numbered descriptor follows.
func (t *tree) lostDash(call *syntax.CallExpr, w *syntax.Word, redirs []*syntax.Redirect) bool {
	if w.Lit() != "-" || w != call.Args[len(call.Args)-1] {
		return false
	}
	return slices.ContainsFunc(redirs, func(r *syntax.Redirect) bool {
		return (r.Hdoc != nil || r.N != nil) && r.Pos().After(w.End()) && trimSpace(t.text[w.End().Offset():r.Pos().Offset()]) == ""
	})
}
