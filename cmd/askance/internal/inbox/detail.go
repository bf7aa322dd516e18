package inbox

import (
	"context"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/cmd/askance/internal/argtree"
	"github.com/askance-dev/askance/cmd/askance/internal/explain"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/toolcall"
)

type detailScreen struct {
	request toolcall.Key
	digest  string // of the approval request that the person has seen here
	raw     bool   // the arguments as they came
	wish    wish
	scroll
	args argLines
}

// argLines caches the rendered arguments: they can be long, and every tick draws them.
type argLines struct {
	digest string
	width  int
	raw    bool
	lines  []string
}

func newDetail(q *request) *detailScreen {
	return &detailScreen{request: q.call.Key, digest: q.call.Digest, wish: newWish(q.call)}
}

func (d *detailScreen) holds(k toolcall.Key) bool { return k == d.request }

// hasChanged reports whether the open approval request is not the one that was shown.
func (d *detailScreen) hasChanged(q *request) bool { return q.open() && q.call.Digest != d.digest }

func (d *detailScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	q := m.find(d.request)
	switch k.String() {
	case "esc", "q", "left":
		m.pop()
		return nil
	case "x":
		d.raw = !d.raw
		return nil
	case "i":
		if q == nil {
			return nil
		}
		s := newExplain(q.call)
		m.push(s)
		return s.ask(m)
	case "n", "tab", "p", "shift+tab":
		d.neighbour(m, k.String() == "n" || k.String() == "tab")
		return m.list.past.ask(m, false)
	}
	if d.scroll.key(k.String()) {
		return nil
	}
	if q == nil {
		return nil
	}
	if !q.open() {
		if k.String() == "r" {
			m.resolve(q)
		}
		return nil
	}
	if d.hasChanged(q) { // the first key only acknowledges the change
		d.digest, d.wish = q.call.Digest, newWish(q.call)
		return nil
	}
	return d.respond(m, q, k.String())
}

// responseKey is a response as the person chooses it.
type responseKey struct {
	key, label string
	kind       toolcall.ResponseKind
	edits      bool
}

var responseKeys = []responseKey{
	{"a", "approve", toolcall.ResponseApprove, false}, {"e", "edit", toolcall.ResponseApprove, true}, {"r", "reject", toolcall.ResponseReject, false},
	{"h", "delegate", toolcall.ResponseDelegate, false}, {"t", "respond", toolcall.ResponseRespond, false}, {"s", "skip", toolcall.ResponseSkip, false},
}

// obstacle says why the person cannot send the response; "" if they can.
func (r responseKey) obstacle(m *model, c *toolcall.Call) string {
	resp := toolcall.Response{Kind: r.kind}
	if r.edits {
		resp.Input = &c.Input
	}
	return asked.Obstacle(c, m.cfg.Who, resp)
}

// keysFor names the keys of the responses that the person can send.
func (d *detailScreen) keysFor(m *model, c *toolcall.Call) string {
	var keys []string
	for _, r := range responseKeys {
		if r.obstacle(m, c) != "" {
			continue
		}
		keys = append(keys, r.key+" "+r.label)
		if r.key == "r" && d.wish.obstacle() == "" && responseKeys[0].obstacle(m, c) == "" {
			keys = append(keys, "w standing approval")
		}
	}
	return strings.Join(append(keys, "n next", "? keys", "esc back"), "  ")
}

func (d *detailScreen) respond(m *model, q *request, key string) tea.Cmd {
	if d.remember(m, q, key) {
		return nil
	}
	i := slices.IndexFunc(responseKeys, func(r responseKey) bool { return r.key == key })
	if i < 0 {
		return nil
	}
	draft := newDraft(q.call, responseKeys[i].kind)
	if bad := responseKeys[i].obstacle(m, q.call); bad != "" {
		m.say(m.out.Bad, "%s", bad)
		return nil
	}
	if draft.response.Kind != toolcall.ResponseApprove {
		m.push(newCompose([]*draftResponse{draft}))
		return nil
	}
	if err := d.wish.into(&draft.response, time.Now()); err != nil {
		m.say(m.out.Bad, "Standing approval: %v", err)
		return nil
	}
	if key == "e" {
		return m.edit(draft)
	}
	m.push(newConfirm(draft))
	return nil
}

// remember handles the keys about a standing approval, and reports whether key is one of them.
func (d *detailScreen) remember(m *model, q *request, key string) bool {
	i := strings.Index("123456789", key)
	switch {
	case len(key) == 1 && i >= 0 && i < len(d.wish.offers):
		d.wish.offers[i].on = !d.wish.offers[i].on
	case key == "0":
		d.wish = newWish(q.call)
	case key == "w":
		if why := d.wish.obstacle(); why != "" {
			m.say(m.out.Bad, "%s", why)
			return true
		}
		m.push(newTerms(d))
	default:
		return false
	}
	return true
}

func (d *detailScreen) neighbour(m *model, next bool) {
	rows := m.list.rows(m)
	m.list.at, m.list.touched = d.request, true
	m.list.resolve(rows)
	step := -1
	if next {
		step = 1
	}
	m.list.move(len(rows), step, keyOf(rows))
	if len(rows) > 0 {
		*d = *newDetail(rows[m.list.row])
	}
}

func (d *detailScreen) view(m *model, w, h int) (title string, body []string, keys string) {
	q := m.find(d.request)
	if q == nil {
		return "request", []string{"", "  It no longer exists."}, "esc back"
	}
	c := q.call
	title = reveal.Line(c.Tool) + "  " + reveal.MarkedName(string(c.Call))
	switch {
	case m.cfg.Resolve != nil && canResolve(c):
		keys = "r resolve  i explain  n next  ? keys  esc back"
	case !q.open():
		keys = "i explain  n next  ? keys  esc back"
	case asked.MayRespond(c, m.cfg.Who) == asked.No:
		keys = "you are not an approver  esc back  n next"
	case d.hasChanged(q):
		keys = "any key: review the changed request  esc back"
	default:
		keys = d.keysFor(m, c)
	}
	lines := d.lines(m, q, w)
	return title, d.scroll.view(m, d.head(m, q, w), lines, h), keys
}

