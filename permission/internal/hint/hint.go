// Package hint guesses what the author of a policy meant by something that is invalid
// in a rule file or an expression, and suggests what to write. It plays no part in
// decisions.
package hint

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/askance-dev/askance/internal/spelling"
)

// line is a table row: a pattern, and the hint for a text that matches it. $1 in the hint is the
// pattern's first group.
type line struct{ pattern, hint string }

var compiled sync.Map // pattern → *regexp.Regexp

// find returns the hint of the first matching line, or "".
func find(table []line, text string) string {
	for _, l := range table {
		re, ok := compiled.Load(l.pattern)
		if !ok {
			re, _ = compiled.LoadOrStore(l.pattern, regexp.MustCompile("(?s)"+l.pattern))
		}
		pattern := re.(*regexp.Regexp)
		if at := pattern.FindStringSubmatchIndex(text); at != nil {
			return string(pattern.ExpandString(nil, l.hint, text, at))
		}
	}
	return ""
}

// DidYouMean suggests the known word that was meant: the last part of a path, the equivalent of
// another language's word, or the correct spelling; "" if there is none.
func DidYouMean(name string, known []string) string {
	at := slices.IndexFunc(known, func(k string) bool { return strings.HasSuffix(k, "."+name) })
	if at < 0 {
		at = slices.Index(known, cmp.Or(find(words, name), name))
	}
	meant := spelling.Nearest(name, known)
	if at >= 0 {
		meant = known[at:]
	}
	if len(meant) == 0 {
		return ""
	}
	return "did you mean " + meant[0] + "?"
}

// Expression is a fault that the compiler of expressions found.
type Expression struct {
	Message string
	// Before is the text of the line before the fault, Rest the text after it.
	Before, Rest string
	Scope        Scope
}

// Scope is what an expression can name.
type Scope interface {
	Functions() []string
	// Variables are the variables with a value, such as ctx, and their fields, such as ctx.now.
	Variables() []string
	// Fields returns the fields of a struct by its path, such as ctx. It returns false if there is
	// no such struct, with all known fields.
	Fields(path string) ([]string, bool)
}

