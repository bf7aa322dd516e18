package inbox

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/toolcall"
)

type column struct {
	head  string
	most  int // maximum width; 0: all that the other columns leave
	least int // minimum width, so that a ticking time does not move the other columns
	wide  int // it is omitted if the list is narrower than this
	text  func(m *model, q *request) string
	paint func(m *model, q *request) func(string) string
}

// tabColumns are the columns of each tab, from left to right.
var tabColumns = [tabCount][]column{
	tabOpen: {
		{head: "LEFT", most: 7, least: 6, text: leftText, paint: leftPaint},
		{head: "AGE", most: 6, wide: 72, text: func(m *model, q *request) string { return asked.ShortSpan(m.now.Sub(q.call.ProposedAt)) }, paint: dimPaint},
		toolColumn, summaryColumn, riskColumn, agentColumn, sessionColumn, ruleColumn, callColumn,
	},
	tabRunning: {
		{head: "FOR", most: 6, text: func(m *model, q *request) string { return asked.ShortSpan(m.now.Sub(sinceOf(q.call))) }, paint: dimPaint},
		{head: "PHASE", most: 8, text: func(_ *model, q *request) string { return string(q.call.Phase()) }, paint: phasePaint},
		toolColumn, summaryColumn,
		{head: "WORKER", most: 14, wide: 72, text: func(_ *model, q *request) string { return reveal.MarkedName(q.call.Attempt.Worker) }, paint: dimPaint},
		agentColumn, sessionColumn, callColumn,
	},
	tabBlocked: {
		{head: "FOR", most: 6, text: func(m *model, q *request) string { return asked.ShortSpan(m.now.Sub(q.call.UpdatedAt)) }, paint: dimPaint},
		toolColumn, summaryColumn,
		{head: "WHY", most: 20, wide: 50, text: func(_ *model, q *request) string { return blockedWord(q.call) }, paint: badPaint},
		agentColumn, sessionColumn, callColumn,
	},
	tabHistory: {
		{head: "ENDED", most: 6, text: func(m *model, q *request) string { return asked.ShortSpan(m.now.Sub(q.call.UpdatedAt)) }, paint: dimPaint},
		{head: "OUTCOME", most: 11, text: func(_ *model, q *request) string { text, _ := asked.Ended(q.call); return text }, paint: endPaint},
		toolColumn, summaryColumn,
		{head: "BY", most: 17, wide: 60, text: func(_ *model, q *request) string { return asked.Deciders(q.call) }, paint: dimPaint},
		agentColumn, sessionColumn, ruleColumn, callColumn,
	},
}

var (
	toolColumn    = column{head: "TOOL", most: 16, text: func(_ *model, q *request) string { return reveal.Line(q.call.Tool) }, paint: namePaint}
	summaryColumn = column{head: "SUMMARY", text: rowText}
	riskColumn    = column{head: "RISK", most: 24, wide: 96, text: func(_ *model, q *request) string { return riskText(q.call) }, paint: badPaint}
	agentColumn   = column{head: "AGENT", most: 14, wide: 56, text: func(_ *model, q *request) string { return reveal.MarkedName(agentOf(q.call)) }, paint: dimPaint}
	sessionColumn = column{head: "SESSION", most: 16, wide: 84, text: func(_ *model, q *request) string { return reveal.MarkedName(string(q.call.Session)) }, paint: dimPaint}
	ruleColumn    = column{head: "RULE", most: 18, wide: 110, text: func(_ *model, q *request) string { return reveal.Line(asked.Rule(q.call)) }, paint: dimPaint}
	callColumn    = column{head: "CALL", most: 20, wide: 150, text: func(_ *model, q *request) string { return reveal.MarkedName(string(q.call.Call)) }, paint: dimPaint}
)

func dimPaint(m *model, _ *request) func(string) string { return m.out.Dim }

func badPaint(m *model, _ *request) func(string) string { return m.out.Bad }

func namePaint(m *model, _ *request) func(string) string { return m.out.Name }

func phasePaint(m *model, q *request) func(string) string {
	switch q.call.Phase() {
	case toolcall.PhaseRunning:
		return m.out.Work
	case toolcall.PhaseRetrying:
		return m.out.Ask
	}
	return m.out.Dim
}

func endPaint(m *model, q *request) func(string) string {
	if _, good := asked.Ended(q.call); good {
		return m.out.Good
	}
	return m.out.Bad
}

