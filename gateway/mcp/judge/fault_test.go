package judge_test

import (
	"strings"
	"sync"
	"testing"
)

// TestUpstreamDies: if a server dies during a call, the outcome is unknown and the call is not
// repeated, unless its tool is idempotent.
func TestUpstreamDies(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy("effect", "repeatable"))
	var mu sync.Mutex
	lives := 0
	u := newUpstream(t,
		tool{"effect", define("effect"), func(*request) string { return "" }},
		tool{"repeatable", define("repeatable", `"annotations":{"idempotentHint":true}`), func(*request) string {
			mu.Lock()
			defer mu.Unlock()
			if lives++; lives == 1 {
				return ""
			}
			return text("the second time")
		}}, echo)
	file := h.upstreams(map[string]map[string]any{"": {"url": u.url, "idempotent": []string{"repeatable"}}})
	stdio := h.upstreams(map[string]map[string]any{"": {"command": []string{bin.self, relayArg, u.socket}, "idempotent": []string{"repeatable"}}})
	for name, g := range map[string]*gateway{"http": h.gatewayOf(bot, file), "stdio": h.gatewayOf(bot, stdio)} {
		t.Run(name, func(t *testing.T) {
			mu.Lock()
			lives = 0
			mu.Unlock()
			p := g.peer(t, h, bot, false, noCapabilities)
			before := u.calls("effect")
			r := p.call("effect", `{"over":"`+name+`"}`).result()
			if !r.IsError || !strings.Contains(r.text(), "may have happened") || !strings.Contains(r.text(), "do not repeat") {
				t.Errorf("a call whose outcome is unknown: %s", r.raw)
			}
			if n := u.calls("effect") - before; n != 1 {
				t.Errorf("it ran %d times", n)
			}
			if r := p.call("repeatable", `{"over":"`+name+`"}`).result(); r.IsError || r.text() != "the second time" {
				t.Errorf("an idempotent call: %s", r.raw)
			}
		})
	}
	if n := u.processes(); n < 2 {
		t.Errorf("the stdio upstream started %d times", n)
	}
}