var (
	unknown    = regexp.MustCompile(`(undefined field|undeclared reference to) '([^']+)'`)
	pathBefore = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_.]*$`)
	pathInHas  = regexp.MustCompile(`^\(\s*([A-Za-z_][A-Za-z0-9_.]*)\.`)
)

// Explain returns the hint, and whether the fault is an unknown name.
func (x Expression) Explain() (unknownName bool, hint string) {
	hint = find(faults, strings.TrimRight(x.Before, " \t")+"¦"+x.Rest+"¦¦"+x.Message)
	m := unknown.FindStringSubmatch(x.Message)
	switch {
	case m == nil:
		return false, hint
	case m[1] == "undefined field":
		return true, x.explainField(m[2])
	default:
		return true, cmp.Or(hint, x.explainName(m[2]))
	}
}

func (x Expression) explainField(name string) string {
	path := pathBefore.FindString(strings.TrimSuffix(x.Before, "?"))
	if asked := pathInHas.FindStringSubmatch(x.Rest); path == "has" && asked != nil {
		path = asked[1]
	}
	names, known := x.Scope.Fields(path)
	if hint := DidYouMean(name, names); hint != "" || !known || len(names) == 0 {
		return hint
	}
	return path + " has " + joinNames(names)
}

func (x Expression) explainName(name string) string {
	known, none := x.Scope.Variables(), Variables
	if strings.HasPrefix(x.Rest, "(") {
		known, none = append(x.Scope.Functions(), known...), "there is no such function; askance policy vars lists them"
	}
	return cmp.Or(DidYouMean(name, known), none)
}

// Hints that callers compare with.
const (
	Variables = "the variables are tool, args, caller and ctx; put a text in quotes"
	JoinTexts = `join texts with +, and convert a number to text: "'Order ' + string(args.order)"`
	Example   = `write conditions as in args.x > 5 && args.y == "a"`
)

// faults are mistakes in expressions: the text before the fault, the text after it and the
// compiler's message, separated by ¦ and ¦¦.
var faults = []line{
	{`(?i)(\band¦|¦and\b|¦&( |¦)).*¦¦Syntax`, "write && for and"},
	{`(?i)(\bor¦|¦or\b|¦\|( |¦)).*¦¦Syntax`, "write || for or"},
	{`(?i)(\bnot¦|¦not\b).*¦¦Syntax`, "write ! for not: !(…)"},
	{`(all|exists|exists_one|map|filter)\([^)¦]*¦=>|¦\(.*reference to '(all|exists|exists_one|map|filter)'|must be a simple name`, "name the element first: LIST.exists(x, x == …)"},
	{`(¦(= |=¦|=>|is |eq )|<¦>).*¦¦Syntax`, "compare with ==, !=, <, <=, > or >="},
	{`¦(=~|(?i:contains|(starts|ends)with|matches|like)\b).*¦¦Syntax|does not support field|'(contains|startsWith|endsWith|lowerAscii|upperAscii|trim|split)' applied to '\(`,
		`call the value's function: args.x.contains("…"), args.x.matches("^…$"), args.x.size(), ctx.now.getHours()`},
	{`\?¦\?|\w\?\.\w[^¦]*¦.*¦¦Syntax|¦\(.*reference to 'get'|optional_type\(|_[!=]=_.* null\)`,
		"for a field that may be missing write has(args.x), or args.?x.orValue(…)"},
	{`applied to '.*askance\.Args|reference to 'has'|to has\(\)`, "name a field of the arguments: args.x, and has(args.x) to ask whether it is there"},
	{`_[!=]=_.*askance\.Tool`, "write tool.name"},
	{`\bin\s*(\([^)¦]*¦,|\{[^}:¦]*¦[,}])|'@in' applied to '\(.*, string\)|'url.hostIn'`, `a list is written in [ ]: ["a", "b"]`},
	{`'(contains|_[!=]=_)' applied to '.*list\(string`, `write "x" in LIST, or !("x" in LIST)`},
	{`\d¦(_|,\d| ?[A-Za-z€$£%]+\b)|\d%¦`, "a number has digits only: 1000"},
	{`¦[^¦]*\\.*¦¦.*token recognition`, `write \\ for a backslash in a text, or r"…" for a text that keeps it`},
	{`¦[rRbB]?["'].*¦¦.*token recognition`, `a text is not closed; YAML takes " #" for the start of a comment unless the whole value is in quotes or in a block after |`},
	{`¦[@“”„‟‘’‚«»]`, `put a text in quotes, " or '`},
	{`'_[+-]_' applied to '\(timestamp, |invalid duration`, `write a duration as duration("24h"); the units are h, m, s and ms`},
	{`applied to '.*(timestamp.*string|string.*timestamp)|invalid timestamp`, `write a time as timestamp("2026-01-01T00:00:00Z"), or timestamp(args.x)`},
	{`¦(\{\{|\$\{)|\{¦|'_\+_' applied to '.*string`, JoinTexts},
	{`'[_@!-]\S*' applied to .*(int|double|bool)|expected type 'bool'`, "compare two values of one type, as in args.x > 5; double(…) and string(…) convert"},
	{`¦¦Syntax`, Example},
}

// words are other languages' words for keys, values, functions and variables.
var words = []line{
	{`^(?i:action|effect|decision|verdict|permission|type)$`, "behavior"},
	{`^(?i:conditions?|if|where|expr|expression|cel)$`, "when"},
	{`^(?i:text|prompt|question|reason)$`, "message"},
	{`^(?i:comment|note)$`, "description"},
	{`^(?i:(rule_?)?(id|title))$`, "name"},
	{`^(?i:timeout|ttl|expires|deadline)$`, "expiry"},
	{`^(?i:reviewers|who)$`, "approvers"},
	{`^(?i:pattern|content|command|specifier)$`, "rule_content"},
	{`^(?i:block|reject|refuse|forbid|disallowed|denied|never|no)$`, "deny"},
	{`^(?i:approve|confirm|review|escalate|require_approval)$`, "ask"},
	{`^(?i:always|yes|allowed|permit|accept|pass|grant)$`, "allow"},
	{`^(?i:plan|read_?only)$`, "explore"},
	{`^(?i:length|len|count)$`, "size"},
	{`^(?i:(to_?)?lower(case)?)$`, "lowerAscii"},
	{`^(?i:(to_?)?upper(case)?)$`, "upperAscii"},
	{`^(?i:any|some)$`, "exists"},
	{`^(?i:max)$`, "greatest"},
	{`^(?i:min)$`, "least"},
	{`^(?i:now|today|time)$`, "ctx.now"},
	{`^(?i:input|params?|parameters?|arguments?|arg|request)$`, "args"},
	{`^(?i:requester|username|principal)$`, "caller.user"},
}

