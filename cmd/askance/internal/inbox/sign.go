package inbox

import (
	"time"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
)

// Signer signs approvals with the person's own key.
type Signer struct {
	KeyID string        // of the key, to be shown
	Lasts time.Duration // how long a signature is good
	// Sign signs the approval of the question that was shown, and refuses one
	// that its digest does not name.
	Sign func(call *message.Call, now time.Time) (*message.ApproverSignature, error)
}

// signs reports whether an answer goes with a signature: an approval of exactly
// what was asked. A signature covers no edit, and no rules to remember.
func (d *draftAnswer) signs(m *model) bool {
	a := d.answer
	return m.cfg.Signer != nil && a.Kind == message.AnswerApprove && a.Input == nil && len(a.Rules) == 0 && a.Remember == nil
}

// unsigned says why an approval must not be sent: the question takes a
// signature, and there would be none; "" if it may be.
func (d *draftAnswer) unsigned(m *model) string {
	a := d.answer
	switch {
	case a.Kind != message.AnswerApprove || a.Input != nil || !d.call.Question.Requirement.Signed || d.signs(m):
		return ""
	case m.cfg.Signer == nil:
		return "This question takes your own signature: start the inbox with --sign-key FILE (askance keys approver makes a key)."
	}
	return "This question takes your own signature, which covers no rules to remember: 0 forgets them."
}

// obstacle says why an answer must not be sent; "" if it may be.
func (d *draftAnswer) obstacle(m *model) string {
	for _, bad := range []string{d.stale(m), asked.Forged(d.call, d.answer.Digest), d.unsigned(m)} {
		if bad != "" {
			return bad
		}
	}
	return ""
}

// signature says with what an approval is signed.
func (d *draftAnswer) signature(m *model) []string {
	if !d.signs(m) {
		return nil
	}
	s := m.cfg.Signer
	return []string{"with your key " + s.KeyID + ", for " + asked.Span(s.Lasts)}
}
