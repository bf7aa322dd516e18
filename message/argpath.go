package message

import (
	"strconv"
	"strings"
)

// anyMember stands in a path for every member or element.
const anyMember = "*"

// hiddenPath takes a path of a rule's redact apart, such as args.card.* or
// args["odd name"].x. ok is false for what is no path into the arguments:
// whoever hides by it has to hide everything.
func hiddenPath(text string) (steps []string, ok bool) {
	rest, ok := strings.CutPrefix(text, "args")
	for ok && rest != "" {
		var step string
		if step, rest, ok = pathStep(rest); ok {
			steps = append(steps, step)
		}
	}
	return steps, ok
}

func pathStep(rest string) (step, after string, ok bool) {
	if quoted, is := strings.CutPrefix(rest, "["); is {
		prefix, err := strconv.QuotedPrefix(quoted)
		if err != nil {
			return "", "", false
		}
		step, err = strconv.Unquote(prefix)
		after, ok = strings.CutPrefix(quoted[len(prefix):], "]")
		return step, after, ok && err == nil
	}
	rest, ok = strings.CutPrefix(rest, ".")
	end := strings.IndexAny(rest, ".[")
	if end < 0 {
		end = len(rest)
	}
	return rest[:end], rest[end:], ok && end > 0
}