// leftText returns the time that is left; "!" marks urgent requests even without colours.
func leftText(m *model, q *request) string {
	if !q.open() {
		return ""
	}
	ends := q.due
	text := "-"
	switch {
	case ends.IsZero():
	case !m.now.Before(ends):
		text = "over"
	default:
		text = asked.ShortSpan(ends.Sub(m.now))
	}
	if !ends.IsZero() && ends.Sub(m.now) <= term.Urgent {
		text += "!"
	}
	return text
}

func leftPaint(m *model, q *request) func(string) string {
	if !q.open() {
		return m.out.Dim
	}
	return m.out.Due(q.due, m.now, m.out.Good)
}

// rowText returns the summary, preceded by the responses so far or by the outcome.
func rowText(m *model, q *request) string {
	c := q.call
	text := asked.Title(c)
	if rest, ok := strings.CutPrefix(text, c.Tool+" "); ok { // the tool has its own column
		text = rest
	}
	text = reveal.Line(text)
	switch {
	case q.leaving && m.list.tab == q.left:
		return oneLine(q.why) + ": " + text
	case !q.open():
		return text
	case m.sending[c.Key]:
		return "(sending) " + text
	}
	if v, ok := c.VoteOf(m.cfg.Who); ok {
		return "(you " + reveal.Line(asked.Said(v)) + ") " + text
	}
	if asked.MayRespond(c, m.cfg.Who) == asked.No {
		return "(not yours) " + text
	}
	if v, ok := asked.LastOn(c); ok {
		return "(" + reveal.Line(v.By.Name+" "+asked.Said(v)) + ") " + text
	}
	return text
}

// columns are the columns that fit a list, with their widths.
type columns struct {
	cols   []column
	widths []int
}

// measured is the number of rows from which widths are computed.
const measured = 300

// newColumns lays out the columns of a tab on w columns of the terminal.
func newColumns(m *model, t tab, rows []*request, w int) columns {
	var c columns
	rest := w - 3 // the mark, and a space at the end
	rows = rows[:min(len(rows), measured)]
	flex := 0
	for _, col := range tabColumns[t] {
		if col.most == 0 {
			flex = len(c.cols)
			c.cols, c.widths = append(c.cols, col), append(c.widths, 0)
			continue
		}
		width := 0
		for _, q := range rows {
			width = max(width, ansi.StringWidth(col.text(m, q)))
		}
		if w < col.wide || col.wide > 0 && width == 0 {
			continue
		}
		width = min(max(width, col.least, ansi.StringWidth(col.head)), col.most)
		rest -= width + 1
		c.cols, c.widths = append(c.cols, col), append(c.widths, width)
	}
	for i := len(c.cols) - 1; i > flex && rest < max(minSummary, w*3/8); i-- { // the least important columns are on the right
		rest += c.widths[i] + 1
		c.cols, c.widths = c.cols[:i], c.widths[:i]
	}
	c.widths[flex] = max(0, rest)
	return c
}

// minSummary is the width that a summary keeps before columns to its right are dropped; on
// wide lists it is three eighths of the width.
const minSummary = 24

func (c columns) head() string {
	heads := make([]string, 0, len(c.cols))
	for i, col := range c.cols {
		heads = append(heads, cell(col.head, c.widths[i]))
	}
	return "  " + strings.TrimRight(strings.Join(heads, " "), " ")
}

// line returns a row; with paint its cells have their own colours.
func (c columns) line(m *model, mark string, q *request, paint bool) string {
	var b strings.Builder
	b.WriteString(mark)
	for i, col := range c.cols {
		text := cell(col.text(m, q), c.widths[i])
		if paint && col.paint != nil {
			text = col.paint(m, q)(text)
		}
		b.WriteString(text)
		if i < len(c.cols)-1 {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

func cell(s string, n int) string {
	s = fit(s, n)
	return s + strings.Repeat(" ", max(0, n-ansi.StringWidth(s)))
}

// records lays out labels and their values in two columns.
type records struct {
	width int
	dim   func(string) string
	lines []string
}

const labelWidth = 9

// add adds a label with lines, or nothing if there are no lines.
func (r *records) add(label string, lines ...string) {
	for _, line := range lines {
		for _, piece := range wrap(line, max(12, r.width-labelWidth)) {
			r.lines = append(r.lines, r.dim(fmt.Sprintf("%-*s", labelWidth, label))+piece)
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
	p.row = max(0, min(n-1, p.row+d))
	if n > 0 {
		p.at = key(p.row)
	}
}
