package celrule

import (
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"

	"github.com/askance-dev/askance/permission/internal/hint"
	"github.com/askance-dev/askance/permission/internal/schema"
)

// exprScope is what an expression can name, for hints.
type exprScope struct {
	env  *cel.Env
	args *schema.Type
}

// Functions implements hint.Scope.
func (s exprScope) Functions() []string { return sortedKeys(s.env.Functions()) }

// Variables implements hint.Scope.
func (s exprScope) Variables() []string {
	var out []string
	for _, v := range s.env.Variables() {
		out = append(out, v.Name())
	}
	slices.Sort(out)
	return out
}

// Fields implements hint.Scope.
func (s exprScope) Fields(path string) ([]string, bool) {
	structs := map[string]string{"caller": CallerType, "ctx": ContextType, "tool": ToolType, "cmd": CommandType, "tool.annotations": annotationsType}
	if typ, ok := structs[path]; ok {
		return sortedKeys(fixedTypes[typ]), true
	}
	if steps := strings.Split(path, "."); steps[0] == "args" && s.args != nil {
		if t := s.args.At(steps[1:]); t != nil && t.Kind == schema.KindStruct {
			return sortedKeys(t.Fields), true
		}
	}
	return fieldNames(s.args), false
}

// explainFault gives the kind of a fault and its hint. col counts from 0, in
// characters.
func (s exprScope) explainFault(msg, text string, line, col int) (FaultKind, string) {
	x := hint.Expression{Message: msg, Scope: s}
	if lines := strings.Split(text, "\n"); line >= 1 && line <= len(lines) {
		runes := []rune(lines[line-1])
		col = max(0, min(col, len(runes)))
		x.Before, x.Rest = string(runes[:col]), string(runes[col:])
		for line--; len(runes) == 0 && line > 0 && x.Before == ""; line-- { // the end, after empty lines
			x.Before = lines[line-1]
		}
	}
	unknownName, found := x.Explain()
	if unknownName {
		return KindName, found
	}
	return kindExpression, found
}

var expectedTokens = regexp.MustCompile(` expecting \{.*\}$`)

// readableMessage is a message of the compiler without what only its grammar knows.
func readableMessage(msg string) string {
	msg = strings.ReplaceAll(strings.ReplaceAll(msg, " (in container '')", ""), "\n", "")
	msg = strings.ReplaceAll(msg, "mismatched input '<EOF>'", "the expression ends too early")
	msg = strings.ReplaceAll(msg, "'<EOF>'", "the end")
	return expectedTokens.ReplaceAllString(strings.ReplaceAll(msg, " expecting <EOF>", ""), "")
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
