package agui_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway/agui"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
	"github.com/askance-dev/askance/toolcall"
)

const paid = `user: say first | call pay {"to":"acme","amount":42}
assistant: pay{"to":"acme","amount":42} first
tool: {"to":"acme","amount":42}
assistant: pay: success: {"to":"acme","amount":42}
`

// TestReconnect: a client without any history is shown the current state of the thread at every
// point of it, and then has the same conversation as the others.
func TestReconnect(t *testing.T) {
	s := newStage(t)
	c := s.client(gatewaytest.Everything, "t").said("say first", pay)
	c.talk().is(t, "interrupt")
	reload := s.client(gatewaytest.Everything, "t")
	reload.runs = 10
	reload.post("/agui/connect", reload.input()).is(t, "interrupt")
	if len(reload.open) != 1 || reload.open[0].ID != c.open[0].ID || reload.words() != c.words() {
		t.Fatalf("after a reload %+v\n%s\nwant %+v\n%s", reload.open, reload.words(), c.open, c.words())
	}
	reload.talk(reload.all(`{"approved":true}`)...).is(t, "success")
	if reload.words() != paid {
		t.Errorf("the client has\n%s", reload.words())
	}
	// The first client has received nothing yet.
	c.talk(c.all(`{"approved":true}`)...).is(t, "success")
	if c.words() != paid {
		t.Errorf("the first client has\n%s", c.words())
	}
	third := s.client(gatewaytest.Everything, "t")
	third.runs = 20
	third.said("say more").talk().is(t, "success")
	if got := third.words(); got != paid+"user: say more\nassistant: more\n" {
		t.Errorf("the third client has\n%s", got)
	}
}

// TestConnectToNothing: an unknown thread is an empty one.
func TestConnectToNothing(t *testing.T) {
	s := newStage(t)
	c := s.client(gatewaytest.Bot, "t")
	c.post("/agui/connect", c.input()).is(t, "success")
	c.talk().is(t, "success")
	if c.words() != "" {
		t.Errorf("the client has %s", c.words())
	}
}

// TestDisconnect: the turn continues without its client. A later client gets the rest of the turn
// once.
func TestDisconnect(t *testing.T) {
	s := newStage(t)
	c := s.client(gatewaytest.Everything, "t").said("stream 40 20", pay)
	ctx, cancel := context.WithCancel(t.Context())
	pieces := 0
	_, err := c.send(ctx, "/agui", c.input(), func(e wire.Event) {
		if _, ok := e.(*wire.TextMessageContent); ok {
			if pieces++; pieces == 5 {
				cancel()
			}
		}
	})
	if err == nil {
		t.Fatal("the stream was not cut")
	}
	// One client has part of the reply, the other has nothing.
	for i, again := range []*client{c, s.client(gatewaytest.Everything, "t")} {
		path := []string{"/agui", "/agui/connect"}[i]
		again.runs += 5
		again.lenient = true
		again.post(path, again.input()).is(t, "interrupt")
		if got := again.words(); strings.Count(got, "00001") != 1 || strings.Count(got, "00040") != 1 || strings.Count(got, "assistant") != 1 || len(again.open) != 1 {
			t.Errorf("the client has\n%s", got)
		}
	}
}

// TestAbortAndSay: a message after an abort waits for the turn that is still running. While the
// turn's client is connected, the message is refused.
func TestAbortAndSay(t *testing.T) {
	s := newStage(t)
	c := s.client(gatewaytest.Everything, "t").said("say first", "call slow {}")
	other := s.client(gatewaytest.Everything, "t")
	other.runs = 10
	ctx, cancel := context.WithCancel(t.Context())
	_, err := c.send(ctx, "/agui", c.input(), func(e wire.Event) {
		if _, ok := e.(*wire.TextMessageStart); ok {
			other.said("say me too").talk().is(t, "409 conflict")
			cancel()
		}
	})
	if err == nil {
		t.Fatal("the stream was not cut")
	}
	time.AfterFunc(300*time.Millisecond, s.A.Release) // the message may come before or after
	c.said("say more").talk().is(t, "success")
	if got := c.words(); !strings.Contains(got, "slow: success: done\nuser: say more\nassistant: more\n") {
		t.Errorf("the client has\n%s", got)
	}
}

