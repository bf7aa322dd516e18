package hint

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// Expression is a fault that the compiler of expressions found.
type Expression struct {
	Message string
	// Before is the text of the line up to the fault, Rest the text after it.
	Before, Rest string
	Scope        Scope
}

// Scope is what an expression can name.
type Scope interface {
	Functions() []string
	Variables() []string
	// Fields are those of a struct by its path, such as ctx; false: there is no
	// such struct, and all known fields are given.
	Fields(path string) ([]string, bool)
}

var (
	undefinedField = regexp.MustCompile(`undefined field '([^']+)'`)
	undeclaredName = regexp.MustCompile(`undeclared reference to '([^']+)'`)
	noOverload     = regexp.MustCompile(`found no matching overload for '([^']+)' applied to '([^']+)'`)
	pathBefore     = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_.]*$`)
	pathInHas      = regexp.MustCompile(`^\(\s*([A-Za-z_][A-Za-z0-9_.]*)\.`)
	fieldAfter     = regexp.MustCompile(`^\.\??([A-Za-z_]+)`)
	wordBefore     = regexp.MustCompile(`([A-Za-z_]+)\s*$`)
	wordAfter      = regexp.MustCompile(`^\s*([A-Za-z_]+)`)
)

// Explain gives the hint, and whether the fault is an unknown name.
func (x Expression) Explain() (unknownName bool, hint string) {
	if strings.HasPrefix(x.Message, "Syntax error") {
		for _, word := range [][]string{wordAfter.FindStringSubmatch(x.Rest), wordBefore.FindStringSubmatch(x.Before)} {
			if word == nil {
				continue
			}
			if hint := cmp.Or(operators.find(strings.ToLower(word[1])), x.callInfix(word[1])); hint != "" {
				return false, hint
			}
		}
		return false, find(syntax, strings.TrimRight(x.Before, " \t")+"¦"+x.Rest+"¦¦"+x.Message)
	}
	if m := undefinedField.FindStringSubmatch(x.Message); m != nil {
		return true, x.explainField(m[1])
	}
	if m := undeclaredName.FindStringSubmatch(x.Message); m != nil {
		return true, x.explainName(m[1])
	}
	if m := noOverload.FindStringSubmatch(x.Message); m != nil {
		return false, find(overloads, m[1]+" "+m[2])
	}
	if m := fieldAfter.FindStringSubmatch(x.Rest); m != nil && strings.Contains(x.Message, "does not support field selection") {
		return false, x.explainSelection(cmp.Or(functions.find(m[1]), m[1]))
	}
	return false, find(messages, x.Message)
}

// callInfix is for the name of a function in the place of an operator.
func (x Expression) callInfix(word string) string {
	for _, f := range x.Scope.Functions() {
		if strings.EqualFold(f, word) {
			return "call the function: args.x." + f + "(…)"
		}
	}
	return ""
}

func (x Expression) explainSelection(name string) string {
	switch {
	case name == "size":
		return "write size(…)"
	case name == "now" || strings.HasPrefix(name, "ctx.now."):
		return "call the function: ctx.now.getHours()"
	case slices.Contains(x.Scope.Functions(), name):
		return "call the function: ." + name + "(…)"
	}
	return "the value before it has no fields"
}

func (x Expression) explainField(name string) string {
	path := pathBefore.FindString(strings.TrimSuffix(x.Before, "?"))
	if asked := pathInHas.FindStringSubmatch(x.Rest); path == "has" && asked != nil {
		path = asked[1]
	}
	if path == "caller" && strings.HasPrefix(name, "team") {
		return "did you mean groups?"
	}
	names, known := x.Scope.Fields(path)
	if hint := DidYouMean(Nearest(name, names)); hint != "" || !known || len(names) == 0 {
		return hint
	}
	return path + " has " + List(names)
}

func (x Expression) explainName(name string) string {
	if strings.HasPrefix(x.Rest, "(") {
		if strings.HasSuffix(strings.TrimSuffix(x.Before, name), ".") {
			if hint := find(methods, name); hint != "" {
				return hint
			}
		}
		known := append(x.Scope.Functions(), "has", "all", "exists", "exists_one", "map", "filter")
		known = slices.DeleteFunc(known, func(f string) bool { return strings.ContainsAny(f, "_@") && f != "exists_one" })
		family := slices.IndexFunc(known, func(f string) bool { return strings.HasSuffix(f, "."+name) })
		if family >= 0 {
			return DidYouMean(known[family])
		}
		return cmp.Or(DidYouMean(cmp.Or(functions.find(name), Nearest(name, known))), "there is no such function; askance policy vars lists them")
	}
	if name == "math" {
		return "there are math.greatest, math.least, math.abs, math.round, math.floor and math.ceil"
	}
	for _, path := range []string{"args", "caller", "ctx"} {
		if fields, known := x.Scope.Fields(path); known && slices.Contains(fields, name) {
			return DidYouMean(path + "." + name)
		}
	}
	near := ""
	if len(name) > 2 {
		near = Nearest(name, x.Scope.Variables())
	}
	return cmp.Or(DidYouMean(cmp.Or(variables.find(name), near)), Variables)
}

// Hints that callers compare with.
const (
	Variables  = "the variables are tool, args, caller and ctx; put a text in quotes"
	JoinTexts  = `join texts with +: "'Order ' + args.order"`
	SideBySide = "two values follow each other: join conditions with && or ||"
)

// operators are words of other languages in the place of an operator.
const operators words = `
write && for and <- and
write || for or <- or
write ! for not: !(…) <- not
write == to compare <- is eq
write args.x.startsWith("…"), or .contains("…") <- like
`

// functions are names of other languages for functions.
const functions words = `
size <- length len count
lowerAscii <- lower toLower toLowerCase lowercase
upperAscii <- upper toUpper toUpperCase uppercase
contains <- includes
startsWith <- hasPrefix
endsWith <- hasSuffix
exists <- any some
all <- every
matches <- regex match test re_match
trim <- strip
ctx.now, the time of the call <- now today
ctx.now.getHours() <- hour
math.greatest <- max
math.least <- min
`

// variables are names of other languages for variables.
const variables words = `
args <- input params parameters arguments arg request
caller.roles <- role
caller.groups <- group
caller.user <- requester username principal
ctx.now <- time
true <- True
false <- False
null <- None nil undefined
`

// methods are functions that cannot follow a value.
var methods = []line{
	{`^has$`, "write has(args.x)"},
	{`^(all|exists|exists_one|map|filter)$`, "name the element first: LIST.$1(x, x == …)"},
	{`^(get|getOrDefault)$`, "write args.?x.orValue(…) for a field that may be missing"},
}

// syntax has the text before the fault, the text after it and the message of the
// parser, with ¦ and ¦¦ between them.
var syntax = []line{
	{`¦=>`, "write >= to compare; LIST.exists(x, x == …) looks for an element"},
	{`<¦>`, "write != to compare"},
	{`¦=?~`, `write args.x.matches("^…$")`},
	{`¦= | =¦`, "write == to compare"},
	{`¦&( |¦)`, "write && for and"},
	{`¦\|( |¦)`, "write || for or"},
	{`\?\?.*¦.*¦¦|\?¦\?`, "write args.?x.orValue(…) for a field that may be missing"},
	{`\w\?\.\w[^¦]*¦`, "write the question mark after the point: args.?x.orValue(…)"},
	{`¦;`, "join conditions with && or ||; write nothing at the end"},
	{`¦#`, "a comment in an expression begins with //"},
	{`¦@`, "put a text in quotes"},
	{`¦[“”„‟‘’‚«»]`, `quotes are " or '`},
	{`\d¦_`, "numbers have no _ in them"},
	{`\bin\s*(\([^)¦]*¦,|\{[^}:¦]*¦[,}])`, `a list is written in [ ]: args.x in ["a", "b"]`},
	{`\d\.?¦\.`, "write args.x >= 1 && args.x <= 9"},
	{`\d¦(,\d| ?[A-Za-z€$£%]+\b)|\d%¦`, "a number has digits only: 1000"},
	{`¦[^¦]*\\.*¦¦.*token recognition`, `write \\ for a backslash in a text, or r"…" for a text that keeps it`},
	{`¦[rRbB]?["'].*¦¦.*token recognition`, `a text is not closed; YAML takes " #" for the beginning of a comment unless the whole is in quotes, or in a block after |`},
	{`¦(\{\{|\$\{)|\{¦`, JoinTexts},
	{`\?[^¦]*¦.*¦¦.*expecting ':'`, "write condition ? a : b"},
	{`¦¦.*(mismatched|extraneous) input '(\w|"|'')`, SideBySide},
}

