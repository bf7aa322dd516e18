package agui_test

import (
	"slices"
	"strings"
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
func (s *stage) editElsewhere(t *testing.T, edited string) {
	t.Helper()
	key := s.asking("t")[0]
	r := toolcall.Response{Key: key, Kind: toolcall.ResponseApprove, Digest: s.seen(key).Digest, Input: &edited}
	if _, err := s.A.Client(gatewaytest.Ann).SubmitResponse(t.Context(), r); err != nil {
		t.Fatal(err)
	}
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

// bring adds the client's result of its first call to its conversation.
func (c *client) bring(text string) {
	c.history.Apply(&wire.ToolCallResult{MessageID: "brought", ToolCallID: "call-1-1", Content: wire.Content{Text: text}, Role: new(wire.RoleTool)})
}

// TestResultOfOtherArguments: the result of a call that the client ran with other arguments than the
// allowed ones does not count, and the client does not run the call again.
func TestResultOfOtherArguments(t *testing.T) {
	for name, misrun := range map[string]func(*stage, *client) *response{
		"edited elsewhere": func(s *stage, c *client) *response {
			s.editElsewhere(t, `{"of":9}`)
			c.bring("red")
			return c.talk(c.all(`{"approved":true}`)...)
		},
		"another history": func(_ *stage, c *client) *response {
			c.talk(c.all(`{"approved":true}`)...).is(t, "success")
			c.history.ShowAsked("call-1-1", "picker", `{"of":666}`)
			c.bring("red")
			return c.talk()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			c := picking(t, s, wire.Version)
			if got := misrun(s, c).is(t, "success").pendingIDs(); len(got) != 0 {
				t.Errorf("the client has to run %v", got)
			}
			c.talk().is(t, "success")
			if words := c.words(); !strings.Contains(words, "picker: error: The frontend ran") || strings.Contains(words, "red") {
				t.Errorf("the client has\n%s", words)
			}
		})
	}
}

// TestResultOfOwnEdit: the client's user edits the arguments, and the client sends the result at once.
func TestResultOfOwnEdit(t *testing.T) {
	s := newStage(t)
	c := picking(t, s, wire.Version)
	c.bring("red")
	c.talk(c.all(`{"approved":true,"editedArgs":{"of":9}}`)...).is(t, "success")
	if words := c.words(); !strings.Contains(words, "picker: success: red") {
		t.Errorf("the client has\n%s", words)
	}
}

// TestResultOfOwnEditAgain: the process ended after it had submitted the edit and before it delivered the
// result that came with it. The client sends both again.
func TestResultOfOwnEditAgain(t *testing.T) {
	s := newStage(t)
	c := picking(t, s, wire.Version)
	key := s.asking("t")[0]
	s.editElsewhere(t, `{"of":9}`)
	if _, err := s.owner().Wait(t.Context(), toolcall.WaitRequest{Session: "t", Reply: key.Reply, Calls: []message.CallID{key.Call}, Until: toolcall.UntilRunnable}); err != nil {
		t.Fatal(err)
	}
	c.bring("red")
	a := c.talk(c.all(`{"approved":true,"editedArgs":{"of":9}}`)...).is(t, "success")
	if words := c.words(); len(a.pendingIDs()) != 0 || !strings.Contains(words, "picker: success: red") {
		t.Errorf("the client has to run %v, and has\n%s", a.pendingIDs(), words)
	}
}

// TestResultThatCameTooLate: the reply was interrupted before the client sent its result. The client
// then has the result that is on record.
func TestResultThatCameTooLate(t *testing.T) {
	s := newStage(t)
	c, call := s.unattended(t)
	c.post("/agui/connect", c.input()).is(t, "success")
	if _, err := s.A.Client(gatewaytest.Olga).Interrupt(t.Context(), toolcall.InterruptRequest{Session: "t", Reply: call.Reply}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.owner().Wait(t.Context(), toolcall.WaitRequest{Session: "t", Reply: call.Reply, Calls: []message.CallID{call.Call}}); err != nil {
		t.Fatal(err)
	}
	c.bring("found")
	c.talk().is(t, "success")
	if words := c.words(); !strings.Contains(words, "tool: <system-reminder>") || strings.Contains(words, "found") {
		t.Errorf("the client has\n%s", words)
	}
}

// TestSnapshotKeepsBroughtResult: a client that needs a snapshot brings a result. It keeps the result, so
// that it does not run the call again.
func TestSnapshotKeepsBroughtResult(t *testing.T) {
	s := newStage(t)
	c, _ := s.unattended(t)
	c.post("/agui/connect", c.input()).is(t, "success")
	c.bring("found")
	messages := c.history.Messages()
	slices.Reverse(messages)
	c.history = wire.NewHistory(messages)
	c.talk().is(t, "success")
	if words := c.words(); strings.Count(words, "tool: found") != 1 || !strings.Contains(words, "lookup: success: found") {
		t.Errorf("the client has\n%s", words)
	}
}
