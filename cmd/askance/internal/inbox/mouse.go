package inbox

import (
	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/toolcall"
)

// span is a range of columns, without the column to.
type span struct{ from, to int }

// zones records where the last view drew what can be clicked.
type zones struct {
	tabs      []span
	tabsAt    int            // line of the tabs
	rows      []toolcall.Key // of the lines that are shown; a heading has none
	rowsAt    int            // line of the first one
	listWidth int
}

// wheelRows is how many rows a turn of the wheel moves.
const wheelRows = 3

// mouse handles a mouse event. It never sends a response.
func (m *model) mouse(e tea.MouseMsg) tea.Cmd {
	if m.isSmall() {
		return nil
	}
	step := 0
	switch {
	case e.Button == tea.MouseButtonWheelUp:
		step = -wheelRows
	case e.Button == tea.MouseButtonWheelDown:
		step = wheelRows
	case e.Button != tea.MouseButtonLeft || e.Action != tea.MouseActionPress:
		return nil
	}
	l, ok := m.top().(*listScreen)
	switch {
	case ok && step != 0:
		return l.wheel(m, step, e)
	case ok:
		return l.click(m, e)
	case step != 0:
		if s, ok := m.top().(scroller); ok {
			s.by(step)
		}
	}
	return nil
}

// scroller is a screen with lines to scroll.
type scroller interface{ by(lines int) }

// wheel moves the selection, or the preview that the pointer is on.
func (l *listScreen) wheel(m *model, step int, e tea.MouseMsg) tea.Cmd {
	onList := e.X < m.zones.listWidth && e.Y < m.zones.rowsAt+l.page+1
	if !onList && l.preview != nil {
		l.preview.scroll.by(step)
		return nil
	}
	rows := l.rows(m)
	l.resolve(rows)
	l.touched = true
	l.move(len(rows), step, keyOf(rows))
	return l.past.ask(m, false)
}

// click chooses a tab or a row; a click on the selected row opens it.
func (l *listScreen) click(m *model, e tea.MouseMsg) tea.Cmd {
	if e.Y == m.zones.tabsAt {
		for i, s := range m.zones.tabs {
			if e.X >= s.from && e.X < s.to {
				return l.show(m, tab(i))
			}
		}
		return nil
	}
	i := e.Y - m.zones.rowsAt
	if e.X >= m.zones.listWidth || i < 0 || i >= len(m.zones.rows) {
		return nil
	}
	q := m.find(m.zones.rows[i])
	if q == nil {
		return nil
	}
	if q.call.Key == l.at && l.touched {
		m.push(newDetail(q))
		return nil
	}
	l.at, l.touched = q.call.Key, true
	l.resolve(l.rows(m))
	return nil
}
