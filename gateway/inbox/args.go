package inbox

import (
	"github.com/askance-dev/askance/internal/asked"
)

// maxArguments bounds the tree of arguments: what is larger is shown as text.
const maxArguments = 3000

// arguments are JSON for people: as a tree, or as it came.
type arguments struct {
	Tree  []asked.Argument // nil: only Raw
	Raw   string
	Bytes int
}

func argumentsOf(input string) arguments {
	tree, _ := asked.Arguments(input, maxArguments)
	return arguments{Tree: tree, Raw: input, Bytes: len(input)}
}

// change is one line of a difference; Mark is "+", "-" or " ".
type change struct{ Mark, Text string }

// diff is what an edit changes: nothing if both inputs say the same.
func diff(before, after string) []change {
	var out []change
	for _, l := range asked.Changes(before, after) {
		out = append(out, change{l[:1], l[2:]})
	}
	return out
}
