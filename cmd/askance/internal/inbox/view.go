package inbox

import (
	_ "embed"
	"fmt"
	"strings"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
)

const (
	// Below these sizes the screens have no borders: text needs the room.
	frameWidth  = 60
	frameHeight = 16
	// The list has its preview on the right from besideWidth columns, and below it from
	// belowHeight lines.
	besideWidth = 104
	belowHeight = 34
)

func (m *model) View() string {
	m.zones = zones{}
	switch {
	case m.width == 0:
		return "" // the terminal has not said how large it is
	case m.isSmall():
		text := fmt.Sprintf("%dx%d is too small,\n%dx%d is enough.\nq quits", m.width, m.height, minWidth, minHeight)
		return frame(strings.Split(text, "\n"), m.width, m.height)
	}
	var lines []string
	var keys string
	if l, ok := m.top().(*listScreen); ok {
		lines, keys = m.viewList(l)
	} else {
		lines, keys = m.viewScreen(m.top())
	}
	for len(lines) < m.height-2 {
		lines = append(lines, "")
	}
	lines = append(lines[:m.height-2], m.status, m.out.Dim(fitKeys(keys, m.width)))
	return frame(lines, m.width, m.height)
}

func (m *model) isFramed() bool { return m.width >= frameWidth && m.height >= frameHeight }

// viewScreen draws a screen above the list.
func (m *model) viewScreen(s screen) (lines []string, keys string) {
	if !m.isFramed() {
		title, body, keys := s.view(m, m.width, m.height-3)
		return append([]string{m.titleLine(m.out.Bold, title)}, body...), keys
	}
	h := m.height - 3
	title, body, keys := s.view(m, m.width-4, h-2)
	lines = append(lines, m.titleLine(m.out.Dim, "askance inbox: "+reveal.MarkedName(m.cfg.Who)))
	return append(lines, box(m.out, title, "", body, m.width, h, 1)...), keys
}

// viewList draws the header, the tabs and the list, with its preview where there is room.
func (m *model) viewList(l *listScreen) (lines []string, keys string) {
	lines = []string{m.titleLine(m.out.Bold, "askance inbox: "+reveal.MarkedName(m.cfg.Who)), l.tabLine(m)}
	m.zones.tabsAt = 1
	w, h := m.width, m.height-4
	top := len(lines)
	if !m.isFramed() {
		_, body, keys := l.view(m, w, h)
		m.zones.rowsAt += top
		m.zones.listWidth = w
		return append(lines, body...), keys
	}
	previewW, previewH := 0, 0
	switch {
	case w >= besideWidth:
		previewW = min(w*46/100, 96)
		w -= previewW
	case m.height >= belowHeight:
		previewH = h * 11 / 20
		h -= previewH
	}
	m.zones.listWidth = w
	title, body, keys := l.view(m, w-2, h-2)
	m.zones.rowsAt += top + 1
	list := box(m.out, title, l.place(m), body, w, h, 0)
	switch {
	case previewW > 0:
		preview := l.viewPreview(m, previewW, h)
		for i := range list {
			list[i] += preview[i]
		}
	case previewH > 0:
		list = append(list, l.viewPreview(m, m.width, previewH)...)
	}
	return append(lines, list...), keys
}

// viewPreview draws the selected call.
func (l *listScreen) viewPreview(m *model, w, h int) []string {
	rows := l.rows(m)
	if len(rows) == 0 {
		l.preview = nil
		return box(m.out, "Preview", "", []string{m.out.Dim("Nothing is selected.")}, w, h, 1)
	}
	q := rows[l.row]
	if p := l.preview; p == nil || p.request != q.call.Key || p.digest != q.call.Digest {
		l.preview = newDetail(q)
	}
	title, body, _ := l.preview.view(m, w-4, h-2)
	return box(m.out, title, "", body, w, h, 1)
}

