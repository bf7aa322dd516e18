package view

import (
	"container/heap"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// kind holds the fields that list filters test most.
type kind struct {
	runtime, agent, tool, rule string
	state                      message.ToolCallState
	phase                      toolcall.Phase
}

func kindOf(c *toolcall.Call) kind {
	return kind{c.Runtime, c.Agent, c.Tool, c.DecidingRule(), c.State, c.Phase()}
}

// class holds what all calls of a group have in common.
type class struct {
	kind
	ends bool   // they have deadlines
	asks string // who can respond to them
}

func classOf(c *toolcall.Call) class {
	return class{kind: kindOf(c), ends: endOf(c) != 0, asks: askedOf(c)}
}

// endOf is when the approval request of a call ends, in nanoseconds, or 0 for never.
func endOf(c *toolcall.Call) int64 {
	if c.State != message.ToolCallAsking || c.Request == nil {
		return 0
	}
	at := c.Request.Requirement.Ends()
	if at.IsZero() {
		return 0
	}
	return at.UnixNano()
}

// askedOf describes who can respond to the request of a call. Two calls have the same
// description only if the same people can respond, now and later, and have responded.
func askedOf(c *toolcall.Call) string {
	if c.State != message.ToolCallAsking || c.Request == nil {
		return ""
	}
	r := &c.Request.Requirement
	text := appendNames(make([]byte, 0, 64), r.Users)
	from := r.Deadline // times are relative to this: the rule determines their distances
	for _, s := range r.Approvers {
		text = appendNames(appendNames(text, s.Users), s.Groups)
		for _, e := range s.Escalation {
			if from.IsZero() {
				from = e.At
			}
			text = fmt.Appendf(text, "%d%q%q", e.At.Sub(from), e.Users, e.Groups)
		}
	}
	if r.OnExpiry == toolcall.OnExpiryEscalate {
		text = fmt.Appendf(text, "then %d", r.FinalDeadline.Sub(from))
	}
	if r.ExcludeRequester {
		text = fmt.Appendf(text, "not %q", r.Requesters())
	}
	for _, v := range c.Votes {
		if v.On(c.Digest) {
			text = strconv.AppendQuote(append(text, "by "...), v.By.Name)
		}
	}
	return string(strconv.AppendInt(text, int64(c.Step), 10))
}

func appendNames(text []byte, names []string) []byte {
	text = append(text, '[')
	for _, n := range names {
		text = strconv.AppendQuote(text, n)
	}
	return append(text, ']')
}

// group holds the calls of a class, in every order.
type group struct {
	class
	proposed, changed, ending order
}

func (g *group) firstCall() *toolcall.Call { return g.proposed.blocks[0][0].call }

// orders indexes calls for lists: a filter is tested once for each group, and a page is
// merged from the orders of the groups. The view's lock guards it.
type orders struct {
	groups   map[class]*group
	sessions map[toolcall.Key]*order // of open calls
	open     int
}

// put adds a call, or moves it to its current place; old is its previous state, or nil.
func (x *orders) put(c, old *toolcall.Call) {
	x.putSession(c)
	k := classOf(c)
	if old != nil {
		if was := classOf(old); was != k || old.First != c.First {
			x.removeCall(old)
		} else if g := x.groups[was]; g != nil {
			g.changed.remove(changeOf(old))
			if end := endOf(old); end != endOf(c) {
				g.ending.remove(entry{end, old.First, old})
			}
			if old.Open() {
				x.open--
			}
		}
	}
	g := x.groups[k]
	if g == nil {
		g = &group{class: k}
		x.groups[k] = g
	}
	g.proposed.put(entry{0, c.First, c})
	g.changed.put(changeOf(c))
	if k.ends {
		g.ending.put(entry{endOf(c), c.First, c})
	}
	if c.Open() {
		x.open++
	}
}

func changeOf(c *toolcall.Call) entry { return entry{int64(c.Seq), c.First, c} }

// putSession keeps a call in its session's order while it is open.
func (x *orders) putSession(c *toolcall.Call) {
	key, e := c.SessionKey(), entry{0, c.First, c}
	o := x.sessions[key]
	switch {
	case c.Open() && o == nil:
		o = &order{}
		x.sessions[key] = o
		o.put(e)
	case c.Open():
		o.put(e)
	case o != nil:
		if o.remove(e); o.n == 0 {
			delete(x.sessions, key)
		}
	}
}

func (x *orders) removeCall(c *toolcall.Call) {
	k := classOf(c)
	g := x.groups[k]
	if g == nil {
		return
	}
	g.proposed.remove(entry{0, c.First, c})
	g.changed.remove(changeOf(c))
	if k.ends {
		g.ending.remove(entry{endOf(c), c.First, c})
	}
	if c.Open() {
		x.open--
	}
	if g.proposed.n == 0 {
		delete(x.groups, k)
	}
}

// source is a group that a list reads in order.
type source struct {
	cursor
	at place // the head: the place of the current call
}

// nextCall makes the next call the head, and reports whether there is one.
func (s *source) nextCall() bool {
	e, ok := s.currentEntry()
	if ok {
		s.at.Value, s.at.First, s.at.call = e.value, e.first, e.call
		s.next()
	}
	return ok
}

// sources is a heap of sources, ordered by their heads.
type sources struct {
	all  []*source
	list *List
}

func (s *sources) Len() int           { return len(s.all) }
func (s *sources) Less(i, j int) bool { return s.list.compare(s.all[i].at, s.all[j].at) < 0 }
func (s *sources) Swap(i, j int)      { s.all[i], s.all[j] = s.all[j], s.all[i] }
func (s *sources) Push(x any)         { s.all = append(s.all, x.(*source)) }
func (s *sources) Pop() any {
	last := len(s.all) - 1
	out := s.all[last]
	s.all = s.all[:last]
	return out
}

// merge returns the next calls of groups in list order, one more than fits on the page. It
// skips the calls in skip, whose place may have changed.
func merge(l *List, groups []*group, skip map[toolcall.Key]*toolcall.Call) []*toolcall.Call {
	from := &sources{list: l}
	for _, g := range groups {
		if s := l.sourceOf(g); s != nil && s.nextCall() {
			from.all = append(from.all, s)
		}
	}
	heap.Init(from)
	var out []*toolcall.Call
	for len(from.all) > 0 && len(out) <= l.r.Limit {
		s := from.all[0]
		if c := s.at.call; skip[c.Key] == nil {
			out = append(out, c)
		}
		if s.nextCall() {
			heap.Fix(from, 0)
		} else {
			heap.Pop(from)
		}
	}
	return out
}

// orderOf returns the order of a group that a list uses.
func (l *List) orderOf(g *group) *order {
	switch {
	case l.order == toolcall.SortDeadline && g.ends:
		return &g.ending
	case l.order == toolcall.SortChanged:
		return &g.changed
	}
	return &g.proposed
}

// sourceOf reads a group from the list's cursor on, or returns nil if all of it comes before.
func (l *List) sourceOf(g *group) *source {
	s, o := &source{at: l.headOf(g)}, l.orderOf(g)
	if l.after == nil {
		s.cursor = o.firstCursor(l.down)
		return s
	}
	switch by := l.compareHeads(s.at, *l.after); {
	case by < 0:
		return nil
	case by > 0:
		s.cursor = o.firstCursor(l.down)
	default:
		s.cursor = o.cursorBehind(entry{value: l.after.Value, first: l.after.First}, l.down)
	}
	return s
}

// List lists the calls in memory, either of the given sessions or, if none is given, all.
func (v *View) List(l *List, sessions ...toolcall.Key) {
	if len(l.words) > 0 {
		v.texts.mu.Lock()
		defer v.texts.mu.Unlock()
		l.texts = &v.texts
	}
	v.mu.RLock()
	l.texts.limitTo(len(v.calls))
	var p picked
	switch {
	case len(sessions) == 0:
		p = v.orders.pickGroups(l)
	case len(sessions) == 1 && l.r.Reply != "" && l.r.Call != "":
		key := toolcall.Key{Space: sessions[0].Space, Session: sessions[0].Session, Reply: l.r.Reply, Call: l.r.Call}
		if c := v.calls[key]; c != nil {
			p.others = append(p.others, c)
		}
	default:
		for _, key := range sessions {
			if o := v.orders.sessions[key]; o != nil {
				p.others = o.appendTo(p.others)
			}
		}
	}
	through := v.seq
	v.mu.RUnlock()
	l.Visited += len(p.whole) + len(p.others)
	ahead := func(c *toolcall.Call) bool { return l.r.Sort == toolcall.SortChanged && c.Seq > through } // earlier changes may be missing
	for _, c := range p.whole {
		if !ahead(c) {
			l.rankCall(l.placeOf(c))
		}
	}
	for _, g := range p.each {
		l.Visited += len(g.entries)
		l.lookAt(g, ahead)
	}
	for _, c := range p.others {
		if !ahead(c) {
			l.Add(c)
		}
	}
}

// lookAt adds the calls of a group that meet the conditions. It computes their places
// without reading the calls, which are scattered over memory.
func (l *List) lookAt(g members, ahead func(*toolcall.Call) bool) {
	n, p := 0, g.head
	for _, e := range g.entries {
		if ahead(e.call) || !l.meetsEach(e.call, e.first) {
			continue
		}
		n++
		if g.wanted {
			p.Value, p.First, p.call = e.value, e.first, e.call
			l.rankCall(p)
		}
	}
	l.count(g.phase, n)
}

// members are the calls of a group, in no particular order.
type members struct {
	entries []entry
	head    place // what their places have in common
	phase   toolcall.Phase
	wanted  bool // the list has this phase
}

// picked are the calls that a list has to look at.
type picked struct {
	whole  []*toolcall.Call // meet all conditions and are already counted
	each   []members        // meet the conditions of their groups
	others []*toolcall.Call // not tested yet
}

// pickGroups picks from the groups what a list needs, and counts those that it needs whole.
func (x *orders) pickGroups(l *List) (p picked) {
	var whole []*group
	for _, g := range x.groups {
		switch l.testGroup(g) {
		case testEach:
			if len(l.help.Marked) > 0 {
				p.others = g.proposed.appendTo(p.others)
				continue
			}
			p.each = append(p.each, members{slices.Concat(l.orderOf(g).blocks...), l.headOf(g), g.phase, l.hasPhase(g.phase)})
		case testAll:
			l.count(g.phase, g.proposed.n)
			if l.hasPhase(g.phase) {
				whole = append(whole, g)
			}
			for _, c := range l.help.Marked {
				if g.proposed.has(entry{0, c.First, c}) {
					l.count(g.phase, -1)
					p.others = append(p.others, c)
				}
			}
		case testNone:
		}
	}
	p.whole = merge(l, whole, l.help.Marked)
	return p
}

// has reports whether an order contains a call.
func (o *order) has(e entry) bool {
	_, _, found := o.find(e)
	return found
}

// verdict says how a list treats a group.
type verdict int

const (
	testNone verdict = iota // no call meets the conditions
	testAll                 // every call does
	testEach                // each call has to be tested
)

// testGroup tests all conditions except the phase.
func (l *List) testGroup(g *group) verdict {
	switch {
	case !g.meetsRequest(l.by, &l.any), l.r.Mine && g.state != message.ToolCallAsking, l.counts == nil && len(l.help.Marked) == 0 && !l.hasPhase(g.phase):
		return testNone
	case l.looksAtCalls(), l.r.Mine && len(g.firstCall().Request.Requirement.Plan()) > 0: // with a plan, who is asked depends on the time
		return testEach
	case l.r.Mine && !l.help.Mine(g.firstCall()):
		return testNone
	}
	return testAll
}

// openBounds are the bounds of the buckets of CountOpen; 0 is the unbounded one.
var openBounds = []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 4 * time.Hour, 24 * time.Hour, 0}

