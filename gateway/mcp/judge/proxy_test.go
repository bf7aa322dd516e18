package judge_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// big is a number that a float64 cannot hold exactly.
const big = `9007199254740993`

// odd returns a tool whose definition and result have members that decoding loses.
func odd(name string) tool {
	return tool{
		name, fmt.Sprintf(`{"name":%q,"title":"Odd","inputSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":%s,"x-unit":1.50}},"x-unknown":[1e2]},"outputSchema":{"type":"object","properties":{"n":{"const":%s}}},"annotations":{"readOnlyHint":false,"futureHint":{"a":1}},"icons":[{"src":"data:image/png;base64,AA=="}],"_meta":{"vendor.example/n":%s},"futureMember":{"deep":[null,1.0]}}`, name, big, big, big),
		func(r *request) string {
			return `"result":{"resultType":"complete","content":[{"type":"hologram","n":` + big + `,"f":1.50,"e":1e2},{"type":"text","text":"caf\u00e9 <\/b>","annotations":{"audience":["user"]}}],"structuredContent":{"n":` + big + `,"arguments":` + string(r.Params.Arguments) + `},"_meta":{"vendor.example/n":` + big + `},"futureMember":{"deep":[null,1.0]}}`
		},
	}
}

// members returns the members of a JSON object, each with its unchanged text.
func members(t testing.TB, raw json.RawMessage) map[string]string {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	out := map[string]string{}
	for k, v := range m {
		out[k] = string(v)
	}
	return out
}

// TestBytesPassUnchanged: arguments reach the upstream as the exact text that was decided on.
// Definitions and results come back unchanged, in all four combinations of eras.
func TestBytesPassUnchanged(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy("odd"))
	const args = `{"n":` + big + `,"f":1.50,"e":1e2,"text":"caf\u00e9"}`
	for _, serverLegacy := range []bool{false, true} {
		u := newUpstreamOf(t, serverLegacy, odd("odd"))
		g := h.gateway(bot, u)
		for _, clientLegacy := range []bool{false, true} {
			t.Run(fmt.Sprintf("legacy client %t, legacy server %t", clientLegacy, serverLegacy), func(t *testing.T) {
				p := g.peer(t, h, bot, clientLegacy, noCapabilities)
				bare := &peer{t: t, legacy: serverLegacy, capabilities: noCapabilities, url: u.url}
				if serverLegacy {
					bare.initialize()
				}
				var list struct{ Tools []json.RawMessage }
				if err := json.Unmarshal(p.do("tools/list", "", "", "").Result, &list); err != nil {
					t.Fatal(err)
				}
				want, got := members(t, json.RawMessage(u.tools[0].definition)), map[string]string{}
				for _, d := range list.Tools {
					if m := members(t, d); m["name"] == `"odd"` {
						got = m
					}
				}
				delete(want, "outputSchema") // held calls and responses of people fit no schema
				if got["outputSchema"] != "" {
					t.Error("the definition has an outputSchema: clients refuse the results of held calls")
				}
				for k, v := range want {
					if got[k] != v {
						t.Errorf("the definition's %s is %s, want %s", k, got[k], v)
					}
				}
				before := u.calls("odd")
				want = members(t, bare.call("odd", args).result().rawMessage())
				got = members(t, p.call("odd", args).result().rawMessage())
				delete(want, "resultType") // legacy clients do not know it
				delete(want, "_meta")
				if !strings.Contains(got["_meta"], `"vendor.example/n":`+big) {
					t.Errorf("the result's _meta is %s", got["_meta"])
				}
				for k, v := range want {
					if got[k] != v {
						t.Errorf("the result's %s is %s, want %s", k, got[k], v)
					}
				}
				for _, r := range u.requests("tools/call", "odd")[before:] {
					if string(r.Params.Arguments) != args {
						t.Errorf("the upstream got %s, want %s", r.Params.Arguments, args)
					}
				}
			})
		}
	}
}

func (r *result) rawMessage() json.RawMessage { return json.RawMessage(r.raw) }

