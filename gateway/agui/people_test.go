package agui_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
	"github.com/askance-dev/askance/toolcall"
)

// chatting lets everyone in the world talk to agents and answer.
type chatting struct{}

func (c chatting) Authenticate(r *http.Request) (*gateway.Identity, error) {
	return c.Token(r, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
}

func (chatting) Token(_ *http.Request, token string) (*gateway.Identity, error) {
	space, name, ok := strings.Cut(token, ":")
	if !ok {
		return nil, gateway.ErrNoCredentials
	}
	return &gateway.Identity{Name: name, Space: toolcall.SpaceID(space), Roles: []toolcall.Role{toolcall.RoleRuntime, toolcall.RoleApprover}, Auth: "test"}, nil
}

// TestTwoMustAgree: the first approval counts, and the approval request is shown to the second
// person. The first person is told whom it still waits for.
func TestTwoMustAgree(t *testing.T) {
	s := newStageIn(t, []gatewaytest.Option{gatewaytest.Auth(chatting{})})
	c := s.client(gatewaytest.Ann, "t").said("call deploy {}")
	c.talk().is(t, "interrupt")
	first := c.open[0]
	c.talk(c.all(`{"approved":true}`)...).is(t, "interrupt")
	second := c.open[0]
	if first.ID == second.ID || !strings.Contains(*second.Message, "Waits for") || len(s.asking("t")) != 1 {
		t.Fatalf("asked again: %+v", second)
	}
	// The first answer is sent again. The client is shown the request that is open now.
	c.talk(wire.ResumeEntry{InterruptID: first.ID, Status: wire.ResumeResolved, Payload: message.RawJSON(`{"approved":true}`)}).is(t, "interrupt")
	if c.open[0].ID != second.ID {
		t.Errorf("asked with another id: %+v", c.open)
	}
	c.talk(c.all(`{"approved":true}`)...).is(t, "interrupt") // two approvals by one person count once
	s.elsewhere(gatewaytest.Bob, s.asking("t")[0], toolcall.ResponseApprove, "")
	c.talk(c.all(`{"approved":true}`)...).is(t, "success")
	if !strings.Contains(c.words(), "deploy: success") {
		t.Errorf("the client has\n%s", c.words())
	}
}

// TestResponsesRace: of many answers at the same time one is carried out, and all clients end
// with the same conversation.
func TestResponsesRace(t *testing.T) {
	s := newStage(t)
	c := s.client(gatewaytest.Everything, "t").said(pay)
	c.talk().is(t, "interrupt")
	clients := make([]*client, 6)
	var wg sync.WaitGroup
	for i := range clients {
		other := s.client(gatewaytest.Everything, "t")
		other.runs, other.open = 10*(i+1), c.open
		other.history = wire.NewHistory(c.history.Messages())
		clients[i] = other
		payload := []string{`{"approved":true}`, `{"approved":false}`, `{"approved":true,"editedArgs":{"to":"acme","amount":1}}`}[i%3]
		wg.Go(func() {
			a, err := other.send(t.Context(), "/agui", other.input(other.all(payload)...), nil)
			if err != nil || a.outcome() != "success" {
				t.Errorf("client %d: %v %s", i, err, show(a))
			}
		})
	}
	wg.Wait()
	for i, other := range clients {
		if other.words() != clients[0].words() {
			t.Errorf("client %d has\n%s\nthe first\n%s", i, other.words(), clients[0].words())
		}
	}
}

// expiringAfter returns rules in which requests for the tool ship expire after a while.
func expiringAfter(after time.Duration) gatewaytest.Option {
	return gatewaytest.Policy(strings.Replace(gatewaytest.Rules, "tool: [ship, browse], behavior: ask}", "tool: [ship, browse], behavior: ask, expiry: "+after.String()+"}", 1))
}

// TestExpired: an expired approval request can be cancelled but not answered, and does not block
// a client that does not know of it.
func TestExpired(t *testing.T) {
	for _, version := range []string{wire.Version, ""} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			s := newStageIn(t, []gatewaytest.Option{gatewaytest.In(dir), gatewaytest.Piped(), expiringAfter(10 * time.Second)})
			c := s.client(gatewaytest.Everything, "t").said("call ship {}")
			c.version = version
			c.talk().is(t, "interrupt")
			i := c.open[0]
			if at, err := time.Parse(time.RFC3339, *i.ExpiresAt); err != nil || time.Until(at) > 10*time.Second {
				t.Fatalf("expires at %s: %v", *i.ExpiresAt, err)
			}
			s.until("t", 0)
			c.talk(c.all(`{"approved":true}`)...).is(t, "error interrupt_expired")
			if len(c.open) != 1 {
				t.Fatal("the client dropped its interrupt")
			}
			c.talk(c.all("")...).is(t, "success")
			if !strings.Contains(c.words(), "ship: denied") {
				t.Errorf("the client has\n%s", c.words())
			}
			reload := s.client(gatewaytest.Everything, "t")
			reload.runs = 10
			reload.version = version
			reload.said("say on").talk().is(t, "success")
			if !strings.HasSuffix(reload.words(), "assistant: on\n") {
				t.Errorf("the client has\n%s", reload.words())
			}
		})
	}
}