// CountOpen counts the open approval requests by age and by time left. Which of two is older
// follows from their order in the journal.
func CountOpen(v *View, now time.Time) (out toolcall.ActivityOpen) {
	out.ByAge, out.ByTimeLeft = make([]toolcall.ActivityOpenUpTo, len(openBounds)), make([]toolcall.ActivityOpenUpTo, len(openBounds))
	for i, d := range openBounds {
		out.ByAge[i].UpToMS, out.ByTimeLeft[i].UpToMS = d.Milliseconds(), d.Milliseconds()
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	for k, g := range v.orders.groups {
		if k.state != message.ToolCallAsking {
			continue
		}
		out.Requests += g.proposed.n
		older := g.proposed.n // older than the bound
		for i, d := range openBounds {
			n := older
			if d > 0 {
				from := now.Add(-d)
				older = g.proposed.countUntil(func(c *toolcall.Call) bool { return c.ProposedAt.Compare(from) <= 0 })
				n -= older
			}
			if k.ends {
				out.ByAge[i].Later += n
			} else {
				out.ByAge[i].NoDeadline += n
			}
		}
		if k.ends {
			g.countEnding(&out, now)
		}
	}
	out.ByTimeLeft[len(openBounds)-1].NoDeadline = out.Requests
	for _, b := range out.ByAge {
		out.ByTimeLeft[len(openBounds)-1].NoDeadline -= b.Urgent + b.Later
	}
	return out
}

// countEnding counts the requests of a group by time left, and the urgent ones among them
// by age.
func (g *group) countEnding(out *toolcall.ActivityOpen, now time.Time) {
	before := 0
	for i, d := range openBounds {
		n := g.ending.n
		if d > 0 {
			n = g.ending.countBefore(entry{value: now.Add(d).UnixNano()})
		}
		b := &out.ByTimeLeft[i]
		if d > 0 && d <= toolcall.Urgent {
			b.Urgent += n - before
		} else {
			b.Later += n - before
		}
		before = n
	}
	until := now.Add(toolcall.Urgent).UnixNano()
	c := g.ending.firstCursor(false)
	for e, ok := c.currentEntry(); ok && e.value < until; e, ok = c.currentEntry() {
		i := slices.IndexFunc(openBounds, func(d time.Duration) bool { return d == 0 || now.Sub(e.call.ProposedAt) < d })
		if out.ByAge[i].Later == 0 { // journal order put it in another bucket
			i = slices.IndexFunc(out.ByAge, func(b toolcall.ActivityOpenUpTo) bool { return b.Later > 0 })
		}
		out.ByAge[i].Urgent++
		out.ByAge[i].Later--
		c.next()
	}
}

// countUntil returns how many calls at the beginning of an order meet a condition. No call
// after one that fails the condition may meet it.
func (o *order) countUntil(meets func(*toolcall.Call) bool) (n int) {
	block := sort.Search(len(o.blocks), func(b int) bool { return !meets(o.blocks[b][len(o.blocks[b])-1].call) })
	for _, b := range o.blocks[:block] {
		n += len(b)
	}
	if block < len(o.blocks) {
		b := o.blocks[block]
		n += sort.Search(len(b), func(i int) bool { return !meets(b[i].call) })
	}
	return n
}
