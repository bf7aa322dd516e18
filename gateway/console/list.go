package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Bounds of what is listed.
const (
	maxListed = 2000 // calls that are read
	maxShown  = 200  // rows of a page
)

// The tabs of the list.
const (
	showOpen    = "open"
	showRunning = "running"
	showBlocked = "blocked"
	showDone    = "done"
)

// filter selects the listed calls. Every page has it in its address.
type filter struct {
	Show  string
	Words string
	Tool  string
	Mine  bool
}

func filterOf(q url.Values) filter {
	f := filter{Show: q.Get("show"), Words: strings.TrimSpace(q.Get("q")), Tool: q.Get("tool"), Mine: q.Get("mine") != ""}
	if !slices.Contains([]string{showRunning, showBlocked, showDone}, f.Show) {
		f.Show = showOpen
	}
	return f
}

// values are the filter as parameters without the defaults.
func (f filter) values() url.Values {
	q := url.Values{}
	if f.Show != showOpen {
		q.Set("show", f.Show)
	}
	if f.Words != "" {
		q.Set("q", f.Words)
	}
	if f.Tool != "" {
		q.Set("tool", f.Tool)
	}
	if f.Mine {
		q.Set("mine", "1")
	}
	return q
}

func (f filter) listAddress() string {
	if q := f.values().Encode(); q != "" {
		return pathInbox + "?" + q
	}
	return pathInbox
}

// side is the list next to a page.
type side struct {
	Filter filter
	Tabs   []tab
	Tools  []string
	Rows   []row
	More   int // further rows that match
	Open   int // open approval requests, with or without filters
	New    uint64
	Clear  string // address without filters, if there are any
	Now    time.Time
}

type tab struct {
	Name, Label, Href string
	Count             int // -1: not counted
	Selected          bool
}

type row struct {
	ID, Href string
	Tool     string
	Text     string
	State    state
	Asked    time.Time
	Ends     time.Time
	Note     string
	Mine     bool
	Selected bool
}

func (in *Console) list(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	s := in.shell(r, p, "inbox", "Inbox – askance")
	side, err := in.side(r.Context(), p, filterOf(r.URL.Query()), toolcall.Key{})
	if err != nil {
		return in.fail(w, s, err)
	}
	s.Side = side
	return in.write(w, http.StatusOK, "list", struct{ shell }{s})
}

// side makes the list. selected is the call of the page.
func (in *Console) side(ctx context.Context, p *gateway.Peer, f filter, selected toolcall.Key) (*side, error) {
	c, err := p.Reader()
	if err != nil {
		return nil, err
	}
	open, err := engine.ListAll(ctx, c, toolcall.ListRequest{V: 1}, maxListed)
	if err != nil {
		return nil, err
	}
	by := map[string][]*toolcall.Call{}
	for _, call := range open {
		by[tabOf(call)] = append(by[tabOf(call)], call)
	}
	if f.Show == showDone {
		if by[showDone], err = listFinished(ctx, c); err != nil {
			return nil, err
		}
	}
	out := &side{Filter: f, Open: len(by[showOpen]), Now: in.now()}
	out.addTabs(f, by)
	out.addRows(p, by[f.Show], selected)
	if g := (filter{Show: f.Show}); g != f {
		out.Clear = g.listAddress()
	}
	return out, nil
}

// tabOf is the tab of an open call.
func tabOf(c *toolcall.Call) string {
	switch c.Phase() {
	case toolcall.PhaseAsking:
		return showOpen
	case toolcall.PhaseBlocked:
		return showBlocked
	case toolcall.PhaseReady, toolcall.PhaseQueued, toolcall.PhaseRunning, toolcall.PhaseRetrying:
		return showRunning
	default:
		return "" // waits for another call
	}
}

func (s *side) addTabs(f filter, by map[string][]*toolcall.Call) {
	for _, t := range []struct{ name, label string }{{showOpen, "Open"}, {showRunning, "Running"}, {showBlocked, "Blocked"}, {showDone, "Finished"}} {
		g := f
		g.Show = t.name
		n := len(by[t.name])
		if t.name == showDone {
			n = -1
		}
		s.Tabs = append(s.Tabs, tab{Name: t.name, Label: t.label, Href: g.listAddress(), Count: n, Selected: t.name == f.Show})
	}
}

// addRows adds the calls that match.
func (s *side) addRows(p *gateway.Peer, calls []*toolcall.Call, selected toolcall.Key) {
	match := matcher(s.Filter.Words)
	base := s.Filter.values()
	for _, c := range calls {
		if !slices.Contains(s.Tools, c.Tool) {
			s.Tools = append(s.Tools, c.Tool)
		}
		mine := p.Has(toolcall.RoleApprover) && asked.MayRespond(c, p.Name) != asked.No
		if !match(c) || s.Filter.Tool != "" && c.Tool != s.Filter.Tool || s.Filter.Mine && !mine {
			continue
		}
		if len(s.Rows) == maxShown {
			s.More++
			continue
		}
		s.Rows = append(s.Rows, rowOf(c, p, mine, base, selected))
	}
	slices.Sort(s.Tools)
}

func rowOf(c *toolcall.Call, p *gateway.Peer, mine bool, base url.Values, selected toolcall.Key) row {
	r := row{ID: domID(c.Key), Href: address(c.Key, base), Tool: c.Tool, State: stateOf(c), Mine: mine, Selected: c.Key == selected, Asked: c.UpdatedAt}
	if c.Request != nil {
		r.Text = c.Request.Text
	}
	if c.State != message.ToolCallAsking || c.Request == nil {
		if asked.WasAsked(c) {
			r.Note = asked.Verdict(c, "")
		} else {
			r.Text = c.Input
		}
		return r
	}
	r.Asked, r.Ends = asked.At(c), c.Request.Requirement.Ends()
	v, voted := asked.VoteOf(c, p.Name)
	switch {
	case voted:
		r.Note = "You " + asked.Said(v)
	case p.Has(toolcall.RoleApprover) && !mine:
		r.Note = "You are not an approver"
	}
	return r
}

// matcher returns the test of a filter: each of its words must occur.
func matcher(filter string) func(*toolcall.Call) bool {
	words := strings.Fields(strings.ToLower(filter))
	return func(c *toolcall.Call) bool {
		if len(words) == 0 {
			return true
		}
		text := []string{string(c.Call), string(c.Session), string(c.Reply), c.Tool, c.Runtime, c.Agent, c.Input}
		if c.Request != nil {
			text = append(text, c.Request.Text, c.Request.Rule, c.Request.Reason)
		}
		all := strings.ToLower(strings.Join(text, "\n"))
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(all, w) })
	}
}