// TestMessageDuringRequest: a client that does not know of an open approval request and sends a
// message is shown the request.
func TestMessageDuringRequest(t *testing.T) {
	s := newStage(t)
	c := s.client(gatewaytest.Everything, "t").said("say first", "stream 10 20", pay)
	ctx, cancel := context.WithCancel(t.Context())
	_, _ = c.send(ctx, "/agui", c.input(), func(e wire.Event) { cancel() })
	s.until("t", 1)
	c.said("say second").talk().is(t, "interrupt")
	c.talk(c.all(`{"approved":true}`)...).is(t, "success")
	c.talk().is(t, "success")
	if got := c.words(); !strings.HasSuffix(got, "user: say second\nassistant: second\n") {
		t.Errorf("the client has\n%s", got)
	}
}

// until waits for n open approval requests.
func (s *stage) until(thread string, n int) {
	s.t.Helper()
	for len(s.asking(thread)) != n {
		ctx, cancel := context.WithTimeout(s.t.Context(), 50*time.Millisecond)
		<-ctx.Done()
		cancel()
		if s.t.Context().Err() != nil {
			s.t.Fatal("the approval requests did not appear")
		}
	}
}

// TestNextToOthers: an approval request does not wait forever for another call. The next run
// shows the result of that call.
func TestNextToOthers(t *testing.T) {
	s := newStage(t, func(c *agui.Config) { c.Grace = 100 * time.Millisecond })
	c := s.client(gatewaytest.Everything, "t").said(pay, "also slow {}")
	c.talk().is(t, "interrupt")
	s.A.Release()
	c.talk(c.all(`{"approved":true}`)...).is(t, "success")
	if got := c.words(); !strings.Contains(got, "pay: success") || !strings.Contains(got, "slow: success: done") {
		t.Errorf("the client has\n%s", got)
	}
}

// TestWorker: the stream sends comments while it waits for a worker, and finally an interrupt
// that anyone may resolve to look again.
func TestWorker(t *testing.T) {
	s := newStage(t, func(c *agui.Config) { c.Patience, c.KeepAlive = 300*time.Millisecond, 10*time.Millisecond })
	c := s.client(gatewaytest.Bot, "t").said("call job {}")
	c.talk().is(t, "interrupt")
	if i := c.open[0]; i.Reason != wire.ReasonExternal || i.ToolCallID == nil {
		t.Errorf("interrupt %+v", i)
	}
	c.talk(c.all(`{}`)...).is(t, "interrupt")
	s.A.Work(gatewaytest.Job)
	for len(c.open) > 0 {
		c.talk(c.all(`{}`)...)
	}
	if got := c.words(); !strings.Contains(got, "job: success") {
		t.Errorf("the client has\n%s", got)
	}
}

// TestClientTools covers tools that the frontend declares and runs.
func TestClientTools(t *testing.T) {
	for _, version := range []string{wire.Version, ""} {
		s := newStage(t)
		c := s.client(gatewaytest.Everything, "t").said(`call lookup {"of":3}`, `also lookup {"of":4}`)
		c.version = version
		c.tools = []wire.Tool{{Name: "lookup", Description: "Looks it up.", Parameters: message.RawJSON(`{"type":"object"}`)}}
		a := c.talk().is(t, "success")
		end := a.events[len(a.events)-1].(*wire.RunFinished)
		if version != "" && len(end.Outcome.PendingToolCallIDs) != 2 {
			t.Errorf("pending %+v", end.Outcome)
		}
		calls := c.history.Messages()[1].ToolCalls
		result := func(i int, text string, failed *string) {
			m := wire.Message{ID: "mine-" + text, Role: wire.RoleTool, ToolCallID: calls[i].ID, Content: wire.Text(text), Error: failed}
			c.history.Apply(&wire.RunStarted{Input: &wire.RunInput{Messages: []wire.Message{m}}})
		}
		result(0, "red", nil)
		c.talk().is(t, "success") // the other result is still missing
		result(1, "no client there", new("closed"))
		c.talk().is(t, "success")
		want := `user: call lookup {"of":3} | also lookup {"of":4}
assistant: lookup{"of":3} lookup{"of":4}
tool: red
tool: no client there
assistant: lookup: success: red | lookup: error: no client there
`
		if c.words() != want {
			t.Errorf("the client has\n%s", c.words())
		}
		reload := s.client(gatewaytest.Everything, "t")
		reload.runs = 10
		reload.post("/agui/connect", reload.input()).is(t, "success")
		if reload.words() != want {
			t.Errorf("after a reload\n%s", reload.words())
		}
	}
}

