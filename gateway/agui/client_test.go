package agui_test

import (
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/toolcall"
)

// pay is the line that makes the agent propose a call that needs approval.
const pay = `call pay {"to":"acme","amount":42}`

var (
	yes = map[string]any{"approved": true}
	no  = map[string]any{"approved": false}
)

// TestClientResponses covers the answers that a person can give.
func TestClientResponses(t *testing.T) {
	with(t, map[string]func(*scenario){
		"approve": approve, "edit": edit, "reject": reject, "cancel": cancel, "mixed": mixed, "rules": rules,
	})
}

func approve(c *scenario) {
	a := c.everybody()
	e := a.say("think let me see", "say I pay.", pay).fine(c.T)
	if len(e.Interrupts) != 1 {
		c.Fatalf("interrupts %+v", e.Interrupts)
	}
	i := e.Interrupts[0]
	if i.Reason != "tool_call" || i.Message != "Pay 42 to acme?" || i.ToolCallID != e.Messages[2].ToolCalls[0].ID || !i.Metadata.Askance.MayRespond || i.Metadata.Askance.Arguments != `{"to":"acme","amount":42}` {
		c.Errorf("interrupt %+v", i)
	}
	if props, ok := i.ResponseSchema["properties"].(map[string]any); !ok || props["editedArgs"] == nil || props["approved"] == nil {
		c.Errorf("schema %+v", i.ResponseSchema)
	}
	e = a.resume(entry(i, yes)).fine(c.T)
	if len(e.Interrupts) != 0 || len(c.s.asking(c.thread())) != 0 {
		c.Fatalf("open: %+v", e.Interrupts)
	}
	e.says(c.T, `
user: think let me see | say I pay. | call pay {"to":"acme","amount":42}
reasoning: let me see
assistant: pay{"to":"acme","amount":42} I pay.
tool: {"to":"acme","amount":42}
assistant: pay: success: {"to":"acme","amount":42}`)
	e = a.say("say again").fine(c.T)
	if last := e.Messages[len(e.Messages)-1]; last.Content != "again" {
		c.Errorf("last message %+v", last)
	}
}

func edit(c *scenario) {
	a := c.everybody()
	e := a.say(pay).fine(c.T)
	i := e.Interrupts[0]
	for name, payload := range map[string]map[string]any{
		"no payload": {}, "misspelt": {"approved": true, "editedargs": map[string]any{}}, "no object": {"approved": true, "editedArgs": "x"},
		"breaks the tool's schema": {"approved": true, "editedArgs": map[string]any{"to": "acme", "amount": -1}},
	} {
		c.Log(name)
		want := "payload_invalid"
		if strings.HasPrefix(name, "breaks") {
			want = "invalid"
		}
		a.resume(entry(i, payload)).refused(c.T, want)
	}
	e = a.resume(entry(i, map[string]any{"approved": true, "editedArgs": map[string]any{"amount": 7, "to": "initech"}})).fine(c.T)
	e.says(c.T, `
user: call pay {"to":"acme","amount":42}
assistant: pay{"to":"acme","amount":42}
tool: {"amount":7,"to":"initech"}
assistant: pay: success: {"amount":7,"to":"initech"}`)
}

func reject(c *scenario) {
	a := c.everybody()
	e := a.say(pay).fine(c.T)
	e = a.resume(entry(e.Interrupts[0], map[string]any{"approved": false, "feedback": "too much"})).fine(c.T)
	if words := e.words(); len(e.Interrupts) != 0 || !strings.Contains(words, "too much") || !strings.Contains(words, "pay: denied") {
		c.Errorf("after a rejection: %s", words)
	}
}

func cancel(c *scenario) {
	a := c.everybody()
	e := a.say(pay).fine(c.T)
	e = a.resume(entry(e.Interrupts[0], nil)).fine(c.T)
	want := "cancelled"
	if c.n.alias == "agui-0" {
		want = "success" // the client knows no other outcome that clears its interrupts
	}
	if e.Outcome["type"] != want || len(e.Interrupts) != 0 {
		c.Errorf("after a cancel: %v, open %+v", e.Outcome, e.Interrupts)
	}
	a.say("say on we go").fine(c.T)
}