// TestEditAsksAgain: an edit on another surface opens a new approval request, which the client
// was not shown and cannot have answered.
func TestEditAsksAgain(t *testing.T) {
	s := newStageIn(t, []gatewaytest.Option{gatewaytest.Auth(chatting{})})
	c := s.client(gatewaytest.Ann, "t").said(`call deploy {"to":"staging"}`)
	c.talk().is(t, "interrupt")
	key := s.asking("t")[0]
	shown, err := s.A.Client(gatewaytest.Bob).Show(t.Context(), toolcall.ShowRequest{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	edited := `{"to":"production"}`
	if _, err := s.A.Client(gatewaytest.Bob).SubmitResponse(t.Context(), toolcall.Response{Key: key, Kind: toolcall.ResponseApprove, Digest: shown.Call.Digest, Input: &edited}); err != nil {
		t.Fatal(err)
	}
	a := c.talk(c.all(`{"approved":true}`)...).is(t, "interrupt")
	if !strings.Contains(string(c.open[0].Metadata), "production") || strings.Contains(show(a), `TOOL_CALL_RESULT`) {
		t.Fatalf("asked %s", c.open[0].Metadata)
	}
	c.talk(c.all(`{"approved":true}`)...).is(t, "success")
	if !strings.Contains(c.words(), `deploy: success: {"to":"production"}`) {
		t.Errorf("the client has\n%s", c.words())
	}
}

// told is an agent that repeats what it was told in addition to the message.
type told struct{}

func (told) Info() agent.Info { return agent.Info{Name: "told"} }

func (told) Run(ctx context.Context, t agent.Turn) error {
	in := t.Input()
	text := "state " + string(in["state"]) + ", context " + string(in["context"]) + ", props " + string(in["forwardedProps"])
	for _, tool := range t.Tools() {
		text += ", tool " + tool.Name + string(tool.Parameters)
	}
	msgs, err := t.Conversation(ctx)
	if err != nil {
		return err
	}
	for _, m := range msgs {
		text += ", " + string(m.Role)
	}
	return t.Emit(ctx, &message.TextBlockStart{BlockID: "b"}, &message.TextBlockDelta{BlockID: "b", Delta: text}, &message.TextBlockEnd{BlockID: "b"})
}

// sly is an agent that streams another call than it proposes.
type sly struct {
	as func(toolcall.Principal) engine.Client
}

func (sly) Info() agent.Info { return agent.Info{Name: "sly"} }

func (s sly) Run(ctx context.Context, t agent.Turn) error {
	stream := []message.Event{
		&message.ToolCallStart{ToolCallID: "c1", ToolCallName: "read_note"}, &message.ToolCallDelta{ToolCallID: "c1", Delta: `{"a":"little"}`},
		&message.ToolCallEnd{ToolCallID: "c1"}, &message.ToolCallStart{ToolCallID: "c1", ToolCallName: "lookup"},
	}
	if err := t.Emit(ctx, stream...); err != nil {
		return err
	}
	_, err := s.as(toolcall.Principal{Role: toolcall.RoleRuntime, Name: gatewaytest.Everything, Auth: gatewaytest.AuthToken}).Propose(ctx, toolcall.ProposeRequest{Session: t.Session(), Reply: t.Reply(), Calls: []message.ToolCallBlock{{ID: "c1", Name: gatewaytest.Pay, Input: gatewaytest.PayInput}}})
	if err == nil {
		<-ctx.Done()
	}
	return err
}

// TestConversationShowsWhatIsAsked: at the end of the run, and on connecting, a call that is asking has
// the tool and the arguments of its approval request.
func TestConversationShowsWhatIsAsked(t *testing.T) {
	s := newStage(t)
	for _, version := range []string{wire.Version, ""} {
		c := s.client(gatewaytest.Everything, "t"+version).said("hi")
		c.version = version
		c.post("/agui/agents/sly", c.input()).is(t, "interrupt")
		other := s.client(gatewaytest.Everything, c.thread)
		other.version = version
		other.post("/agui/connect", other.input()).is(t, "interrupt")
		for _, c := range []*client{c, other} {
			if words := c.words(); strings.Contains(words, "read_note") || strings.Contains(words, "little") || !strings.Contains(words, gatewaytest.Pay) || !strings.Contains(words, gatewaytest.PayInput) {
				t.Errorf("version %q has\n%s", version, words)
			}
			if !strings.Contains(string(c.open[0].Metadata), gatewaytest.Pay) {
				t.Errorf("the interrupt is %s", c.open[0].Metadata)
			}
		}
	}
}

// TestTold: everything that a frontend sends reaches the agent.
func TestTold(t *testing.T) {
	s := newStage(t)
	res := s.raw(gatewaytest.Bot, http.MethodPost, "/agui/agents/told", body(
		"messages", `[{"id":"s1","role":"system","content":"Be brief."},{"id":"u1","role":"user","content":"hi"}]`,
		"state", `{"n":1}`, "context", `[{"description":"page","value":"/"}]`, "forwardedProps", `{"p":true}`,
		"tools", `[{"name":"pick","description":"","parameters":{"type":"object"}}]`))
	want := `state {\"n\":1}, context [{\"description\":\"page\",\"value\":\"/\"}], props {\"p\":true}, tool pick{\"type\":\"object\"}, system, user`
	if got := text(t, res); !strings.Contains(got, want) {
		t.Errorf("the agent was told\n%s", got)
	}
}

// TestOneOfTwoElsewhere: a request that stays open keeps its interrupt, which can be answered
// after it was shown several times.
func TestOneOfTwoElsewhere(t *testing.T) {
	s := newStage(t)
	c := s.client(gatewaytest.Everything, "t").said(pay, `also pay {"to":"initech","amount":7}`)
	c.talk().is(t, "interrupt")
	first := c.open
	s.elsewhere(gatewaytest.Ann, s.asking("t")[0], toolcall.ResponseReject, "no")
	other := s.client(gatewaytest.Everything, "t")
	other.runs = 10
	for range 2 {
		other.post("/agui/connect", other.input()).is(t, "interrupt")
		if len(other.open) != 1 || other.open[0].ID != first[1].ID {
			t.Fatalf("open %+v, want %s", other.open, first[1].ID)
		}
	}
	c.talk(c.all(`{"approved":true}`)...).is(t, "success") // the client that was shown both
	if got := c.words(); !strings.Contains(got, "pay: denied") || !strings.Contains(got, `pay: success: {"to":"initech","amount":7}`) {
		t.Errorf("the client has\n%s", got)
	}
}
