package console

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// pageRows is how many calls a page of the list shows.
const pageRows = 100

const (
	showOpen    = "open"
	showRunning = "running"
	showBlocked = "blocked"
	showDone    = "done"
)

// listed is a tab and the phases that it lists.
type listed struct {
	name, label string
	phases      []toolcall.Phase
}

var tabs = []listed{
	{showOpen, "Open", []toolcall.Phase{toolcall.PhaseAsking}},
	{showRunning, "Active", []toolcall.Phase{toolcall.PhaseWaiting, toolcall.PhaseReady, toolcall.PhaseQueued, toolcall.PhaseRunning, toolcall.PhaseRetrying}},
	{showBlocked, "Blocked", []toolcall.Phase{toolcall.PhaseBlocked}},
	{showDone, "Finished", []toolcall.Phase{toolcall.PhaseFinished}},
}

// The orders and groupings that a person can choose.
var (
	sorts  = []choice{{toolcall.SortDeadline, "Deadline"}, {toolcall.SortAge, "Newest"}, {toolcall.SortProposed, "Oldest"}}
	groups = []choice{{"", "No groups"}, {"tool", "By tool"}, {"agent", "By agent"}, {"session", "By session"}}
)

func isChoice(all []choice, value string) bool {
	return slices.ContainsFunc(all, func(c choice) bool { return c.Value == value })
}

// side is the list next to a page.
type side struct {
	Filter  filter
	Tabs    []tab
	Tools   []string
	Chips   []condition // conditions that only a link sets
	Sorts   []choice
	Groups  []choice
	Rows    []row
	Heads   bool // rows have group headings
	Total   int  // calls of the tab that match; -1: not counted
	Through int  // calls on this and previous pages
	Next    string
	First   string // address of the first page, if this is a later one
	Open    int    // open approval requests, with or without filters
	Can     bool   // the person can respond to requests
	Clear   string // address without filters, if there are any
	Now     time.Time
}

type tab struct {
	Name, Label, Href string
	Count             int // -1: not counted
	Selected          bool
}

// condition is a filter condition and the address that removes it.
type condition struct{ What, Value, Href string }

type row struct {
	ID, Href string
	Key      string // what names the call in a form
	Order    string // rows are sorted by it; "": only the engine knows the place
	Head     string // the heading of the group that starts here
	Group    string
	Tool     string
	Summary  string
	Agent    string
	For      string // the agent within whose call it was made, if that is another one
	Session  string
	Rule     string
	Risk     []string
	State    state
	Asked    time.Time
	Ends     time.Time
	Left     string // urgent, soon, or calm
	Note     string
	Needs    string // approvals so far, if it needs several
	Can      bool   // the person can select it
	Mine     bool   // it is waiting for this person
	Selected bool
}

// list shows the inbox with its first call, which is hidden on screens with room for one pane.
func (in *Console) list(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	s := in.shell(r, p, "inbox", "Inbox – askance")
	q := r.URL.Query()
	side, err := makeSide(r.Context(), p, filterOf(q), toolcall.Key{}, in.now())
	if err != nil {
		return in.fail(w, s, err)
	}
	s.Side = side
	if len(side.Rows) > 0 {
		if k, err := parseKey(side.Rows[0].Key, p.Space.ID); err == nil {
			if c, err := in.card(r.Context(), p, k, q, nil); err == nil { // otherwise it is already gone
				side.Rows[0].Selected = true
				return in.write(w, http.StatusOK, "card", cardPage{s, c, "list"})
			}
		}
	}
	return in.write(w, http.StatusOK, "list", struct{ shell }{s})
}

// makeSide builds the list. selected is the call of the page.
func makeSide(ctx context.Context, p *gateway.Peer, f filter, selected toolcall.Key, now time.Time) (*side, error) {
	c, err := p.Reader()
	if err != nil {
		return nil, err
	}
	r := f.request()
	page, err := c.List(ctx, r)
	if err != nil {
		return nil, err
	}
	if f.Show == showDone {
		page.Counts = nil // they count only the tab
	}
	out, err := newSide(ctx, c, p, f, page.Counts, now)
	if err != nil {
		return nil, err
	}
	mine, err := listMine(ctx, c, p, r, page.Calls)
	if err != nil {
		return nil, err
	}
	for _, call := range page.Calls {
		out.Rows = append(out.Rows, rowOf(call, p, mine[call.Key], f, selected, now))
	}
	if out.Tools = toolNames(p.Space); f.Tool != "" && !slices.Contains(out.Tools, f.Tool) {
		out.Tools = append(out.Tools, f.Tool) // the server does not declare the chosen tool
	}
	out.group()
	out.Through = f.From + len(out.Rows)
	if page.Cursor != "" || page.Next != 0 {
		g := f
		g.Cursor, g.From = cmp.Or(page.Cursor, strconv.FormatUint(page.Next, 10)), out.Through
		out.Next = g.listAddress()
	}
	return out, nil
}

