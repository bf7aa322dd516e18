package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
)

// TestRestartInARequest stops the process and the engine while an approval request is open. The
// turn continues when the request is answered.
func TestRestartInARequest(t *testing.T) {
	s := newStage(t)
	r := s.begin("s", "m1", "say before", `call pay {"to":"acme","amount":42}`, "say after")
	k := s.asking("s", string(r), "call-2-1")
	s.restart()
	if !s.runner.Running("s", r) {
		t.Fatal("the turn does not continue")
	}
	s.A.Restart()
	_ = s.runner.Close()
	s.A.Approve(gatewaytest.Ann, k) // while the turn runs in no process
	s.A.Finished(k)
	s.start()
	s.want(s.ended("s"), "user me: [say before\ncall pay {\"to\":\"acme\",\"amount\":42}\nsay after]",
		`assistant bot: [before] call-2-1=pay{"to":"acme","amount":42}:finished call-2-1->success{{"to":"acme","amount":42}} [pay: success: {"to":"acme","amount":42}] [after] completed`)
	s.restart()
	if s.runner.Running("s", r) {
		t.Error("a turn that has ended is still running")
	}
}

// TestEngineRestarts replaces the engine during a turn.
func TestEngineRestarts(t *testing.T) {
	s := newStage(t)
	r := s.begin("s", "m1", `call pay {"to":"acme","amount":42}`, "say after")
	k := s.asking("s", string(r), "call-1-1")
	s.A.Restart()
	s.A.Approve(gatewaytest.Ann, k)
	if thread := s.ended("s"); *thread.Messages[1].FinishedReason != message.FinishedCompleted {
		t.Errorf("the thread is\n%s", dump(thread))
	}
}

// TestRestartInAStream stops the process in the middle of a text. The first part is kept, without
// duplicates, and the rest follows.
func TestRestartInAStream(t *testing.T) {
	s := newStage(t)
	s.begin("s", "m1", "stream 40 10")
	s.until("s", "its words", func(t *agent.Thread) bool { return len(t.Messages) == 2 && len(t.Messages[1].Content) == 1 })
	s.restart()
	thread := s.ended("s")
	text, _ := thread.Messages[1].TextContent("")
	if want := strings.Fields(text); len(want) != 40 || want[0] != "00001" || want[39] != "00040" {
		t.Errorf("the text is %q", text)
	}
	for _, b := range message.BlocksOf[*message.TextBlock](thread.Messages[1]) {
		if b.FinishedAt == nil {
			t.Errorf("the block %s never ended", b.ID)
		}
	}
}

// cutter streams a call. The first time it stops in the middle of the arguments.
type cutter struct{ stop func() }

func (cutter) Info() agent.Info { return agent.Info{Name: "cutter"} }

func (c cutter) Run(ctx context.Context, t agent.Turn) error {
	msgs, err := t.Conversation(ctx)
	if err != nil {
		return err
	}
	if last := msgs[len(msgs)-1]; last.Role == message.RoleAssistant {
		return t.Emit(ctx, &message.TextBlockStart{BlockID: "b"}, &message.TextBlockDelta{BlockID: "b", Delta: "sorry: " + last.ToolResult("c1").Output.String()}, &message.TextBlockEnd{BlockID: "b"})
	}
	err = t.Emit(ctx,
		&message.ModelCallStart{ModelName: "m"},
		&message.ToolCallStart{ToolCallID: "c1", ToolCallName: gatewaytest.Echo},
		&message.ToolCallDelta{ToolCallID: "c1", Delta: `{"text":"x"}`})
	if err != nil {
		return err
	}
	go c.stop()
	<-ctx.Done()
	return context.Cause(ctx)
}

// TestRestartInACall: a call whose arguments were incomplete never runs, even if what arrived is
// valid JSON.
func TestRestartInACall(t *testing.T) {
	stopped := make(chan struct{})
	var s *stage
	s = newStage(t, cutter{stop: func() { _ = s.runner.Close(); close(stopped) }})
	if _, err := s.runner.Start(t.Context(), user(), "s", "cutter", agent.Input{Messages: []*message.Msg{says(t, "m1", "go")}}); err != nil {
		t.Fatal(err)
	}
	<-stopped
	s.start()
	thread := s.ended("s")
	m := thread.Messages[1]
	if c, r := m.ToolCall("c1"), m.ToolResult("c1"); c.FinishedAt == nil || r == nil || r.State != message.ToolResultError || *m.FinishedReason != message.FinishedCompleted {
		t.Errorf("the thread is\n%s", dump(thread))
	}
	if text, _ := m.TextContent(""); !strings.HasPrefix(text, "sorry: Tool '") {
		t.Errorf("the agent was told %q", text)
	}
}

