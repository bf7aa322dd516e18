package inbox

import (
	"context"
	"fmt"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// editPreview is what the policy would decide about an edited call.
type editPreview struct {
	known bool // the engine has answered
	call  api.PreviewedCall
	err   error
}

// askPreview asks what the policy would decide about the edited call.
func (d *draftResponse) askPreview(m *model) tea.Cmd {
	ask := m.cfg.Preview
	if ask == nil || d.response.Input == nil {
		return nil
	}
	d.preview = &editPreview{}
	r := api.PreviewRequest{Edit: &api.PreviewEdit{Call: d.call.Call, Digest: d.call.Digest, Input: *d.response.Input}}
	r.V, r.Session, r.Reply = 1, d.call.Session, d.call.Reply
	return m.inBackground(askWithin, func(ctx context.Context, _ Engine) replyMsg {
		reply, err := ask(ctx, r)
		p := &editPreview{known: true, err: err}
		if err == nil && len(reply.Calls) == 1 {
			p.call = reply.Calls[0]
		} else if err == nil {
			p.err = fmt.Errorf("the engine decided about %s", asked.Count(len(reply.Calls), "call"))
		}
		return func(m *model) tea.Cmd { d.takePreview(m, p); return nil }
	})
}

// takePreview stores the answer.
func (d *draftResponse) takePreview(m *model, p *editPreview) {
	d.preview = p
	if s, ok := m.top().(*confirmScreen); ok && s.draft == d {
		s.lines = nil
	}
}

// refused says why the edit must not be sent; "" if it may be.
func (p *editPreview) refused() string {
	if p == nil || !p.known || p.err != nil || p.call.Edit != api.EditRefused {
		return ""
	}
	return "The policy refuses this edit: " + reveal.Line(p.reason()) + ". The request stays open: edit it again."
}

func (p *editPreview) reason() string {
	if p.call.Refused != "" {
		return p.call.Refused
	}
	if d := p.call.Decision; d != nil {
		return strings.TrimSuffix(d.Reason, ".")
	}
	return "it gives no reason"
}

// lines say what the policy would decide about the edited call.
func (p *editPreview) lines(m *model) []string {
	switch {
	case p == nil:
		return nil
	case !p.known:
		return []string{m.out.Dim("asking the engine about the edited call")}
	case p.err != nil:
		return []string{m.out.Dim("no preview: " + reveal.Line(asked.Refusal(p.err)))}
	}
	out := []string{m.out.Bad("refuses the edited call: " + reveal.Line(p.reason()))}
	switch p.call.Edit {
	case api.EditRuns:
		out = []string{m.out.Good("permits the edited call: it runs after your approval")}
	case api.EditAsks:
		out = []string{m.out.Ask("asks again about the edited call: " + reveal.Line(p.reason()))}
		if n := p.call.Needs; n != nil {
			out = append(out, needsText(n)...)
		}
	case api.EditRefused:
	}
	if p.call.Summary != "" {
		out = append(out, reveal.Line(p.call.Summary))
	}
	for _, risk := range p.call.Risk {
		out = append(out, m.out.Bad("risk: "+reveal.Line(risk)))
	}
	return out
}

// needsText says who would have to approve.
func needsText(t *toolcall.Tally) []string {
	out := make([]string, 0, len(t.Parts))
	for _, p := range t.Parts {
		out = append(out, fmt.Sprintf("%d of %d from %s", t.Quorum-p.Missing, t.Quorum, asked.People(p.Users, p.Groups)))
	}
	return out
}
