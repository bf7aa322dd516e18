package inbox

import (
	"fmt"
	"slices"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/cmd/askance/internal/argtree"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/toolcall"
)

// bulkScreen sends the same response to several approval requests, after one confirmation
// that lists the summary of each; then it shows the result of each.
type bulkScreen struct {
	drafts []*draftResponse
	off    map[toolcall.Key]bool // excluded by the person
	review map[toolcall.Key]*detailScreen
	row    int
	others int // on the list, but not waiting for this person
	hidden int // selected, but not on the list
	scroll

	queue   []*draftResponse // to be sent
	sending bool
	results []string
	done    map[bool]int // by whether the response was accepted
	unsure  int          // of those not accepted: they may have arrived
}

func newBulk(m *model, all []*request) *bulkScreen {
	s := &bulkScreen{off: map[toolcall.Key]bool{}, review: map[toolcall.Key]*detailScreen{}, done: map[bool]int{}}
	for _, q := range all {
		if !q.awaits(m.cfg.Who) {
			s.others++
			continue
		}
		s.drafts = append(s.drafts, newDraft(q.call, toolcall.ResponseApprove))
	}
	return s
}

func (s *bulkScreen) holds(k toolcall.Key) bool {
	return slices.ContainsFunc(s.drafts, func(d *draftResponse) bool { return d.call.Key == k })
}

// taken returns drafts for the requests that the response goes to.
func (s *bulkScreen) taken(m *model, kind toolcall.ResponseKind) []*draftResponse {
	var out []*draftResponse
	for _, d := range s.drafts {
		one := *d
		one.response.Kind = kind
		if !s.off[d.call.Key] && one.obstacle(m) == "" && (kind != toolcall.ResponseApprove || !s.needsReview(m, d)) {
			out = append(out, &one)
		}
	}
	return out
}

// Longer arguments of a request are shown only on its own screen.
const (
	bulkArgumentBytes = 2000
	bulkArgumentLines = 12
)

// arguments returns the arguments of a request whose line leaves some out; fit is false if they are
// too long for this screen.
func (s *bulkScreen) arguments(m *model, d *draftResponse) (lines []string, fit bool) {
	if !asked.IsShortened(d.call) {
		return nil, true
	}
	if len(d.call.Input) > bulkArgumentBytes {
		return nil, false
	}
	lines = argtree.Render(d.call.Input, m.width-12, m.out.Name)
	return lines, len(lines) <= bulkArgumentLines
}

// needsReview reports whether the person has not seen all arguments of a request.
func (s *bulkScreen) needsReview(m *model, d *draftResponse) bool {
	if r := s.review[d.call.Key]; r != nil && r.request == d.call.Key && r.digest == d.call.Digest && r.end {
		return false
	}
	_, fit := s.arguments(m, d)
	return !fit
}

func (s *bulkScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	key := k.String()
	switch {
	case (key == "esc" || key == "q" || key == "n") && len(s.queue) > 0:
		s.stop(m)
	case key == "esc", key == "q", key == "n":
		m.pop()
	case s.results != nil:
		if d, ok := moves(key, max(1, s.scroll.page-1)); ok {
			s.scroll.by(d)
		} else if !s.sending {
			m.pop()
		}
	case len(s.drafts) == 0:
		m.pop()
	default:
		return s.keyChoice(m, key)
	}
	return nil
}

func (s *bulkScreen) keyChoice(m *model, key string) tea.Cmd {
	d := s.drafts[s.row]
	switch key {
	case "enter", "right", "l":
		if q := m.find(d.call.Key); q != nil {
			detail := newDetail(q)
			if s.needsReview(m, d) {
				s.review[d.call.Key] = detail
			}
			m.push(detail)
		}
	case " ", "x":
		s.off[d.call.Key] = !s.off[d.call.Key]
		s.move(1)
	case "y":
		if all := s.taken(m, toolcall.ResponseApprove); s.scroll.end && len(all) > 0 {
			return s.sendAll(m, all)
		}
	case "r":
		if all := s.taken(m, toolcall.ResponseReject); len(all) > 0 {
			c := newCompose(all)
			c.bulk = s
			m.push(c)
		}
	default:
		if d, ok := moves(key, max(1, s.scroll.page/2)); ok {
			s.move(d)
		}
	}
	return nil
}

func (s *bulkScreen) move(d int) { s.row = max(0, min(len(s.drafts)-1, s.row+d)) }

func (s *bulkScreen) sendAll(m *model, drafts []*draftResponse) tea.Cmd {
	s.queue, s.results, s.scroll = drafts, []string{}, scroll{}
	clear(m.list.selected)
	return s.sendNext(m)
}

func (s *bulkScreen) sendNext(m *model) tea.Cmd {
	for len(s.queue) > 0 {
		d := s.queue[0]
		s.queue = s.queue[1:]
		if bad := d.obstacle(m); bad != "" {
			s.note(m, d, false, bad)
			continue
		}
		s.sending = true
		return m.post(d, s)
	}
	s.sending = false
	return nil
}

// stop sends no more after the response that is on its way.
func (s *bulkScreen) stop(m *model) {
	for _, d := range s.queue {
		s.note(m, d, false, "not sent: you stopped")
	}
	s.queue = nil
}

