package agui_test

import (
	"strings"
	"testing"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	wire "github.com/askance-dev/askance/message/agui"
)

// picker is a tool of the frontend that the engine does not know, so it needs approval.
var picker = []any{map[string]any{"name": "picker", "description": "Picks one.", "parameters": map[string]any{"type": "object"}}}

// TestClientMessageTogether: a message that comes with responses or results reaches the agent
// after them.
func TestClientMessageTogether(t *testing.T) {
	with(t, map[string]func(*scenario){
		"deny and say": denyAndSay, "approve and say": approveAndSay, "cancel and say": cancelAndSay, "asks again": asksAgain,
		"result and say": resultAndSay, "no result and say": noResultAndSay, "failure": failureAndSay, "approval and result": approvalAndResult, "edit": editAndRun,
	})
}

// wantLines checks that the agent's text contains the pieces in this order.
func wantLines(t *testing.T, e ended, pieces ...string) {
	t.Helper()
	var heard strings.Builder
	for line := range strings.Lines(e.words()) {
		if strings.HasPrefix(line, "assistant:") {
			heard.WriteString(line)
		}
	}
	rest := heard.String()
	for _, piece := range pieces {
		_, after, found := strings.Cut(rest, piece)
		if !found {
			t.Fatalf("%q is missing, or too early, in\n%s", piece, e.words())
		}
		rest = after
	}
}

func wantSuccess(t *testing.T, e ended) ended {
	t.Helper()
	if e.fine(t); e.Outcome["type"] != "success" || len(e.Interrupts) != 0 {
		t.Fatalf("the run ended with %v, open %+v\n%s", e.Outcome, e.Interrupts, e.words())
	}
	return e
}

func denyAndSay(c *scenario) {
	a := c.everybody()
	e := a.say(pay, "say understood").fine(c.T)
	e = wantSuccess(c.T, a.run(map[string]any{"resume": []any{entry(e.Interrupts[0], no)}, "say": "say this instead"}))
	wantLines(c.T, e, "pay: denied", "understood", "this instead")
	// The client and the server have the same conversation.
	e = wantSuccess(c.T, a.say("say more"))
	if words := e.words(); strings.Count(words, "user: say this instead\n") != 1 || !strings.HasSuffix(words, "user: say this instead\nassistant: this instead\nuser: say more\nassistant: more\n") {
		c.Errorf("the client has\n%s", words)
	}
}

func approveAndSay(c *scenario) {
	a := c.everybody()
	e := a.say(pay).fine(c.T)
	both := map[string]any{"resume": []any{entry(e.Interrupts[0], yes)}, "say": pay}
	if e = a.run(both).fine(c.T); len(e.Interrupts) != 1 {
		c.Fatalf("the message opened no approval request: %v\n%s", e.Outcome, e.words())
	}
	wantLines(c.T, wantSuccess(c.T, a.resume(entry(e.Interrupts[0], no))), "pay: success", "pay: denied")
}

func cancelAndSay(c *scenario) {
	a := c.everybody()
	e := a.say(pay, "say never").fine(c.T)
	e = wantSuccess(c.T, a.run(map[string]any{"resume": []any{entry(e.Interrupts[0], nil)}, "say": "say this instead"}))
	if wantLines(c.T, e, "this instead"); strings.Contains(e.words(), "assistant: never") {
		c.Errorf("the client has\n%s", e.words())
	}
}

// asksAgain: the message waits for the end of the open reply.
func asksAgain(c *scenario) {
	a := c.everybody()
	e := a.say(pay, pay).fine(c.T)
	e = a.run(map[string]any{"resume": []any{entry(e.Interrupts[0], no)}, "say": "say at last"}).fine(c.T)
	if len(e.Interrupts) != 1 || strings.Contains(e.words(), "assistant: at last") {
		c.Fatalf("open %+v\n%s", e.Interrupts, e.words())
	}
	c.s.again() // the process restarts
	wantLines(c.T, wantSuccess(c.T, a.resume(entry(e.Interrupts[0], yes))), "pay: denied", "pay: success", "at last")
}

func lookupCall(c *scenario, a nodeAgent) (mine []any, call string) {
	c.Helper()
	mine = []any{map[string]any{"name": "lookup", "description": "Looks it up.", "parameters": map[string]any{"type": "object"}}}
	e := a.run(map[string]any{"say": `call lookup {"q":1}`, "tools": mine}).fine(c.T)
	return mine, e.Messages[len(e.Messages)-1].ToolCalls[0].ID
}

func resultAndSay(c *scenario) {
	a := c.everybody()
	mine, call := lookupCall(c, a)
	result := map[string]any{"id": "mine", "role": "tool", "toolCallId": call, "content": "found"}
	e := wantSuccess(c.T, a.run(map[string]any{"results": []any{result}, "say": "say thanks", "tools": mine}))
	if wantLines(c.T, e, "lookup: success: found", "thanks"); strings.Count(e.words(), "tool: found") != 1 {
		c.Errorf("the client has\n%s", e.words())
	}
}

// noResultAndSay: the client runs one of two calls and continues.
func noResultAndSay(c *scenario) {
	a := c.everybody()
	mine := []any{map[string]any{"name": "lookup", "description": "Looks it up.", "parameters": map[string]any{"type": "object"}}}
	e := a.run(map[string]any{"say": `call lookup {"q":1}` + "\nalso lookup {\"q\":2}", "tools": mine}).fine(c.T)
	result := map[string]any{"id": "mine", "role": "tool", "toolCallId": e.Messages[len(e.Messages)-1].ToolCalls[0].ID, "content": "found"}
	e = wantSuccess(c.T, a.run(map[string]any{"results": []any{result}, "say": "say enough", "tools": mine}))
	wantLines(c.T, e, "lookup: success: found", "lookup: error: The user went on", "enough")
}

