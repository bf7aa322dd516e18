package agui_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	wire "github.com/askance-dev/askance/message/agui"
)

// TestCutAnywhere cuts a run after each of its events. A client that returns, with what it had
// received or with nothing, gets the same conversation, and the call runs once.
func TestCutAnywhere(t *testing.T) {
	s := newStage(t)
	lines := []string{"think hm", "say I look.", `call echo {"n":1}`, "say I pay.", pay}
	const want = `user: think hm | say I look. | call echo {"n":1} | say I pay. | call pay {"to":"acme","amount":42}
assistant: echo{"n":1} I look.
tool: {"n":1}
assistant: echo: success: {"n":1}
assistant: pay{"to":"acme","amount":42} I pay.
tool: {"to":"acme","amount":42}
assistant: pay: success: {"to":"acme","amount":42}
`
	for cut := 1; ; cut += 2 {
		c := s.client(gatewaytest.Everything, fmt.Sprint("t", cut)).said(lines...)
		ctx, cancel := context.WithCancel(t.Context())
		seen := 0
		_, err := c.send(ctx, "/agui", c.input(), func(wire.Event) {
			if seen++; seen == cut {
				cancel()
			}
		})
		cancel()
		if err == nil && seen < cut {
			return // the run was cut at every event
		}
		back := c
		if cut%4 == 1 {
			back = s.client(gatewaytest.Everything, c.thread)
			back.runs = 5
		}
		back.lenient = true
		back.post("/agui/connect", back.input()).is(t, "interrupt")
		back.talk(back.all(`{"approved":true}`)...).is(t, "success")
		if got := spoken(back); got != want {
			t.Errorf("cut after %d events the client has\n%s", cut, got)
		}
	}
}

// spoken returns the conversation without what clients add for themselves.
func spoken(c *client) string {
	h := wire.NewHistory(c.history.Snapshot().Messages)
	return (&client{history: h}).words()
}
