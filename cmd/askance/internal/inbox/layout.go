package inbox

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/askance-dev/askance/internal/reveal"
)

// records lays out labels and their values in two columns.
type records struct {
	width int
	dim   func(string) string
	lines []string
}

const labelWidth = 9

// add adds a label with lines, or nothing if there are no lines.
func (f *records) add(label string, lines ...string) {
	for _, line := range lines {
		for _, piece := range wrap(line, max(12, f.width-labelWidth)) {
			f.lines = append(f.lines, f.dim(fmt.Sprintf("%-*s", labelWidth, label))+piece)
			label = ""
		}
	}
}

// oneLine reveals a text of several lines on one line.
func oneLine(text string) string {
	return reveal.Line(strings.ReplaceAll(strings.TrimSpace(text), "\n", " / "))
}

// wrap breaks prose between words, and words that are too long anywhere.
func wrap(line string, w int) []string {
	return strings.Split(ansi.Wrap(line, w, "/"), "\n")
}

// wrapParts puts parts on lines of w columns, and breaks only parts that are longer than a line.
func wrapParts(parts []string, w int) []string {
	var out []string
	for _, part := range parts {
		if n := len(out); n > 0 && ansi.StringWidth(out[n-1]+" · "+part) <= w {
			out[n-1] += " · " + part
			continue
		}
		out = append(out, wrap(part, w)...)
	}
	return out
}

func indentLines(lines []string) []string { return indent(lines, 2) }

func indent(lines []string, n int) []string {
	out := make([]string, 0, len(lines))
	for _, l := range lines {
		out = append(out, strings.Repeat(" ", n)+l)
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

// scroll shows a window on lines that may not all fit. The zero value is at the beginning.
type scroll struct {
	top  int
	page int
	last int    // the highest top
	end  bool   // the last line was on the screen
	more string // the key that shows more; "": space
}

func (s *scroll) key(k string) bool {
	if k == " " {
		k = "pgdown"
	}
	d, ok := moves(k, max(1, s.page-1))
	s.by(d)
	return ok
}

func (s *scroll) by(lines int) { s.top = max(0, min(s.last, s.top+lines)) }

// view returns the lines that fit below head, and a line that says how many are left.
func (s *scroll) view(m *model, head, lines []string, h int) []string {
	s.page = max(1, h-len(head))
	if len(lines) > s.page {
		s.page = max(1, s.page-1) // the last row shows the position
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
			text += ", " + cmp.Or(s.more, "space") + ": more"
		}
		out = append(out, m.out.Dim(strings.TrimSpace(text)+" --"))
	}
	return out
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

// fitKeys removes keys from the end until the rest fits, but never those that leave
// the screen or open the help.
func fitKeys(keys string, w int) string {
	all := strings.Split(keys, "  ")
	for i := len(all) - 1; i >= 0 && ansi.StringWidth(strings.Join(all, "  ")) > w; i-- {
		if first, _, _ := strings.Cut(all[i], " "); first != "?" && first != "esc" && first != "q" {
			all = slices.Delete(all, i, i+1)
		}
	}
	return fit(strings.Join(all, "  "), w)
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
	p.window(p.row, n)
}

// window brings a line of n into view.
func (p *picker[K]) window(line, n int) {
	p.first = max(0, min(p.first, n-p.page))
	p.first = max(min(p.first, line), line-p.page+1)
}

func (p *picker[K]) move(n, d int, key func(int) K) {
	if p.row = max(0, min(n-1, p.row+d)); n > 0 {
		p.at = key(p.row)
	}
}
