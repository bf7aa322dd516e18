package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/message"
)

// answerWithin bounds the sending of one answer.
const answerWithin = 20 * time.Second

// sentMsg is what became of an answer.
type sentMsg struct {
	draft *draftAnswer
	call  *message.Call
	err   error
	walk  *walkScreen // that it belongs to, or nil
}

// send sends one answer.
func (m *model) send(d *draftAnswer) tea.Cmd {
	m.sending++
	m.say(m.out.Dim, "Sending: %s %s", d.verb(), d.call.Call)
	return m.post(d, nil)
}

// post sends an answer in the background.
func (m *model) post(d *draftAnswer, walk *walkScreen) tea.Cmd {
	parent, engine := m.ctx, m.cfg.Engine
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(parent, answerWithin)
		defer cancel()
		call, err := engine.Answer(ctx, d.answer)
		return sentMsg{d, call, err, walk}
	}
}

// sent takes in what the engine said.
func (m *model) sent(s sentMsg) tea.Cmd {
	m.sending = max(0, m.sending-1)
	call := s.call
	if me, ok := errors.AsType[*message.Error](s.err); ok && call == nil {
		call = me.Call
	}
	if call != nil {
		m.qs.take(call, "", m.now)
	}
	m.feed.look(s.draft.call.Key) // the truth, whatever was said
	if s.walk != nil {
		return s.walk.sent(m, s)
	}
	if s.err != nil {
		m.say(m.out.Bad, "Not accepted: %s", refusal(s.err))
		return nil
	}
	if call == nil {
		return nil // the look will tell
	}
	m.say(m.out.Good, "%s: %s", call.Call, outcome(s.draft, call))
	if d, ok := m.top().(*detailScreen); ok && d.question == call.Key && call.State != message.ToolCallAsking {
		m.pop()
		m.list.onward(m)
	}
	return nil
}

// refusal is an error in the engine's words, without the operation.
func refusal(err error) string {
	me, ok := errors.AsType[*message.Error](err)
	if !ok {
		return err.Error()
	}
	if me.Call != nil && me.Call.State != message.ToolCallAsking {
		return "too late, it was " + verdict(me.Call, "")
	}
	text := me.What
	if me.Hint != "" {
		text += " (" + me.Hint + ")"
	}
	return text
}

// outcome says where an answered call stands.
func outcome(d *draftAnswer, c *message.Call) string {
	if c == nil {
		return "sent"
	}
	v, ok := lastVote(c)
	text := d.verb()
	if ok {
		text = said(v)
	}
	switch {
	case c.State != message.ToolCallAsking:
		if c.Result != nil && c.Result.State != message.ToolResultSuccess && v.Kind == message.AnswerApprove {
			return fmt.Sprintf("%s, but %s (%s)", text, c.Result.State, c.Cause)
		}
		return fmt.Sprintf("%s, the call is %s", text, c.State)
	case c.Digest != d.answer.Digest:
		return "edited: it asks again, because " + c.Question.Reason
	}
	missing := 0
	for _, p := range c.Tally().Parts {
		missing += p.Missing
	}
	return fmt.Sprintf("%s, %s needed", text, plural(missing, "more approval"))
}
