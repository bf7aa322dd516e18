package inbox

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/toolcall"
)

// listScreen lists the calls of a tab, one on a line. It is always at the bottom.
type listScreen struct {
	picker[toolcall.Key]
	tab      tab
	filter   textinput.Model
	typing   bool // the filter is being typed
	mine     bool // only requests that this person can respond to
	order    int
	back     bool
	group    int
	touched  bool // the person has moved the selection; until then it is on the first row
	selected map[toolcall.Key]bool
	past     history
	preview  *detailScreen // of the selected row, where there is room

	made       *table
	madeFor    selection
	round      int // how many tables were made
	counted    *[tabCount]int
	countedFor selection
}

func newList() *listScreen {
	l := &listScreen{filter: newInput("filter: ", 200), picker: picker[toolcall.Key]{page: 1}, selected: map[toolcall.Key]bool{}}
	l.filter.Blur()
	return l
}

func (l *listScreen) resolve(rows []*request) {
	if !l.touched {
		l.row, l.at = 0, toolcall.Key{}
	}
	l.choose(len(rows), keyOf(rows))
}

func keyOf(rows []*request) func(int) toolcall.Key {
	return func(i int) toolcall.Key { return rows[i].call.Key }
}

func (l *listScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	if l.typing {
		return l.keyFilter(m, k)
	}
	rows := l.rows(m)
	l.resolve(rows)
	l.touched = true
	key := k.String()
	if d, ok := moves(key, l.page); ok {
		l.move(len(rows), d, keyOf(rows))
		return l.past.ask(m, false)
	}
	switch key {
	case "q":
		return tea.Quit
	case "esc":
		l.filter.SetValue("")
		l.mine = false
		clear(l.selected)
		return l.past.ask(m, false)
	case "/":
		l.typing = true
		return l.filter.Focus()
	case "R":
		s := &standingApprovalsScreen{picker: picker[toolcall.StandingID]{page: 1}}
		m.push(s)
		return s.ask(m)
	case "ctrl+l":
		m.feed.refresh()
		return tea.Batch(tea.ClearScreen, l.past.ask(m, true))
	case "1", "2", "3", "4":
		return l.show(m, tab(key[0]-'1'))
	case "tab", "]":
		return l.show(m, (l.tab+1)%tabCount)
	case "shift+tab", "[":
		return l.show(m, (l.tab+tabCount-1)%tabCount)
	}
	if l.keyOrder(m, key) || len(rows) == 0 {
		return nil
	}
	return l.keyRow(m, key, rows)
}

func (l *listScreen) show(m *model, t tab) tea.Cmd {
	if l.tab != t {
		l.tab, l.touched, l.picker = t, false, picker[toolcall.Key]{page: l.page}
		clear(l.selected)
		m.status = ""
	}
	return l.past.ask(m, true)
}

// keyOrder changes which rows there are, and in which order.
func (l *listScreen) keyOrder(m *model, key string) bool {
	switch key {
	case "m":
		l.mine = !l.mine
		m.say(m.out.Dim, "%s", map[bool]string{true: "Only requests that you can respond to.", false: "All requests."}[l.mine])
	case "o":
		l.order = (l.order + 1) % len(orders)
		m.say(m.out.Dim, "Sorted by %s.", l.orderName())
	case "O":
		l.back = !l.back
		m.say(m.out.Dim, "Sorted by %s.", l.orderName())
	case "v":
		l.group = (l.group + 1) % len(groupings)
		if name := groupings[l.group].name; name != "" {
			m.say(m.out.Dim, "Grouped by %s.", name)
		} else {
			m.say(m.out.Dim, "Not grouped.")
		}
	default:
		return false
	}
	return true
}

func (l *listScreen) orderName() string {
	if l.back {
		return orders[l.order].name + ", reversed"
	}
	return orders[l.order].name
}

