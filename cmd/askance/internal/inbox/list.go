package inbox

import (
	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/toolcall"
)

// listScreen is the approval requests, one on a line. It is always at the bottom.
type listScreen struct {
	picker[toolcall.Key]
	filter   textinput.Model
	typing   bool // the filter is being written
	mine     bool // only requests that this person can respond to
	selected map[toolcall.Key]bool
}

func newList() *listScreen {
	l := &listScreen{filter: newInput("filter: ", 200), picker: picker[toolcall.Key]{page: 1}, selected: map[toolcall.Key]bool{}}
	l.filter.Blur()
	return l
}

func (l *listScreen) holds(toolcall.Key) bool { return false }

func (l *listScreen) rows(m *model) []*request {
	match := matcher(l.filter.Value())
	return m.qs.sorted(func(q *request) bool {
		return match(q) && (!l.mine || !q.open() || asked.MayRespond(q.call, m.cfg.Who) != asked.No)
	})
}

func (l *listScreen) resolve(rows []*request) { l.choose(len(rows), keyOf(rows)) }

func keyOf(rows []*request) func(int) toolcall.Key {
	return func(i int) toolcall.Key { return rows[i].call.Key }
}

func (l *listScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	if l.typing {
		return l.keyFilter(k)
	}
	rows := l.rows(m)
	l.resolve(rows)
	switch k.String() {
	case "q":
		return tea.Quit
	case "esc":
		l.filter.SetValue("")
		clear(l.selected)
	case "/":
		l.typing = true
		return l.filter.Focus()
	case "m":
		l.mine = !l.mine
	case "r":
		s := newStandingApprovals()
		m.push(s)
		return s.ask(m)
	case "ctrl+l":
		m.feed.refresh()
		return tea.ClearScreen
	default:
		if d, ok := moves(k.String(), l.page); ok {
			l.move(len(rows), d, keyOf(rows))
			return nil
		}
		return l.keyRow(m, k, rows)
	}
	return nil
}

func (l *listScreen) keyRow(m *model, k tea.KeyMsg, rows []*request) tea.Cmd {
	if len(rows) == 0 {
		return nil
	}
	q := rows[l.row]
	switch k.String() {
	case "enter", "right", "l":
		m.push(newDetail(q))
	case " ", "x":
		if l.selected[q.call.Key] {
			delete(l.selected, q.call.Key)
		} else if q.open() {
			l.selected[q.call.Key] = true
		}
		l.move(len(rows), 1, keyOf(rows))
	case "b":
		l.walk(m, q)
	}
	return nil
}

// walk begins a bulk response: for what is selected, or for all that is similar.
func (l *listScreen) walk(m *model, q *request) {
	var all []*request
	if len(l.selected) > 0 {
		all = m.qs.sorted(func(o *request) bool { return o.open() && l.selected[o.call.Key] })
	} else if q.open() {
		all = m.qs.similar(q)
	}
	if len(all) == 0 {
		m.say(m.out.Bad, "No open request is selected.")
		return
	}
	clear(l.selected)
	m.push(newWalk(all))
}

func (l *listScreen) keyFilter(k tea.KeyMsg) tea.Cmd {
	switch k.Type {
	case tea.KeyEnter:
		l.typing = false
		l.filter.Blur()
		return nil
	case tea.KeyEsc:
		l.typing = false
		l.filter.Blur()
		l.filter.SetValue("")
		return nil
	}
	return update(&l.filter, k)
}

// onward selects the next approval request that this person can respond to, if there is one
// below.
func (l *listScreen) onward(m *model) {
	rows := l.rows(m)
	l.resolve(rows)
	for i := l.row; i < len(rows); i++ {
		if rows[i].open() && asked.MayRespond(rows[i].call, m.cfg.Who) != asked.No {
			l.move(len(rows), i-l.row, keyOf(rows))
			return
		}
	}
}

// moves is by how many rows a key moves; far, if it goes to an end.
func moves(key string, page int) (int, bool) {
	const far = 1 << 20
	switch key {
	case "up", "k", "ctrl+p":
		return -1, true
	case "down", "j", "ctrl+n":
		return 1, true
	case "pgup", "ctrl+b":
		return -page, true
	case "pgdown", "ctrl+f":
		return page, true
	case "home", "g":
		return -far, true
	case "end", "G":
		return far, true
	}
	return 0, false
}

func (l *listScreen) view(m *model, w, h int) (title string, body []string, keys string) {
	title = "askance inbox: " + reveal.Line(m.cfg.Who)
	if l.mine {
		title += ", mine only"
	}
	if l.typing || l.filter.Value() != "" {
		body = append(body, l.filter.View())
	}
	keys = "enter open  / filter  space select  b similar  r approvals  m mine  ? help  q quit"
	if l.typing {
		keys = "enter apply the filter  esc clear it"
	}
	rows := l.rows(m)
	if len(rows) == 0 {
		return title, append(body, "", "  "+m.out.Dim(l.nothing(m))), keys
	}
	l.page = max(1, h-len(body)-1)
	l.resolve(rows)
	c := columnsFor(rows, w)
	body = append(body, m.out.Dim(c.line("  ", "TOOL", "CALL", "AGE", "LEFT", "REQUEST")))
	for i, q := range rows[l.first:] {
		if i == l.page {
			break
		}
		body = append(body, l.line(m, q, c))
	}
	return title, body, keys
}

func (l *listScreen) nothing(m *model) string {
	switch {
	case !m.loaded:
		return ""
	case l.filter.Value() != "" || l.mine:
		return "No open request matches. esc clears the filter, m shows all."
	}
	return "No open approval requests. New requests appear automatically."
}

func (l *listScreen) line(m *model, q *request, c columns) string {
	key := q.call.Key
	mark := "  "
	switch {
	case key == l.at:
		mark = "> "
	case l.selected[key]:
		mark = "* "
	}
	if key == l.at && l.selected[key] {
		mark = ">*"
	}
	text := c.line(mark, reveal.Line(q.call.Tool), reveal.Line(string(q.call.Call)), asked.Span(m.now.Sub(q.call.ProposedAt)), l.left(m, q), l.what(m, q))
	switch {
	case !q.open():
		return m.out.Dim(text)
	case key == l.at:
		return m.out.Bold(text)
	}
	return text
}

func (l *listScreen) left(m *model, q *request) string {
	if !q.open() {
		return ""
	}
	return asked.Until(q.call.Request.Requirement.Ends(), m.now)
}

// what is asked, or what became of it.
func (l *listScreen) what(m *model, q *request) string {
	if !q.open() {
		return reveal.Line(q.over)
	}
	text := reveal.Line(q.call.Request.Text)
	if v, ok := asked.VoteOf(q.call, m.cfg.Who); ok {
		return "(you " + reveal.Line(asked.Said(v)) + ") " + text
	}
	if asked.MayRespond(q.call, m.cfg.Who) == asked.No {
		return "(not yours) " + text
	}
	if v, ok := asked.LastOn(q.call); ok {
		return "(" + reveal.Line(v.By.Name+" "+asked.Said(v)) + ") " + text
	}
	return text
}