// mixed approves one request, rejects one and cancels one.
func mixed(c *scenario) {
	a := c.everybody()
	e := a.say(pay, `also pay {"to":"initech","amount":7}`, `also pay {"to":"hooli","amount":8}`).fine(c.T)
	if len(e.Interrupts) != 3 {
		c.Fatalf("%d interrupts", len(e.Interrupts))
	}
	e = a.resume(entry(e.Interrupts[0], no), entry(e.Interrupts[1], yes), entry(e.Interrupts[2], nil)).fine(c.T)
	results := e.Messages[len(e.Messages)-1].Content.(string)
	if lines := strings.Split(results, "\n"); !strings.HasPrefix(lines[0], "pay: denied") || !strings.HasPrefix(lines[1], `pay: success: {"to":"initech"`) || !strings.HasPrefix(lines[2], "pay: denied") {
		c.Errorf("results\n%s", results)
	}
}

// rules remembers a suggested rule, and checks that a rule that was not suggested is refused.
func rules(c *scenario) {
	a := c.everybody()
	e := a.say(pay).fine(c.T)
	i := e.Interrupts[0]
	a.resume(entry(i, map[string]any{"approved": true, "rules": []any{map[string]any{"tool_name": "drop", "rule_content": nil, "behavior": "allow", "source": "x"}}})).refused(c.T, "forbidden")
	a.resume(entry(i, yes)).fine(c.T)
}

// TestClientContract covers the contract of interrupts.
func TestClientContract(t *testing.T) {
	with(t, map[string]func(*scenario){
		"partial": partial, "blocked": blocked, "replay": replay, "other answer": otherAnswer, "race": race, "stray": stray,
		"restart": restart, "without resume": withoutResume, "other thread": otherThread, "not an approver": notAnApprover, "quorum": quorum,
	})
}

func partial(c *scenario) {
	a := c.everybody()
	e := a.say(pay, `also pay {"to":"initech","amount":7}`).fine(c.T)
	one, two := e.Interrupts[0], e.Interrupts[1]
	e = a.resume(entry(one, yes))
	if e.Rejected == nil || !strings.Contains(e.Rejected.Message, two.ID) { // the client itself refuses this
		c.Fatalf("rejected %+v", e.Rejected)
	}
	e = a.run(map[string]any{"forget": true, "resume": []any{entry(one, yes)}})
	if e.Rejected != nil || len(e.RunErrors) != 1 || e.RunErrors[0].Code != "resume_incomplete" {
		c.Fatalf("partial resume: %+v %+v", e.Rejected, e.RunErrors)
	}
	if open := c.s.asking(c.thread()); len(open) != 2 {
		c.Fatalf("a partial resume was carried out: %v", open)
	}
	e = a.resume(entry(one, yes), entry(two, no)).fine(c.T)
	if len(e.Interrupts) != 0 {
		c.Errorf("open: %+v", e.Interrupts)
	}
}

func blocked(c *scenario) {
	a := c.everybody()
	e := a.say(pay).fine(c.T)
	i := e.Interrupts[0]
	e = a.run(map[string]any{"forget": true, "say": "say something else"})
	if len(e.RunErrors) != 1 || e.RunErrors[0].Code != "interrupt_pending" {
		c.Fatalf("errors %+v", e.RunErrors)
	}
	e = a.resume(entry(i, yes)).fine(c.T)
	if e.words(); len(c.s.asking(c.thread())) != 0 {
		c.Errorf("requests are still open")
	}
}

func replay(c *scenario) {
	a := c.everybody()
	e := a.say(pay).fine(c.T)
	answer := entry(e.Interrupts[0], yes)
	before := e.raw
	e = a.resume(answer).fine(c.T)
	words := e.words()
	e = a.resume(answer).fine(c.T) // the client has already seen everything
	if e.words() != words || len(e.Custom) != 0 {
		c.Errorf("the replay changed the conversation:\n%s", e.words())
	}
	again := c.n.agent(c.s, gatewaytest.Everything, c.thread(), before...) // the answer to the first was lost
	e = again.resume(answer).fine(c.T).says(c.T, words)
	if len(e.Custom) != 0 {
		c.Errorf("the client was told of another decision: %+v", e.Custom)
	}
}

// otherAnswer: a replay with a different answer changes nothing.
func otherAnswer(c *scenario) {
	a := c.everybody()
	e := a.say(pay).fine(c.T)
	i := e.Interrupts[0]
	words := a.resume(entry(i, yes)).fine(c.T).words()
	e = a.resume(entry(i, no)).fine(c.T).says(c.T, words)
	if len(e.Custom) != 1 || e.Custom[0].Name != "askance.overtaken" || e.Custom[0].Value["cause"] != "approve" || e.Custom[0].Value["by"] != gatewaytest.Everything {
		c.Errorf("the client was told %+v", e.Custom)
	}
}