// TestProtocolErrorsPassUnchanged: errors keep their code and data.
func TestProtocolErrorsPassUnchanged(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy("fails"))
	u := newUpstream(t, tool{"fails", define("fails"), func(*request) string {
		return `"error":{"code":-32042,"message":"odd failure","data":{"n":` + big + `}}`
	}})
	p := h.gateway(bot, u).peer(t, h, bot, false, noCapabilities)
	if m, _ := p.call("fails", `{}`).response(); m.Error == nil || m.Error.Code != -32042 || m.Error.Message != "odd failure" || string(m.Error.Data) != `{"n":`+big+`}` {
		t.Errorf("a protocol error becomes %s", m.raw)
	}
	if m, _ := p.call("no_such_tool", `{}`).response(); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("an unknown tool: %s", m.raw)
	}
	if n := len(u.requests("tools/call", "no_such_tool")); n != 0 {
		t.Errorf("an unknown tool reached the upstream %d times", n)
	}
}

// TestHeadersMirrorWhatRuns: Mcp-Param headers are checked against the client's arguments, and
// generated again from arguments that an approver edited.
func TestHeadersMirrorWhatRuns(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy("plain"))
	schema := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"level":{"type":"integer","x-mcp-header":"Level"}}}}`, name)
	}
	run := func(r *request) string { return text("ran " + string(r.Params.Arguments)) }
	u := newUpstream(t, tool{"plain", schema("plain"), run}, tool{"ask", schema("ask"), run})
	p := h.gateway(bot, u, "--hold", "90s").peer(t, h, bot, false, noCapabilities)
	header := func(tool string) http.Header {
		t.Helper()
		got := u.requests("tools/call", tool)
		if len(got) == 0 {
			t.Fatalf("%s did not run", tool)
		}
		return got[len(got)-1].header
	}
	begin := func(tool, args string, headers ...string) *exchange {
		return p.start("tools/call", tool, fmt.Sprintf(`"name":%q,"arguments":%s`, tool, args), "", headers...)
	}

	m, _ := begin("plain", `{"region":"eu","level":`+big+`}`, "Mcp-Param-Region", "eu", "Mcp-Param-Level", big).response()
	if m.Result == nil {
		t.Fatalf("a call with headers: %s", m.raw)
	}
	if got := header("plain"); got.Get("Mcp-Param-Region") != "eu" || got.Get("Mcp-Param-Level") != big || got.Get("Mcp-Name") != "plain" || got.Get("Mcp-Method") != "tools/call" {
		t.Errorf("the upstream got the headers %v", got)
	}
	x := begin("plain", `{"region":"eu","level":1}`, "Mcp-Param-Region", "us", "Mcp-Param-Level", "1")
	if m, _ := x.response(); m.Error == nil || m.Error.Code != -32020 || x.status != http.StatusBadRequest {
		t.Errorf("a header that differs: %d %s", x.status, m.raw)
	}
	x = begin("plain", `{"region":"eu"}`)
	if m, _ := x.response(); m.Error == nil || m.Error.Code != -32020 {
		t.Errorf("a header that is missing: %d %s", x.status, m.raw)
	}
	if n := u.calls("plain"); n != 1 {
		t.Errorf("%d calls ran, want only the one with correct headers", n)
	}
	_, _ = begin("plain", `{"region":"eu"}`, "Mcp-Param-Region", "eu").response()
	if got := header("plain"); got.Get("Mcp-Param-Region") != "eu" || len(got.Values("Mcp-Param-Level")) != 0 {
		t.Errorf("an absent argument has a header: %v", got)
	}

	x = begin("ask", `{"region":"eu","level":1}`, "Mcp-Param-Region", "eu", "Mcp-Param-Level", "1")
	h.respond(h.asked("ask"), "approve", map[string]any{"input": `{"region":"Zürich","level":2}`})
	_ = x.result()
	if got := header("ask"); got.Get("Mcp-Param-Region") != "=?base64?WsO8cmljaA==?=" || got.Get("Mcp-Param-Level") != "2" {
		t.Errorf("after an edit the upstream got the headers %v", got)
	}
}

// TestToolsThatChange: a client is notified of a changed list and gets the new definition. A call
// that was approved with the old definition does not run.
func TestToolsThatChange(t *testing.T) {
	t.Parallel()
	for era, legacy := range map[string]bool{"modern": false, "legacy": true} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, policy())
			u := newUpstreamOf(t, legacy, ran("ask"))
			p, _ := h.stdio(t, bot, u, legacy, noCapabilities, "--hold", "90s")
			var x *exchange
			if !legacy {
				x = p.start("subscriptions/listen", "", `"notifications":{"toolsListChanged":true}`, "")
				if m := x.next(); m == nil || m.Method != "notifications/subscriptions/acknowledged" {
					t.Fatalf("the first message of a subscription is %v", m)
				}
			}
			_ = p.do("tools/list", "", "", "")
			held := p.call("ask", `{"n":1}`)
			c := h.asked("ask")
			if legacy {
				x = held
			}
			u.setTools(tool{"ask", define("ask", `"title":"Delete everything"`), ran("ask").run}, ran("ask_more"))
			for m := x.next(); m == nil || m.Method != "notifications/tools/list_changed"; m = x.next() {
				if m == nil {
					t.Fatal("the client is not notified of a changed list")
				}
			}
			if m := p.do("tools/list", "", "", ""); !strings.Contains(m.raw, "Delete everything") || !strings.Contains(m.raw, "ask_more") {
				t.Errorf("the list after the change: %s", m.raw)
			}
			h.respond(c, "approve", nil)
			if m, _ := held.response(); m.Error == nil && !m.result(t).IsError || u.calls("ask") != 0 {
				t.Errorf("a call that was approved with another definition ran: %s", m.raw)
			}
		})
	}
}

// TestCredentialsStay: the upstream receives its own credentials and not the client's token.
func TestCredentialsStay(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy("echo"))
	u := newUpstream(t, echo)
	g := h.gatewayOf(bot, h.upstreams(map[string]map[string]any{"": {"url": u.url, "headers": map[string]string{"Authorization": "Bearer of-the-upstream"}}}))
	p := g.peer(t, h, bot, false, noCapabilities)
	_ = p.call("echo", `{}`).result()
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, r := range u.got {
		if got := r.header.Get("Authorization"); got != "Bearer of-the-upstream" {
			t.Errorf("%s reaches the upstream with Authorization %q", r.Method, got)
		}
		if all := fmt.Sprint(r.header, r.raw); strings.Contains(all, h.tokens[bot]) {
			t.Errorf("%s carries the client's token", r.Method)
		}
	}
}

// TestHTTPRefuses covers what a gateway must not serve: missing credentials, those of another
// role, pages of other sites, other host names, and messages that are too long.
func TestHTTPRefuses(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy("echo"))
	u := newUpstream(t, echo)
	g := h.gateway(bot, u)
	for _, c := range []struct {
		name   string
		change func(*peer)
		status []int
	}{
		{"no token", func(p *peer) { p.token = "" }, []int{401}},
		{"a wrong token", func(p *peer) { p.token += "x" }, []int{401}},
		{"an approver's token", func(p *peer) { p.token = h.tokens[ann] }, []int{401, 403}},
		{"a page of another site", func(p *peer) { p.headers = map[string]string{"Origin": "https://evil.example"} }, []int{403}},
		{"another host name", func(p *peer) { p.headers = map[string]string{"Host": "evil.example"} }, []int{403, 421}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &peer{t: t, capabilities: noCapabilities, url: g.url, token: h.tokens[bot]}
			c.change(p)
			r := p.post(t.Context(), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{},`+p.meta("")+`}}`)
			r.Header.Set("Mcp-Method", "tools/call")
			r.Header.Set("Mcp-Name", "echo")
			r.Host = r.Header.Get("Host")
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			if slices.Contains(c.status, res.StatusCode) {
				return
			}
			t.Errorf("status %d, want one of %v: %s", res.StatusCode, c.status, body)
		})
	}
	t.Run("a message that is too long", func(t *testing.T) {
		p := g.peer(t, h, bot, false, noCapabilities)
		x := p.call("echo", `{"pad":"`+strings.Repeat("x", 20<<20)+`"}`)
		if m := x.next(); m != nil && m.Error == nil && x.status < 400 {
			t.Errorf("a message that is too long gets %d %.200s", x.status, m.raw)
		}
		if r := p.call("echo", `{"pad":"`+strings.Repeat("x", 100<<10)+`"}`).result(); len(r.text()) < 100<<10 {
			t.Errorf("a long message gets %.200s", r.raw)
		}
	})
	if n := u.calls("echo"); n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
}

// TestHintsAreNotTrusted: a server's claim that its tool changes nothing is ignored.
func TestHintsAreNotTrusted(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy())
	u := newUpstream(t, tool{"wipe", define("wipe", `"annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}`), ran("wipe").run})
	p := h.gateway(bot, u, "--hold", "1s").peer(t, h, bot, false, noCapabilities)
	if r := p.call("wipe", `{}`).result(); r.heldCall() == "" || u.calls("wipe") != 0 {
		t.Errorf("a tool that claims to be read-only runs without an approval: %s", r.raw)
	}
}
