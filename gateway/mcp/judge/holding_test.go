package judge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// ran returns a tool that returns its arguments.
func ran(name string) tool {
	return tool{name, define(name), func(r *request) string { return text("ran " + string(r.Params.Arguments)) }}
}

// eventually polls for a change that another process makes without a notification.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it did not happen that %s", what)
		}
	}
}

// task requests the state of a task.
func (p *peer) task(id string) *result {
	p.t.Helper()
	return p.do("tasks/get", id, fmt.Sprintf(`"taskId":%q`, id), "").result(p.t)
}

// taskEnded polls a task until it has ended.
func (p *peer) taskEnded(id string) (r *result) {
	p.t.Helper()
	eventually(p.t, "the task ends", func() bool {
		r = p.task(id)
		return r.Status != "working"
	})
	return r
}

// TestTaskHoldsACall covers clients with the tasks extension.
func TestTaskHoldsACall(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy("echo"))
	fails := tool{"ask_error", define("ask_error"), func(*request) string { return `"error":{"code":-32011,"message":"odd","data":{"n":9007199254740993}}` }}
	u := newUpstream(t, echo, ran("ask"), fails)
	p := h.gateway(bot, u).peer(t, h, bot, false, withTasks)

	begin := func(tool, n string) (string, *call) {
		r := p.call(tool, `{"n":"`+n+`"}`).result()
		if r.ResultType != "task" || r.TaskID == "" || r.Status != "working" || !strings.Contains(r.StatusMessage, "http") || strings.Contains(r.raw, "requestState") {
			t.Fatalf("a call that asks: %s", r.raw)
		}
		return r.TaskID, h.wait("asks", func(c *call) bool { return c.State == "asking" && strings.Contains(c.Input, `"`+n+`"`) })
	}
	if r := p.call("echo", `{}`).result(); r.ResultType != "complete" {
		t.Errorf("an allowed call: %s", r.raw)
	}

	id, c := begin("ask", "approved")
	if r := p.task(id); r.Status != "working" || r.TaskID != id || r.ResultType != "complete" || r.Result != nil {
		t.Errorf("a task that waits for approval: %s", r.raw)
	}
	h.respond(c, "approve", nil)
	if r := p.taskEnded(id); r.Status != "completed" || r.Result == nil || r.Result.text() != `ran {"n":"approved"}` {
		t.Errorf("an approved task: %s", r.raw)
	}

	id, c = begin("ask", "rejected")
	h.respond(c, "reject", map[string]any{"feedback": "not today"})
	if r := p.taskEnded(id); r.Status != "completed" || r.Result == nil || !r.Result.IsError || !strings.Contains(r.Result.text(), "not today") {
		t.Errorf("a rejected task: %s", r.raw)
	}

	id, c = begin("ask_error", "fails")
	h.respond(c, "approve", nil)
	if r := p.taskEnded(id); r.Status != "failed" || r.Error == nil || r.Error.Code != -32011 || r.Result != nil {
		t.Errorf("a task with a protocol error: %s", r.raw)
	}

	id, c = begin("ask", "cancelled")
	if m := p.do("tasks/cancel", id, fmt.Sprintf(`"taskId":%q`, id), ""); m.Result == nil || strings.Contains(string(m.Result), "taskId") {
		t.Errorf("tasks/cancel: %s", m.raw)
	}
	h.finished(c)
	if r := p.taskEnded(id); r.Status != "cancelled" {
		t.Errorf("a cancelled task: %s", r.raw)
	}
	if u.calls("ask") != 1 {
		t.Errorf("the tool ran %d times", u.calls("ask"))
	}

	// Another principal, and a client that did not declare tasks, cannot read the task.
	id, c = begin("ask", "private")
	stranger := *p
	stranger.token = h.tokens[robot]
	if m := stranger.do("tasks/get", id, fmt.Sprintf(`"taskId":%q`, id), ""); m.Error == nil || strings.Contains(m.raw, "private") {
		t.Errorf("another principal gets a task: %s", m.raw)
	}
	_ = stranger.do("tasks/cancel", id, fmt.Sprintf(`"taskId":%q`, id), "")
	plain := *p
	plain.capabilities = noCapabilities
	if m := plain.do("tasks/get", id, fmt.Sprintf(`"taskId":%q`, id), ""); m.Error == nil || m.Error.Code != -32021 {
		t.Errorf("tasks/get without the capability: %s", m.raw)
	}
	if m := p.do("tasks/get", "no-such-task", `"taskId":"no-such-task"`, ""); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("tasks/get of an unknown task: %s", m.raw)
	}
	if r := p.task(id); r.Status != "working" {
		t.Errorf("the task after others asked for it: %s", r.raw)
	}
	h.respond(c, "reject", nil)
	p.taskEnded(id)
}

