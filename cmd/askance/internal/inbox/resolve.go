package inbox

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
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
	return c.CanResolve() && c.BlockedReason == ""
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
	body = summaryLines(m, s.call, w)
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

const sendWithin = 20 * time.Second

func (m *model) send(d *draftResponse) tea.Cmd {
	m.say(m.out.Dim, "Sending: %s %s", asked.Verb(d.response), d.call.Call)
	return m.post(d, nil)
}

func (m *model) post(d *draftResponse, bulk *bulkScreen) tea.Cmd {
	m.sending[d.call.Key] = true
	var sign *Signer
	if d.isSigned(m) {
		sign = m.cfg.Signer
	}
	return m.inBackground(sendWithin, func(ctx context.Context, engine Engine) replyMsg {
		var call *toolcall.Call
		var err error
		resp := d.response
		if sign != nil {
			resp.Signature, err = sign.Sign(d.call, time.Now())
		}
		if err == nil {
			call, err = engine.SubmitResponse(ctx, resp)
		}
		return func(m *model) tea.Cmd { return m.sent(d, bulk, call, err) }
	})
}

// sent shows the reply to a response, which may belong to a bulk.
func (m *model) sent(d *draftResponse, bulk *bulkScreen, reply *toolcall.Call, err error) tea.Cmd {
	delete(m.sending, d.call.Key)
	call := reply
	if me, ok := errors.AsType[*message.Error](err); ok && call == nil {
		call = toolcall.CallOf(me)
	}
	if call != nil {
		m.qs.take(call, "", m.now)
	}
	m.feed.look(d.call.Key) // the reply can be older than the journal
	if bulk != nil {
		return bulk.sent(m, d, reply, err)
	}
	switch {
	case asked.IsUnsure(err):
		m.say(m.out.Bad, "Outcome unknown, review %s again: %s", d.call.Call, asked.Refusal(err))
		return nil
	case err != nil:
		m.say(m.out.Bad, "Not accepted: %s", asked.Refusal(err))
		return nil
	}
	delete(m.edits, d.call.Digest)
	if call == nil {
		return nil // the call is looked up
	}
	if call.State != message.ToolCallAsking { // the request no longer needs a response
		if open, ok := m.top().(*detailScreen); ok && open.request == call.Key {
			m.pop()
		}
		if m.list.at == call.Key {
			m.list.onward(m, call.Key)
		}
	}
	m.say(m.out.Good, "%s: %s", call.Call, asked.Outcome(d.response, call))
	return nil
}

// Signer signs approvals with the person's own key.
type Signer struct {
	KeyID string        // of the key, to be shown
	Lasts time.Duration // how long a signature is valid
	// Sign signs the approval of the request that was shown, and refuses one that does
	// not match its digest.
	Sign func(call *toolcall.Call, now time.Time) (*toolcall.ApproverSignature, error)
}

// isSigned reports whether a response has a signature: an approval of exactly
// what was asked. A signature covers no edit, and no rules to remember.
func (d *draftResponse) isSigned(m *model) bool {
	resp := d.response
	return m.cfg.Signer != nil && resp.Kind == toolcall.ResponseApprove && resp.Input == nil && len(resp.Rules) == 0 && resp.Remember == nil
}

// missingSignature says why an approval must not be sent: the request requires a signature,
// and there would be none; "" if it can be sent.
func (d *draftResponse) missingSignature(m *model) string {
	resp := d.response
	switch {
	case resp.Kind != toolcall.ResponseApprove || resp.Input != nil || !d.call.Request.Requirement.Signed || d.isSigned(m):
		return ""
	case m.cfg.Signer == nil:
		return "This request requires your signature: start the inbox with --sign-key FILE (askance keys approver creates a key)."
	}
	return "This request requires your signature, which cannot cover a standing approval: 0 removes it."
}

// obstacle says why a response must not be sent; "" if it can be.
func (d *draftResponse) obstacle(m *model) string {
	for _, bad := range []string{d.stale(m), asked.Forged(d.call, d.response.Digest), asked.Obstacle(d.call, m.cfg.Who, d.response), d.missingSignature(m), d.preview.refused()} {
		if bad != "" {
			return bad
		}
	}
	return ""
}

// signature says with which key an approval is signed.
func (d *draftResponse) signature(m *model) []string {
	if !d.isSigned(m) {
		return nil
	}
	s := m.cfg.Signer
	return []string{"with your key " + s.KeyID + ", for " + asked.Span(s.Lasts)}
}
