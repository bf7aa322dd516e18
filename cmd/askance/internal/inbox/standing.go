package inbox

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/toolcall"
)

// standingApprovalScreen is one standing approval in full.
type standingApprovalScreen struct {
	standing *toolcall.StandingApproval
	uses     []toolcall.StandingUse
	scroll   scroll
	asked    time.Time
}

// standingApprovalMsg has one standing approval as the engine knows it.
type standingApprovalMsg struct {
	reply toolcall.ShowStandingApprovalReply
	err   error
}

func newStandingApproval(l *toolcall.StandingApproval) *standingApprovalScreen {
	return &standingApprovalScreen{standing: l}
}

func (s *standingApprovalScreen) holds(toolcall.Key) bool { return false }

func (s *standingApprovalScreen) tick(m *model) tea.Cmd {
	if m.now.Sub(s.asked) < every {
		return nil
	}
	return s.ask(m)
}

func (s *standingApprovalScreen) ask(m *model) tea.Cmd {
	s.asked = m.now
	parent, engine, id := m.ctx, m.cfg.Engine, s.standing.ID
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(parent, askWithin)
		defer cancel()
		r, err := engine.ShowStandingApproval(ctx, toolcall.ShowStandingApprovalRequest{V: 1, ID: id})
		return standingApprovalMsg{r, err}
	}
}

// take takes in what the engine said. What is shown stays if it says nothing.
func (s *standingApprovalScreen) take(r standingApprovalMsg) {
	if r.err == nil && r.reply.Standing != nil && r.reply.Standing.ID == s.standing.ID {
		s.standing, s.uses = r.reply.Standing, r.reply.Uses
	}
}

func (s *standingApprovalScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	switch key := k.String(); key {
	case "esc", "q", "left":
		m.pop()
	case "d":
		if s.standing.Revoked == nil {
			m.push(newTakeBack(s.standing))
		}
	default:
		s.scroll.key(key)
	}
	return nil
}

func (s *standingApprovalScreen) view(m *model, w, h int) (title string, body []string, keys string) {
	lines := standingApprovalLines(m, s.standing, w)
	f := records{width: w, dim: m.out.Dim}
	for _, u := range slices.Backward(s.uses) { // the latest first
		text := callPath(u.Call) + ", " + asked.Span(m.now.Sub(u.At)) + " ago"
		if u.Amount != "" {
			text += ", " + reveal.Line(u.Amount)
		}
		f.add("used", text)
	}
	lines = append(lines, f.lines...)
	keys = "d revoke  space more  ? help  esc back"
	if s.standing.Revoked != nil {
		keys = "space more  ? help  esc back"
	}
	return "Standing approval " + reveal.Line(string(s.standing.ID)), s.scroll.view(m, nil, lines, w, h), keys
}

// standingApprovalLines are all that there is to know about a standing approval, but for its
// uses.
func standingApprovalLines(m *model, l *toolcall.StandingApproval, w int) []string {
	f := records{width: w, dim: m.out.Dim}
	f.add("state", string(l.State(m.now)))
	if e := l.Revoked; e != nil {
		text := "by " + reveal.Line(asked.Who(e.By)) + ", " + asked.Span(m.now.Sub(e.At)) + " ago"
		if e.Reason != "" {
			text += ": " + reveal.Line(e.Reason)
		}
		f.add("revoked", text)
	}
	for _, r := range l.Terms.Rules {
		f.add("allows", asked.RuleText(r))
	}
	for _, r := range l.Within {
		f.add("within", asked.RuleText(r))
	}
	f.add("limits", reveal.Line(l.Text())+": "+asked.Scope(l.Terms.Scope))
	end := "until it is revoked"
	if at := l.Terms.Until; !at.IsZero() {
		end = asked.Until(at, m.now) + ", until " + at.Local().Format(time.DateTime)
	}
	f.add("time", end)
	f.add("reason", reveal.Line(l.Reason))
	var same []string
	for path, value := range l.Same {
		same = append(same, reveal.Line(path)+" = "+reveal.Line(value))
	}
	slices.Sort(same)
	f.add("same", same...)
	for _, v := range l.GrantedBy {
		f.add("granted", reveal.Line(asked.Who(v.By))+", "+asked.Span(m.now.Sub(v.At))+" ago")
	}
	of := "runtime " + reveal.Line(l.User)
	if l.Agent != "" {
		of += ", agent " + reveal.Line(l.Agent)
	}
	f.add("for", of)
	f.add("from", callPath(l.From))
	return f.lines
}

func callPath(k toolcall.Key) string {
	return reveal.Line(string(k.Session) + "/" + string(k.Reply) + "/" + string(k.Call))
}

// takeBackScreen takes a standing approval back: first why, then a last look.
type takeBackScreen struct {
	standing *toolcall.StandingApproval
	reason   textinput.Model
	sure     bool // the reason is written
}

func newTakeBack(l *toolcall.StandingApproval) *takeBackScreen {
	return &takeBackScreen{standing: l, reason: newInput("> ", toolcall.MaxTextBytes/4)}
}

// takenBackMsg is what became of it.
type takenBackMsg struct {
	id       toolcall.StandingID
	standing *toolcall.StandingApproval
	err      error
}

func (s *takeBackScreen) writes() {}

func (s *takeBackScreen) holds(toolcall.Key) bool { return false }

func (s *takeBackScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	switch {
	case k.Type == tea.KeyEsc:
		m.pop()
	case !s.sure && k.Type == tea.KeyEnter:
		s.sure = true
		s.reason.Blur()
	case !s.sure:
		return update(&s.reason, k)
	case k.String() == "y" && !k.Paste:
		m.pop()
		m.say(m.out.Dim, "Revoking %s", s.standing.ID)
		return s.send(m)
	}
	return nil
}

func (s *takeBackScreen) send(m *model) tea.Cmd {
	parent, engine := m.ctx, m.cfg.Engine
	r := toolcall.RevokeStandingApprovalRequest{V: 1, ID: s.standing.ID, Reason: strings.TrimSpace(s.reason.Value())}
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(parent, answerWithin)
		defer cancel()
		l, err := engine.RevokeStandingApproval(ctx, r)
		return takenBackMsg{r.ID, l, err}
	}
}

// takenBack says what became of it, and asks for the truth.
func (m *model) takenBack(r takenBackMsg) tea.Cmd {
	if r.err != nil {
		m.say(m.out.Bad, "Not revoked: %s", asked.Refusal(r.err))
	} else {
		m.say(m.out.Good, "%s is %s: it allows nothing more", r.id, r.standing.State(m.now))
	}
	switch s := m.top().(type) {
	case *standingApprovalScreen:
		return s.ask(m)
	case *standingApprovalsScreen:
		return s.ask(m)
	}
	return nil
}

func (s *takeBackScreen) view(m *model, w, _ int) (title string, body []string, keys string) {
	s.reason.Width = max(1, w-4)
	body = append(body, m.out.Dim("Reason, for the journal (optional)"), s.reason.View(), "")
	keys = "enter continue  esc back"
	if s.sure {
		keys = "y revoke it now  esc back"
	}
	return "Revoke " + reveal.Line(string(s.standing.ID)) + "?", append(body, standingApprovalLines(m, s.standing, w)...), keys
}
