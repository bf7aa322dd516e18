package inbox

import (
	"context"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/cmd/askance/internal/explain"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/toolcall"
)

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