// TestUpstreamGarbage: text that is not JSON-RPC does not end the connection, is not taken for a
// response, and never becomes a result. Text on stderr is logged.
func TestUpstreamGarbage(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy("babble", "strange"))
	u := newUpstream(t, tool{"babble", define("babble"), func(r *request) string {
		r.notify("Listening on port 3000")
		r.notify(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"of another call"}]}}`)
		r.notify(`[1,2]`)
		return text("meant")
	}}, tool{"strange", define("strange"), func(r *request) string { return `"result":{"resultType":"surprise","content":[]}` }})
	p, proc := h.stdio(t, bot, u, false, noCapabilities, "--log-level", "info")
	if r := p.call("babble", `{}`).result(); r.text() != "meant" {
		t.Errorf("a result among garbage: %s", r.raw)
	}
	if m, _ := p.call("strange", `{}`).response(); m.Error == nil && !m.result(t).IsError {
		t.Errorf("an unknown resultType becomes %s", m.raw)
	}
	if len(p.pipe.garbage) > 0 {
		t.Errorf("the client got garbage: %q", p.pipe.garbage)
	}
	proc.says(`relay: (ready)`)
}

// TestClientDisconnects: if a modern client disconnects, its call is cancelled. The call of a
// legacy client continues, and repeating the call finds its result.
func TestClientDisconnects(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy())
	u := newUpstream(t, ran("ask_modern"), ran("ask_legacy"), ran("ask_stdio"))
	g := h.gateway(bot, u, "--hold", "90s")

	x := g.peer(t, h, bot, false, noCapabilities).call("ask_modern", `{}`)
	c := h.asked("ask_modern")
	x.cancel()
	h.finished(c)

	p, _ := h.stdio(t, bot, u, false, noCapabilities, "--hold", "90s")
	x = p.call("ask_stdio", `{}`)
	c = h.asked("ask_stdio")
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + x.id + `,` + p.meta("") + `}}`)
	h.finished(c)

	legacy := g.peer(t, h, bot, true, noCapabilities)
	x = legacy.call("ask_legacy", `{}`)
	c = h.asked("ask_legacy")
	x.cancel()
	for x.next() != nil { // until the connection is closed
	}
	h.respond(c, "approve", nil)
	if r := legacy.call("ask_legacy", `{}`).result(); r.text() != "ran {}" || u.calls("ask_legacy") != 1 || h.count("ask_legacy") != 1 {
		t.Errorf("the call after a disconnect: %s; it ran %d times", r.raw, u.calls("ask_legacy"))
	}
	if n := u.calls("ask_modern") + u.calls("ask_stdio"); n != 0 {
		t.Errorf("cancelled calls ran %d times", n)
	}
}

// TestCancelWhileRunning: the cancellation is passed to the upstream.
func TestCancelWhileRunning(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy("slow"))
	running, cancelled := make(chan struct{}, 2), make(chan struct{}, 2)
	u := newUpstream(t, tool{"slow", define("slow"), func(r *request) string {
		running <- struct{}{}
		<-r.ctx.Done()
		cancelled <- struct{}{}
		return ""
	}})
	x := h.gateway(bot, u).peer(t, h, bot, false, noCapabilities).call("slow", `{"over":"http"}`)
	<-running
	x.cancel()
	<-cancelled
	if n := u.calls("slow"); n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
}

// TestGatewayKilled: a gateway is killed while one call waits for approval and another runs.
// After its restart the client repeats the calls, and each runs once.
func TestGatewayKilled(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy())
	running := make(chan struct{}, 8)
	u := newUpstream(t, ran("ask_asking"), tool{"ask_running", define("ask_running"), func(r *request) string {
		running <- struct{}{}
		<-r.ctx.Done()
		return ""
	}})
	flags := []string{"--session", "judges", "--hold", "90s"}
	g := h.gateway(bot, u, flags...)
	p := g.peer(t, h, bot, false, noCapabilities)

	_ = p.call("ask_asking", `{}`)
	asking := h.asked("ask_asking")
	_ = p.call("ask_running", `{}`)
	h.respond(h.asked("ask_running"), "approve", nil)
	<-running
	g.kill()
	g = h.gateway(bot, u, "--session", "judges", "--hold", "2s")
	p = g.peer(t, h, bot, false, noCapabilities)
	x := p.call("ask_asking", `{}`)
	h.respond(asking, "approve", nil)
	if r := p.untilEnded(x.result()); r.text() != "ran {}" || u.calls("ask_asking") != 1 || h.count("ask_asking") != 1 {
		t.Errorf("the call that asked when the gateway was killed: %s; %d calls, %d runs", r.raw, h.count("ask_asking"), u.calls("ask_asking"))
	}
	if r := p.untilEnded(p.call("ask_running", `{}`).result()); !r.IsError || !strings.Contains(r.text(), "may have happened") || u.calls("ask_running") != 1 {
		t.Errorf("the call that ran when the gateway was killed: %s; %d runs", r.raw, u.calls("ask_running"))
	}
	h.wait("is blocked", func(c *call) bool { return c.Tool == "ask_running" && c.Blocked == "unknown" })
}

// TestServerDown: without askance nothing runs, and the client is told. When askance is back, the
// held call runs at most once.
func TestServerDown(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy("echo"))
	u := newUpstream(t, echo)
	p := h.gateway(bot, u, "--hold", "1s").peer(t, h, bot, false, noCapabilities)
	_ = p.call("echo", `{"n":1}`).result()
	h.proc.kill()
	r := p.call("echo", `{"n":2}`).result()
	if !r.IsError && !strings.Contains(string(r.StructuredContent), `"deciding"`) || u.calls("echo") != 1 {
		t.Errorf("without askance a call gets %s, and the tool ran %d times", r.raw, u.calls("echo"))
	}
	h.start(strings.TrimPrefix(h.url, "http://"), h.nats)
	r = p.untilEnded(r)
	if n := u.calls("echo"); r.IsError && n != 1 || !r.IsError && (n != 2 || r.text() != `{"n":2}`) {
		t.Errorf("with askance again the call gets %s, and the tool ran %d times", r.raw, n)
	}
	r = p.untilEnded(p.call("echo", `{"n":3}`).result())
	if r.text() != `{"n":3}` {
		t.Errorf("with askance again the next call gets %s", r.raw)
	}
}

// TestTwoGateways: two gateways of one principal and session run a call once, even if a repeat
// goes to the other one. State of one gateway is valid at the other.
func TestTwoGateways(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy())
	u := newUpstream(t, ran("ask_state"), ran("ask_repeat"))
	flags := []string{"--session", "judges", "--hold", "1s"}
	one := h.gateway(bot, u, flags...).peer(t, h, bot, false, withURL)
	two := h.gateway(bot, u, flags...).peer(t, h, bot, false, withURL)
	first := one.call("ask_state", `{}`).result()
	h.respond(h.asked("ask_state"), "approve", nil)
	if r := two.untilEnded(two.again("ask_state", `{}`, first).result()); r.text() != "ran {}" {
		t.Errorf("the other gateway: %s", r.raw)
	}
	if n := u.calls("ask_state"); n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
	_, _ = one.call("ask_repeat", `{}`).result(), two.call("ask_repeat", `{}`).result()
	if n := h.count("ask_repeat"); n != 1 {
		t.Errorf("after a repeat at another gateway there are %d requests, want 1", n)
	}
}

// TestIdenticalCalls: a repeat joins the open call of the same principal only.
func TestIdenticalCalls(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy())
	u := newUpstream(t, ran("ask"))
	g := h.gateway(bot, u, "--hold", "90s")
	var mine []*exchange
	for range 3 {
		mine = append(mine, g.peer(t, h, bot, false, noCapabilities).call("ask", `{"n":1}`))
	}
	theirs := g.peer(t, h, robot, false, noCapabilities).call("ask", `{"n":1}`)
	of := func(agent string) *call {
		return h.wait("of "+agent, func(c *call) bool { return c.Agent == agent && c.State == "asking" })
	}
	h.respond(of(bot), "approve", nil)
	for i, x := range mine {
		if r := x.result(); r.text() != `ran {"n":1}` {
			t.Errorf("identical call %d: %s", i, r.raw)
		}
	}
	h.respond(of(robot), "reject", nil)
	if r := theirs.result(); !r.IsError {
		t.Errorf("the approval also counts for another principal's identical call: %s", r.raw)
	}
	if u.calls("ask") != 1 || h.count("ask") != 2 {
		t.Errorf("%d calls ran %d times", h.count("ask"), u.calls("ask"))
	}
}

// TestAliases: if there are several upstreams, names of tools begin with an alias, and names that
// collide are refused at the start.
func TestAliases(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy())
	one, two := newUpstream(t, ran("ask")), newUpstream(t, ran("ask"))
	g := h.gatewayOf(bot, h.upstreams(map[string]map[string]any{"one": {"url": one.url}, "two": {"url": two.url}}), "--hold", "90s")
	p := g.peer(t, h, bot, false, noCapabilities)
	list := p.do("tools/list", "", "", "")
	var names []string
	for _, part := range strings.Split(list.raw, `"name":"`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		if strings.HasSuffix(name, "ask") {
			names = append(names, name)
		}
	}
	if len(names) != 2 || names[0] == names[1] || !strings.HasPrefix(names[0], "one") || !strings.HasPrefix(names[1], "two") {
		t.Fatalf("the tools are %v in %s", names, list.raw)
	}
}

