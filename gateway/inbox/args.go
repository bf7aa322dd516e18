package inbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/internal/linediff"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/internal/strictjson"
)

// maxNodes bounds the tree of arguments: what is larger is shown as text.
const maxNodes = 3000

// node is a member or an item of arguments: it has a value, lines, or items.
type node struct {
	Name  string
	Kind  string   // string, number, boolean, null, object, array
	Value string   // as it is shown
	Lines []string // of a string with several
	Items []node
}

// arguments are JSON for people: as a tree, or as it came.
type arguments struct {
	Tree  []node // nil: only Raw
	Raw   string
	Bytes int
}

func argumentsOf(input string) arguments {
	a := arguments{Raw: input, Bytes: len(input)}
	if strictjson.Check([]byte(input), strictjson.MaxBytes(len(input)+1)) != nil {
		return a
	}
	left := maxNodes
	root := read("", []byte(input), &left)
	switch {
	case left < 0:
	case root.Items != nil:
		a.Tree = root.Items
	default:
		a.Tree = []node{root}
	}
	return a
}

// read takes a value apart until left is used up.
func read(name string, data []byte, left *int) node {
	n := node{Name: name, Kind: strictjson.KindOf(data)}
	if *left--; *left < 0 {
		return n
	}
	switch n.Kind {
	case "object":
		members, err := strictjson.Members(data)
		if err != nil || len(members) == 0 {
			break
		}
		for _, m := range members {
			n.Items = append(n.Items, read(label(m.Name), m.Value, left))
		}
		return n
	case "array":
		items, err := strictjson.Items(data)
		if err != nil || len(items) == 0 {
			break
		}
		n.Value = count(len(items), "item")
		for i, m := range items {
			n.Items = append(n.Items, read(strconv.Itoa(i+1), m.Value, left))
		}
		return n
	case "string":
		text, err := strictjson.Text(data)
		if err == nil && strings.Contains(text, "\n") {
			n.Lines, n.Value = strings.Split(text, "\n"), count(strings.Count(text, "\n")+1, "line")
			return n
		}
		if err == nil {
			n.Value = `"` + text + `"`
			return n
		}
	}
	n.Value = strings.TrimSpace(string(data))
	return n
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// label is a member's name; what could be taken for something else is quoted.
func label(name string) string {
	for _, r := range name {
		word := r == '_' || r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !word {
			return `"` + name + `"`
		}
	}
	if name == "" {
		return `""`
	}
	return name
}

// pretty indents JSON, and leaves what is none.
func pretty(input string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(input), "", "  ") != nil {
		return input
	}
	return b.String()
}

// editable is what a person gets to edit: the same JSON, with what misleads as
// escapes.
func editable(input string) string { return reveal.Escape(pretty(input)) }

// change is one line of a difference; Mark is "+", "-" or " ".
type change struct{ Mark, Text string }

// diff compares two inputs, laid out alike. It is empty if they say the same.
func diff(before, after string) []change {
	var out []change
	same := true
	for _, l := range linediff.Lines(strings.Split(pretty(before), "\n"), strings.Split(pretty(after), "\n")) {
		out = append(out, change{l[:1], l[2:]})
		same = same && l[0] == ' '
	}
	if same {
		return nil
	}
	return out
}
