package view

import (
	"slices"
	"sort"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// order keeps calls as they were proposed, so that a page of a list costs what
// it returns and not what is open. The view's lock guards it.
type order struct {
	entries []orderEntry // by first
	dead    int          // entries without a call
}

type orderEntry struct {
	first uint64
	call  *toolcall.Call // nil: removed
}

// find is the place of the first entry at or behind a sequence.
func (o *order) find(first uint64) int {
	n := len(o.entries)
	if n == 0 || o.entries[n-1].first < first {
		return n
	}
	return sort.Search(n, func(i int) bool { return o.entries[i].first >= first })
}

// placeOf is the entry of a call, or where to insert it.
func (o *order) placeOf(c *toolcall.Call) (i int, found bool) {
	for i = o.find(c.First); i < len(o.entries) && o.entries[i].first == c.First; i++ {
		if e := o.entries[i].call; e != nil && e.Key == c.Key {
			return i, true
		}
	}
	return i, false
}

// put adds a call, or replaces what was known of it.
func (o *order) put(c *toolcall.Call) {
	i, found := o.placeOf(c)
	if !found {
		o.entries = slices.Insert(o.entries, i, orderEntry{})
	}
	o.entries[i] = orderEntry{c.First, c}
}

// remove takes a call out. Removed entries are dropped once they are the half.
func (o *order) remove(c *toolcall.Call) {
	i, found := o.placeOf(c)
	if !found {
		return
	}
	o.entries[i].call = nil
	if o.dead++; o.dead <= len(o.entries)/2 {
		return
	}
	live := make([]orderEntry, 0, len(o.entries)-o.dead)
	for _, e := range o.entries {
		if e.call != nil {
			live = append(live, e)
		}
	}
	o.entries, o.dead = live, 0
}

// len is how many calls it has.
func (o *order) len() int { return len(o.entries) - o.dead }

// eachAfter calls fn for the calls behind a sequence until fn returns false.
func (o *order) eachAfter(first uint64, fn func(*toolcall.Call) bool) {
	for i := o.find(first + 1); i < len(o.entries); i++ {
		if c := o.entries[i].call; c != nil && !fn(c) {
			return
		}
	}
}

// orders are the orders of the calls that the view has. An open call is in
// that of its session and of its runtime, too.
type orders struct {
	all, open order
	sessions  map[toolcall.Key]*order
	runtimes  map[string]*order
}

func newOrders() orders {
	return orders{sessions: map[toolcall.Key]*order{}, runtimes: map[string]*order{}}
}

func putInto[K comparable](m map[K]*order, key K, c *toolcall.Call) {
	o := m[key]
	if o == nil {
		o = &order{}
		m[key] = o
	}
	o.put(c)
}

func removeFrom[K comparable](m map[K]*order, key K, c *toolcall.Call) {
	o := m[key]
	if o == nil {
		return
	}
	if o.remove(c); o.len() == 0 {
		delete(m, key)
	}
}

// put takes the present state of a call.
func (o *orders) put(c *toolcall.Call) {
	o.all.put(c)
	if c.Open() {
		o.open.put(c)
		putInto(o.sessions, c.SessionKey(), c)
		putInto(o.runtimes, c.Runtime, c)
		return
	}
	o.open.remove(c)
	removeFrom(o.sessions, c.SessionKey(), c)
	removeFrom(o.runtimes, c.Runtime, c)
}

// forget takes out a finished call.
func (o *orders) forget(c *toolcall.Call) { o.all.remove(c) }

// narrowest is the shortest order that has every call that a list can show.
func (o *orders) narrowest(by toolcall.Principal, r toolcall.ListRequest, session toolcall.Key) *order {
	var found *order
	switch {
	case WantsFinished(r):
		return &o.all
	case r.Session != "":
		found = o.sessions[session]
	case by.Role == toolcall.RoleRuntime:
		found = o.runtimes[by.Name]
	default:
		return &o.open
	}
	if found == nil {
		return &order{}
	}
	return found
}

// maxListBytes bounds a page of calls with large arguments and results, about.
const maxListBytes = 2 << 20

// Page is a page of a list.
type Page struct {
	Limit int
	bytes int
	calls []*toolcall.Call
	more  bool
}

// Add adds the next call and reports whether the page may take another.
func (p *Page) Add(c *toolcall.Call) bool {
	n := listBytes(c)
	if len(p.calls) == p.Limit || len(p.calls) > 0 && p.bytes+n > maxListBytes {
		p.more = true
		return false
	}
	p.bytes += n
	p.calls = append(p.calls, c)
	return true
}

// Reply is the page as a reply.
func (p *Page) Reply() toolcall.ListReply {
	out := toolcall.ListReply{Calls: p.calls}
	if p.more {
		out.Next = p.calls[len(p.calls)-1].First
	}
	if out.Calls == nil {
		out.Calls = []*toolcall.Call{}
	}
	return out
}

// Newest is the page of a list with the last finished call first; next is its cursor.
func (p *Page) Newest(next uint64) toolcall.ListReply {
	out := p.Reply()
	out.Next = next
	return out
}

// listBytes estimates the size of a call in a reply.
func listBytes(c *toolcall.Call) int {
	n := 1024 + len(c.Input)
	if q := c.Request; q != nil {
		n += len(q.Input) + len(q.Text) + len(q.Reason)
	}
	for _, v := range c.Votes {
		n += len(v.Feedback) + len(v.Note)
	}
	if r := c.Result; r != nil {
		n += len(r.Output.Text)
		for _, b := range r.Output.Blocks {
			switch b := b.(type) {
			case *message.TextBlock:
				n += len(b.Text)
			case *message.DataBlock:
				if s, ok := b.Source.(*message.Base64Source); ok {
					n += len(s.Data)
				}
			default: // small, or not in a result
			}
		}
	}
	return n
}

// isListed reports whether a list request asks for a call, as by may see it.
func isListed(c *toolcall.Call, by toolcall.Principal, r toolcall.ListRequest) bool {
	switch {
	case by.Role == toolcall.RoleRuntime && c.Runtime != by.Name,
		r.Session != "" && c.Session != r.Session,
		r.Reply != "" && c.Reply != r.Reply,
		r.Call != "" && c.Call != r.Call,
		r.Tool != "" && c.Tool != r.Tool,
		r.Agent != "" && c.Agent != r.Agent,
		!c.Open() && !WantsFinished(r),
		len(r.Phases) > 0 && !slices.Contains(r.Phases, c.Phase()),
		len(r.States) > 0 && !slices.Contains(r.States, c.State),
		len(r.Tools) > 0 && !slices.Contains(r.Tools, c.Tool),
		len(r.Agents) > 0 && !slices.Contains(r.Agents, c.Agent),
		len(r.Sessions) > 0 && !slices.Contains(r.Sessions, c.Session),
		len(r.Rules) > 0 && (c.Decision == nil || !slices.Contains(r.Rules, c.Decision.Rule)),
		!r.Since.IsZero() && c.ProposedAt.Before(r.Since),
		!r.Until.IsZero() && !c.ProposedAt.Before(r.Until),
		r.By != "" && !slices.ContainsFunc(c.Votes, func(v toolcall.Vote) bool { return v.By.Name == r.By }),
		len(r.Results) > 0 && (c.Result == nil || !slices.Contains(r.Results, c.Result.State)),
		len(r.Outcomes) > 0 && (c.Open() || !slices.Contains(r.Outcomes, toolcall.Cause(c.Cause))):
		return false
	}
	return true
}

// WantsFinished reports whether a list request asks for finished calls too.
func WantsFinished(r toolcall.ListRequest) bool {
	return r.All || slices.Contains(r.States, message.ToolCallFinished) || slices.Contains(r.Phases, toolcall.PhaseFinished)
}