// again retries a call as the protocol requires after input_required.
func (p *peer) again(tool, arguments string, r *result) *exchange {
	p.t.Helper()
	return p.call(tool, arguments, fmt.Sprintf(`"requestState":%q,"inputResponses":{"askance":{"action":"accept"}}`, r.RequestState))
}

// TestURLElicitationHoldsACall covers modern clients that show a URL, and the protection of
// requestState.
func TestURLElicitationHoldsACall(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy())
	u := newUpstream(t, ran("ask"))
	g := h.gateway(bot, u, "--hold", "1s")
	p := g.peer(t, h, bot, false, withURL)
	const args = `{"n":1}`

	first := p.call("ask", args).result()
	q := first.InputRequests["askance"]
	if first.ResultType != "input_required" || first.RequestState == "" || q.Method != "elicitation/create" || q.Params.Mode != "url" || !strings.HasPrefix(q.Params.URL, "http") || q.Params.Message == "" {
		t.Fatalf("a call that asks: %s", first.raw)
	}
	c := h.asked("ask")
	if strings.Contains(q.Params.URL, h.tokens[bot]) || strings.Contains(q.Params.URL, "token") {
		t.Errorf("the URL %s carries credentials", q.Params.URL)
	}
	second := p.again("ask", args, first).result()
	if second.ResultType != "input_required" {
		t.Fatalf("accept counts as an approval: %s", second.raw)
	}

	// requestState is bound to the principal, the tool and the arguments.
	refused := func(what string, by *peer, tool, args, state string) {
		t.Helper()
		m, _ := by.call(tool, args, fmt.Sprintf(`"requestState":%q,"inputResponses":{"askance":{"action":"accept"}}`, state)).response()
		if m.Error == nil {
			t.Errorf("%s is accepted: %s", what, m.raw)
		}
	}
	stranger := *p
	stranger.token = h.tokens[robot]
	refused("another principal's requestState", &stranger, "ask", args, first.RequestState)
	refused("requestState with other arguments", p, "ask", `{"n":2}`, first.RequestState)
	refused("requestState with a suffix", p, "ask", args, first.RequestState+"x")
	refused("requestState with another beginning", p, "ask", args, "A"+first.RequestState[1:]+"A")
	refused("requestState that is none", p, "ask", args, "{}")
	if n := h.count("ask"); n != 1 {
		t.Errorf("after refused states there are %d calls, want 1", n)
	}

	h.respond(c, "approve", nil)
	if r := p.again("ask", args, second).result(); r.ResultType != "complete" || r.text() != "ran "+args {
		t.Errorf("the approved call: %s", r.raw)
	}
	if r := p.again("ask", args, second).result(); r.text() != "ran "+args || u.calls("ask") != 1 {
		t.Errorf("the same state again gets %s, and the tool ran %d times", r.raw, u.calls("ask"))
	}
}

// TestURLElicitationOfAPublishedClient: the client's own driver retries.
func TestURLElicitationOfAPublishedClient(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy())
	u := newUpstream(t, ran("ask"))
	g := h.gateway(bot, u)
	c := newTypescript(t, map[string]any{"era": "modern", "url": g.url, "token": h.tokens[bot], "capabilities": map[string]any{"elicitation": map[string]any{"url": map[string]any{}}}})
	done := c.call("ask", map[string]any{"n": 1})
	h.respond(h.asked("ask"), "approve", nil)
	if r := c.wait(done); r.text() != `ran {"n":1}` || u.calls("ask") != 1 {
		t.Errorf("the approved call: %s", r.raw)
	}
}

// waitTool calls the wait tool for the result of a held call.
func (p *peer) waitTool(id string) *exchange {
	p.t.Helper()
	return p.call("askance_wait", fmt.Sprintf(`{"call":%q}`, id))
}

