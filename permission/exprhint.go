package permission

import (
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/operators"
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
	return m
}

var (
	undefinedField = regexp.MustCompile(`undefined field '([^']+)'`)
	undeclaredName = regexp.MustCompile(`undeclared reference to '([^']+)'`)
	noOverload     = regexp.MustCompile(`found no matching overload for '([^']+)' applied to '([^']+)'`)
	expectedTokens = regexp.MustCompile(` expecting \{.*\}$`)
	pathBefore     = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_.]*$`)
	wordBefore     = regexp.MustCompile(`([A-Za-z_]+)\s*$`)
	wordAfter      = regexp.MustCompile(`^\s*([A-Za-z_]+)`)
)

// readable is a message of the compiler without what only its grammar knows.
func readable(msg string) string {
	msg = strings.ReplaceAll(msg, " (in container '')", "")
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
	case strings.HasPrefix(msg, "expected type 'bool'"):
		return ProblemExpression, "each side of && and || is a condition of its own: write the comparison out"
	default:
		return ProblemExpression, ""
	}
}

// operatorWords are what other languages write, with what CEL does.
var operatorWords = map[string]string{
	"and": "write && for and", "or": "write || for or", "not": "write ! for not: !(…)", "is": "write == to compare",
	"eq": "write == to compare", "ne": "write != to compare", "gt": "write > to compare", "lt": "write < to compare",
	"like": `write args.x.startsWith("…"), or .contains("…")`, "contains": `functions are called: args.x.contains("…")`,
	"matches": `functions are called: args.x.matches("^…$")`, "startswith": `functions are called: args.x.startsWith("…")`,
	"endswith": `functions are called: args.x.endsWith("…")`, "between": "write args.x >= 1 && args.x <= 9",
	"if": "write condition ? a : b", "then": "write condition ? a : b", "else": "write condition ? a : b",
}

func (m mistake) syntax(msg string) string {
	for _, re := range []struct {
		find *regexp.Regexp
		in   string
	}{{wordAfter, m.rest}, {wordBefore, m.before}} {
		if word := re.find.FindStringSubmatch(re.in); word != nil {
			if hint := operatorWords[strings.ToLower(word[1])]; hint != "" {
				return hint
			}
		}
	}
	around := strings.TrimSpace(m.before)
	switch {
	case strings.HasPrefix(m.rest, "= ") || strings.HasSuffix(around, " ="):
		return "write == to compare"
	case strings.HasPrefix(m.rest, "_") && around != "" && around[len(around)-1] >= '0' && around[len(around)-1] <= '9':
		return "numbers have no _ in them"
	case strings.Contains(msg, "token recognition") && strings.Contains(m.rest, `\`):
		return `in a text write \\ for a backslash, or r"…" for a text that takes it as it is`
	case strings.Contains(msg, "token recognition") && strings.ContainsAny(m.rest, `"'`):
		return `a text is not closed; YAML takes " #" for the beginning of a comment unless the whole is in quotes, or in a block behind |`
	case strings.HasPrefix(m.rest, "{{") || strings.HasPrefix(m.rest, "${") || strings.HasSuffix(around, "{"):
		return `join texts with +: "'Order ' + args.order"`
	default:
		return ""
	}
}

// field is about a field that its struct does not have.
func (m mistake) field(name string) string {
	path := pathBefore.FindString(strings.TrimSuffix(m.before, "?"))
	names, known := m.fieldsOf(path)
	if hint := didYouMean(nearest(name, names)); hint != "" {
		return hint
	}
	if !known || len(names) == 0 {
		return ""
	}
	return path + " has " + listed(names)
}

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

// macros are called like functions, but the checker does not list them.
var macros = []string{"has", "all", "exists", "exists_one", "map", "filter"}

// name is about a variable or function that there is not.
func (m mistake) name(name string) string {
	if strings.HasPrefix(m.rest, "(") {
		if other := otherFunctions[name]; other != "" {
			return "did you mean " + other + "?"
		}
		known := append(sortedKeys(m.env.Functions()), macros...)
		known = slices.DeleteFunc(known, func(f string) bool { return strings.ContainsAny(f, "_@") })
		if hint := didYouMean(nearest(name, known)); hint != "" {
			return hint
		}
		return "there is no such function; askance policy vars lists them"
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

// overloadHint is about an operator or function on values of other types than
// it takes.
func overloadHint(function, types string) string {
	switch _, ok := operators.FindReverse(function); {
	case strings.Contains(types, "optional_type("):
		return "an optional value: say what it is if it is missing, with .orValue(…)"
	case strings.Contains(types, "timestamp") && strings.Contains(types, "string"):
		return `write a time as timestamp("2026-01-01T00:00:00Z")`
	case function == operators.In && strings.HasSuffix(types, ", string)"):
		return `write a list, args.x in ["a", "b"], or args.x.contains("a")`
	case strings.Contains(types, "list(string)") && strings.Contains(types, "string)") && (function == "contains" || function == operators.Equals || function == operators.NotEquals):
		return `write "x" in LIST, or !("x" in LIST)`
	case function == "url.hostIn":
		return `the hosts are a list: ["example.com"]`
	case function == operators.Add && strings.Contains(types, "string"):
		return "make a text of it with string(…)"
	case strings.Contains(types, "int") && strings.Contains(types, "double") && ok:
		return "make both of one type with double(…)"
	case strings.Contains(types, "int") && strings.Contains(types, "string") && ok:
		return "compare a number with a number, without quotes, and a text with a text"
	default:
		return ""
	}
}

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
