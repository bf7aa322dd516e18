package permission

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
)

// This file guesses what the author of an expression meant. CEL's own messages
// are right, but they are written for people who know its grammar.

// mistake is a fault that the compiler found, in the text where it found it.
type mistake struct {
	env    *cel.Env
	args   *argType
	before string // the text of the line up to the fault
	rest   string // and from it on
}

// mistakeAt cuts the text at a place; col counts from 0, in characters.
func mistakeAt(env *cel.Env, args *argType, text string, line, col int) mistake {
	m := mistake{env: env, args: args}
	lines := strings.Split(text, "\n")
	if line < 1 || line > len(lines) {
		return m
	}
	runes := []rune(lines[line-1])
	col = max(0, min(col, len(runes)))
	m.before, m.rest = string(runes[:col]), string(runes[col:])
	for line--; len(runes) == 0 && line > 0 && m.before == ""; line-- { // the end, behind empty lines
		m.before = lines[line-1]
	}
	return m
}

var (
	undefinedField = regexp.MustCompile(`undefined field '([^']+)'`)
	undeclaredName = regexp.MustCompile(`undeclared reference to '([^']+)'`)
	noOverload     = regexp.MustCompile(`found no matching overload for '([^']+)' applied to '([^']+)'`)
	expectedTokens = regexp.MustCompile(` expecting \{.*\}$`)
	pathBefore     = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_.]*$`)
)

// readable is a message of the compiler without what only its grammar knows.
func readable(msg string) string {
	msg = strings.ReplaceAll(strings.ReplaceAll(msg, " (in container '')", ""), "\n", "")
	msg = strings.ReplaceAll(msg, "mismatched input '<EOF>'", "the expression ends too early")
	msg = strings.ReplaceAll(msg, "'<EOF>'", "the end")
	return expectedTokens.ReplaceAllString(strings.ReplaceAll(msg, " expecting <EOF>", ""), "")
}

// explain gives the kind of a fault and how to mend it.
func (m mistake) explain(msg string) (ProblemKind, string) {
	switch {
	case strings.HasPrefix(msg, "Syntax error"):
		return ProblemExpression, m.syntax(msg)
	case undefinedField.MatchString(msg):
		return ProblemName, m.field(undefinedField.FindStringSubmatch(msg)[1])
	case undeclaredName.MatchString(msg):
		return ProblemName, m.name(undeclaredName.FindStringSubmatch(msg)[1])
	case noOverload.MatchString(msg):
		found := noOverload.FindStringSubmatch(msg)
		return ProblemExpression, overloadHint(found[1], found[2])
	case strings.Contains(msg, "does not support field selection"):
		return ProblemExpression, m.selection()
	default:
		for _, h := range wholeHints {
			if strings.Contains(msg, h.part) {
				return ProblemExpression, h.hint
			}
		}
		return ProblemExpression, ""
	}
}

// wholeHints are for messages that mean one thing wherever they come.
var wholeHints = []struct{ part, hint string }{
	{"expected type 'bool'", "each side of && and || is a condition of its own: write the comparison out"},
	{"invalid timestamp argument", `write for example timestamp("2026-01-01T00:00:00Z")`},
	{"invalid duration argument", `write for example duration("24h"); the units are h, m, s and ms`},
	{"invalid argument to has()", "has takes one field: has(args.x)"},
	{"argument must be a simple name", "name the element first: LIST.exists(x, x == …)"},
	{"'askance.Args' cannot be range", "args is no list: name its fields, as args.x"},
	{"invalid int literal", "whole numbers have at most 64 bits"},
	{"reserved identifier", "the word means nothing here; a text stands in quotes"},
}

var fieldAfter = regexp.MustCompile(`^\.\??([A-Za-z_]+)`)

// selection is about a field of what has no fields.
func (m mistake) selection() string {
	word := fieldAfter.FindStringSubmatch(m.rest)
	if word == nil {
		return ""
	}
	name := word[1]
	if other := otherFunctions[name]; other != "" {
		name = other
	}
	switch functions := m.env.Functions(); {
	case name == "size":
		return "write size(…)"
	case name == "now" || strings.HasPrefix(name, "ctx.now."):
		return "functions are called: ctx.now.getHours()"
	case functions[name] != nil:
		return "functions are called: ." + name + "(…)"
	default:
		return "the value in front of it has no fields"
	}
}

// field is about a field that its struct does not have.
func (m mistake) field(name string) string {
	path := pathBefore.FindString(strings.TrimSuffix(m.before, "?"))
	if asked := askedPath.FindStringSubmatch(m.rest); path == "has" && asked != nil {
		path = asked[1]
	}
	if path == "caller" && groupWords[name] {
		return "groups are of approvers; a condition knows caller.user and caller.agent"
	}
	names, known := m.fieldsOf(path)
	if hint := didYouMean(nearest(name, names)); hint != "" {
		return hint
	}
	if !known || len(names) == 0 {
		return ""
	}
	return path + " has " + listed(names)
}

// askedPath is what stands before the last field of has(…).
var askedPath = regexp.MustCompile(`^\(\s*([A-Za-z_][A-Za-z0-9_.]*)\.`)

var groupWords = map[string]bool{"group": true, "groups": true, "team": true, "teams": true}

// fieldsOf are the fields behind a path of names; all that there are, and
// false, where it leads nowhere.
func (m mistake) fieldsOf(path string) ([]string, bool) {
	steps := strings.Split(path, ".")
	for name, typ := range map[string]string{"caller": callerType, "ctx": contextType, "tool": toolType, "cmd": commandType, "tool.annotations": annotationsType} {
		if path == name {
			return sortedKeys(fixedTypes[typ]), true
		}
	}
	if steps[0] == "args" && m.args != nil {
		if t := m.args.at(steps[1:]); t != nil && t.kind == kindStruct {
			return sortedKeys(t.fields), true
		}
	}
	return fieldNames(m.args), false
}

// otherNames are words for variables, and functions, of which no spelling is
// near the right one.
var otherNames = map[string]string{
	"input": "args", "params": "args", "parameters": "args", "arguments": "args", "arg": "args", "request": "args",
	"role": "caller.roles", "groups": "caller.roles", "requester": "caller.user", "username": "caller.user", "principal": "caller.user",
	"time": "ctx.now", "hour": "ctx.now.getHours()", "weekday": "ctx.now.getDayOfWeek()", "tool_name": "tool.name", "command": "args.command",
	"True": "true", "False": "false", "None": "null", "nil": "null", "undefined": "null",
}

var otherFunctions = map[string]string{
	"length": "size", "len": "size", "count": "size", "lower": "lowerAscii", "toLower": "lowerAscii", "toLowerCase": "lowerAscii", "lowercase": "lowerAscii",
	"upper": "upperAscii", "toUpper": "upperAscii", "toUpperCase": "upperAscii", "includes": "contains", "hasPrefix": "startsWith", "hasSuffix": "endsWith",
	"any": "exists", "some": "exists", "every": "all", "regex": "matches", "match": "matches", "test": "matches", "re_match": "matches", "strip": "trim",
	"exist": "has", "defined": "has", "str": "string", "now": "ctx.now, the time of the call", "today": "ctx.now, the time of the call",
	"hour": "ctx.now.getHours()", "dayOfWeek": "ctx.now.getDayOfWeek()", "weekday": "ctx.now.getDayOfWeek()",
}

// mathFunctions are functions that stand behind math.
var mathFunctions = map[string]string{
	"max": "math.greatest", "min": "math.least", "abs": "math.abs", "round": "math.round", "floor": "math.floor", "ceil": "math.ceil",
	"sqrt": "math.sqrt", "sign": "math.sign", "trunc": "math.trunc",
}

// macros are called like functions, but the checker does not list them.
var macros = []string{"has", "all", "exists", "exists_one", "map", "filter"}

// name is about a variable or function that there is not.
func (m mistake) name(name string) string {
	if strings.HasPrefix(m.rest, "(") {
		switch called := strings.HasSuffix(strings.TrimSuffix(m.before, name), "."); {
		case called && name == "has":
			return "write has(args.x)"
		case called && slices.Contains(macros, name):
			return "name the element first: LIST." + name + "(x, x == …)"
		case called && (name == "get" || name == "getOrDefault"):
			return "write args.?x.orValue(…) for a field that may be missing"
		}
		if other := cmp.Or(otherFunctions[name], mathFunctions[name]); other != "" {
			return "did you mean " + other + "?"
		}
		known := append(sortedKeys(m.env.Functions()), macros...)
		known = slices.DeleteFunc(known, func(f string) bool { return strings.ContainsAny(f, "_@") })
		if hint := didYouMean(nearest(name, known)); hint != "" {
			return hint
		}
		return "there is no such function; askance policy vars lists them"
	}
	if name == "math" {
		return "there are math.greatest, math.least, math.abs, math.round, math.floor and math.ceil"
	}
	if m.args != nil && m.args.fields[name] != nil {
		return "did you mean args." + name + "?"
	}
	for _, s := range []struct{ variable, typ string }{{"caller", callerType}, {"ctx", contextType}} {
		if _, ok := fixedTypes[s.typ][name]; ok {
			return "did you mean " + s.variable + "." + name + "?"
		}
	}
	if other := otherNames[name]; other != "" {
		return "did you mean " + other + "?"
	}
	var variables []string
	for _, v := range m.env.Variables() {
		variables = append(variables, v.Name())
	}
	slices.Sort(variables)
	if hint := didYouMean(nearest(name, variables)); hint != "" && len(name) > 2 {
		return hint
	}
	return variablesHint
}

const variablesHint = "the variables are tool, args, caller and ctx; a text stands in quotes"

// listed joins names, but not too many of them.
func listed(names []string) string {
	const shown = 12
	if len(names) > shown {
		return strings.Join(names[:shown], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
