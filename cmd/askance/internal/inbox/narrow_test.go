package inbox_test

import (
	"testing"

	"github.com/askance-dev/askance/message"
)

// On 60 columns and 20 rows nothing that is needed is lost: who and what stands
// on each line, every screen names the way on and the way back, and an edit, a
// search and an answer by somebody else work as on a large screen.
func TestNarrow(t *testing.T) {
	w := newWorld(t)
	c := w.ask("call_1", "pay", `{"cents":1900,"lines":[{"sku":"A-1","note":"one that is longer than what a narrow screen has"}],"to":"ACME"}`)
	wire := w.ask("call_2", "wire", `{"to":"acme","pin":"1"}`)
	w.ask("call_3", "soon", `{}`)
	x := w.inbox(60, 20, "EDITOR=sed -i s/1900/1500/")
	x.See("> pay", "wire", "soon")
	w.answer(wire, func(*message.Answer) {})
	golden(t, "narrow-list", x.See("(bob approved) wire needs", "? help  q quit"))
	golden(t, "narrow-help", x.Press("?", "THE LIST", "space more"))
	x.Press(esc, "> pay")
	golden(t, "narrow-detail", x.Press(enter, "why", "A-1", "? keys  esc back"))
	golden(t, "narrow-edit", x.Press("e", `-   "cents": 1900`, `+   "cents": 1500`, "space more: y counts"))
	x.Press("   ", "y approve as edited  esc back")
	x.Press(esc, "why")
	w.answer(c, func(a *message.Answer) {
		a.Kind, a.Feedback = message.AnswerReject, "the budget of this month is spent"
	})
	golden(t, "narrow-settled", x.See("Settled: rejected by bob (in process): the budget of", "esc back  n next"))
	x.Press(esc, "TOOL")
	x.Press("/so", "filter: so")
	x.Miss("wire")
	x.Press(enter, "> soon")
	golden(t, "narrow-form", x.Press(enter+"h", "Who should answer", "enter go on  esc back"))
}