// TestDefinitionChangesWhileDown: an approved call does not run with another definition, even if
// the gateway restarted in between.
func TestDefinitionChangesWhileDown(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy())
	u := newUpstream(t, ran("ask"), ran("ask_same"))
	g := h.gateway(bot, u, "--hold", "1s")
	p := g.peer(t, h, bot, false, noCapabilities)
	changed, same := p.call("ask", `{}`).result(), p.call("ask_same", `{}`).result()
	g.kill()
	u.setTools(tool{"ask", define("ask", `"title":"Delete everything"`), ran("ask").run}, ran("ask_same"))
	h.respond(h.wait("asks", func(c *call) bool { return c.Tool == "ask" && c.State == "asking" }), "approve", nil)
	h.respond(h.asked("ask_same"), "approve", nil)
	p = h.gateway(bot, u, "--hold", "1s").peer(t, h, bot, false, noCapabilities)
	if r := p.untilEnded(changed); !r.IsError || u.calls("ask") != 0 {
		t.Errorf("a call of a changed tool ran: %s", r.raw)
	}
	if r := p.untilEnded(same); r.text() != "ran {}" || u.calls("ask_same") != 1 {
		t.Errorf("a call of an unchanged tool: %s", r.raw)
	}
}

// TestOtherEndings: a call that expired or was interrupted by an operator did not run, and the
// model is told.
func TestOtherEndings(t *testing.T) {
	t.Parallel()
	h := newHouse(t, `version: 1
name: endings
rules:
  - {name: short, tool: "*", behavior: ask, when: "tool.name == 'ask_short'", expiry: 1s, approvers: {users: [ann]}}
  - {name: asked, tool: "*", behavior: ask, when: "tool.name == 'ask_long'", approvers: {users: [ann]}}
`)
	u := newUpstream(t, ran("ask_short"), ran("ask_long"))
	p := h.gateway(bot, u, "--hold", "90s").peer(t, h, bot, false, noCapabilities)
	short, long := p.call("ask_short", `{}`), p.call("ask_long", `{}`)
	if r := short.result(); !r.IsError || !strings.Contains(r.text(), "expired") {
		t.Errorf("an expired call: %s", r.raw)
	}
	c := h.asked("ask_long")
	if status, out := h.request(olga, "POST", "/v1/sessions/"+c.Session+"/replies/"+c.Reply+"/interrupt", map[string]any{"reason": "stop"}); status != 200 {
		t.Fatalf("interrupt: %d %s", status, out)
	}
	if r := long.result(); !r.IsError || !strings.Contains(r.text(), "interrupted") {
		t.Errorf("an interrupted call: %s", r.raw)
	}
	if n := u.calls("ask_short") + u.calls("ask_long"); n != 0 {
		t.Errorf("the tools ran %d times", n)
	}
}