// race: another surface is faster.
func race(c *scenario) {
	a := c.everybody()
	e := a.say(pay).fine(c.T)
	c.s.elsewhere(gatewaytest.Ann, c.s.asking(c.thread())[0], toolcall.ResponseReject, "not this one")
	e = a.resume(entry(e.Interrupts[0], yes)).fine(c.T)
	if words := e.words(); !strings.Contains(words, "not this one") || !strings.Contains(words, "pay: denied") || len(e.Interrupts) != 0 {
		c.Errorf("the client has\n%s", words)
	}
	if len(e.Custom) != 1 || e.Custom[0].Value["by"] != gatewaytest.Ann || e.Custom[0].Value["cause"] != "reject" {
		c.Errorf("the client was told %+v", e.Custom)
	}
}

func stray(c *scenario) {
	a := c.everybody()
	e := a.say(pay).fine(c.T)
	e = a.resume(entry(interrupt{ID: "never"}, yes), entry(e.Interrupts[0], yes)).fine(c.T)
	if len(e.Interrupts) != 0 {
		c.Errorf("open interrupts: %+v", e.Interrupts)
	}
}

// restart: everything but the journal is lost between the approval request and the answer.
func restart(c *scenario) {
	a := c.everybody()
	e := a.say("say first", pay).fine(c.T)
	c.s.A.Restart()
	c.s.again()
	e = a.resume(entry(e.Interrupts[0], yes)).fine(c.T)
	e.says(c.T, `
user: say first | call pay {"to":"acme","amount":42}
assistant: pay{"to":"acme","amount":42} first
tool: {"to":"acme","amount":42}
assistant: pay: success: {"to":"acme","amount":42}`)
}

// withoutResume: another surface answers for a client that cannot resume, and then the client
// continues.
func withoutResume(c *scenario) {
	a := c.everybody()
	a.say(pay).fine(c.T)
	c.s.elsewhere(gatewaytest.Ann, c.s.asking(c.thread())[0], toolcall.ResponseApprove, "")
	e := a.run(map[string]any{"forget": true, "say": "say and now"}).fine(c.T)
	e.says(c.T, `
user: call pay {"to":"acme","amount":42}
assistant: pay{"to":"acme","amount":42}
tool: {"to":"acme","amount":42}
assistant: pay: success: {"to":"acme","amount":42}
user: say and now
assistant: and now`)
}

// otherThread: an answer counts only in its own thread, and a thread has one owner.
func otherThread(c *scenario) {
	a := c.everybody()
	e := a.say(pay).fine(c.T)
	b := c.n.agent(c.s, gatewaytest.Everything, c.thread()+".b")
	got := b.run(map[string]any{"say": "say hello", "resume": []any{entry(e.Interrupts[0], yes)}}).fine(c.T)
	if open := c.s.asking(c.thread()); len(open) != 1 || !strings.Contains(got.words(), "hello") {
		c.Errorf("an answer for another thread was accepted: %v\n%s", open, got.words())
	}
	e = c.n.agent(c.s, gatewaytest.Bot, c.thread()).say("say mine")
	if e.Rejected == nil || !strings.HasPrefix(e.Rejected.Message, "HTTP 403") || strings.Contains(e.words(), "pay") {
		c.Errorf("another principal's thread: %+v", e.Rejected)
	}
}

// notAnApprover: a person who may chat but not approve sees whom the call waits for.
func notAnApprover(c *scenario) {
	a := c.n.agent(c.s, gatewaytest.Bot, c.thread())
	e := a.say("call deploy {}").fine(c.T)
	i := e.Interrupts[0]
	if i.Metadata.Askance.MayRespond || !strings.Contains(i.Message, "2 of the group ops") {
		c.Errorf("interrupt %+v", i)
	}
	a.resume(entry(i, yes)).refused(c.T, "forbidden")
	key := c.s.asking(c.thread())[0]
	c.s.elsewhere(gatewaytest.Ann, key, toolcall.ResponseApprove, "")
	a.resume(entry(i, yes)).refused(c.T, "forbidden")
	c.s.elsewhere(gatewaytest.Bob, key, toolcall.ResponseApprove, "")
	e = a.resume(entry(i, yes)).fine(c.T)
	if !strings.Contains(e.words(), "deploy: success") {
		c.Errorf("the client has\n%s", e.words())
	}
	e = a.say(pay).fine(c.T)
	e = a.resume(entry(e.Interrupts[0], nil)).fine(c.T) // a turn that has begun may be abandoned
	if len(e.Interrupts) != 0 || len(c.s.asking(c.thread())) != 0 {
		c.Errorf("open: %+v", e.Interrupts)
	}
}