// repeater makes the same calls in each run. The first time it stops in the middle of a call.
type repeater struct{ stop func() }

func (repeater) Info() agent.Info { return agent.Info{Name: "repeater"} }

func (r repeater) Run(ctx context.Context, t agent.Turn) error {
	msgs, err := t.Conversation(ctx)
	if err != nil {
		return err
	}
	if msgs[len(msgs)-1].Role != message.RoleAssistant {
		err := t.Emit(ctx, &message.ToolCallStart{ToolCallID: "c1", ToolCallName: gatewaytest.Echo}, &message.ToolCallDelta{ToolCallID: "c1", Delta: `{"n":`})
		if err != nil {
			return err
		}
		go r.stop()
		<-ctx.Done()
		return context.Cause(ctx)
	}
	results, err := t.Call(ctx, message.ToolCallBlock{ID: "c1", Name: gatewaytest.Echo, Input: `{"n":1}`}, message.ToolCallBlock{ID: "c2", Name: gatewaytest.Echo, Input: `{"n":2}`})
	if err != nil {
		return err
	}
	text := string(results[0].State) + ", " + string(results[1].State)
	return t.Emit(ctx, &message.TextBlockStart{BlockID: "b"}, &message.TextBlockDelta{BlockID: "b", Delta: text}, &message.TextBlockEnd{BlockID: "b"})
}

// TestRestartOfTheSameCalls: an agent that makes the same calls again after a restart gets the result
// of the one that was incomplete, and the reply goes on.
func TestRestartOfTheSameCalls(t *testing.T) {
	stopped := make(chan struct{})
	var s *stage
	s = newStage(t, repeater{stop: func() { _ = s.runner.Close(); close(stopped) }})
	if _, err := s.runner.Start(t.Context(), user(), "s", "repeater", agent.Input{Messages: []*message.Msg{says(t, "m1", "go")}}); err != nil {
		t.Fatal(err)
	}
	<-stopped
	s.start()
	m := s.ended("s").Messages[1]
	if text, _ := m.TextContent(""); text != "error, success" || *m.FinishedReason != message.FinishedCompleted {
		t.Errorf("the agent says %q, and the reply ended as %s", text, *m.FinishedReason)
	}
}

// leaver leaves blocks and calls unfinished.
type leaver struct{}

func (leaver) Info() agent.Info { return agent.Info{Name: "leaver"} }

func (leaver) Run(ctx context.Context, t agent.Turn) error {
	return t.Emit(ctx, &message.TextBlockStart{BlockID: "b"}, &message.ToolCallStart{ToolCallID: "c1", ToolCallName: gatewaytest.Pay},
		&message.ToolCallDelta{ToolCallID: "c1", Delta: `{"to":"acme","amount":42}`}, &message.ToolCallEnd{ToolCallID: "c1"})
}

// TestLooseEnds: if an agent returns without proposing its calls, they are refused and its blocks
// are ended.
func TestLooseEnds(t *testing.T) {
	s := newStage(t, leaver{})
	if _, err := s.runner.Start(t.Context(), user(), "s", "leaver", agent.Input{Messages: []*message.Msg{says(t, "m1", "go")}}); err != nil {
		t.Fatal(err)
	}
	m := s.ended("s").Messages[1]
	if r := m.ToolResult("c1"); r == nil || r.State != message.ToolResultError || m.FinishedAt == nil || message.BlocksOf[*message.TextBlock](m)[0].FinishedAt == nil {
		t.Errorf("the reply is %+v", m)
	}
}

// TestClientTool: the policy decides about a call of a tool of the frontend, and the call waits
// for its result.
func TestClientTool(t *testing.T) {
	s := newStage(t)
	r, err := s.runner.Start(t.Context(), user(), "s", "bot", agent.Input{
		Messages: []*message.Msg{says(t, "m1", `call picker {"of":2}`, "also unheard {}")},
		Tools:    []agent.Tool{{Name: "picker", Parameters: message.RawJSON(`{"type":"object"}`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	k := s.asking("s", string(r), "call-1-1")
	s.restart()
	if c := s.A.Approve(gatewaytest.Ann, k); c.State != message.ToolCallSubmitted || c.Definition == nil {
		t.Fatalf("the approved call is %s with the definition %+v", c.State, c.Definition)
	}
	ev := &message.ExternalExecutionResult{EventHeader: message.NewHeader(r), ExecutionResults: []message.ToolResultBlock{{ID: k.Call, Name: "picker", State: message.ToolResultSuccess, Output: message.Content{Text: "red"}}}}
	s.deliver("s", ev)
	thread := s.ended("s")
	if text, _ := thread.Messages[1].TextContent(""); !strings.Contains(text, "picker: success: red\nunheard: error: ToolNotFoundError") {
		t.Errorf("the agent says %q", text)
	}
}