// listMine returns which calls of a page are waiting for this person; only the engine knows
// people's groups. A page filtered to their own requests contains no others.
func listMine(ctx context.Context, c engine.Client, p *gateway.Peer, r toolcall.ListRequest, calls []*toolcall.Call) (map[toolcall.Key]bool, error) {
	out := map[toolcall.Key]bool{}
	if !p.Has(toolcall.RoleApprover) || !slices.ContainsFunc(calls, func(c *toolcall.Call) bool { return c.State == message.ToolCallAsking }) {
		return out, nil
	}
	if !r.Mine {
		r.Mine = true
		page, err := c.List(ctx, r)
		if err != nil {
			return nil, err
		}
		calls = page.Calls
	}
	for _, call := range calls {
		out[call.Key] = true
	}
	return out, nil
}

// isMine asks the engine whether one call is waiting for this person.
func isMine(ctx context.Context, c engine.Client, p *gateway.Peer, call *toolcall.Call) (bool, error) {
	r := toolcall.ListRequest{V: 1, Session: call.Session, Reply: call.Reply, Call: call.Call}
	mine, err := listMine(ctx, c, p, r, []*toolcall.Call{call})
	return mine[call.Key], err
}

// newSide builds the parts of the list that count calls.
func newSide(ctx context.Context, c engine.Client, p *gateway.Peer, f filter, counts map[toolcall.Phase]int, now time.Time) (*side, error) {
	if counts == nil { // only the first page of open requests has them
		r := f.first().request()
		r.Limit, r.All, r.Newest, r.Phases, r.Sort = 1, false, false, nil, ""
		page, err := c.List(ctx, r)
		if err != nil {
			return nil, err
		}
		counts = page.Counts
	}
	out := &side{Filter: f, Total: -1, Can: p.Has(toolcall.RoleApprover), Sorts: sorts, Groups: groups, Now: now}
	for _, t := range tabs {
		g := f.first()
		g.Show, g.Sort = t.name, ""
		n := 0
		for _, phase := range t.phases {
			n += counts[phase]
		}
		if t.name == showDone {
			n = -1
		}
		if t.name == f.Show {
			out.Total = n
		}
		out.Tabs = append(out.Tabs, tab{Name: t.name, Label: t.label, Href: g.listAddress(), Count: n, Selected: t.name == f.Show})
	}
	if bare := (filter{Show: f.Show, Sort: f.Sort, Group: f.Group}); bare != f.first() {
		out.Clear = bare.listAddress()
		all, err := c.List(ctx, toolcall.ListRequest{V: 1, Limit: 1})
		if err != nil {
			return nil, err
		}
		counts = all.Counts
	}
	out.Open = counts[toolcall.PhaseAsking]
	if f.Cursor != "" {
		out.First = f.first().listAddress()
	}
	out.addChips()
	return out, nil
}

func (s *side) addChips() {
	for _, c := range []struct {
		what, value string
		drop        func(*filter)
	}{
		{"Agent", s.Filter.Agent, func(f *filter) { f.Agent = "" }},
		{"Session", s.Filter.Session, func(f *filter) { f.Session = "" }},
		{"Rule", s.Filter.Rule, func(f *filter) { f.Rule = "" }},
	} {
		if c.value != "" {
			f := s.Filter.first()
			c.drop(&f)
			s.Chips = append(s.Chips, condition{c.what, c.value, f.listAddress()})
		}
	}
}

