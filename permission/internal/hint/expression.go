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
			if word != nil && operators.find(strings.ToLower(word[1])) != "" {
				return false, operators.find(strings.ToLower(word[1]))
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

// explainSelection is about a field of a value that has no fields.
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

// explainField is about a field that its struct does not have.
func (x Expression) explainField(name string) string {
	path := pathBefore.FindString(strings.TrimSuffix(x.Before, "?"))
	if asked := pathInHas.FindStringSubmatch(x.Rest); path == "has" && asked != nil {
		path = asked[1]
	}
	if path == "caller" && (strings.HasPrefix(name, "group") || strings.HasPrefix(name, "team")) {
		return "groups are of approvers; a condition knows caller.user and caller.agent"
	}
	names, known := x.Scope.Fields(path)
	if hint := DidYouMean(Nearest(name, names)); hint != "" || !known || len(names) == 0 {
		return hint
	}
	return path + " has " + List(names)
}

// explainName is about a variable or function that does not exist.
func (x Expression) explainName(name string) string {
	if strings.HasPrefix(x.Rest, "(") {
		if strings.HasSuffix(strings.TrimSuffix(x.Before, name), ".") {
			if hint := find(methods, name); hint != "" {
				return hint
			}
		}
		known := append(x.Scope.Functions(), "has", "all", "exists", "exists_one", "map", "filter")
		known = slices.DeleteFunc(known, func(f string) bool { return strings.ContainsAny(f, "_@") && f != "exists_one" })
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
