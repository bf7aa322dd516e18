package inbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
)

// records lays out labels and what they name, in two columns.
type records struct {
	width int
	dim   func(string) string
	lines []string
}

const labelWidth = 9

// add adds a label with lines; nothing, if there are none.
func (f *records) add(label string, lines ...string) {
	for _, line := range lines {
		for _, piece := range wrap(line, max(12, f.width-labelWidth)) {
			f.lines = append(f.lines, f.dim(fmt.Sprintf("%-*s", labelWidth, label))+piece)
			label = ""
		}
	}
}

// wrap breaks prose between words, and words that are too long anywhere.
func wrap(line string, w int) []string {
	return strings.Split(ansi.Wrap(line, w, ""), "\n")
}

func indentLines(lines []string) []string {
	out := make([]string, 0, len(lines))
	for _, l := range lines {
		out = append(out, "  "+l)
	}
	return out
}

func paintAll(paint func(string) string, lines []string) []string {
	out := make([]string, 0, len(lines))
	for _, l := range lines {
		out = append(out, paint(l))
	}
	return out
}

// scroll shows a window of lines that may be more than fit. The zero value is
// at the beginning.
type scroll struct {
	top  int
	page int
	last int  // the highest top
	end  bool // the last line was on the screen
}

func (s *scroll) key(k string) bool {
	if k == " " {
		k = "pgdown"
	}
	d, ok := moves(k, max(1, s.page-1))
	if ok {
		s.top = max(0, min(s.last, s.top+d))
	}
	return ok
}

// view gives what fits of lines under head, and says how much is left.
func (s *scroll) view(m *model, head, lines []string, _, h int) []string {
	s.page = max(1, h-len(head))
	if len(lines) > s.page {
		s.page = max(1, s.page-1) // the last row says where we are
	}
	s.last = max(0, len(lines)-s.page)
	s.top = max(0, min(s.last, s.top))
	end := min(len(lines), s.top+s.page)
	s.end = s.end || end == len(lines)
	out := append([]string(nil), head...)
	out = append(out, lines[s.top:end]...)
	if s.last > 0 {
		for len(out) < h-1 {
			out = append(out, "")
		}
		text := fmt.Sprintf("-- lines %d to %d of %d", s.top+1, end, len(lines))
		if end < len(lines) {
			text += ", space: more"
		}
		out = append(out, m.out.Dim(strings.TrimSpace(text)+" --"))
	}
	return out
}

// columns are the widths of the list's columns; 0 leaves one out.
type columns struct{ tool, call, age, left, what int }

func columnsFor(rows []*request, w int) columns {
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

func cell(s string, n int) string {
	s = fit(s, n)
	return s + strings.Repeat(" ", max(0, n-ansi.StringWidth(s)))
}

// View implements tea.Model.
func (m *model) View() string {
	switch {
	case m.width == 0:
		return "" // the terminal has not said how large it is
	case m.isSmall():
		text := fmt.Sprintf("%dx%d is too small,\n%dx%d is enough.\nq quits", m.width, m.height, minWidth, minHeight)
		return frame(strings.Split(text, "\n"), m.width, m.height)
	}
	bodyHeight := m.height - 3
	title, body, keys := m.top().view(m, m.width, bodyHeight)
	lines := make([]string, 0, m.height)
	lines = append(lines, m.titleLine(title))
	for i := range bodyHeight {
		if i < len(body) {
			lines = append(lines, body[i])
		} else {
			lines = append(lines, "")
		}
	}
	lines = append(lines, m.status, m.out.Dim(fitKeys(keys, m.width)))
	return frame(lines, m.width, m.height)
}

// frame fits lines into the terminal, so that nothing ever wraps or scrolls.
func frame(lines []string, w, h int) string {
	lines = lines[:min(len(lines), h)]
	for i, l := range lines {
		lines[i] = fit(l, w)
	}
	return strings.Join(lines, "\n")
}

func fit(line string, w int) string { return ansi.Truncate(line, w, "…") }

// fitKeys leaves out the last of what keys do until the rest fits, but never
// the way out and the way to the help.
func fitKeys(keys string, w int) string {
	all := strings.Split(keys, "  ")
	for i := len(all) - 1; i >= 0 && ansi.StringWidth(strings.Join(all, "  ")) > w; i-- {
		if first, _, _ := strings.Cut(all[i], " "); first != "?" && first != "esc" && first != "q" {
			all = slices.Delete(all, i, i+1)
		}
	}
	return fit(strings.Join(all, "  "), w)
}

func (m *model) titleLine(title string) string {
	right := m.state()
	left := fit(title, max(0, m.width-ansi.StringWidth(right)-2))
	gap := m.width - ansi.StringWidth(left) - ansi.StringWidth(right)
	return m.out.Bold(left) + strings.Repeat(" ", max(1, gap)) + right
}

func (m *model) state() string {
	switch {
	case m.trouble != nil:
		return m.out.Bad("no connection for " + asked.Span(m.now.Sub(m.since)) + ", retrying")
	case !m.loaded:
		return m.out.Dim("loading")
	}
	plus := ""
	if m.more {
		plus = "+"
	}
	text := fmt.Sprintf("%d%s open", m.qs.count(), plus)
	if m.sending > 0 {
		text += ", sending"
	}
	return m.out.Good(text)
}

// picker is the selection on a list whose rows come and go.
type picker[K comparable] struct {
	at    K   // the selected row
	row   int // where it was, for when it leaves
	first int // the first row that is shown
	page  int // rows that fit
}

// choose puts the selection on one of n rows and brings it into view.
func (p *picker[K]) choose(n int, key func(int) K) {
	i := 0
	for i < n && key(i) != p.at {
		i++
	}
	if i == n {
		i = min(p.row, n-1)
	}
	p.row = max(0, i)
	if p.at = *new(K); i >= 0 {
		p.at = key(i)
	}
	p.first = max(0, min(p.first, n-p.page))
	p.first = max(min(p.first, p.row), p.row-p.page+1)
}

func (p *picker[K]) move(n, d int, key func(int) K) {
	if p.row = max(0, min(n-1, p.row+d)); n > 0 {
		p.at = key(p.row)
	}
}
