package view

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"math"
	"slices"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// List processes a list request: it filters, counts and sorts calls, and makes the page.
type List struct {
	by     toolcall.Principal
	r      toolcall.ListRequest
	any    toolcall.ListRequest // r without phases
	help   Help
	words  []string // in lower case
	order  string   // one of the sort orders; SortAge becomes SortProposed
	down   bool
	after  *place // the cursor
	counts map[toolcall.Phase]int
	top    []place // the first places found so far
	full   bool    // top is sorted, and anything after its last place is on a later page
	page   Page
	texts  *texts // nil if the calls are not from the view

	// Visited is how many calls were looked at.
	Visited int
}

// Help holds the functions that a list needs from its caller.
type Help struct {
	Mark func(*toolcall.Call) *toolcall.Call  // returns a call as people see it
	Line func(c, shown *toolcall.Call) string // summarizes a call from what may be shown of it
	Mine func(*toolcall.Call) bool            // reports whether the reader can respond to a call
	// Marked are the calls that Mark changes.
	Marked map[toolcall.Key]*toolcall.Call
}

// NewList checks the sort, the words and the cursor of a request.
func NewList(by toolcall.Principal, r toolcall.ListRequest, help Help) (*List, error) {
	l := &List{by: by, r: r, help: help, words: strings.Fields(strings.ToLower(r.Words)), page: Page{Limit: r.Limit}}
	l.order, l.down = strings.CutPrefix(r.Sort, "-")
	l.any = r
	l.any.All, l.any.Phases = WantsFinished(r), nil
	bad := func(what, hint string) error {
		return &message.Error{Code: message.CodeInvalid, What: what, Hint: hint}
	}
	switch {
	case l.order != "" && !slices.Contains(toolcall.Sorts(), l.order):
		return nil, bad("unknown sort "+r.Sort, "use "+strings.Join(toolcall.Sorts(), ", ")+", or one of them with - before it")
	case r.Cursor != "" && r.Sort == "":
		return nil, bad("cursor needs a sort", "send the sort of the first page, or continue with after")
	case r.After != 0 && r.Sort != "" && r.Sort != toolcall.SortChanged:
		return nil, bad("after cannot be combined with sort", "continue with the cursor of the previous page")
	case r.Cursor != "":
		p, ok := readCursor(r.Cursor)
		if !ok || p.Sort != r.Sort {
			return nil, bad("the cursor belongs to another list", "send the cursor of the previous page with the same sort, or start again without one")
		}
		l.after = &p
	case r.Sort == toolcall.SortChanged:
		l.after = &place{Value: int64(r.After), First: math.MaxUint64}
	case r.After != 0:
		l.after = &place{First: r.After}
	}
	switch l.order {
	case toolcall.SortAge:
		l.order, l.down = toolcall.SortProposed, !l.down
	case "":
		l.order = toolcall.SortProposed
	}
	if r.Cursor == "" && (r.After == 0 || r.Sort == toolcall.SortChanged) {
		l.counts = map[toolcall.Phase]int{}
	}
	return l, nil
}

// Add adds a call. Calls may come in any order.
func (l *List) Add(c *toolcall.Call) {
	c = l.help.Mark(c)
	if !l.meetsRequest(c) {
		return
	}
	l.takeCall(c)
}

// takeCall adds a call that meets all conditions except possibly the phase.
func (l *List) takeCall(c *toolcall.Call) {
	l.count(c.Phase(), 1)
	if l.hasPhase(c.Phase()) {
		l.rankCall(l.placeOf(c))
	}
}

// AddNext adds the next call in the order of proposal, and reports whether the page has
// room for another.
func (l *List) AddNext(c *toolcall.Call) bool {
	c = l.help.Mark(c)
	return !l.Has(c) || l.page.Add(c)
}

// count counts calls, if the list has counts.
func (l *List) count(p toolcall.Phase, n int) {
	if l.counts != nil && n != 0 {
		l.counts[p] += n
	}
}

// WithoutCounts turns off counting, because not all calls will be added.
func (l *List) WithoutCounts() { l.counts = nil }

// Has reports whether a call meets the conditions.
func (l *List) Has(c *toolcall.Call) bool { return l.meetsRequest(c) && l.hasPhase(c.Phase()) }

func (l *List) hasPhase(p toolcall.Phase) bool {
	return len(l.r.Phases) == 0 || slices.Contains(l.r.Phases, p)
}

// Reply returns the page.
func (l *List) Reply() toolcall.ListReply {
	l.cutTo(len(l.top))
	for _, p := range l.top {
		if !l.page.Add(p.call) {
			break
		}
	}
	out := l.page.Reply()
	out.Counts = l.counts
	if !l.page.more || l.r.Sort == "" {
		return out
	}
	last := out.Calls[len(out.Calls)-1]
	out.Next, out.Cursor = 0, l.placeOf(last).encodeCursor()
	if l.r.Sort == toolcall.SortChanged {
		out.Next = last.Seq
	}
	return out
}

// meetsRequest reports whether a call meets every condition except the phase.
func (l *List) meetsRequest(c *toolcall.Call) bool {
	k := kindOf(c)
	return k.meetsRequest(l.by, &l.any) && l.meetsEach(c, c.First)
}

// meetsEach tests the conditions that must be tested for each call.
func (l *List) meetsEach(c *toolcall.Call, first uint64) bool {
	return meetsCall(c, &l.r) && (len(l.words) == 0 || l.hasWords(c, first)) && (!l.r.Mine || c.State == message.ToolCallAsking && l.help.Mine(c))
}