// heldCall returns the id of the call if the result says that it is held, or "".
func (r *result) heldCall() string {
	var s struct{ Askance struct{ Call string } }
	_ = json.Unmarshal(r.StructuredContent, &s) // other results have other content
	return s.Askance.Call
}

// untilEnded calls the wait tool until the call is no longer held.
func (p *peer) untilEnded(r *result) *result {
	p.t.Helper()
	eventually(p.t, "a held call ends", func() bool {
		if id := r.heldCall(); id != "" {
			r = p.waitTool(id).result()
		}
		return r.heldCall() == ""
	})
	return r
}

// TestWaitToolHoldsACall covers all other clients, in both eras.
func TestWaitToolHoldsACall(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy())
	u := newUpstream(t, ran("ask_modern"), ran("ask_legacy"))
	g := h.gateway(bot, u, "--hold", "1s")
	for era, legacy := range map[string]bool{"modern": false, "legacy": true} {
		t.Run(era, func(t *testing.T) {
			p, name := g.peer(t, h, bot, legacy, noCapabilities), "ask_"+era
			r := p.call(name, `{"n":1}`).result()
			var s struct {
				Askance struct{ State, Call, Digest string }
			}
			if err := json.Unmarshal(r.StructuredContent, &s); err != nil || r.IsError || s.Askance.State != "asking" || s.Askance.Call == "" ||
				!strings.Contains(r.text(), "askance_wait") || !strings.Contains(r.text(), s.Askance.Call) || !strings.Contains(r.text(), "http") {
				t.Fatalf("a call that asks: %s %v", r.raw, err)
			}
			if tools := p.do("tools/list", "", "", ""); !strings.Contains(tools.raw, `"askance_wait"`) {
				t.Errorf("the list has no wait tool: %s", tools.raw)
			}
			c := h.asked(name)
			if c.Digest != s.Askance.Digest {
				t.Errorf("the digest is %s, the request's %s", s.Askance.Digest, c.Digest)
			}
			if r := p.waitTool(s.Askance.Call).result(); !strings.Contains(string(r.StructuredContent), `"asking"`) {
				t.Errorf("the wait tool returns %s", r.raw)
			}
			stranger := *p
			stranger.token = h.tokens[robot]
			if legacy {
				stranger.session = ""
				stranger.initialize()
			}
			if m, _ := stranger.waitTool(s.Askance.Call).response(); m.Error == nil && !m.result(t).IsError {
				t.Errorf("another principal can wait for the call: %s", m.raw)
			}
			if r := p.call(name, `{"n":1}`).result(); h.count(name) != 1 || !strings.Contains(r.raw, s.Askance.Call) {
				t.Errorf("after a plain repeat there are %d requests: %s", h.count(name), r.raw)
			}
			h.respond(c, "approve", nil)
			if r := p.waitTool(s.Askance.Call).result(); r.IsError || r.text() != `ran {"n":1}` || u.calls(name) != 1 {
				t.Errorf("after the approval: %s; the tool ran %d times", r.raw, u.calls(name))
			}
			if r := p.call(name, `{"n":1}`).result(); h.count(name) != 2 {
				t.Errorf("after its result was fetched, the call is still joined: %s", r.raw)
			}
		})
	}
}

// TestProgressHoldsACall: a call with a progress token is held and gets progress notifications.
func TestProgressHoldsACall(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy())
	u := newUpstream(t, ran("ask_http"), ran("ask_stdio"))
	overStdio, _ := h.stdio(t, bot, u, true, noCapabilities, "--hold", "90s")
	for name, p := range map[string]*peer{"ask_http": h.gateway(bot, u, "--hold", "90s").peer(t, h, bot, false, noCapabilities), "ask_stdio": overStdio} {
		t.Run(name, func(t *testing.T) {
			x := p.start("tools/call", name, fmt.Sprintf(`"name":%q,"arguments":{}`, name), `"progressToken":"p1"`)
			m := x.next()
			if m == nil || m.Method != "notifications/progress" || !strings.Contains(string(m.Params), `"p1"`) {
				t.Fatalf("a held call gets %v", m)
			}
			h.respond(h.asked(name), "approve", nil)
			if r := x.result(); r.text() != "ran {}" {
				t.Errorf("the approved call: %s", r.raw)
			}
		})
	}
}

