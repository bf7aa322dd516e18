package argtree

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/internal/strictjson"
)

// node is a member or an item. A node has a value, lines of text, or children.
type node struct {
	name     string
	value    string   // in the column of values
	text     []string // of a string with several lines
	children []node
}

// Render lays a JSON text out in lines of at most width characters. name, if it
// is not nil, paints names.
func Render(json string, width int, name func(string) string) []string {
	if name == nil {
		name = func(s string) string { return s }
	}
	if strictjson.Check([]byte(json), strictjson.MaxBytes(len(json)+1)) != nil {
		return Raw(json, width)
	}
	root := read("", []byte(json))
	r := renderer{width: max(width, minWidth), name: name}
	if root.children == nil {
		root.name = ""
		r.node(root, 0, 0)
	}
	r.nodes(root.children, 0)
	return r.lines
}

// Raw lays text out as it came, cut into lines of at most width characters.
func Raw(text string, width int) []string {
	var out []string
	for line := range strings.SplitSeq(reveal.Text(text), "\n") {
		out = append(out, Cut(line, max(width, minWidth))...)
	}
	return out
}

// Cut cuts a line into pieces of at most width columns of the terminal. It
// cuts anywhere, not between words: every space stays where it is.
func Cut(line string, width int) []string {
	if ansi.StringWidth(line) <= width {
		return []string{line}
	}
	return strings.Split(ansi.Hardwrap(line, width, true), "\n")
}

const (
	minWidth = 24
	step     = 2  // of the indent
	maxName  = 24 // longer names push their value to the right
	minValue = 12 // columns that are left for values, however deep
)

func read(name string, data []byte) node {
	n := node{name: name}
	switch strictjson.KindOf(data) {
	case "object":
		members, err := strictjson.Members(data)
		if err != nil {
			return plain(n, data)
		}
		for _, m := range members {
			n.children = append(n.children, read(label(m.Name), m.Value))
		}
		if len(members) == 0 {
			n.value = "{}"
		}
	case "array":
		items, err := strictjson.Items(data)
		if err != nil {
			return plain(n, data)
		}
		for i, m := range items {
			n.children = append(n.children, read(fmt.Sprint(i+1), m.Value))
		}
		n.value = count(len(items), "item")
		if len(items) == 0 {
			n.value = "[]"
		}
	case "string":
		text, err := strictjson.Text(data)
		if err != nil {
			return plain(n, data)
		}
		if strings.Contains(text, "\n") {
			n.text = strings.Split(reveal.Text(text), "\n")
			n.value = count(len(n.text), "line")
		} else {
			n.value = `"` + reveal.Line(text) + `"`
		}
	default:
		return plain(n, data)
	}
	return n
}

// plain shows a value as its bytes.
func plain(n node, data []byte) node {
	n.value = reveal.Line(strings.TrimSpace(string(data)))
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
			return `"` + reveal.Line(name) + `"`
		}
	}
	if name == "" {
		return `""`
	}
	return name
}

type renderer struct {
	width int
	name  func(string) string
	lines []string
}

// nodes shows siblings with their values in one column.
func (r *renderer) nodes(all []node, depth int) {
	column := 0
	for _, n := range all {
		if w := ansi.StringWidth(n.name); w <= maxName {
			column = max(column, w)
		}
	}
	indent := min(depth*step, max(0, r.width-minValue-column-step))
	for _, n := range all {
		r.node(n, indent, column)
		r.nodes(n.children, depth+1)
	}
}

// node shows one node without its children.
func (r *renderer) node(n node, indent, column int) {
	at := indent
	if n.name != "" {
		at += column + step
	}
	at = min(at, r.width-minValue)
	head := strings.Repeat(" ", indent)
	names := Cut(n.name, max(minValue, r.width-indent))
	for _, piece := range names[:len(names)-1] {
		r.lines = append(r.lines, head+r.name(piece))
	}
	last := names[len(names)-1]
	left, used := head+r.name(last), indent+ansi.StringWidth(last)
	if n.name != "" && n.value != "" && used+1 > at { // no room beside so long a name
		r.lines = append(r.lines, left)
		left, used = "", 0
	}
	for _, v := range Cut(n.value, r.width-at) {
		if v != "" {
			left += strings.Repeat(" ", max(0, at-used)) + v
		}
		r.lines = append(r.lines, left)
		left, used = "", 0
	}
	for _, line := range n.text {
		for _, piece := range Cut(line, r.width-at-step) {
			r.lines = append(r.lines, strings.Repeat(" ", at)+"│ "+piece)
		}
	}
}