// box draws a border around lines, with a title in it.
func box(out *term.Out, title, right string, body []string, w, h, pad int) []string {
	inner := w - 2
	if right != "" {
		right = " " + right + " "
	}
	title = " " + fit(title, max(0, inner-ansi.StringWidth(right)-6)) + " "
	line := strings.Repeat("─", max(0, inner-ansi.StringWidth(title)-ansi.StringWidth(right)-2))
	lines := []string{out.Dim("╭─") + out.Bold(title) + out.Dim(line) + right + out.Dim("─╮")}
	side, space := out.Dim("│"), strings.Repeat(" ", pad)
	for i := range h - 2 {
		text := ""
		if i < len(body) {
			text = body[i]
		}
		lines = append(lines, side+space+cell(text, inner-2*pad)+space+side)
	}
	return append(lines, out.Dim("╰"+strings.Repeat("─", inner)+"╯"))
}

func (m *model) titleLine(paint func(string) string, title string) string {
	right := m.state()
	left := fit(title, max(0, m.width-ansi.StringWidth(right)-2))
	gap := m.width - ansi.StringWidth(left) - ansi.StringWidth(right)
	return paint(left) + strings.Repeat(" ", max(1, gap)) + right
}

// tabLine names the tabs with how many calls each list has, and how the list is sorted.
func (l *listScreen) tabLine(m *model) string {
	var b strings.Builder
	at := 0
	counts := l.counts(m)
	for t := range tabCount {
		text := fmt.Sprintf(" %d %s ", t+1, tabNames[t])
		count := counts[t]
		if t != tabHistory && m.loaded {
			text += fmt.Sprintf("%d ", count)
		}
		switch _, short, _ := strings.Cut(strings.TrimSpace(text), " "); {
		case m.width >= frameWidth && l.tab == t:
			text = "[" + text[1:len(text)-1] + "]"
		case m.width < frameWidth && l.tab == t:
			text = "[" + short + "]"
		case m.width < frameWidth:
			text = " " + short + " "
		}
		width := ansi.StringWidth(text)
		m.zones.tabs = append(m.zones.tabs, span{at, at + width})
		at += width
		switch {
		case l.tab == t:
			text = m.out.Selected(text)
		case t == tabBlocked && m.loaded && count > 0:
			text = m.out.Bad(text)
		}
		b.WriteString(text)
	}
	right := "by " + l.orderName()
	if l.tab == tabHistory {
		right = "last first"
	}
	if name := groupings[l.group].name; name != "" {
		right += ", groups: " + name
	}
	if gap := m.width - at - ansi.StringWidth(right); gap > 1 {
		b.WriteString(strings.Repeat(" ", gap) + m.out.Dim(right))
	}
	return b.String()
}

// state returns the part of the header about the engine and the open requests.
func (m *model) state() string {
	switch {
	case m.trouble != nil:
		return m.out.Bad("no connection for " + asked.Span(m.now.Sub(m.since)) + ", retrying")
	case !m.loaded:
		return m.out.Dim("loading")
	}
	plus := ""
	if m.loading {
		plus = "+"
	}
	open, due := m.qs.count(m.now)
	text := m.out.Good(fmt.Sprintf("%d%s open", open, plus))
	if n := due; n > 0 && m.width >= frameWidth {
		text = m.out.Bad(fmt.Sprintf("%d due within %s", n, "30m")) + ", " + text
	}
	if n := len(m.sending); n > 0 {
		text += m.out.Dim(fmt.Sprintf(", sending %d", n))
	}
	return text
}

// helpKeys lists all keys and their effect, after a tab; a line without a tab is a heading or a note.
//
//go:embed help.txt
var helpKeys string

func helpLines(w int) []string {
	const column = 16
	var out []string
	for line := range strings.SplitSeq(strings.TrimSuffix(helpKeys, "\n"), "\n") {
		label, effect, isKey := strings.Cut(line, "\t")
		if !isKey {
			out = append(out, wrap(line, w)...)
			continue
		}
		for _, piece := range wrap(effect, max(12, w-column-2)) {
			out = append(out, "  "+cell(label, column)+piece)
			label = ""
		}
	}
	return out
}

type helpScreen struct{ scroll }

func (s *helpScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	if !s.scroll.key(k.String()) {
		m.pop()
	}
	return nil
}

func (s *helpScreen) view(m *model, w, h int) (title string, body []string, keys string) {
	return "Keys", s.scroll.view(m, nil, helpLines(w), h), "space more  any other key: back"
}
