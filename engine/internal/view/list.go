package view

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// List is a list request on its way through calls: it filters, counts, sorts and
// makes the page.
type List struct {
	by      toolcall.Principal
	r       toolcall.ListRequest
	any     toolcall.ListRequest // r in any phase
	help    Help
	words   []string // in lower case
	order   string
	down    bool
	after   *place // the cursor of a sorted list
	counts  map[toolcall.Phase]int
	top     []place // of a sorted list: the best so far
	page    Page
	stopped bool
}

// Help is what a list asks of others.
type Help struct {
	Mark func(*toolcall.Call) *toolcall.Call // the form of a call that people see
	Line func(*toolcall.Call) string         // its summary
	Mine func(*toolcall.Call) bool           // whether the reader can respond to it
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
	case r.After != 0 && r.Sort != "":
		return nil, bad("after in a list with sort", "continue with the cursor of the page before")
	}
	if r.Cursor != "" {
		p, ok := readCursor(r.Cursor)
		if !ok || p.Sort != r.Sort {
			return nil, bad("the cursor is not of this list", "send the cursor of the page before with the same sort, or begin again without one")
		}
		l.after = &p
	}
	if r.After == 0 && l.after == nil {
		l.counts = map[toolcall.Phase]int{}
	}
	return l, nil
}

// Add takes the next call in the order of proposal and reports whether the list needs
// more of them.
func (l *List) Add(c *toolcall.Call) bool {
	if c.First <= l.r.After && l.r.After != 0 {
		return true
	}
	c = l.help.Mark(c)
	if !l.meets(c) {
		return true
	}
	if l.counts != nil {
		l.counts[c.Phase()]++
	}
	switch {
	case !l.hasPhase(c):
	case l.order != "":
		l.rank(c)
	case !l.stopped:
		l.stopped = !l.page.Add(c)
	}
	return l.order != "" || l.counts != nil || !l.stopped
}

// WithoutCounts gives up counting, because not all calls will come.
func (l *List) WithoutCounts() { l.counts = nil }

// Has reports whether a call meets the conditions.
func (l *List) Has(c *toolcall.Call) bool { return l.meets(c) && l.hasPhase(c) }

func (l *List) hasPhase(c *toolcall.Call) bool {
	return len(l.r.Phases) == 0 || slices.Contains(l.r.Phases, c.Phase())
}

// Reply is the page.
func (l *List) Reply() toolcall.ListReply {
	l.cut(len(l.top))
	for _, p := range l.top {
		if !l.page.Add(p.call) {
			break
		}
	}
	out := l.page.Reply()
	if out.Counts = l.counts; l.order != "" && l.page.more {
		out.Next, out.Cursor = 0, l.top[len(out.Calls)-1].cursor()
	}
	return out
}

// meets reports whether a call meets every condition but that of the phase.
func (l *List) meets(c *toolcall.Call) bool {
	return isListed(c, l.by, l.any) && (len(l.words) == 0 || l.hasWords(c)) &&
		(!l.r.Mine || c.State == message.ToolCallAsking && l.help.Mine(c))
}

// ruleOf is the rule that decided about a call; "": none did.
func ruleOf(c *toolcall.Call) string {
	if c.Decision == nil {
		return ""
	}
	return c.Decision.Rule
}

// hasWords looks for every word in what the reader may see of a call. It hides what rules
// redact only of a call that would be found with it.
func (l *List) hasWords(c *toolcall.Call) bool {
	return l.findWords(c) && (l.by.Role == toolcall.RoleRuntime || !c.Hides() || l.findWords(c.Redacted()))
}

func (l *List) findWords(c *toolcall.Call) bool {
	texts := []string{c.Input, c.Tool, string(c.Session), string(c.Reply), string(c.Call), c.Agent, c.Runtime, ruleOf(c), l.help.Line(c)}
	for _, w := range l.words {
		if !slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(strings.ToLower(t), w) }) {
			return false
		}
	}
	return true
}

// place is where a call stands in a sorted list. A cursor is the place of the last call
// of a page, as it was then: what changes afterwards moves no other call.
type place struct {
	Sort  string `json:"sort"`
	None  bool   `json:"none,omitzero"` // it has no such value
	Time  int64  `json:"time,omitzero"` // in nanoseconds
	Text  []byte `json:"text,omitempty"`
	First uint64 `json:"first"`
	call  *toolcall.Call
}

func (l *List) placeOf(c *toolcall.Call) place {
	p := place{Sort: l.r.Sort, First: c.First, call: c}
	switch l.order {
	case toolcall.SortDeadline:
		var at time.Time
		if c.State == message.ToolCallAsking && c.Request != nil {
			at = c.Request.Requirement.Ends()
		}
		p.None, p.Time = at.IsZero(), at.UnixNano()
	case toolcall.SortAge:
		p.Time = -c.ProposedAt.UnixNano()
	case toolcall.SortProposed:
		p.Time = c.ProposedAt.UnixNano()
	case toolcall.SortTool:
		p.Text = []byte(c.Tool)
	case toolcall.SortAgent:
		p.Text, p.None = []byte(c.Agent), c.Agent == ""
	}
	if p.None {
		p.Time = 0
	}
	return p
}

// compare orders places; calls with the same value are in the order of their proposal.
func (l *List) compare(a, b place) int {
	if a.None != b.None {
		if a.None {
			return 1
		}
		return -1
	}
	by := cmp.Or(cmp.Compare(a.Time, b.Time), bytes.Compare(a.Text, b.Text))
	if l.down {
		by = -by
	}
	return cmp.Or(by, cmp.Compare(a.First, b.First))
}

// rank keeps a call if it may be on the page.
func (l *List) rank(c *toolcall.Call) {
	p := l.placeOf(c)
	if l.after != nil && l.compare(p, *l.after) <= 0 {
		return
	}
	if l.top = append(l.top, p); len(l.top) >= 4*(l.r.Limit+1) {
		l.cut(l.r.Limit + 1)
	}
}

// cut sorts what is kept and leaves the best.
func (l *List) cut(most int) {
	slices.SortFunc(l.top, l.compare)
	l.top = l.top[:min(most, len(l.top))]
}

func (p place) cursor() string {
	b, _ := strictjson.Marshal(p) // numbers, switches and base64: it never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

func readCursor(text string) (p place, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	return p, err == nil && strictjson.Unmarshal(b, &p) == nil
}