// TestClientToolsGivenUp: a person continues without running the tools.
func TestClientToolsGivenUp(t *testing.T) {
	s := newStage(t)
	c := s.client(gatewaytest.Everything, "t").said(`call browse {"of":3}`)
	c.tools = []wire.Tool{{Name: "browse", Description: "Opens a page."}}
	c.talk().is(t, "interrupt") // the policy also applies to these tools
	c.talk(c.all(`{"approved":true}`)...).is(t, "success")
	c.said("say never mind").talk().is(t, "success")
	if got := c.words(); !strings.HasSuffix(got, "user: say never mind\nassistant: never mind\n") || !strings.Contains(got, "tool: ") {
		t.Errorf("the client has\n%s", got)
	}
}

// TestEnds: every way to end a turn ends its run.
func TestEnds(t *testing.T) {
	s := newStage(t)
	for _, of := range []struct{ line, now, before string }{
		{"say hello", "success", "success"},
		{"call drop {}", "success", "success"},
		{"fail rate_limit the model is busy", "error rate_limit", "error rate_limit"},
		{"panic", "error internal", "error internal"},
		{"loop", "cancelled", "error exceed_max_iters"},
	} {
		for version, want := range map[string]string{wire.Version: of.now, "": of.before} {
			c := s.client(gatewaytest.Bot, "t "+of.line+version).said(of.line)
			c.version = version
			a := c.talk()
			if got := a.outcome(); got != want {
				t.Errorf("%q ends with %s for version %q, want %s\n%s", of.line, got, version, want, show(a))
			}
			c.said("say on").talk().is(t, "success")
		}
	}
}

// TestInterruptedElsewhere: another surface interrupts the reply.
func TestInterruptedElsewhere(t *testing.T) {
	s := newStage(t)
	c := s.client(gatewaytest.Bot, "t").said("say one", "wait")
	var reply message.ReplyID
	a, err := c.send(t.Context(), "/agui", c.input(), func(e wire.Event) {
		switch e := e.(type) {
		case *wire.RunStarted:
			reply = replyOf(t, e)
		case *wire.TextMessageEnd:
			if _, err := s.A.Client(gatewaytest.Olga).Interrupt(t.Context(), toolcall.InterruptRequest{Session: "t", Reply: reply}); err != nil {
				t.Error(err)
			}
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	a.is(t, "cancelled")
}

// replyOf returns the reply that RUN_STARTED names.
func replyOf(t *testing.T, e *wire.RunStarted) message.ReplyID {
	t.Helper()
	var meta struct {
		AgentScope struct {
			ReplyID message.ReplyID `json:"replyId"`
		} `json:"agentscope"`
	}
	if err := json.Unmarshal(e.Metadata, &meta); err != nil || meta.AgentScope.ReplyID == "" {
		t.Fatalf("RUN_STARTED names no reply: %s", e.Metadata)
	}
	return meta.AgentScope.ReplyID
}

// TestChangedMessage: what a person said cannot be changed under its id, and the client learns that.
func TestChangedMessage(t *testing.T) {
	s := newStage(t)
	c := s.client(gatewaytest.Everything, "t").said(pay)
	c.talk().is(t, "interrupt")
	c.settings = func(in *wire.RunInput) { in.Messages[0].Content = wire.Text("say something else") }
	c.talk().is(t, "error conflict")
	c.talk(c.all(`{"approved":true}`)...).is(t, "error conflict")
	c.settings = func(in *wire.RunInput) {
		in.Messages[0].Content = &wire.Content{Parts: []wire.Part{{Type: wire.PartText, Text: pay}}} // the same, in another form
	}
	c.talk(c.all(`{"approved":true}`)...).is(t, "success")
	if got := c.words(); strings.Count(got, "tool: ") != 1 {
		t.Errorf("the client has\n%s", got)
	}
}