func (s *bulkScreen) note(m *model, d *draftResponse, ok bool, text string) {
	paint := m.out.Good
	if !ok {
		paint = m.out.Bad
	}
	s.done[ok]++
	s.results = append(s.results, paint(reveal.Line(text))+m.out.Dim(" · ")+reveal.Line(asked.Title(d.call))+m.out.Dim(" · "+reveal.MarkedName(string(d.call.Call))))
}

// sent records the result of one response, and sends the next.
func (s *bulkScreen) sent(m *model, d *draftResponse, call *toolcall.Call, err error) tea.Cmd {
	switch {
	case asked.IsUnsure(err):
		s.unsure++
		s.note(m, d, false, asked.Unsure)
	case err != nil:
		s.note(m, d, false, "not accepted: "+asked.Refusal(err))
	default:
		s.note(m, d, true, asked.Outcome(d.response, call))
	}
	return s.sendNext(m)
}

func (s *bulkScreen) view(m *model, w, h int) (title string, body []string, keys string) {
	s.scroll.more = "pgdown" // space excludes a request
	switch {
	case s.results != nil:
		return s.viewResults(m, w, h)
	case len(s.drafts) == 0:
		return "Respond to several requests", []string{"None of these requests waits for you. Nothing was sent."}, "any key: back to the list"
	}
	var lines, left []string
	at, end := 0, 0
	lines = append(lines, paintAll(m.out.Dim, wrap("Exactly these calls run.", w))...)
	for i, d := range s.drafts {
		if i == s.row && i > 0 {
			at = len(lines)
		}
		lines = append(lines, s.entry(m, d, i == s.row, w)...)
		if i == s.row {
			end = len(lines)
		}
	}
	if s.others > 0 {
		left = append(left, fmt.Sprintf("%d not included: you cannot respond, or have responded.", s.others))
	}
	if s.hidden > 0 {
		left = append(left, fmt.Sprintf("%d selected but not included: the filter hides it.", s.hidden))
	}
	for _, text := range left {
		lines = append(lines, paintAll(m.out.Dim, wrap(text, w))...)
	}
	s.follow(at, end, len(lines), h)
	n := len(s.taken(m, toolcall.ResponseApprove))
	body = s.scroll.view(m, nil, lines, h)
	keys = fmt.Sprintf("y approve %d  r reject %d  space exclude  enter review  esc cancel", n, len(s.taken(m, toolcall.ResponseReject)))
	switch {
	case n == 0:
		keys = "r reject  space include  enter review  esc cancel"
	case !s.scroll.end:
		keys = "G to the end, then y  r reject  space exclude  enter review  esc cancel"
	}
	return "Approve " + asked.Count(n, "request") + "?", body, keys
}

// follow keeps the selected entry, the lines from at to end, in view.
func (s *bulkScreen) follow(at, end, n, h int) {
	page := h
	if n > h {
		page = h - 1
	}
	s.scroll.top = min(max(s.scroll.top, end-page), at)
	if s.row == len(s.drafts)-1 {
		s.scroll.top = max(s.scroll.top, n-page)
	}
}

// entry renders one request: what would run, for whom, and why it is not included. The
// summary is never truncated.
func (s *bulkScreen) entry(m *model, d *draftResponse, at bool, w int) []string {
	mark := "[x] "
	bad := d.obstacle(m)
	if s.off[d.call.Key] || bad != "" || s.needsReview(m, d) {
		mark = "[ ] "
	}
	cursor := "  "
	if at {
		cursor = "> "
	}
	var out []string
	for i, piece := range wrap(reveal.Line(asked.Title(d.call)), max(12, w-6)) {
		head := cursor + mark
		if i > 0 {
			head = "      "
		}
		if at {
			piece = m.out.Bold(piece)
		}
		out = append(out, head+piece)
	}
	parts := []string{reveal.Line(d.call.Tool), reveal.MarkedName(agentOf(d.call)), "session " + reveal.MarkedName(string(d.call.Session))}
	if r := riskText(d.call); r != "" {
		parts = append(parts, r)
	}
	if ends := d.call.Request.Requirement.Ends(); !ends.IsZero() {
		parts = append(parts, asked.Until(ends, m.now)+" left")
	}
	for _, line := range wrapParts(parts, max(12, w-6)) {
		out = append(out, "      "+m.out.Dim(line))
	}
	if args, fit := s.arguments(m, d); fit {
		out = append(out, indent(args, 6)...)
	} else if s.needsReview(m, d) {
		out = append(out, paintAll(m.out.Ask, indent(wrap("The line leaves out arguments: to approve it here, press enter and read to the end.", max(12, w-6)), 6))...)
	}
	if bad != "" {
		out = append(out, paintAll(m.out.Bad, indent(wrap("Not included: "+bad, max(12, w-6)), 6))...)
	}
	return out
}

func (s *bulkScreen) viewResults(m *model, w, h int) (title string, body []string, keys string) {
	title = fmt.Sprintf("Responses: %d accepted, %d not accepted", s.done[true], s.done[false]-s.unsure)
	if s.unsure > 0 {
		title += fmt.Sprintf(", %d unknown", s.unsure)
	}
	if s.sending {
		title = fmt.Sprintf("Sending, %d to go", len(s.queue)+1)
	}
	var lines []string
	for _, r := range s.results {
		lines = append(lines, wrap(r, w)...)
	}
	keys = "any key: back to the list"
	if s.sending {
		keys = "esc stop after this one"
	}
	return title, s.scroll.view(m, nil, lines, h), keys
}