// overloads has a function and the types that it was given: "(int, string)", or
// "string.(int)" for a function of a value.
var overloads = []line{
	{`optional_type\(`, "an optional value: say what it is if it is missing, with .orValue(…)"},
	{`^_[!=]=_ .*null`, "it is never null; has(args.x) says whether the field is there"},
	{`^_\[_\] .*askance\.Args`, "write a field after a point: args.x, or args.?x.orValue(…)"},
	{`^@in .*askance\.Args`, "write has(args.x)"},
	{`askance\.Args`, "name a field: args.x"},
	{`^_[!=]=_ .*askance\.Tool`, "write tool.name"},
	{`^_[+-]_ \(timestamp, `, `a span of time is duration("24h")`},
	{`timestamp.*string|string.*timestamp`, `write a time as timestamp(args.x), or timestamp("2026-01-01T00:00:00Z")`},
	{`timestamp`, ""},
	{`^@in \(.*, string\)$`, `write a list, args.x in ["a", "b"], or args.x.contains("a")`},
	{`^(contains|_[!=]=_) .*list\(string\)`, `write "x" in LIST, or !("x" in LIST)`},
	{`^url\.hostIn `, `the hosts are a list: ["example.com"]`},
	{`^(contains|startsWith|endsWith|lowerAscii|upperAscii|trim|split) \(`, "write it after the value: args.x.$1(…)"},
	{`^(contains|startsWith|endsWith|lowerAscii|upperAscii|trim|split) .*(\(string, |\(list\()`, `one text at a time: ["a", "b"].exists(p, args.x.$1(p))`},
	{`^_\+_ .*string`, "make a text of it with string(…)"},
	{`^[_@!-]\S* .*(int.*double|double.*int)`, "make both of one type with double(…), and write 5.0 for 5"},
	{`^[_@!-]\S* .*(bool.*string|string.*bool)`, "write true and false without quotes"},
	{`\(bool, (int|double)\)`, "write two comparisons: 1 < args.x && args.x < 9"},
	{`^[_@!-]\S* .*(int.*string|string.*int)`, "compare a number with a number, without quotes, and a text with a text"},
}

// messages mean one thing wherever they come.
var messages = []line{
	{`expected type 'bool'`, "each side of && and || is a condition: write the comparison out"},
	{`invalid timestamp argument`, `write for example timestamp("2026-01-01T00:00:00Z")`},
	{`invalid duration argument`, `write for example duration("24h"); the units are h, m, s and ms`},
	{`invalid argument to has\(\)`, "has takes one field: has(args.x)"},
	{`argument must be a simple name`, "name the element first: LIST.exists(x, x == …)"},
}