// TestResolve: after its server died, an operator states the outcome of a call, and the client
// receives it.
func TestResolve(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy("effect"))
	u := newUpstream(t, tool{"effect", define("effect"), func(*request) string { return "" }})
	p := h.gateway(bot, u, "--hold", "1s").peer(t, h, bot, false, withTasks)
	r := p.call("effect", `{}`).result()
	if r.ResultType != "task" {
		t.Fatalf("a call whose outcome is unknown: %s", r.raw)
	}
	eventually(t, "the task says that the outcome is unknown", func() bool { return strings.Contains(p.task(r.TaskID).StatusMessage, "unknown") })
	c := h.wait("is blocked", func(c *call) bool { return c.Tool == "effect" && c.Phase == "blocked" && c.Blocked == "unknown" })
	status, out := h.request(olga, "POST", "/v1/calls/"+c.path()+"/resolve", map[string]any{"attempt": 1, "outcome": "happened", "output": "it happened"})
	if status != 200 {
		t.Fatalf("resolve: %d %s", status, out)
	}
	if r := p.taskEnded(r.TaskID); r.Status != "completed" || r.Result == nil || !strings.Contains(r.Result.text(), "it happened") {
		t.Errorf("the task after the call was resolved: %s", r.raw)
	}
	if n := u.calls("effect"); n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
}

// TestLargeResult: a result that is too large for a message is an error, and the gateway keeps
// working.
func TestLargeResult(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy("large", "huge"))
	size := func(n int) func(*request) string {
		return func(*request) string { return text(strings.Repeat("x", n)) }
	}
	u := newUpstream(t, tool{"large", define("large"), size(1 << 20)}, tool{"huge", define("huge"), size(40 << 20)})
	p, _ := h.stdio(t, bot, u, false, noCapabilities)
	if r := p.call("large", `{}`).result(); len(r.text()) != 1<<20 {
		t.Errorf("a result of 1 MiB has %d bytes of text", len(r.text()))
	}
	if m, _ := p.call("huge", `{}`).response(); m.Error == nil && !m.result(t).IsError {
		t.Errorf("a result of 40 MiB gets %.200s", m.raw)
	}
	if r := p.call("large", `{"again":1}`).result(); len(r.text()) != 1<<20 {
		t.Errorf("after a huge result: %.200s", r.raw)
	}
}
