package inbox

import (
	"cmp"
	"slices"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

type tab int

const (
	tabOpen tab = iota
	tabRunning
	tabBlocked
	tabHistory
	tabCount
)

var tabNames = [tabCount]string{"Open", "Active", "Blocked", "History"}

func tabOf(q *request) tab {
	switch q.call.Phase() {
	case toolcall.PhaseAsking:
		if q.gone() {
			return tabHistory
		}
		return tabOpen
	case toolcall.PhaseBlocked:
		return tabBlocked
	case toolcall.PhaseFinished:
		return tabHistory
	case toolcall.PhaseWaiting, toolcall.PhaseReady, toolcall.PhaseQueued, toolcall.PhaseRunning, toolcall.PhaseRetrying:
	}
	return tabRunning
}

// orders lists the orders that a person can choose; the first is the default.
var orders = []struct {
	name    string
	compare func(a, b *request) int
}{
	{"deadline", func(a, b *request) int { return compareEnds(a.due, b.due) }},
	{"newest", func(a, b *request) int { return cmp.Compare(b.call.First, a.call.First) }},
	{"oldest", func(a, b *request) int { return cmp.Compare(a.call.First, b.call.First) }},
	{"tool", func(a, b *request) int { return cmp.Compare(a.call.Tool, b.call.Tool) }},
	{"agent", func(a, b *request) int { return cmp.Compare(agentOf(a.call), agentOf(b.call)) }},
}

// compareEnds compares times; the zero time is the last.
func compareEnds(a, b time.Time) int {
	if a.IsZero() != b.IsZero() {
		return b.Compare(a)
	}
	return a.Compare(b)
}

// groupings lists how a person can divide a list; the first does not.
var groupings = []struct {
	name string
	of   func(c *toolcall.Call) string
}{
	{"", nil},
	{"tool", func(c *toolcall.Call) string { return c.Tool }},
	{"agent", agentOf},
	{"session", func(c *toolcall.Call) string { return string(c.Session) }},
}

// agentOf returns the agent of a call, or the runtime if it names none.
func agentOf(c *toolcall.Call) string { return cmp.Or(c.Agent, c.Runtime) }

// item is a line of a list: a row, or the heading of a group.
type item struct {
	row   int // of rows; -1: a heading
	label string
	count int
}

// table is a list as it is shown: what matches, sorted and grouped.
type table struct {
	rows  []*request
	items []item
	lines []int // the line of each row among items
}

// selection is what decides which rows a list has, and in which order.
type selection struct {
	rev    int
	tab    tab
	filter string
	mine   bool
	order  int
	back   bool // in the reverse order
	group  int
}

func newTable(rows []*request, s selection) *table {
	o := orders[s.order]
	slices.SortFunc(rows, func(a, b *request) int {
		d := o.compare(a, b)
		if s.back {
			d = -d
		}
		return cmp.Or(d, cmp.Compare(a.call.First, b.call.First), a.call.Key.Compare(b.call.Key))
	})
	return layTable(rows, groupings[s.group].of)
}

// layTable groups sorted rows: a group stands where its first row would.
func layTable(rows []*request, of func(*toolcall.Call) string) *table {
	t := &table{rows: rows, lines: make([]int, len(rows))}
	if of == nil {
		for i := range rows {
			t.lines[i] = i
			t.items = append(t.items, item{row: i})
		}
		return t
	}
	place, counts := map[string]int{}, map[string]int{}
	for _, q := range rows {
		g := of(q.call)
		if _, known := place[g]; !known {
			place[g] = len(place)
		}
		counts[g]++
	}
	slices.SortStableFunc(rows, func(a, b *request) int { return cmp.Compare(place[of(a.call)], place[of(b.call)]) })
	for i, q := range rows {
		if g := of(q.call); i == 0 || g != of(rows[i-1].call) {
			t.items = append(t.items, item{row: -1, label: g, count: counts[g]})
		}
		t.lines[i] = len(t.items)
		t.items = append(t.items, item{row: i})
	}
	return t
}

// rows returns the rows of the list, with the filter and "mine only" applied.
func (l *listScreen) rows(m *model) []*request { return l.table(m).rows }

// table returns the rows laid out. It keeps the table until its input changes.
func (l *listScreen) table(m *model) *table {
	s := selection{m.qs.rev, l.tab, l.filter.Value(), l.mine, l.order, l.back, l.group}
	if l.tab == tabHistory {
		s.rev = l.past.rev
	}
	if l.made == nil || l.madeFor != s && !waitsForMore(m, l, s) {
		l.made, l.madeFor = l.newTable(m, s), s
	}
	return l.made
}

// waitsForMore reports whether to keep the table while the first list arrives, until it has
// twice as many calls, because sorting after each page takes long.
func waitsForMore(m *model, l *listScreen, s selection) bool {
	s.rev = l.madeFor.rev
	return m.loading && s == l.madeFor && len(m.qs.all) < 2*len(l.made.rows)
}

func (l *listScreen) newTable(m *model, s selection) *table {
	var rows []*request
	match := l.matches(m)
	if s.tab == tabHistory { // in the order of the engine
		for _, q := range l.past.rows {
			if match(q) {
				rows = append(rows, q)
			}
		}
		return layTable(rows, groupings[s.group].of)
	}
	l.round++
	add := func(q *request) {
		if q.round != l.round && q.isOn(s.tab) && match(q) {
			q.round, rows = l.round, append(rows, q)
		}
	}
	if l.made != nil { // most of it is in order already
		for _, q := range l.made.rows {
			if m.qs.all[q.call.Key] == q {
				add(q)
			}
		}
	}
	for _, q := range m.qs.all {
		add(q)
	}
	return newTable(rows, s)
}

// counts returns how many matching calls each tab has, without those that are leaving it.
func (l *listScreen) counts(m *model) [tabCount]int {
	s := selection{rev: m.qs.rev, filter: l.filter.Value(), mine: l.mine}
	if l.counted == nil || l.countedFor != s {
		var n [tabCount]int
		match := l.matches(m)
		for _, q := range m.qs.all {
			if match(q) {
				n[tabOf(q)]++
			}
		}
		l.counted, l.countedFor = &n, s
	}
	return *l.counted
}

// matches returns the predicate that every action respects: the filter, and "mine only".
func (l *listScreen) matches(m *model) func(*request) bool {
	match := matcher(l.filter.Value())
	return func(q *request) bool {
		return match(q) && (!l.mine || !q.open() || q.awaits(m.cfg.Who))
	}
}

// similar returns the open approval requests on the list for the same tool by the same
// rule of the policy, including q.
func (l *listScreen) similar(m *model, q *request) []*request {
	var out []*request
	for _, o := range l.rows(m) {
		if o.open() && o.call.Tool == q.call.Tool && o.call.Request.Rule == q.call.Request.Rule && o.call.Request.Source == q.call.Request.Source {
			out = append(out, o)
		}
	}
	return out
}
