package inbox

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/askance-dev/askance/internal/reveal"
)

// columns are the widths of the list's columns; 0 leaves one out.
type columns struct{ tool, call, age, left, what int }

func columnsFor(rows []*question, w int) columns {
	c := columns{tool: 4, call: 4, age: 6, left: 6}
	for _, q := range rows {
		c.tool = max(c.tool, ansi.StringWidth(reveal.Line(q.call.Tool)))
		c.call = max(c.call, ansi.StringWidth(reveal.Line(string(q.call.Call))))
	}
	c.tool, c.call = min(c.tool, w/5), min(c.call, w/5)
	if w < 60 {
		c.call = 0
	}
	c.what = max(0, w-2-c.tool-c.call-c.age-c.left-4)
	return c
}

func (c columns) line(mark, tool, call, age, left, what string) string {
	text := mark + cell(tool, c.tool) + " "
	if c.call > 0 {
		text += cell(call, c.call) + " "
	}
	return strings.TrimRight(text+cell(age, c.age)+" "+cell(left, c.left)+" "+fit(what, c.what), " ")
}

// cell cuts or fills a text to n columns.
func cell(s string, n int) string {
	s = fit(s, n)
	return s + strings.Repeat(" ", max(0, n-ansi.StringWidth(s)))
}
