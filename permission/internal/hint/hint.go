// Package hint guesses what the author of a policy meant by something that is invalid
// in a rule file or an expression, and suggests what to write. It plays no part in
// decisions.
package hint

import (
	"cmp"
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/askance-dev/askance/internal/spelling"
)

//go:embed hints.txt
var hints string

// line is a row of a table.
type line struct {
	pattern *regexp.Regexp
	hint    string
}

// tables are the tables of hints.txt by name.
var tables = sync.OnceValue(func() map[string][]line {
	out := map[string][]line{}
	table := ""
	known := strings.NewReplacer("{JoinTexts}", JoinTexts, "{Example}", Example)
	for row := range strings.SplitSeq(hints, "\n") {
		if pattern, hint, ok := strings.Cut(row, "\t"); ok {
			out[table] = append(out[table], line{regexp.MustCompile("(?s)" + pattern), known.Replace(hint)})
		} else if strings.HasPrefix(row, "[") {
			table, _, _ = strings.Cut(row[1:], "]")
		}
	}
	return out
})

// find returns the hint of the first matching line, or "".
func find(table, text string) string {
	for _, l := range tables()[table] {
		if at := l.pattern.FindStringSubmatchIndex(text); at != nil {
			return string(l.pattern.ExpandString(nil, l.hint, text, at))
		}
	}
	return ""
}

// DidYouMean suggests the known word that was meant: the last part of a path, the equivalent of
// another language's word, or the correct spelling; "" if there is none.
func DidYouMean(name string, known []string) string {
	at := slices.IndexFunc(known, func(k string) bool { return strings.HasSuffix(k, "."+name) })
	if at < 0 {
		at = slices.Index(known, cmp.Or(find("words", name), name))
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
func (e Expression) Explain() (unknownName bool, hint string) {
	hint = find("faults", strings.TrimRight(e.Before, " \t")+"¦"+e.Rest+"¦¦"+e.Message)
	m := unknown.FindStringSubmatch(e.Message)
	switch {
	case m == nil:
		return false, hint
	case m[1] == "undefined field":
		return true, e.explainField(m[2])
	default:
		return true, cmp.Or(hint, e.explainName(m[2]))
	}
}

func (e Expression) explainField(name string) string {
	path := pathBefore.FindString(strings.TrimSuffix(e.Before, "?"))
	if asked := pathInHas.FindStringSubmatch(e.Rest); path == "has" && asked != nil {
		path = asked[1]
	}
	names, known := e.Scope.Fields(path)
	if hint := DidYouMean(name, names); hint != "" || !known || len(names) == 0 {
		return hint
	}
	return path + " has " + joinNames(names)
}

func (e Expression) explainName(name string) string {
	known, none := e.Scope.Variables(), Variables
	if strings.HasPrefix(e.Rest, "(") {
		known, none = append(e.Scope.Functions(), known...), "there is no such function; askance policy vars lists them"
	}
	return cmp.Or(DidYouMean(name, known), none)
}

// Hints that callers compare with.
const (
	Variables = "the variables are tool, args, caller and ctx; put a text in quotes"
	JoinTexts = `join texts with +, and convert a number to text: "'Order ' + string(args.order)"`
	Example   = `write conditions as in args.x > 5 && args.y == "a"`
)

// Tool returns the hint for a name that no tool can have.
func Tool(name string) string { return find("tools", name) }

// Text returns the hint for a value that should be a text; node says what it is.
func Text(node, field string) string { return find("texts", node+" "+field) }

// Line returns the hint for a line that the YAML parser cannot read.
func Line(message, text string) string {
	_, value, _ := strings.Cut(text, ":")
	return find("lines", strings.ReplaceAll(message, "\n", " ")+"\n"+text+"¦"+strings.TrimSpace(value))
}

// Key returns the hint for an unknown key. in is the path of the mapping, known its possible keys,
// and paths those of all keys of rule files.
func Key(name, in string, known, paths []string) string {
	remark, elsewhere := "", ""
	if in == "rules[]" {
		remark = find("remarks", name)
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