// quorum: an answer counts, but more are needed.
func quorum(c *scenario) {
	a := c.everybody()
	e := a.say("call deploy {}").fine(c.T)
	a.resume(entry(e.Interrupts[0], yes)).refused(c.T, "forbidden") // not in the group
	c.s.elsewhere(gatewaytest.Ann, c.s.asking(c.thread())[0], toolcall.ResponseApprove, "")
	c.s.elsewhere(gatewaytest.Bob, c.s.asking(c.thread())[0], toolcall.ResponseApprove, "")
	e = a.resume(entry(e.Interrupts[0], yes)).fine(c.T)
	if !strings.Contains(e.words(), "deploy: success") {
		c.Errorf("the client has\n%s", e.words())
	}
}

// TestClientConversation covers everything else that clients do.
func TestClientConversation(t *testing.T) {
	with(t, map[string]func(*scenario){
		"turns": turns, "tools": tools, "abort": abort, "reload": reload, "errors": errs, "media": media, "shared state": state,
	})
}

// turns: calls and blocks of different turns stay separate, although the model starts numbering
// them again each time.
func turns(c *scenario) {
	a := c.everybody()
	want := ""
	for _, word := range []string{"one", "two", "three"} {
		e := a.say("say "+word, `call echo {"n":"`+word+`"}`).fine(c.T)
		want += "user: say " + word + ` | call echo {"n":"` + word + `"}` + "\nassistant: echo" + `{"n":"` + word + `"} ` + word +
			"\ntool: " + `{"n":"` + word + `"}` + "\nassistant: echo: success: " + `{"n":"` + word + `"}` + "\n"
		e.says(c.T, want)
	}
	e := a.say(pay).fine(c.T)
	a.resume(entry(e.Interrupts[0], yes)).fine(c.T)
	if e = a.say(pay).fine(c.T); len(e.Interrupts) != 1 {
		c.Errorf("open interrupts: %+v", e.Interrupts)
	}
	a.resume(entry(e.Interrupts[0], no)).fine(c.T)
}

// tools: the client runs its own tools, also during an approval request.
func tools(c *scenario) {
	a := c.everybody()
	mine := []any{map[string]any{"name": "lookup", "description": "Looks it up.", "parameters": map[string]any{"type": "object"}}}
	e := a.run(map[string]any{"say": `call lookup {"q":1}` + "\nalso " + strings.TrimPrefix(pay, "call "), "tools": mine}).fine(c.T)
	if len(e.Interrupts) != 1 || len(e.Calls) != 2 || e.Calls[0].Name != "lookup" {
		c.Fatalf("interrupts %+v, calls %+v", e.Interrupts, e.Calls)
	}
	result := map[string]any{"id": "mine", "role": "tool", "toolCallId": e.Messages[1].ToolCalls[0].ID, "content": "found"}
	e = a.run(map[string]any{"results": []any{result}, "tools": mine, "resume": []any{entry(e.Interrupts[0], yes)}}).fine(c.T)
	if words := e.words(); !strings.Contains(words, "lookup: success: found") || strings.Count(words, "tool: found") != 1 {
		c.Errorf("the client has\n%s", words)
	}
	e = a.run(map[string]any{"say": `call lookup {"q":2}`, "tools": mine}).fine(c.T)
	if e.Outcome["type"] != "success" || (e.Outcome["pendingToolCallIds"] != nil) != (c.n.alias == "agui-1") {
		c.Errorf("outcome %v", e.Outcome)
	}
	calls := e.Messages[len(e.Messages)-1].ToolCalls
	result = map[string]any{"id": "mine too", "role": "tool", "toolCallId": calls[0].ID, "content": "", "error": "the page is closed"}
	e = a.run(map[string]any{"results": []any{result}, "tools": mine}).fine(c.T)
	if words := e.words(); !strings.Contains(words, "lookup: error: the page is closed") {
		c.Errorf("the client has\n%s", words)
	}
}

// abort: the person stops watching and later continues.
func abort(c *scenario) {
	a := c.everybody()
	e := a.run(map[string]any{"say": "stream 40 10", "abortAt": "TEXT_MESSAGE_CONTENT"})
	if e.Running {
		c.Error("the client is still running")
	}
	e = a.say("say more").fine(c.T)
	if words := e.words(); !strings.Contains(words, "00040\n") || !strings.HasSuffix(words, "user: say more\nassistant: more\n") {
		c.Errorf("the client has\n%s", words)
	}
}

