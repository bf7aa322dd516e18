package inbox

import (
	"context"
	"errors"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const sendWithin = 20 * time.Second

func (m *model) send(d *draftResponse) tea.Cmd {
	m.say(m.out.Dim, "Sending: %s %s", asked.Verb(d.response), d.call.Call)
	return m.post(d, nil)
}

// post sends a response in the background.
func (m *model) post(d *draftResponse, bulk *bulkScreen) tea.Cmd {
	m.sending[d.call.Key] = true
	var sign *Signer
	if d.isSigned(m) {
		sign = m.cfg.Signer
	}
	return m.inBackground(sendWithin, func(ctx context.Context, engine Engine) replyMsg {
		var call *toolcall.Call
		var err error
		a := d.response
		if sign != nil {
			a.Signature, err = sign.Sign(d.call, time.Now())
		}
		if err == nil {
			call, err = engine.SubmitResponse(ctx, a)
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
	if call.State != message.ToolCallAsking {
		m.goOn(call.Key)
	}
	m.say(m.out.Good, "%s: %s", call.Call, asked.Outcome(d.response, call))
	return nil
}

// goOn leaves the screen of a request that no longer needs a response.
func (m *model) goOn(k toolcall.Key) {
	if d, ok := m.top().(*detailScreen); ok && d.request == k {
		m.pop()
	}
	if m.list.at == k {
		m.list.onward(m, k)
	}
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
	a := d.response
	return m.cfg.Signer != nil && a.Kind == toolcall.ResponseApprove && a.Input == nil && len(a.Rules) == 0 && a.Remember == nil
}

// missingSignature says why an approval must not be sent: the request requires a signature,
// and there would be none; "" if it can be sent.
func (d *draftResponse) missingSignature(m *model) string {
	a := d.response
	switch {
	case a.Kind != toolcall.ResponseApprove || a.Input != nil || !d.call.Request.Requirement.Signed || d.isSigned(m):
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