// TestLegacyElicitationHoldsACall: the server's request shows the URL, and accepting it does not
// approve the call.
func TestLegacyElicitationHoldsACall(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy())
	u := newUpstream(t, ran("ask_http"), ran("ask_stdio"))
	overStdio, _ := h.stdio(t, bot, u, true, withURL, "--hold", "90s")
	for name, p := range map[string]*peer{"ask_http": h.gateway(bot, u, "--hold", "90s").peer(t, h, bot, true, withURL), "ask_stdio": overStdio} {
		t.Run(name, func(t *testing.T) {
			x := p.call(name, `{}`)
			m := x.next()
			if m == nil || m.Method != "elicitation/create" || m.ID == nil || !strings.Contains(string(m.Params), `"url"`) {
				t.Fatalf("a held call gets %v", m)
			}
			p.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"accept"}}`)
			c := h.asked(name)
			if u.calls(name) != 0 {
				t.Error("accept counts as an approval")
			}
			h.respond(c, "approve", nil)
			if r := x.result(); r.text() != "ran {}" {
				t.Errorf("the approved call: %s", r.raw)
			}
		})
	}
}

// TestBlockHoldsACall: with --block the first response is the result.
func TestBlockHoldsACall(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy())
	u := newUpstream(t, ran("ask"))
	p := h.gateway(bot, u, "--block", "--hold", "1ms").peer(t, h, bot, false, noCapabilities)
	x := p.call("ask", `{}`)
	h.respond(h.asked("ask"), "approve", nil)
	if r := x.result(); r.text() != "ran {}" {
		t.Errorf("the approved call: %s", r.raw)
	}
}

// TestLegacyTaskHoldsACall covers clients with the tasks of 2025-11-25.
func TestLegacyTaskHoldsACall(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy())
	u := newUpstream(t, ran("ask"))
	p := h.gateway(bot, u).peer(t, h, bot, true, `{"tasks":{"requests":{"tools":{"call":{}}}}}`)
	if m := p.do("tools/list", "", "", ""); !strings.Contains(m.raw, `"taskSupport":"optional"`) {
		t.Errorf("the tools do not declare that they can be tasks: %s", m.raw)
	}
	m, _ := p.call("ask", `{}`, `"task":{"ttl":60000}`).response()
	var made struct {
		Task struct{ TaskID, Status string }
	}
	if err := json.Unmarshal(m.Result, &made); err != nil || made.Task.TaskID == "" || made.Task.Status != "working" {
		t.Fatalf("a call as a task: %s %v", m.raw, err)
	}
	id := fmt.Sprintf(`"taskId":%q`, made.Task.TaskID)
	if r := p.do("tasks/get", "", id, "").result(t); r.Status != "working" {
		t.Errorf("tasks/get: %s", r.raw)
	}
	x := p.start("tasks/result", "", id, "")
	h.respond(h.asked("ask"), "approve", nil)
	if r := x.result(); r.text() != "ran {}" {
		t.Errorf("tasks/result: %s", r.raw)
	}
	if r := p.do("tasks/get", "", id, "").result(t); r.Status != "completed" {
		t.Errorf("tasks/get after the result: %s", r.raw)
	}
}

// TestRetryLegsHoldACall covers modern clients without any capability. They are told to retry as
// often as the operator configured, and then get the wait tool.
func TestRetryLegsHoldACall(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy())
	u := newUpstream(t, ran("ask"))
	p := h.gateway(bot, u, "--hold", "500ms", "--retry-legs", "2").peer(t, h, bot, false, noCapabilities)
	r := p.call("ask", `{}`).result()
	for leg := range 2 {
		if r.ResultType != "input_required" || r.RequestState == "" || len(r.InputRequests) != 0 {
			t.Fatalf("leg %d: %s", leg, r.raw)
		}
		r = p.call("ask", `{}`, fmt.Sprintf(`"requestState":%q`, r.RequestState)).result()
	}
	if r.heldCall() == "" {
		t.Fatalf("after the legs: %s", r.raw)
	}
	h.respond(h.asked("ask"), "approve", nil)
	if r = p.untilEnded(r); r.text() != "ran {}" || h.count("ask") != 1 || u.calls("ask") != 1 {
		t.Errorf("the approved call: %s", r.raw)
	}
}