// reload: a page knows only its thread.
func reload(c *scenario) {
	a := c.everybody()
	words := a.say("think hm", "say first", pay).fine(c.T).words()
	b := c.n.agent(c.s, gatewaytest.Everything, c.thread())
	e := b.run(map[string]any{"url": c.s.URL + "/agui/connect"}).fine(c.T).says(c.T, words)
	if len(e.Interrupts) != 1 {
		c.Fatalf("open interrupts: %+v", e.Interrupts)
	}
	e = b.run(map[string]any{"url": c.s.URL + "/agui", "resume": []any{entry(e.Interrupts[0], yes)}}).fine(c.T)
	if !strings.HasPrefix(e.words(), words) || !strings.Contains(e.words(), "pay: success") {
		c.Errorf("the client has\n%s", e.words())
	}
}

// errs checks how failures of the agent and of the server are reported.
func errs(c *scenario) {
	a := c.everybody()
	e := a.say("fail rate_limit come back later")
	if e.Rejected != nil || len(e.RunErrors) != 1 || e.RunErrors[0].Code != "rate_limit" || e.RunErrors[0].Message != "come back later" {
		c.Errorf("the agent's error: %+v %+v", e.Rejected, e.RunErrors)
	}
	a.say("say better now").fine(c.T)
	e = c.n.agent(c.s, gatewaytest.Ann, c.thread()+".x").say("say hello")
	if e.Rejected == nil || !strings.HasPrefix(e.Rejected.Message, "HTTP 403: ") {
		c.Errorf("an approver sent a message: %+v", e.Rejected)
	}
}

// media: a person sends a picture.
func media(c *scenario) {
	a := c.everybody()
	picture := map[string]any{"id": "u", "role": "user", "content": []any{
		map[string]any{"type": "text", "text": "say nice"},
		map[string]any{"type": "image", "source": map[string]any{"type": "data", "value": "aGk=", "mimeType": "image/png"}},
	}}
	a.run(map[string]any{"results": []any{picture}}).fine(c.T)
	b := c.n.agent(c.s, gatewaytest.Everything, c.thread())
	e := b.run(map[string]any{"url": c.s.URL + "/agui/connect"}).fine(c.T)
	if parts, ok := e.Messages[0].Content.([]any); !ok || len(parts) != 2 || !strings.HasSuffix(e.words(), "assistant: nice\n") {
		c.Errorf("after a reload %+v", e.Messages)
	}
}

// state: the client gets its own state back before an interrupt.
func state(c *scenario) {
	a := c.everybody()
	e := a.run(map[string]any{"say": pay, "state": map[string]any{"n": 1}}).fine(c.T)
	if held, ok := e.State.(map[string]any); !ok || held["n"] != 1.0 {
		c.Errorf("state %v", e.State)
	}
	a.resume(entry(e.Interrupts[0], yes)).fine(c.T)
}

// almostLate returns an agent whose client was shown an approval request that expires soon. A
// slow machine may need more than a second.
func almostLate(t *testing.T, n *node) (*stage, nodeAgent, interrupt) {
	t.Helper()
	for after := time.Second; after < 5*time.Minute; after *= 4 {
		s := newStageIn(t, []gatewaytest.Option{expiringAfter(after)})
		a := n.agent(s, gatewaytest.Everything, "t")
		if e := a.say("call ship {}").fine(t); len(e.Interrupts) == 1 {
			return s, a, e.Interrupts[0]
		}
	}
	t.Fatal("the client is never shown the approval request")
	return nil, nodeAgent{}, interrupt{}
}

// TestClientExpiry: an expired approval request can be cancelled, which the older client does not
// know.
func TestClientExpiry(t *testing.T) {
	for _, alias := range []string{"agui-1", "agui-0"} {
		t.Run(alias, func(t *testing.T) {
			s, a, i := almostLate(t, startNode(t, alias))
			s.until("t", 0)
			e := a.resume(entry(i, yes))
			if e.Rejected == nil || !strings.Contains(e.Rejected.Message, "expired") {
				t.Fatalf("answered too late: %+v %+v", e.Rejected, e.RunErrors)
			}
			e = a.run(map[string]any{"forget": true, "resume": []any{entry(i, yes)}})
			if len(e.RunErrors) != 1 || e.RunErrors[0].Code != "interrupt_expired" {
				t.Fatalf("answered too late: %+v %+v", e.Rejected, e.RunErrors)
			}
			e = a.run(map[string]any{"forget": alias == "agui-0", "resume": []any{entry(i, nil)}}).fine(t)
			if !strings.Contains(e.words(), "ship: denied") {
				t.Errorf("the client has\n%s", e.words())
			}
		})
	}
}
