package permission

import (
	"regexp"
	"strings"
)

// operatorWords are what other languages write, with what CEL does.
var operatorWords = map[string]string{
	"and": "write && for and", "or": "write || for or", "not": "write ! for not: !(…)", "is": "write == to compare",
	"eq": "write == to compare", "ne": "write != to compare", "gt": "write > to compare", "lt": "write < to compare",
	"like": `write args.x.startsWith("…"), or .contains("…")`, "contains": `functions are called: args.x.contains("…")`,
	"matches": `functions are called: args.x.matches("^…$")`, "startswith": `functions are called: args.x.startsWith("…")`,
	"endswith": `functions are called: args.x.endsWith("…")`, "between": "write args.x >= 1 && args.x <= 9",
	"if": "write condition ? a : b", "then": "write condition ? a : b", "else": "write condition ? a : b",
	"typeof": "a schema gives the types; write type(args.x) == int where there is none",
}

var (
	wordBefore = regexp.MustCompile(`([A-Za-z_]+)\s*$`)
	wordAfter  = regexp.MustCompile(`^\s*([A-Za-z_]+)`)
)

const (
	compareHint = "write == to compare"
	listHint    = `a list stands in [ ]: args.x in ["a", "b"]`
	missingHint = "the question mark stands behind the point: args.?x.orValue(…)"
	joinHint    = `join texts with +: "'Order ' + args.order"`
	besideHint  = "two values stand side by side: join conditions with && or ||"
	digitsHint  = "numbers are digits alone: 1000"
)

// fragments say what is meant where the compiler stumbles: before is the end of
// what it read, and rest the beginning of what it did not. The first that fits
// both counts.
var fragments = []struct {
	before, rest *regexp.Regexp
	hint         string
}{
	{nil, regexp.MustCompile(`^=>`), "write >= to compare; LIST.exists(x, x == …) looks for an element"},
	{regexp.MustCompile(`<$`), regexp.MustCompile(`^>`), "write != to compare"},
	{nil, regexp.MustCompile(`^=?~`), `write args.x.matches("^…$")`},
	{nil, regexp.MustCompile(`^= `), compareHint},
	{regexp.MustCompile(` =$`), nil, compareHint},
	{nil, regexp.MustCompile(`^&( |$)`), "write && for and"},
	{nil, regexp.MustCompile(`^\|( |$)`), "write || for or"},
	{regexp.MustCompile(`\?\?`), nil, "write args.?x.orValue(…) for a field that may be missing"},
	{regexp.MustCompile(`\?$`), regexp.MustCompile(`^\?`), "write args.?x.orValue(…) for a field that may be missing"},
	{regexp.MustCompile(`\w\?\.\w`), nil, missingHint},
	{nil, regexp.MustCompile(`^;`), "join conditions with && or ||; nothing stands at the end"},
	{nil, regexp.MustCompile(`^#`), "a comment in an expression begins with //"},
	{nil, regexp.MustCompile(`^@`), "a text stands in quotes"},
	{nil, regexp.MustCompile("^[“”„‟‘’‚«»]"), `quotes are " or '`},
	{nil, regexp.MustCompile(`^\$\.`), "the arguments are args.x"},
	{regexp.MustCompile(`\d$`), regexp.MustCompile(`^_`), "numbers have no _ in them"},
	{regexp.MustCompile(`\bin\s*\([^)]*$`), regexp.MustCompile(`^,`), listHint},
	{regexp.MustCompile(`\bin\s*\{[^}:]*$`), regexp.MustCompile(`^[,}]`), listHint},
	{regexp.MustCompile(`\d$`), regexp.MustCompile(`^\.\.`), "write args.x >= 1 && args.x <= 9"},
	{regexp.MustCompile(`\d\.?$`), regexp.MustCompile(`^\.`), "write args.x >= 1 && args.x <= 9"},
	{regexp.MustCompile(`\d$`), regexp.MustCompile(`^(,\d| ?[A-Za-z€$£%]+\b)`), digitsHint},
	{regexp.MustCompile(`\d%$`), nil, digitsHint},
	{nil, regexp.MustCompile("^`"), `names stand without quotes, and texts in " or '`},
}

// syntax is about what the parser could not read.
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
	around := strings.TrimRight(m.before, " \t")
	for _, f := range fragments {
		if (f.before == nil || f.before.MatchString(around)) && (f.rest == nil || f.rest.MatchString(m.rest)) {
			return f.hint
		}
	}
	switch {
	case strings.Contains(msg, "token recognition") && strings.Contains(m.rest, `\`):
		return `in a text write \\ for a backslash, or r"…" for a text that takes it as it is`
	case strings.Contains(msg, "token recognition") && beginsText.MatchString(m.rest):
		return `a text is not closed; YAML takes " #" for the beginning of a comment unless the whole is in quotes, or in a block behind |`
	case strings.HasPrefix(m.rest, "{{") || strings.HasPrefix(m.rest, "${") || strings.HasSuffix(around, "{"):
		return joinHint
	case strings.Contains(msg, "expecting ':'") && strings.Contains(m.before, "?"):
		return "write condition ? a : b"
	case sideBySide.MatchString(msg):
		return besideHint
	default:
		return ""
	}
}

var (
	beginsText = regexp.MustCompile(`^[rRbB]?["']`)
	sideBySide = regexp.MustCompile(`(mismatched|extraneous) input '(\w|"|'')`)
)