// failureAndSay: the reply fails, and the message is still answered.
func failureAndSay(c *scenario) {
	a := c.everybody()
	e := a.say(pay, "fail rate_limit come back later").fine(c.T)
	e = wantSuccess(c.T, a.run(map[string]any{"resume": []any{entry(e.Interrupts[0], no)}, "say": "say still here"}))
	wantLines(c.T, e, "pay: denied", "still here")
	for _, custom := range e.Custom {
		if failed, ok := custom.Value["error"].(map[string]any); custom.Name == "askance.reply_end" && ok && failed["message"] == "come back later" {
			return
		}
	}
	c.Errorf("nothing says that the reply failed: %+v", e.Custom)
}

// approvalAndResult: the frontend asks its own user, runs its tool, and sends both.
func approvalAndResult(c *scenario) {
	a := c.everybody()
	e := a.run(map[string]any{"say": `call picker {"of":2}`, "tools": picker}).fine(c.T)
	if len(e.Interrupts) != 1 {
		c.Fatalf("open %+v", e.Interrupts)
	}
	result := map[string]any{"id": "picked", "role": "tool", "toolCallId": e.Interrupts[0].ToolCallID, "content": "red"}
	e = wantSuccess(c.T, a.run(map[string]any{"results": []any{result}, "resume": []any{entry(e.Interrupts[0], yes)}, "say": "say nice", "tools": picker}))
	if wantLines(c.T, e, "picker: success: red", "nice"); strings.Count(e.words(), "tool: red") != 1 {
		c.Errorf("the client has\n%s", e.words())
	}
}

// editAndRun: the client that runs its tool after an edit has the arguments that were approved.
func editAndRun(c *scenario) {
	a := c.everybody()
	e := a.run(map[string]any{"say": `call picker {"of":2}`, "tools": picker}).fine(c.T)
	edit := map[string]any{"approved": true, "editedArgs": map[string]any{"of": 9}}
	e = wantSuccess(c.T, a.run(map[string]any{"resume": []any{entry(e.Interrupts[0], edit)}, "tools": picker}))
	if call := e.Messages[len(e.Messages)-1].ToolCalls[0]; call.Function.Arguments != `{"of":9}` {
		c.Fatalf("the client runs %s", call.Function.Arguments)
	}
	result := map[string]any{"id": "picked", "role": "tool", "toolCallId": "call-1-1", "content": "red"}
	wantLines(c.T, wantSuccess(c.T, a.run(map[string]any{"results": []any{result}, "tools": picker})), "picker: success: red")
}

// TestDeniedResult: a result that comes with a rejection is ignored.
func TestDeniedResult(t *testing.T) {
	s := newStage(t)
	c := s.client(gatewaytest.Everything, "t").said(`call picker {"of":2}`)
	c.tools = []wire.Tool{{Name: "picker"}}
	c.talk().is(t, "interrupt")
	c.history.Apply(&wire.ToolCallResult{MessageID: "picked", ToolCallID: *c.open[0].ToolCallID, Content: wire.Content{Text: "red"}, Role: new(wire.RoleTool)})
	c.talk(c.all(`{"approved":false}`)...).is(t, "success")
	if words := c.words(); !strings.Contains(words, "picker: denied") || strings.Contains(words, "success: red") {
		t.Errorf("the client has\n%s", words)
	}
}

// TestMessageOfALostRun: the client loses the run that accepted its message and sends the same
// input again. The message counts once.
func TestMessageOfALostRun(t *testing.T) {
	s := newStage(t)
	c := s.client(gatewaytest.Everything, "t").said(pay, "say first")
	c.talk().is(t, "interrupt")
	c.said("say second")
	in := c.input(c.all(`{"approved":false}`)...)
	have := wire.NewHistory(c.history.Messages())
	c.post("/agui", in).is(t, "success")
	c.history = have
	c.post("/agui", in).is(t, "success")
	if words := c.words(); strings.Count(words, "assistant: second") != 1 || strings.Count(words, "assistant: first") != 1 || strings.Count(words, "user: say second") != 1 {
		t.Errorf("the client has\n%s", words)
	}
}

// TestClientUndeclaredTool: a rule names a tool that only the frontend knows. If the rule allows
// it, the run ends as a success with the calls for the client to run.
func TestClientUndeclaredTool(t *testing.T) {
	rules := gatewaytest.Rules + "  - {name: picks, tool: frontend/picker, behavior: allow, when: args.of < 9}\n"
	for _, alias := range []string{"agui-1", "agui-0"} {
		t.Run(alias, func(t *testing.T) {
			s, n := newStageIn(t, []gatewaytest.Option{gatewaytest.Policy(rules)}), startNode(t, alias)
			a := n.agent(s, gatewaytest.Everything, "t")
			e := a.run(map[string]any{"say": `call picker {"of":2}`, "tools": picker}).fine(t)
			if len(e.Interrupts) != 0 || e.Outcome["type"] != "success" || (e.Outcome["pendingToolCallIds"] != nil) != (alias == "agui-1") || len(e.Calls) != 1 {
				t.Fatalf("ended with %v, open %+v, calls %+v", e.Outcome, e.Interrupts, e.Calls)
			}
			result := map[string]any{"id": "picked", "role": "tool", "toolCallId": e.Messages[len(e.Messages)-1].ToolCalls[0].ID, "content": "red"}
			e = wantSuccess(t, a.run(map[string]any{"results": []any{result}, "tools": picker}))
			wantLines(t, e, "picker: success: red")
			if e = a.run(map[string]any{"say": `call picker {"of":10}`, "tools": picker}).fine(t); len(e.Interrupts) != 1 {
				t.Errorf("where the rule says nothing: %v", e.Outcome)
			}
		})
	}
}
