package inbox

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// facts lays out labels and what they name, in two columns.
type facts struct {
	width int
	dim   func(string) string
	lines []string
}

const labelWidth = 9

// add adds a label with lines; nothing, if there are none.
func (f *facts) add(label string, lines ...string) {
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

func indented(lines []string) []string {
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

// key moves, and reports whether the key was for it.
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