func (l *listScreen) keyRow(m *model, key string, rows []*request) tea.Cmd {
	q := rows[l.row]
	switch key {
	case "enter", "right", "l":
		m.push(newDetail(q))
	case " ", "x":
		if l.selected[q.call.Key] {
			delete(l.selected, q.call.Key)
		} else if q.open() {
			l.selected[q.call.Key] = true
		}
		l.move(len(rows), 1, keyOf(rows))
		m.say(m.out.Dim, "%s selected.", asked.Count(len(l.selected), "request"))
	case "*":
		l.selectAll(m, rows)
	case "b":
		l.bulk(m, q)
	case "J", "K":
		if l.preview != nil {
			l.preview.scroll.key(map[string]string{"J": "down", "K": "up"}[key])
		}
	case "i":
		s := newExplain(q.call)
		m.push(s)
		return s.ask(m)
	case "w": // is edited on the screen of the request
		if q.open() {
			m.push(newDetail(q))
			return m.top().key(m, tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(key)})
		}
	default:
		switch {
		case len(l.selected) > 0 && (key == "a" || key == "r"): // applies to the selected rows, not to the row of the cursor
			if s := l.bulk(m, q); s != nil && key == "r" && len(s.drafts) > 0 {
				return s.keyChoice(m, key)
			}
		case q.open():
			return newDetail(q).respond(m, q, key)
		case key == "r":
			m.resolve(q)
		}
	}
	return nil
}

// selectAll selects every open request on the list, or none if all are selected.
func (l *listScreen) selectAll(m *model, rows []*request) {
	n := len(l.selected)
	for _, q := range rows {
		if q.open() {
			l.selected[q.call.Key] = true
		}
	}
	if n == len(l.selected) {
		clear(l.selected)
	}
	m.say(m.out.Dim, "%s selected.", asked.Count(len(l.selected), "request"))
}

// bulk begins one response to the selected requests, or to those that are similar to q;
// the list's filter limits both.
func (l *listScreen) bulk(m *model, q *request) *bulkScreen {
	var all []*request
	if len(l.selected) > 0 {
		for _, o := range l.rows(m) {
			if o.open() && l.selected[o.call.Key] {
				all = append(all, o)
			}
		}
	} else if q.open() {
		all = l.similar(m, q)
	}
	if len(all) == 0 {
		m.say(m.out.Bad, "No open request is selected.")
		return nil
	}
	hidden := 0
	for k := range l.selected {
		if o := m.qs.get(k); o != nil && o.open() {
			hidden++
		}
	}
	s := newBulk(m, all)
	if hidden -= len(all); hidden > 0 {
		s.hidden = hidden
	}
	m.push(s)
	return s
}

func (l *listScreen) keyFilter(m *model, k tea.KeyMsg) tea.Cmd {
	switch k.Type {
	case tea.KeyEnter, tea.KeyEsc:
		l.typing = false
		l.filter.Blur()
		if k.Type == tea.KeyEsc {
			l.filter.SetValue("")
		}
		return l.past.ask(m, false)
	case tea.KeyUp, tea.KeyDown:
		rows := l.rows(m)
		d, _ := moves(k.String(), l.page)
		l.touched = true
		l.move(len(rows), d, keyOf(rows))
		return nil
	}
	return update(&l.filter, k)
}

// next returns the request after the one at key that this person can respond to: below
// it on the list, or else from the top; nil if there is none.
func (l *listScreen) next(m *model, key toolcall.Key) *request {
	rows := l.rows(m)
	from := l.row
	for i, q := range rows {
		if q.call.Key == key {
			from = i
		}
	}
	for i := range rows {
		q := rows[(from+1+i)%len(rows)]
		if q.call.Key != key && q.open() && !m.sending[q.call.Key] && q.awaits(m.cfg.Who) {
			return q
		}
	}
	return nil
}

// onward selects the next request after the one at key, if there is one.
func (l *listScreen) onward(m *model, key toolcall.Key) {
	if q := l.next(m, key); q != nil {
		l.at, l.touched = q.call.Key, true
	}
	l.resolve(l.rows(m))
}

// moves returns by how many rows a key moves, if it does.
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

func (l *listScreen) title() string {
	title := [tabCount]string{"Open requests", "Active calls", "Blocked calls", "Finished calls"}[l.tab]
	if f := strings.TrimSpace(l.filter.Value()); f != "" {
		title += " matching " + reveal.Line(f)
	}
	if l.mine {
		title += ", mine only"
	}
	return title
}

// place says where the selection is, and how many requests are selected for one response.
func (l *listScreen) place(m *model) (text string) {
	if n := len(l.rows(m)); n > 0 {
		text = fmt.Sprintf("%d of %d", l.row+1, n)
		if l.tab == tabHistory && l.past.more {
			text += "+"
		}
	}
	if n := len(l.selected); n > 0 {
		text = strings.TrimRight(fmt.Sprintf("%d selected, %s", n, text), ", ")
	}
	return text
}