// meetsRequest tests the conditions that are the same for a whole group of calls.
func (k *kind) meetsRequest(by toolcall.Principal, r *toolcall.ListRequest) bool {
	switch {
	case by.Role == toolcall.RoleRuntime && k.runtime != by.Name,
		r.Tool != "" && k.tool != r.Tool,
		r.Agent != "" && k.agent != r.Agent,
		k.state == message.ToolCallFinished && !r.All,
		k.state != message.ToolCallFinished && len(r.Results)+len(r.Outcomes) > 0,
		len(r.States) > 0 && !slices.Contains(r.States, k.state),
		len(r.Tools) > 0 && !slices.Contains(r.Tools, k.tool),
		len(r.Agents) > 0 && !slices.Contains(r.Agents, k.agent),
		len(r.Rules) > 0 && !slices.Contains(r.Rules, k.rule):
		return false
	}
	return true
}

// looksAtCalls reports whether a condition differs within a group of calls.
func (l *List) looksAtCalls() bool {
	r := l.r
	return len(l.words) > 0 || r.Session != "" || len(r.Sessions) > 0 || r.Reply != "" || r.Call != "" || !r.Since.IsZero() || !r.Until.IsZero() ||
		r.By != "" || len(r.Results) > 0 || len(r.Outcomes) > 0
}

// meetsCall tests the conditions of looksAtCalls except the words.
func meetsCall(c *toolcall.Call, r *toolcall.ListRequest) bool {
	switch {
	case r.Session != "" && c.Session != r.Session,
		len(r.Sessions) > 0 && !slices.Contains(r.Sessions, c.Session),
		r.Reply != "" && c.Reply != r.Reply,
		r.Call != "" && c.Call != r.Call,
		!r.Since.IsZero() && c.ProposedAt.Before(r.Since),
		!r.Until.IsZero() && !c.ProposedAt.Before(r.Until),
		r.By != "" && !slices.ContainsFunc(c.Votes, func(v toolcall.Vote) bool { return toolcall.IsSamePerson(v.By.Name, r.By) }),
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

// hasWords reports whether every word occurs in what the reader may see of a call.
func (l *List) hasWords(c *toolcall.Call, first uint64) bool {
	var x text
	if l.texts == nil {
		x = textOf(c, l.help.Line)
	} else {
		x = l.texts.textOfCall(c, first, l.help.Line)
	}
	if l.by.Role == toolcall.RoleRuntime {
		return l.findWords(x.whole)
	}
	return l.findWords(x.shown)
}

func (l *List) findWords(text string) bool {
	return !slices.ContainsFunc(l.words, func(w string) bool { return !strings.Contains(text, w) })
}

// place is the position of a call in a list. A cursor is the place of a page's last call
// at that time: later changes move no other call.
type place struct {
	Sort  string `json:"sort"`
	None  bool   `json:"none,omitzero"` // the call has no such value
	Text  []byte `json:"text,omitempty"`
	Value int64  `json:"value,omitzero"` // nanoseconds, or a sequence
	First uint64 `json:"first"`
	call  *toolcall.Call
}

func (l *List) placeOf(c *toolcall.Call) place {
	p := place{Sort: l.r.Sort, First: c.First, call: c}
	switch l.order {
	case toolcall.SortDeadline:
		p.Value = endOf(c)
		p.None = p.Value == 0
	case toolcall.SortChanged:
		p.Value = changeOf(c).value
	case toolcall.SortTool:
		p.Text = []byte(c.Tool)
	case toolcall.SortAgent:
		p.Text, p.None = []byte(c.Agent), c.Agent == ""
	}
	return p
}

// headOf returns the part of a place that all calls of a group share.
func (l *List) headOf(g *group) place {
	p := l.placeOf(g.proposed.blocks[0][0].call)
	p.Value, p.First, p.call = 0, 0, nil
	return p
}

func (l *List) compare(a, b place) int {
	return cmp.Or(l.compareHeads(a, b), l.inDirection(cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(a.First, b.First))))
}

// compareHeads compares what headOf returns. No value comes last in either direction.
func (l *List) compareHeads(a, b place) int {
	switch {
	case a.None && !b.None:
		return 1
	case b.None && !a.None:
		return -1
	}
	return l.inDirection(bytes.Compare(a.Text, b.Text))
}

func (l *List) inDirection(by int) int {
	if l.down {
		return -by
	}
	return by
}

// rankCall keeps a call if it may be on the page.
func (l *List) rankCall(p place) {
	if l.after != nil && l.compare(p, *l.after) <= 0 || l.full && l.compare(p, l.top[l.r.Limit]) > 0 {
		return
	}
	if l.top = append(l.top, p); len(l.top) >= 4*(l.r.Limit+1) {
		l.cutTo(l.r.Limit + 1)
		l.full = true
	}
}

// cutTo sorts the places and keeps the first ones.
func (l *List) cutTo(most int) {
	slices.SortFunc(l.top, l.compare)
	l.top = l.top[:min(most, len(l.top))]
}

func (p place) encodeCursor() string {
	b, _ := strictjson.Marshal(p) // never fails for these types
	return base64.RawURLEncoding.EncodeToString(b)
}

func readCursor(text string) (p place, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	return p, err == nil && strictjson.Unmarshal(b, &p) == nil
}
