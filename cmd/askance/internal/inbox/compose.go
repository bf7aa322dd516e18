package inbox

import (
	"strings"

	"github.com/charmbracelet/bubbles/textarea"
	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
)

// composeScreen asks for what goes with an answer: feedback, a result, a name
// or a note. The same words go with every draft.
type composeScreen struct {
	drafts []*draftAnswer
	walk   *walkScreen // that it belongs to, or nil
	fields []field
	at     int
	area   *textarea.Model // instead of fields, for a result
}

// field is a line to fill in.
type field struct {
	label string
	must  bool
	set   func(*message.Answer, string)
	in    textinput.Model
}

func newCompose(drafts []*draftAnswer) *composeScreen {
	s := &composeScreen{drafts: drafts}
	note := field{label: "A note for whoever looks next (may be empty)", set: func(a *message.Answer, t string) { a.Note = t }}
	switch drafts[0].answer.Kind {
	case message.AnswerForTool:
		a := newArea(message.MaxOutputBytes / 4)
		s.area = &a
		return s
	case message.AnswerHandOver:
		s.fields = []field{{label: "Who should answer", must: true, set: func(a *message.Answer, t string) { a.To = t }}, note}
	case message.AnswerAbstain:
		s.fields = []field{note}
	default:
		s.fields = []field{{label: "What the model is told (may be empty)", set: func(a *message.Answer, t string) { a.Feedback = t }}}
	}
	for i := range s.fields {
		s.fields[i].in = newInput("> ", message.MaxTextBytes/4)
		s.fields[i].in.Blur()
	}
	s.fields[0].in.Focus()
	return s
}

func (s *composeScreen) writes() {}

func (s *composeScreen) holds(k message.Key) bool {
	for _, d := range s.drafts {
		if d.call.Key == k {
			return true
		}
	}
	return false
}

// stale says why a single draft cannot be sent any more.
func (s *composeScreen) stale(m *model) string {
	if s.walk != nil {
		return "" // each is looked at when it is sent
	}
	return s.drafts[0].stale(m)
}

func (s *composeScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	switch {
	case k.Type == tea.KeyEsc:
		m.pop()
		return nil
	case s.stale(m) != "":
		return nil
	case s.area != nil && k.Type == tea.KeyCtrlS:
		for _, d := range s.drafts {
			d.answer.Output = s.area.Value()
		}
		return s.done(m)
	case s.area != nil:
		return updateArea(s.area, k)
	case k.Type == tea.KeyEnter:
		return s.next(m)
	}
	return update(&s.fields[s.at].in, k)
}

// next goes to the next field, or on.
func (s *composeScreen) next(m *model) tea.Cmd {
	f := &s.fields[s.at]
	text := strings.TrimSpace(f.in.Value())
	if text == "" && f.must {
		m.say(m.out.Bad, "%s: this cannot be empty.", f.label)
		return nil
	}
	for _, d := range s.drafts {
		f.set(&d.answer, text)
	}
	if s.at++; s.at < len(s.fields) {
		f.in.Blur()
		return s.fields[s.at].in.Focus()
	}
	return s.done(m)
}

func (s *composeScreen) done(m *model) tea.Cmd {
	m.pop()
	if s.walk != nil {
		return s.walk.sendAll(m, s.drafts)
	}
	m.push(newConfirm(s.drafts[0]))
	return nil
}

func (s *composeScreen) view(m *model, w, h int) (title string, body []string, keys string) {
	d := s.drafts[0]
	title = asked.Verb(d.answer) + ": " + reveal.Line(d.call.Tool) + "  " + reveal.Line(string(d.call.Call))
	if s.walk != nil {
		title = asked.Verb(d.answer) + ": " + asked.Count(len(s.drafts), "question")
	}
	if bad := s.stale(m); bad != "" {
		return title, []string{m.out.Bad(bad)}, "esc back"
	}
	if s.area != nil {
		s.area.SetWidth(w)
		s.area.SetHeight(max(1, h-1))
		body = append(body, m.out.Dim("The result, as the model will see it. Nothing runs."))
		return title, append(body, strings.Split(s.area.View(), "\n")...), "ctrl+s go on  esc back"
	}
	for i := range s.fields {
		f := &s.fields[i]
		f.in.Width = max(1, w-4)
		body = append(body, m.out.Dim(f.label), f.in.View(), "")
	}
	return title, body, "enter go on  esc back"
}
