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

// List is a list request on its way through calls: it filters, counts, sorts and
// makes the page.
type List struct {
	by     toolcall.Principal
	r      toolcall.ListRequest
	any    toolcall.ListRequest // r in any phase
	help   Help
	words  []string // in lower case
	order  string   // one of the orders, SortAge as SortProposed
	down   bool
	after  *place // the cursor
	counts map[toolcall.Phase]int
	top    []place // the best so far
	full   bool    // top is sorted, and what comes behind its last is on a later page
	page   Page
	texts  *texts // nil: the calls are not from the view

	// Visited is how many calls were looked at.
	Visited int
}

// Help is what a list asks of others.
type Help struct {
	Mark func(*toolcall.Call) *toolcall.Call  // the form of a call that people see
	Line func(c, shown *toolcall.Call) string // its summary, of what may be shown of it
	Mine func(*toolcall.Call) bool            // whether the reader can respond to it
	// Marked are the calls whose form differs from what the view has.
	Marked map[toolcall.Key]*toolcall.Call
}

// NewList checks the parts of a request that name orders, words and cursors.
func NewList(by toolcall.Principal, r toolcall.ListRequest, help Help) (*List, error) {
	l := &List{by: by, r: r, help: help, words: strings.Fields(strings.ToLower(r.Words)), page: Page{Limit: r.Limit}}
	l.order, l.down = strings.CutPrefix(r.Sort, "-")
	l.any = r
	l.any.All, l.any.Phases = WantsFinished(r), nil
	bad := func(what, hint string) error {
		return &message.Error{Code: message.CodeInvalid, Op: "list", What: what, Hint: hint}
	}
	switch {
	case l.order != "" && !slices.Contains(toolcall.Sorts(), l.order):
		return nil, bad("unknown order "+r.Sort, "use "+strings.Join(toolcall.Sorts(), ", ")+", or one of them with - before it")
	case r.Cursor != "" && r.Sort == "":
		return nil, bad("a cursor without sort", "send the sort of the first page, or continue with after")
	case r.After != 0 && r.Sort != "" && r.Sort != toolcall.SortChanged:
		return nil, bad("after in a list with sort", "continue with the cursor of the page before")
	case r.Cursor != "":
		p, ok := readCursor(r.Cursor)
		if !ok || p.Sort != r.Sort {
			return nil, bad("the cursor is not of this list", "send the cursor of the page before with the same sort, or begin again without one")
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

// Add takes a call. Calls can come in any order.
func (l *List) Add(c *toolcall.Call) {
	c = l.help.Mark(c)
	if !l.meetsRequest(c) {
		return
	}
	l.takeCall(c)
}

// takeCall takes a call that meets the conditions but that of the phase.
func (l *List) takeCall(c *toolcall.Call) {
	if l.count(c.Phase(), 1); l.hasPhase(c.Phase()) {
		l.rankCall(l.placeOf(c))
	}
}

// AddNext takes the next call in the order of proposal, and reports whether the page can
// take another.
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

// WithoutCounts gives up counting, because not all calls will come.
func (l *List) WithoutCounts() { l.counts = nil }

// Has reports whether a call meets the conditions.
func (l *List) Has(c *toolcall.Call) bool { return l.meetsRequest(c) && l.hasPhase(c.Phase()) }

func (l *List) hasPhase(p toolcall.Phase) bool {
	return len(l.r.Phases) == 0 || slices.Contains(l.r.Phases, p)
}

// Reply is the page.
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

// meetsRequest reports whether a call meets every condition but that of the phase.
func (l *List) meetsRequest(c *toolcall.Call) bool {
	k := kindOf(c)
	return k.meetsRequest(l.by, &l.any) && l.meetsEach(c, c.First)
}

// meetsEach tests the conditions for which each call has to be looked at.
func (l *List) meetsEach(c *toolcall.Call, first uint64) bool {
	return meetsCall(c, &l.r) && (len(l.words) == 0 || l.hasWords(c, first)) && (!l.r.Mine || c.State == message.ToolCallAsking && l.help.Mine(c))
}

// meetsRequest tests what a group of calls has in common.
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

// meetsCall tests the conditions of looksAtCalls but that of words.
func meetsCall(c *toolcall.Call, r *toolcall.ListRequest) bool {
	switch {
	case r.Session != "" && c.Session != r.Session,
		len(r.Sessions) > 0 && !slices.Contains(r.Sessions, c.Session),
		r.Reply != "" && c.Reply != r.Reply,
		r.Call != "" && c.Call != r.Call,
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

// ruleOf is the rule that decided about a call; "": none did.
func ruleOf(c *toolcall.Call) string {
	if c.Decision == nil {
		return ""
	}
	return c.Decision.Rule
}

// hasWords looks for every word in what the reader may see of a call.
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

// place is where a call stands in a list. A cursor is the place of the last call of a
// page, as it was then: what changes afterwards moves no other call.
type place struct {
	Sort  string `json:"sort"`
	None  bool   `json:"none,omitzero"` // it has no such value
	Text  []byte `json:"text,omitempty"`
	Value int64  `json:"value,omitzero"` // in nanoseconds, or a sequence
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

// headOf is the part of a place that the calls of a group share.
func (l *List) headOf(g *group) place {
	p := l.placeOf(g.proposed.blocks[0][0].call)
	p.Value, p.First, p.call = 0, 0, nil
	return p
}

// compare orders places.
func (l *List) compare(a, b place) int {
	if by := l.compareHeads(a, b); by != 0 {
		return by
	}
	return l.inDirection(cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(a.First, b.First)))
}

// compareHeads orders what headOf gives: what has no value comes last in any direction.
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

// cutTo sorts what is kept and leaves the best.
func (l *List) cutTo(most int) {
	slices.SortFunc(l.top, l.compare)
	l.top = l.top[:min(most, len(l.top))]
}

func (p place) encodeCursor() string {
	b, _ := strictjson.Marshal(p) // numbers, switches and base64: it never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

func readCursor(text string) (p place, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	return p, err == nil && strictjson.Unmarshal(b, &p) == nil
}
