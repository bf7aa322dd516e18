// Package argtree renders JSON as a tree that a person can read and decide on: one
// member on each line, its name on the left, its value on the right.
//
//	order_id      "A-1042"
//	amount_cents  19900
//	customer
//	  name        "Ann"
//	  tags        2 items
//	    1         "vip"
//	    2         "true"
//	note          3 lines
//	              │ first
//	              │ second
//	              │ third
//
// Members keep the order of the input, numbers keep their digits, and deceptive text
// becomes visible (package reveal). Long values continue in the column of values, never
// in that of names, so that no value can pretend to be a member. The rest of a line that
// is too long begins with ┊, so that no line can pretend to be two. Text that is not JSON
// is shown unchanged.
package argtree

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
)

// Render renders a JSON text in lines of at most width characters. name, if it is not
// nil, paints names.
func Render(json string, width int, name func(string) string) []string {
	if name == nil {
		name = func(s string) string { return s }
	}
	all, ok := asked.Arguments(json, 0)
	if !ok {
		return Raw(json, width)
	}
	r := renderer{width: max(width, minWidth), name: name}
	r.nodes(all, 0)
	return r.lines
}

// Raw renders text unchanged, cut into lines of at most width characters.
func Raw(text string, width int) []string {
	var out []string
	for line := range strings.SplitSeq(reveal.Text(text), "\n") {
		out = append(out, Cut(line, max(width, minWidth))...)
	}
	return out
}

// Cut cuts a line into pieces of at most width columns of the terminal. It cuts
// anywhere, not only between words, and keeps every space.
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

type renderer struct {
	width int
	name  func(string) string
	lines []string
}

func (r *renderer) nodes(all []asked.Argument, depth int) {
	column := 0
	for _, n := range all {
		if w := ansi.StringWidth(n.Name); w <= maxName {
			column = max(column, w)
		}
	}
	indent := min(depth*step, max(0, r.width-minValue-column-step))
	for _, n := range all {
		r.node(n, indent, column)
		r.nodes(n.Items, depth+1)
	}
}

func (r *renderer) node(n asked.Argument, indent, column int) {
	at := indent
	if n.Name != "" {
		at += column + step
	}
	at = min(at, r.width-minValue)
	head := strings.Repeat(" ", indent)
	names := Cut(n.Name, max(minValue, r.width-indent))
	for _, piece := range names[:len(names)-1] {
		r.lines = append(r.lines, head+r.name(piece))
	}
	last := names[len(names)-1]
	left, used := head+r.name(last), indent+ansi.StringWidth(last)
	if n.Name != "" && n.Value != "" && used+1 > at { // the name leaves no room for the value
		r.lines = append(r.lines, left)
		left, used = "", 0
	}
	for _, v := range Cut(n.Value, r.width-at) {
		if v != "" {
			left += strings.Repeat(" ", max(0, at-used)) + v
		}
		r.lines = append(r.lines, left)
		left, used = "", 0
	}
	for _, line := range n.Lines {
		for i, piece := range Cut(line, r.width-at-step) {
			bar := "│ "
			if i > 0 {
				bar = "┊ "
			}
			r.lines = append(r.lines, strings.Repeat(" ", at)+bar+piece)
		}
	}
}