// remarks are about keys of a rule that have no equivalent here.
var remarks = []line{
	{`^(priority|order)$`, "rules have no order: deny wins over ask, ask over allow"},
	{`^(allow|ask|deny)$`, "write behavior: $1"},
	{`^args$`, "write when: args.x == …"},
	{`^(enabled|disabled?)$`, "remove the rule, or write enforcement: audit"},
}

// texts maps the kind of a node and its field, where the value should be a text.
var texts = []line{
	{`^an anchor`, "write the value out; put a text that begins with & or * in quotes"},
	{`^empty `, "leave the key out, or write a value after it"},
	{`^a list (when|message|vocabulary)`, `write one expression in quotes: 'a && b', or '["ann", "bob"]'`},
	{`^a list `, "write one text"},
	{`^true or false when$`, "leave when out to mean every call"},
	{``, "put the whole value in quotes"},
}

// lines maps the message of the YAML parser, the line and, after ¦, its value.
var lines = []line{
	{"^[^\n]*\n[^¦]*[\t\u00a0\u2007\u202f\u3000]", "write plain spaces: YAML does not accept tabs and other blanks there"},
	{`^found unknown escape`, `YAML reads \ in double quotes: write \\, or put the whole value in single quotes`},
	{"¦([*%@`])", "put the value in quotes: it cannot begin with $1"},
	{`¦(.*: |["'])`, "put the whole value in quotes of a kind that it does not contain, or in a block after |"},
	{`^non-map value`, "a key has a colon and a space after it, as in behavior: ask; indent a line that continues a text further than its key"},
	{`^[^\n]*(not allowed in this context|unexpected)`, "keys that belong together begin in the same column"},
}

// tools are names that no tool can have.
var tools = []line{
	{`^([A-Za-z_][A-Za-z0-9_.-]*)\((.*)\)$`, `write tool: $1, and rule_content: "$2", or a condition; askance policy import reads lists of these`},
	{`^(.*,.*)$`, "a list is written in [ ]: [$1]"},
	{`^(all|any|every)$`, `any tool is "*"`},
}

// Tool returns the hint for a name that no tool can have.
func Tool(name string) string { return find(tools, name) }

// Text returns the hint for a value that should be a text; node says what it is.
func Text(node, field string) string { return find(texts, node+" "+field) }

// Line returns the hint for a line that the YAML parser cannot read.
func Line(message, text string) string {
	_, value, _ := strings.Cut(text, ":")
	return find(lines, strings.ReplaceAll(message, "\n", " ")+"\n"+text+"¦"+strings.TrimSpace(value))
}

// Key returns the hint for an unknown key. in is the path of the mapping, known its possible keys,
// and paths those of all keys of rule files.
func Key(name, in string, known, paths []string) string {
	remark, elsewhere := "", ""
	if in == "rules[]" {
		remark = find(remarks, name)
	}
	var places []string
	for _, path := range paths {
		if outer, ok := strings.CutSuffix(path, "."+name); ok && name != "name" {
			places = append(places, outer)
			elsewhere = "it is a key of " + joinNames(places)
		}
	}
	return cmp.Or(DidYouMean(name, known), remark, elsewhere, Keys(known))
}

// Keys returns the hint for a value that should be a mapping.
func Keys(known []string) string {
	if len(known) == 0 || len(known) > maxNames {
		return ""
	}
	return "the keys here are " + joinNames(known)
}

// maxNames limits how many names a hint lists.
const maxNames = 12

func joinNames(names []string) string {
	if len(names) > maxNames {
		names = append(names[:maxNames:maxNames], "…")
	}
	return strings.Join(names, ", ")
}
