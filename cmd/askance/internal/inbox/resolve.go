package inbox

import (
	"cmp"
	"context"
	"strings"

	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/toolcall"
)

// Resolve resolves a call in the role of an operator.
type Resolve func(ctx context.Context, r toolcall.ResolveRequest) (*toolcall.Call, error)

// resolveScreen states the outcome of a blocked call: first the outcome, then what goes
// with it, then a confirmation.
type resolveScreen struct {
	call *toolcall.Call
	row  int         // of asked.Outcomes
	at   resolveStep // what is asked for
	in   [resolveSure]textinput.Model
}

type resolveStep int

const (
	resolveOutcome resolveStep = iota
	resolveOutput
	resolveNote
	resolveSure
)

func canResolve(c *toolcall.Call) bool {
	return c.CanResolve() && c.Blocked != toolcall.BlockedClock
}

// resolve opens the screen that resolves a call.
func (m *model) resolve(q *request) {
	if m.cfg.Resolve != nil && canResolve(q.call) {
		m.push(newResolve(q.call))
	}
}

func newResolve(c *toolcall.Call) *resolveScreen {
	s := &resolveScreen{call: c}
	s.in[resolveOutput] = newInput("> ", toolcall.MaxOutputBytes/4)
	s.in[resolveNote] = newInput("> ", toolcall.MaxTextBytes/4)
	return s
}

func (s *resolveScreen) writes() {}

func (s *resolveScreen) holds(k toolcall.Key) bool { return k == s.call.Key }

func (s *resolveScreen) outcome() toolcall.Outcome { return asked.Outcomes(s.call)[s.row].Outcome }

// obstacle says why the call cannot be resolved from here; "" if it can.
func (s *resolveScreen) obstacle(m *model) string {
	q := m.qs.get(s.call.Key)
	if q == nil || !canResolve(q.call) || q.call.Attempt.Number != s.call.Attempt.Number {
		return "This call has ended or has another attempt. Nothing was sent: go back and open it again."
	}
	return ""
}

func (s *resolveScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	key := k.String()
	switch {
	case k.Type == tea.KeyEsc:
		m.pop()
	case s.obstacle(m) != "":
	case s.at == resolveSure && key == "y" && !k.Paste:
		m.pop()
		return s.send(m)
	case s.at == resolveSure:
	case k.Type == tea.KeyEnter:
		if s.at++; s.at == resolveOutput && s.outcome() != toolcall.OutcomeHappened {
			s.at++
		}
	case s.at == resolveOutcome:
		if d, ok := moves(key, 1); ok && !k.Paste {
			s.row = max(0, min(len(asked.Outcomes(s.call))-1, s.row+d))
		}
	default:
		return update(&s.in[s.at], k)
	}
	return nil
}

func (s *resolveScreen) request() toolcall.ResolveRequest {
	r := toolcall.ResolveRequest{V: 1, Key: s.call.Key, Attempt: s.call.Attempt.Number, Outcome: s.outcome(), Note: strings.TrimSpace(s.in[resolveNote].Value())}
	if r.Outcome == toolcall.OutcomeHappened {
		r.Output = s.in[resolveOutput].Value()
	}
	return r
}

func (s *resolveScreen) send(m *model) tea.Cmd {
	r, resolve := s.request(), m.cfg.Resolve
	m.sending[r.Key] = true
	m.say(m.out.Dim, "Resolving %s", r.Call)
	return m.inBackground(sendWithin, func(ctx context.Context, _ Engine) replyMsg {
		c, err := resolve(ctx, r)
		return func(m *model) tea.Cmd { s.take(m, c, err); return nil }
	})
}

// take shows the reply.
func (s *resolveScreen) take(m *model, c *toolcall.Call, err error) {
	key := s.call.Key
	delete(m.sending, key)
	if c != nil {
		m.qs.take(c, "", m.now)
	}
	m.feed.look(key)
	switch {
	case asked.IsUnsure(err):
		m.say(m.out.Bad, "Outcome unknown, review %s again: %s", key.Call, asked.Refusal(err))
	case err != nil:
		m.say(m.out.Bad, "Not resolved: %s", asked.Refusal(err))
	default:
		m.say(m.out.Good, "%s", asked.Resolved(c))
	}
}

func (s *resolveScreen) view(m *model, w, h int) (title string, body []string, keys string) {
	title = "Resolve: " + reveal.Line(s.call.Tool) + "  " + reveal.MarkedName(string(s.call.Call))
	if bad := s.obstacle(m); bad != "" {
		return title, paintAll(m.out.Bad, wrap(bad, w)), "esc back"
	}
	body = paintAll(m.out.Bold, wrap(reveal.Line(summaryOf(s.call)), w))
	if len(body) > headLines {
		body = append(body[:headLines-1], fit(body[headLines-1]+" …", w))
	}
	if s.at == resolveSure {
		return title + "?", append(body, s.lines(m, w)...), "y resolve  esc cancel"
	}
	if h > minHeight {
		body = append(body, paintAll(m.out.Dim, wrap(phaseText(s.call, m.now)[0], w))...)
	}
	body = append(body, "")
	keys = "enter continue  esc cancel"
	switch s.at {
	case resolveOutcome:
		keys = "up down choose  enter continue  esc cancel"
		for i, o := range asked.Outcomes(s.call) {
			text := "  " + o.Text
			if i == s.row {
				text = m.out.Selected("> " + o.Text)
			}
			body = append(body, wrap(text, w)...)
		}
	default:
		label := "Note for the journal (optional)"
		if s.at == resolveOutput {
			label = "Result"
		}
		s.in[s.at].Width = max(1, w-4)
		body = append(body, m.out.Dim(label), s.in[s.at].View())
	}
	return title, body, keys
}

func (s *resolveScreen) lines(m *model, w int) []string {
	f := records{width: w, dim: m.out.Dim}
	f.add("outcome", m.out.Ask(asked.Outcomes(s.call)[s.row].Text))
	r := s.request()
	if r.Outcome == toolcall.OutcomeHappened {
		f.add("result", cmp.Or(reveal.Line(r.Output), "(empty)"))
	}
	f.add("note", linesOf(r.Note)...)
	return f.lines
}