func toolNames(s *gateway.Space) []string {
	var out []string
	for _, t := range s.Tools {
		out = append(out, t.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// group sorts rows by group and marks where each group starts.
func (s *side) group() {
	if s.Filter.Group == "" {
		return
	}
	s.Heads = true
	place := map[string]int{}
	for _, r := range s.Rows {
		if _, known := place[r.Group]; !known {
			place[r.Group] = len(place)
		}
	}
	slices.SortStableFunc(s.Rows, func(a, b row) int { return place[a.Group] - place[b.Group] })
	for i := range s.Rows {
		if i == 0 || s.Rows[i-1].Group != s.Rows[i].Group {
			s.Rows[i].Head = cmp.Or(s.Rows[i].Group, "(none)")
		}
	}
}

// rowOf builds the row of a call; mine means that it is waiting for this person.
func rowOf(c *toolcall.Call, p *gateway.Peer, mine bool, f filter, selected toolcall.Key, now time.Time) row {
	r := row{
		ID: domID(c.Key), Href: address(c.Key, f.Fields()), Key: formKey(c.Key), Order: orderOf(c, f), Tool: c.Tool, Summary: asked.Title(c),
		Agent: agentOf(c), For: parentAgentOf(c), Session: string(c.Session), Rule: asked.Rule(c), Risk: c.Risk, State: stateOf(c), Selected: c.Key == selected, Asked: c.UpdatedAt,
	}
	switch f.Group {
	case "tool":
		r.Group = r.Tool
	case "agent":
		r.Group = c.Agent
	case "session":
		r.Group = r.Session
	}
	if c.State != message.ToolCallAsking || c.Request == nil {
		if asked.WasAsked(c) {
			r.Note = asked.Verdict(c, "")
		}
		return r
	}
	r.Asked, r.Ends = c.ProposedAt, c.Request.Requirement.Ends()
	r.Left = urgency(r.Ends, now)
	r.Needs = approvalsOf(c)
	v, voted := c.VoteOf(p.Name)
	switch {
	case voted:
		r.Note = "You " + asked.Said(v)
	case !p.Has(toolcall.RoleApprover):
	case !mine:
		r.Note = "You are not an approver"
	default:
		r.Mine, r.Can = true, !c.Request.Requirement.Signed
	}
	return r
}

// approvalsOf counts the approvals of a request that needs several.
func approvalsOf(c *toolcall.Call) string {
	w, ok := c.Waiting(time.Now())
	if !ok {
		return ""
	}
	have, all := 0, 0
	for _, part := range w.Parts {
		have, all = have+part.Quorum-part.Missing, all+part.Quorum
	}
	if all < 2 {
		return ""
	}
	return fmt.Sprintf("%d of %d approvals", have, all)
}

func agentOf(c *toolcall.Call) string { return cmp.Or(c.Agent, c.Runtime) }

// parentAgentOf is the agent within whose call the call was made, or "" if it is the same.
func parentAgentOf(c *toolcall.Call) string {
	if p := c.Parent; p != nil && cmp.Or(p.Agent, p.Runtime) != agentOf(c) {
		return cmp.Or(p.Agent, p.Runtime)
	}
	return ""
}

// urgency says how soon a request ends.
func urgency(ends, now time.Time) string {
	switch left := ends.Sub(now); {
	case ends.IsZero():
		return ""
	case left <= 10*time.Minute:
		return "urgent"
	case left <= time.Hour:
		return "soon"
	}
	return "calm"
}

// orderOf returns a string by which the rows of a page sort.
func orderOf(c *toolcall.Call, f filter) string {
	const digits = "%020d"
	first, proposed := fmt.Sprintf(digits, c.First), c.ProposedAt.UnixNano()
	switch {
	case f.Group != "" || f.Show == showDone:
		return ""
	case f.Order() == toolcall.SortDeadline:
		ends := int64(math.MaxInt64)
		if c.Request != nil && c.State == message.ToolCallAsking && !c.Request.Requirement.Ends().IsZero() {
			ends = c.Request.Requirement.Ends().UnixNano()
		}
		return fmt.Sprintf(digits, ends) + first
	case f.Order() == toolcall.SortAge:
		proposed = math.MaxInt64 - proposed
	}
	return fmt.Sprintf(digits, proposed) + first
}

// Badge is the number of open requests in the navigation.
func (s *side) Badge() count { return count{s.Open, "ask", "open"} }

type rowIn struct {
	Row  row
	Now  time.Time
	Pick bool
}

func riskTone(word string) string {
	if word == "destructive" {
		return "bad"
	}
	return "ask"
}

// rows replies with the rows of the named calls and the counters, so that a change costs an open
// list no full reload. A named call without a row is no longer listed.
func (in *Console) rows(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	c, err := p.Reader()
	if err != nil {
		return err
	}
	q := r.URL.Query()
	f := filterOf(q)
	names := q["k"]
	if len(names) > maxUpdates {
		return &message.Error{Code: message.CodeInvalid, Op: "list", What: "too many calls", Hint: "load the page again"}
	}
	out, err := newSide(r.Context(), c, p, f, nil, in.now())
	if err != nil {
		return err
	}
	for _, name := range names {
		k, err := parseKey(name, p.Space.ID)
		if err != nil {
			return err
		}
		req := f.first().request()
		req.Session, req.Reply, req.Call, req.Newest = k.Session, k.Reply, k.Call, false
		page, err := c.List(r.Context(), req)
		if err != nil {
			return err
		}
		for _, call := range page.Calls {
			mine, err := listMine(r.Context(), c, p, req, page.Calls)
			if err != nil {
				return err
			}
			out.Rows = append(out.Rows, rowOf(call, p, mine[call.Key], f, toolcall.Key{}, in.now()))
		}
	}
	return in.write(w, http.StatusOK, "rows-part", out)
}

// maxUpdates is how many calls a page updates one by one before it reloads the list.
const maxUpdates = 20

// formKey names a call in a form and in an event.
func formKey(k toolcall.Key) string {
	return url.Values{"session": {string(k.Session)}, "reply": {string(k.Reply)}, "call": {string(k.Call)}}.Encode()
}

func parseKey(name string, space toolcall.SpaceID) (toolcall.Key, error) {
	q, err := url.ParseQuery(name)
	if err != nil {
		return toolcall.Key{}, &message.Error{Code: message.CodeInvalid, Op: "read form", What: "the form names no call", Hint: "load the page again"}
	}
	return keyOf(q, space)
}

// maxListed limits how many calls are read for figures.
const maxListed = 2000
