package inbox

import (
	"fmt"
	"slices"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/toolcall"
)

// walkScreen responds to several approval requests with the same words, after each of them
// was shown: first one after the other, then the choice, then what became of
// each.
type walkScreen struct {
	keys   []toolcall.Key
	at     int              // len(keys): all were shown
	taken  []*draftResponse // reviewed and included
	left   int              // seen, and left out
	draft  *draftResponse   // that is shown
	scroll scroll
	lines  []string
	width  int

	approve bool             // chosen, and to be confirmed
	queue   []*draftResponse // to be sent
	results []string
}

func newWalk(all []*request) *walkScreen {
	s := &walkScreen{}
	for _, q := range all {
		s.keys = append(s.keys, q.call.Key)
	}
	return s
}

func (s *walkScreen) holds(k toolcall.Key) bool {
	return slices.Contains(s.keys, k)
}

// show makes the draft of the approval request whose turn it is. Approval requests that were
// resolved meanwhile, or have other approvers, have none.
func (s *walkScreen) show(m *model) {
	for s.draft == nil && s.at < len(s.keys) {
		q := m.qs.get(s.keys[s.at])
		if q == nil || !q.open() || asked.MayRespond(q.call, m.cfg.Who) == asked.No {
			s.at++
			s.left++
			continue
		}
		s.draft = newDraft(q.call, toolcall.ResponseApprove)
		s.scroll, s.lines = scroll{}, nil
	}
}

func (s *walkScreen) next(take bool) {
	if take {
		s.taken = append(s.taken, s.draft)
	} else {
		s.left++
	}
	s.draft = nil
	s.at++
}

func (s *walkScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	s.show(m)
	key := k.String()
	switch {
	case key == "esc" || key == "q":
		m.pop()
	case s.draft != nil:
		s.keyShown(m, key)
	case len(s.results) > 0 || len(s.taken) == 0:
		m.pop()
	case key == "a":
		s.approve = true
	case key == "y" && s.approve:
		return s.sendAll(m, s.taken)
	case key == "r":
		for _, d := range s.taken {
			d.response.Kind = toolcall.ResponseReject
		}
		c := newCompose(s.taken)
		c.walk = s
		m.push(c)
	}
	return nil
}

func (s *walkScreen) keyShown(m *model, key string) {
	bad := s.draft.obstacle(m) != ""
	switch {
	case key == "n" || key == "enter" && bad:
		s.next(false)
	case key == "y" && s.scroll.end && !bad:
		s.next(true)
	default:
		s.scroll.key(key)
	}
}

func (s *walkScreen) sendAll(m *model, drafts []*draftResponse) tea.Cmd {
	s.queue, s.results = drafts, []string{}
	return s.sendNext(m)
}

func (s *walkScreen) sendNext(m *model) tea.Cmd {
	for len(s.queue) > 0 {
		d := s.queue[0]
		s.queue = s.queue[1:]
		if bad := d.stale(m); bad != "" {
			s.results = append(s.results, m.out.Bad(line(d)+bad))
			continue
		}
		m.sending++
		return m.post(d, s)
	}
	return nil
}

// sent takes in what became of one, and sends the next.
func (s *walkScreen) sent(m *model, r sentMsg) tea.Cmd {
	if r.err != nil {
		s.results = append(s.results, m.out.Bad(line(r.draft)+"not accepted: "+reveal.Line(asked.Refusal(r.err))))
	} else {
		s.results = append(s.results, m.out.Good(line(r.draft)+reveal.Line(asked.Outcome(r.draft.response, r.call))))
	}
	return s.sendNext(m)
}

func line(d *draftResponse) string { return cell(reveal.Line(string(d.call.Call)), 16) + " " }

func (s *walkScreen) view(m *model, w, h int) (title string, body []string, keys string) {
	s.show(m)
	switch {
	case s.draft != nil:
		return s.viewShown(m, w, h)
	case s.results != nil:
		title = "Responses"
		if n := len(s.queue) + m.sending; n > 0 {
			title = fmt.Sprintf("Sending, %d to go", n)
		}
		for _, r := range s.results {
			body = append(body, wrap(r, w)...)
		}
		return title, body, "any key: back to the list"
	case len(s.taken) == 0:
		return "Respond to similar requests", []string{"", "  No request was included. Nothing was sent."}, "any key: back to the list"
	}
	for _, d := range s.taken {
		body = append(body, "  "+line(d)+reveal.Line(d.call.Request.Text))
	}
	if s.left > 0 {
		body = append(body, "", m.out.Dim(fmt.Sprintf("  %d not included", s.left)))
	}
	if s.approve {
		return "Approve " + asked.Count(len(s.taken), "request") + "?", body, "y approve all  r reject all  esc cancel"
	}
	return "One response to " + asked.Count(len(s.taken), "request") + "; you reviewed each", body, "a approve all  r reject all  esc cancel"
}

func (s *walkScreen) viewShown(m *model, w, h int) (title string, body []string, keys string) {
	d := s.draft
	title = fmt.Sprintf("%d of %d: %s  %s", s.at+1, len(s.keys), reveal.Line(d.call.Tool), reveal.Line(string(d.call.Call)))
	if s.lines == nil || s.width != w {
		s.width, s.lines = w, d.lines(m, w)
	}
	head := []string{m.out.Ask(fit(reveal.Line(d.call.Request.Text), w))}
	keys = "y include  n exclude  esc cancel"
	if bad := d.obstacle(m); bad != "" {
		head, keys = paintAll(m.out.Bad, wrap(bad, w)), "n exclude  esc cancel"
	}
	body = s.scroll.view(m, head, s.lines, w, h)
	if !s.scroll.end {
		keys = "space more: y works after the last line  n exclude  esc cancel"
	}
	return title, body, keys
}