func (l *listScreen) keys(m *model) string {
	switch {
	case l.typing:
		return "enter apply the filter  esc clear it"
	case len(l.rows(m)) == 0:
		return "tab next tab  / filter  m mine  R approvals  ? help  q quit"
	case l.tab == tabBlocked && m.cfg.Resolve != nil:
		return "r resolve  enter open  / filter  i explain  v group  tab next tab  ? help  q quit"
	case l.tab != tabOpen:
		return "enter open  / filter  i explain  v group  tab next tab  ? help  q quit"
	case len(l.selected) > 0:
		return "a approve selected  r reject selected  space select  * all  esc clear  ? help  q quit"
	}
	respond := ""
	if rows := l.rows(m); len(rows) > 0 && rows[l.row].open() && rows[l.row].awaits(m.cfg.Who) {
		respond = "a approve  r reject  "
	}
	return respond + "enter open  / filter  space select  b similar  o sort  v group  m mine  R approvals  ? help  q quit"
}

// view renders the rows on w columns and h lines.
func (l *listScreen) view(m *model, w, h int) (title string, body []string, keys string) {
	body = l.lines(m, w, h)
	return l.title(), body, l.keys(m)
}

func (l *listScreen) lines(m *model, w, h int) (body []string) {
	if l.typing || l.filter.Value() != "" {
		l.filter.Width = max(1, w-10)
		body = append(body, " "+l.filter.View())
	}
	t := l.table(m)
	if l.tab == tabHistory && l.past.err != nil {
		body = append(body, paintAll(m.out.Bad, indentLines(wrap("Cannot load the history: "+reveal.Line(asked.Refusal(l.past.err)), w-4)))...)
	}
	if len(t.rows) == 0 {
		for _, line := range wrap(l.nothing(m), w-4) {
			body = append(body, "  "+m.out.Dim(line))
		}
		return body
	}
	l.page = max(1, h-len(body)-1)
	l.resolve(t.rows)
	l.window(t.lines[l.row], len(t.items))
	if l.first > 0 && l.first == t.lines[l.row] && t.items[l.first-1].row < 0 {
		l.first-- // its heading
	}
	c := newColumns(m, l.tab, t.rows, w)
	body = append(body, m.out.Dim(c.head()))
	m.zones.rowsAt = len(body)
	for _, it := range t.items[l.first:min(len(t.items), l.first+l.page)] {
		var k toolcall.Key
		if it.row >= 0 {
			k = t.rows[it.row].call.Key
		}
		m.zones.rows = append(m.zones.rows, k)
		body = append(body, l.line(m, t, it, c, w))
	}
	return body
}

func (l *listScreen) line(m *model, t *table, it item, c columns, w int) string {
	if it.row < 0 {
		head := fit(fmt.Sprintf("── %s: %s, %d ", groupings[l.group].name, reveal.MarkedName(it.label), it.count), w-1)
		return m.out.Bold(head + strings.Repeat("─", max(0, w-1-ansi.StringWidth(head))))
	}
	q := t.rows[it.row]
	at, sel := q.call.Key == l.at, l.selected[q.call.Key]
	mark := map[[2]bool]string{{false, false}: "  ", {true, false}: "> ", {false, true}: "* ", {true, true}: ">*"}[[2]bool{at, sel}]
	switch {
	case at:
		return m.out.Selected(cell(c.line(m, mark, q, false), w))
	case q.leaving && q.left == l.tab:
		return m.out.Dim(c.line(m, mark, q, false))
	}
	return c.line(m, mark, q, true)
}

func (l *listScreen) nothing(m *model) string {
	switch {
	case !m.loaded, l.tab == tabHistory && !l.past.known:
		return "loading"
	case strings.TrimSpace(l.filter.Value()) != "" || l.mine:
		return "Nothing matches. esc clears the filter, m shows all."
	case l.tab == tabRunning:
		return "No call is queued or running."
	case l.tab == tabBlocked:
		return "No call is blocked."
	case l.tab == tabHistory:
		return "No call has finished."
	}
	return "No open approval requests. New requests appear automatically."
}
