package inbox

import (
	"context"
	"fmt"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/cmd/askance/internal/argtree"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// draftResponse is a response that was not sent yet, to the approval request as it was shown.
type draftResponse struct {
	call     *toolcall.Call
	response toolcall.Response
	preview  *editPreview // of an edit; nil if none was requested
}

func newDraft(c *toolcall.Call, kind toolcall.ResponseKind) *draftResponse {
	return &draftResponse{call: c, response: toolcall.Response{V: 1, Key: c.Key, Digest: c.Digest, Kind: kind}}
}

// stale says why the response must no longer be sent; "" if it can be.
func (d *draftResponse) stale(m *model) string {
	q := m.qs.get(d.call.Key)
	switch {
	case q == nil:
		return "The request no longer exists. Nothing was sent."
	case !q.open():
		return "Decided meanwhile: " + oneLine(q.over) + ". Nothing was sent."
	case q.call.Digest != d.response.Digest:
		return "This request changed after you opened it. Nothing was sent."
	}
	return ""
}

// confirmScreen shows what would run and what a response does, before it is sent. The
// signed request itself is one key away.
type confirmScreen struct {
	draft  *draftResponse
	signed bool // the signed request is also shown
	scroll
	width int
	lines []string // for width
}

func newConfirm(d *draftResponse) *confirmScreen { return &confirmScreen{draft: d} }

func (s *confirmScreen) holds(k toolcall.Key) bool { return k == s.draft.call.Key }

// ready reports whether the person has seen all that they agree to.
func (s *confirmScreen) ready() bool {
	return s.scroll.end || s.draft.response.Kind != toolcall.ResponseApprove
}

func (s *confirmScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	switch key := k.String(); {
	case key == "esc", key == "q", key == "n":
		m.pop()
	case key == "x":
		s.signed, s.lines = !s.signed, nil
	case s.draft.obstacle(m) != "":
	case key == "y" && s.ready():
		m.pop()
		if _, written := m.top().(*composeScreen); written {
			m.pop()
		}
		return m.send(s.draft)
	case key == "Y" && s.ready():
		return s.sendAndOpenNext(m)
	default:
		s.scroll.key(key)
	}
	return nil
}

// sendAndOpenNext sends the response and opens the next request on the list.
func (s *confirmScreen) sendAndOpenNext(m *model) tea.Cmd {
	m.stack = nil
	send := m.send(s.draft)
	next := m.list.next(m, s.draft.call.Key)
	if next == nil {
		return send
	}
	m.list.at, m.list.touched = next.call.Key, true
	m.stack = append(m.stack, newDetail(next)) // the status stays
	return send
}

func (s *confirmScreen) view(m *model, w, h int) (title string, body []string, keys string) {
	d := s.draft
	title = asked.Verb(d.response) + ": " + reveal.Line(d.call.Tool) + "  " + reveal.MarkedName(string(d.call.Call)) + "?"
	if s.lines == nil || s.width != w {
		s.width, s.lines = w, d.lines(m, w, s.signed)
	}
	keys = "y " + strings.ToLower(asked.Verb(d.response)) + "  Y and open the next  x signed request  esc back"
	var head []string
	if bad := d.obstacle(m); bad != "" {
		head, keys = paintAll(m.out.Bad, wrap(bad, w)), "esc back"
	}
	body = s.scroll.view(m, head, s.lines, h)
	if len(head) == 0 && !s.ready() {
		keys = "space more, then y  x signed request  esc back"
	}
	return title, body, keys
}

func (d *draftResponse) lines(m *model, w int, signed bool) []string {
	f := records{width: w, dim: m.out.Dim}
	c, resp := d.call, d.response
	f.lines = append(f.lines, paintAll(m.out.Bold, wrap(reveal.Line(asked.Title(c)), w))...)
	f.add("risk", paintAll(m.out.Bad, linesOf(riskText(c)))...)
	if resp.Input != nil {
		f.add("policy", d.preview.lines(m)...)
		f.lines = append(f.lines, m.out.Ask("These arguments run instead, if the policy permits them:"))
		f.lines = append(f.lines, d.diff(m, w)...)
	}
	if resp.Kind == toolcall.ResponseApprove && resp.Input == nil {
		f.lines = append(f.lines, m.out.Ask("These arguments run:"))
		f.lines = append(f.lines, indentLines(argtree.Render(c.Input, w-2, m.out.Name))...)
	}
	f.add("feedback", linesOf(resp.Feedback)...)
	f.add("result", linesOf(resp.Output)...)
	f.add("to", linesOf(resp.To)...)
	f.add("note", linesOf(resp.Note)...)
	for _, r := range resp.Rules {
		f.add("remember", asked.RuleText(r))
	}
	if resp.Remember != nil {
		f.add("remember", termsText(resp.Remember, m.now)...)
	}
	f.add("signed", d.signature(m)...)
	f.add("from", asked.Origin(c), "session "+reveal.MarkedName(string(c.Session)))
	f.add("why", asked.Why(c)...)
	f.add("needs", asked.Needs(c)...)
	f.add("digest", resp.Digest)
	if signed {
		f.lines = append(f.lines, m.out.Ask("The signed request, which the digest covers:"))
		f.lines = append(f.lines, indentLines(bound(m, c.Request, w-2))...)
	}
	return f.lines
}

func linesOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(reveal.Text(text), "\n")
}

// bound renders every member of an approval request, from which the digest is computed.
func bound(m *model, req *toolcall.ApprovalRequest, w int) []string {
	b, err := strictjson.Marshal(req)
	if err != nil {
		return argtree.Raw(err.Error(), w)
	}
	return argtree.Render(string(b), w, m.out.Name)
}

func (d *draftResponse) diff(m *model, w int) []string {
	var out []string
	for _, l := range asked.Changes(d.call.Input, *d.response.Input) {
		paint := m.out.Dim
		switch l[0] {
		case '-':
			paint = m.out.Bad
		case '+':
			paint = m.out.Good
		}
		for i, piece := range argtree.Cut(l[2:], w-4) {
			mark := l[:2]
			if i > 0 {
				mark = "┊ " // a space would be a line that stays
			}
			out = append(out, paint("  "+mark+piece))
		}
	}
	return out
}

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
		return func(m *model) tea.Cmd {
			d.preview = p
			if s, ok := m.top().(*confirmScreen); ok && s.draft == d {
				s.lines = nil
			}
			return nil
		}
	})
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
			for _, p := range n.Parts {
				out = append(out, fmt.Sprintf("%d of %d from %s", p.Quorum-p.Missing, p.Quorum, asked.People(p.Users, p.Groups)))
			}
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
