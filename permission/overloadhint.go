package permission

import (
	"slices"
	"strings"

	"cel.dev/cel-go/common/operators"
)

// overloadHint is about an operator or function on values of other types than
// it takes: types are those of its operands, "(int, string)", or for a function
// behind a value "string.(int)".
func overloadHint(function, types string) string {
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return !strings.Contains(types, name) })
	}
	_, operator := operators.FindReverse(function)
	equality := function == operators.Equals || function == operators.NotEquals
	switch {
	case has("optional_type("):
		return "an optional value: say what it is if it is missing, with .orValue(…)"
	case has("null") && equality:
		return "it is never null; has(args.x) says whether the field is there"
	case has("askance.Args"):
		return argsHint(function)
	case equality && has("askance.Tool"):
		return "write tool.name"
	case has("timestamp"):
		return timeHint(function, types)
	case function == operators.In && strings.HasSuffix(types, ", string)"):
		return `write a list, args.x in ["a", "b"], or args.x.contains("a")`
	case function == operators.Index && strings.HasPrefix(types, "(string, int)"):
		return "a character of a text is .charAt(0)"
	case has("list(string)", "string)") && (function == "contains" || equality):
		return `write "x" in LIST, or !("x" in LIST)`
	case function == "url.hostIn":
		return `the hosts are a list: ["example.com"]`
	case textFunctions[function]:
		return textFunctionHint(function, types)
	case function == operators.Add && has("string"):
		return "make a text of it with string(…)"
	case has("int", "double") && operator:
		return "make both of one type with double(…), and write 5.0 for 5"
	case has("bool", "string") && operator:
		return "true and false stand without quotes"
	case has("(bool, int)") || has("(bool, double)"):
		return "write two comparisons: 1 < args.x && args.x < 9"
	case has("int", "string") && operator:
		return "compare a number with a number, without quotes, and a text with a text"
	default:
		return ""
	}
}

// argsHint is about the arguments taken for a map or a text.
func argsHint(function string) string {
	switch function {
	case operators.Index:
		return "fields stand behind a point: args.x, or args.?x.orValue(…)"
	case operators.In:
		return "write has(args.x)"
	default:
		return "name a field: args.x"
	}
}

// timeHint is about times beside something else.
func timeHint(function, types string) string {
	behind := strings.HasPrefix(types, "(timestamp, ")
	switch {
	case behind && (function == operators.Add || function == operators.Subtract):
		return `a span of time is duration("24h")`
	case strings.Contains(types, "string") && (!strings.HasPrefix(types, "timestamp.")):
		return `write a time as timestamp(args.x), or timestamp("2026-01-01T00:00:00Z")`
	case strings.HasPrefix(types, "timestamp."):
		return "of a time there are getHours(), getDayOfWeek(), getDate() and others of that kind"
	case strings.Contains(types, "int"):
		return "write ctx.now.getHours() for the hour"
	default:
		return ""
	}
}

// textFunctions take one text, and stand behind another.
var textFunctions = map[string]bool{"contains": true, "startsWith": true, "endsWith": true, "lowerAscii": true, "upperAscii": true, "trim": true, "split": true}

func textFunctionHint(function, types string) string {
	switch {
	case strings.HasPrefix(types, "("):
		return "it stands behind the value: args.x." + function + "(…)"
	case strings.Contains(types, "(string, ") || strings.Contains(types, "(list("):
		return `one text at a time: ["a", "b"].exists(p, args.x.` + function + "(p))"
	default:
		return "it is for texts"
	}
}
