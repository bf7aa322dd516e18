package agui_test

import (
	"testing"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
	"github.com/askance-dev/askance/toolcall"
)

// picking returns a client whose tool waits for an approval.
func picking(t *testing.T, s *stage, version string) *client {
	t.Helper()
	c := s.client(gatewaytest.Everything, "t").said(`call picker {"of":2}`)
	c.tools, c.version = []wire.Tool{{Name: "picker"}}, version
	c.talk().is(t, "interrupt")
	return c
}

// editElsewhere approves the open request with other arguments.
func (s *stage) editElsewhere(t *testing.T, edited string) toolcall.Key {
	t.Helper()
	key := s.asking("t")[0]
	r := toolcall.Response{Key: key, Kind: toolcall.ResponseApprove, Digest: s.seen(key).Digest, Input: &edited}
	if _, err := s.A.Client(gatewaytest.Ann).SubmitResponse(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return key
}

// arguments returns the arguments of the client's only call, as the client would run it.
func (c *client) arguments() string {
	for _, m := range c.history.Messages() {
		for _, call := range m.ToolCalls {
			return call.Arguments
		}
	}
	return ""
}

// TestClientRunsEditedArguments: a client that has to run its tool has the arguments that were
// approved, and not those that the model wrote.
func TestClientRunsEditedArguments(t *testing.T) {
	for _, version := range []string{wire.Version, ""} {
		for name, approve := range map[string]func(*stage, *client){
			"by the client's user": func(_ *stage, c *client) {
				c.talk(c.all(`{"approved":true,"editedArgs":{"of":9}}`)...).is(t, "success")
			},
			"elsewhere": func(s *stage, c *client) {
				s.editElsewhere(t, `{"of":9}`)
				c.talk(c.all(`{"approved":true}`)...).is(t, "success")
			},
		} {
			t.Run(version+" "+name, func(t *testing.T) {
				s := newStage(t)
				c := picking(t, s, version)
				approve(s, c)
				reload := s.client(gatewaytest.Everything, "t")
				reload.tools, reload.runs = c.tools, 10
				reload.post("/agui/connect", reload.input()).is(t, "success")
				for _, c := range []*client{c, reload} {
					if got := c.arguments(); got != `{"of":9}` {
						t.Errorf("the client runs %s", got)
					}
				}
			})
		}
	}
}

// TestClientRunsProposedArguments: a runtime streams other arguments than it proposes. The client sees
// those that were allowed.
func TestClientRunsProposedArguments(t *testing.T) {
	s := newStage(t)
	s.A.Say("t", "r", &message.ReplyStart{Session: "t", Name: "bot", Role: message.RoleAssistant},
		&message.ToolCallStart{ToolCallID: "c", ToolCallName: gatewaytest.Lookup}, &message.ToolCallDelta{ToolCallID: "c", Delta: `{"q":1}`}, &message.ToolCallEnd{ToolCallID: "c"})
	s.A.Propose("t", "r", "c", gatewaytest.Lookup, `{"q":2}`)
	c := s.client(gatewaytest.Bot, "t")
	c.tools = []wire.Tool{{Name: gatewaytest.Lookup}}
	c.post("/agui/connect", c.input()).is(t, "success")
	if got := c.arguments(); got != `{"q":2}` {
		t.Errorf("the client runs %s", got)
	}
}