// head returns the lines that stay while the rest scrolls.
func (d *detailScreen) head(m *model, q *request, w int) []string {
	var out []string
	switch {
	case q.call.Request != nil && q.over != "" && m.qs.get(d.request) != nil:
		out = paintAll(m.out.Bad, wrap("Closed: "+oneLine(q.over)+". It needs no response.", w))
	case d.hasChanged(q):
		out = paintAll(m.out.Ask, wrap("This request changed after you opened it: review it again.", w))
	}
	return append(out, summaryLines(m, q.call, w)...)
}

// headLines is how many lines of a summary stay in view.
const headLines = 3

// summaryLines returns what a call would do, in at most headLines lines.
func summaryLines(m *model, c *toolcall.Call, w int) []string {
	out := wrap(reveal.Line(asked.Title(c)), w)
	if len(out) > headLines {
		out = append(out[:headLines-1], fit(out[headLines-1]+" …", w))
	}
	return paintAll(m.out.Bold, out)
}

// lines returns what would run, its state, and then the reasons.
func (d *detailScreen) lines(m *model, q *request, w int) []string {
	c := q.call
	f := records{width: w, dim: m.out.Dim}
	f.add("risk", paintAll(m.out.Bad, linesOf(riskText(c)))...)
	switch {
	case q.open():
		f.add("time", asked.Deadline(c.Request.Requirement, m.now), "proposed "+asked.Span(m.now.Sub(c.ProposedAt))+" ago")
		f.add("needs", asked.Needs(c)...)
	case tabOf(q) == tabHistory && !q.gone():
		f.add("ended", outcomeText(m, c))
		f.add("result", resultText(c)...)
	default:
		f.add("state", phaseText(c, m.now)...)
	}
	f.add("so far", asked.Votes(c, m.now)...)
	d.args.lay(m, c, w, d.raw)
	title := "arguments"
	if d.raw {
		title = "arguments, raw (x: as a tree)"
	}
	f.lines = append(f.lines, m.out.Dim(title))
	f.lines = append(f.lines, indentLines(d.args.lines)...)
	if q.open() {
		f.add("remember", d.wish.lines()...)
	}
	d.addReasons(&f, c)
	return f.lines
}

// addReasons adds the reasons for the decision, and where the call is from.
func (d *detailScreen) addReasons(f *records, c *toolcall.Call) {
	if c.Request != nil {
		if asked.SaysMore(c, c.Request.Text) {
			f.add("message", strings.Split(reveal.Text(c.Request.Text), "\n")...)
		}
		f.add("why", asked.Why(c)...)
	} else if c.Decision != nil {
		f.add("why", string(c.Decision.Behavior)+": "+reveal.Line(c.Decision.Reason))
	}
	f.add("from", asked.Origin(c))
	f.add("address", reveal.MarkedName(string(c.Session)+"/"+string(c.Reply)+"/"+string(c.Call)))
	f.add("digest", c.Digest)
	if c.Request != nil && c.Request.Bundle != "" {
		f.add("policy", c.Request.Bundle)
	}
}

// lay renders the arguments, unless they are rendered.
func (a *argLines) lay(m *model, c *toolcall.Call, w int, raw bool) {
	if a.lines != nil && a.digest == c.Digest && a.width == w && a.raw == raw {
		return
	}
	*a = argLines{digest: c.Digest, width: w, raw: raw}
	if raw {
		a.lines = argtree.Raw(c.Input, w-2)
	} else {
		a.lines = argtree.Render(c.Input, w-2, m.out.Name)
	}
}

// explainScreen shows how a call was decided and how the current policy decides it, as
// askance show --explain does.
type explainScreen struct {
	call  *toolcall.Call
	lines []string // nil until the engine has answered
	scroll
}

func newExplain(c *toolcall.Call) *explainScreen { return &explainScreen{call: c} }

func (s *explainScreen) holds(k toolcall.Key) bool { return k == s.call.Key }

func (s *explainScreen) ask(m *model) tea.Cmd {
	key := s.call.Key
	return m.inBackground(askWithin, func(ctx context.Context, engine Engine) replyMsg {
		r, err := engine.Explain(ctx, toolcall.ExplainRequest{V: 1, Key: key})
		return func(m *model) tea.Cmd { s.take(m, r, err); return nil }
	})
}

func (s *explainScreen) take(m *model, r toolcall.ExplainReply, err error) {
	text := ""
	if err == nil {
		text, err = explain.Reply(m.out, r)
	}
	if err != nil {
		text = m.out.Bad("Cannot load the explanation: " + reveal.Line(asked.Refusal(err)))
	}
	s.lines = strings.Split(strings.TrimRight(text, "\n"), "\n")
}

func (s *explainScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	switch key := k.String(); key {
	case "esc", "q", "left", "i":
		m.pop()
	default:
		s.scroll.key(key)
	}
	return nil
}

func (s *explainScreen) view(m *model, w, h int) (title string, body []string, keys string) {
	title = "Explanation: " + reveal.Line(s.call.Tool) + "  " + reveal.MarkedName(string(s.call.Call))
	if s.lines == nil {
		return title, []string{"", m.out.Dim("  loading")}, "esc back"
	}
	var lines []string
	for _, l := range s.lines {
		lines = append(lines, wrap(l, w)...)
	}
	return title, s.scroll.view(m, nil, lines, h), "space more  ? help  esc back"
}
