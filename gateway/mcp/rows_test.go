package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/gateway/mcp"
	"github.com/askance-dev/askance/toolcall"
)

func approve(w *world) { w.respond(toolcall.Response{Kind: toolcall.ResponseApprove}) }

// A modern client with tasks gets a task that has the status working until the call ends.
func TestModernTask(t *testing.T) {
	w := newWorld(t)
	c := w.connect("legacy", func(cfg *mcp.Config) { cfg.Inbox = "http://inbox" })
	c.modern(`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	wants(t, c.ask("server/discover", "{}"), `"io.modelcontextprotocol/tasks":{}`)
	made := c.ask("tools/call", `{"name":"browse","arguments":{}}`)
	wants(t, made, `"resultType":"task"`, `"status":"working"`, `"ttlMs":`, `"pollIntervalMs":`, `waiting for approval: http://inbox/inbox/call?`)
	id := resultOf(t, made).TaskID
	wants(t, c.ask("tasks/get", `{"taskId":"`+id+`"}`), `"status":"working"`, `"resultType":"complete"`)
	wants(t, c.ask("tasks/get", `{"taskId":"mcp_0_0"}`), `"code":-32602`)
	wants(t, c.ask("tasks/list", `{}`), `"code":-32601`)
	approve(w)
	w.A.Finished(w.keyOf(id))
	done := c.ask("tasks/get", `{"taskId":"`+id+`"}`)
	for !strings.Contains(done, "completed") { // the gateway may still be reading the end
		done = c.ask("tasks/get", `{"taskId":"`+id+`"}`)
	}
	wants(t, done, `"result":{`, `"text":"did browse"`, "hologram")
	c.modern("{}")
	wants(t, c.ask("tasks/get", `{"taskId":"`+id+`"}`), `"code":-32021`, "requiredCapabilities")
	if n := w.runs(); n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
}

// tasks/cancel interrupts a call that waits for approval.
func TestCancelTask(t *testing.T) {
	w := newWorld(t)
	c := w.connect("legacy")
	c.modern(`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	id := resultOf(t, c.ask("tools/call", `{"name":"browse","arguments":{}}`)).TaskID
	wants(t, c.ask("tasks/cancel", `{"taskId":"`+id+`"}`), `"resultType":"complete"`)
	call := w.A.Finished(w.keyOf(id))
	if call.Cause != string(toolcall.CauseInterrupt) || w.runs() != 0 {
		t.Errorf("the call ended by %s after %d runs", call.Cause, w.runs())
	}
}

// A legacy client that requests a task gets one, and gets its result with tasks/result.
func TestLegacyTask(t *testing.T) {
	w := newWorld(t)
	c := w.connect("legacy")
	wants(t, c.initialize(`{"tasks":{"requests":{}}}`), `"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`)
	wants(t, c.ask("tools/list", "{}"), `"execution":{"taskSupport":"optional"}`)
	made := c.ask("tools/call", `{"name":"browse","arguments":{},"task":{"ttl":60000}}`)
	wants(t, made, `"task":{`, `"status":"working"`, `"ttl":`, `"pollInterval":`)
	id := string(w.asking().Call)
	wants(t, made, id)
	wants(t, c.ask("tasks/list", "{}"), id)
	get := c.start("tasks/result", `{"taskId":"`+id+`"}`)
	approve(w)
	wants(t, c.read(), `"id":`+get+",", "did browse", `"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}`)
	wants(t, c.ask("tasks/get", `{"taskId":"`+id+`"}`), `"status":"completed"`)
}

// A modern client with URL elicitation is shown the request and retries with the state. A state
// that was changed or belongs to other arguments is refused.
func TestURLElicitation(t *testing.T) {
	w := newWorld(t)
	c := w.connect("modern", func(cfg *mcp.Config) { cfg.Inbox = "http://inbox" })
	c.modern(`{"elicitation":{"url":{}}}`)
	r := resultOf(t, c.ask("tools/call", `{"name":"browse","arguments":{"n":1}}`))
	if r.ResultType != "input_required" {
		t.Fatalf("the result is %+v", r)
	}
	wants(t, string(r.InputRequests["askance"]), `"mode":"url"`, `"url":"http://inbox/inbox/call?call=`)
	retry := func(arguments, state string) string {
		raw, err := json.Marshal(state)
		if err != nil {
			t.Fatal(err)
		}
		return `{"name":"browse","arguments":` + arguments + `,"inputResponses":{"askance":{"action":"accept"}},"requestState":` + string(raw) + `}`
	}
	for _, state := range []string{r.RequestState + "x", "x" + r.RequestState, "", "own", strings.ToUpper(r.RequestState)} {
		wants(t, c.ask("tools/call", retry(`{"n":1}`, state)), `"code":-32602`, "requestState")
	}
	wants(t, c.ask("tools/call", retry(`{"n":2}`, r.RequestState)), `"code":-32602`, "requestState")
	if n := w.runs(); n != 0 {
		t.Fatalf("accept ran the tool %d times", n)
	}
	id := c.start("tools/call", retry(`{"n":1}`, r.RequestState))
	approve(w)
	wants(t, c.read(), `"id":`+id+",", "did browse")
	if n := w.runs(); n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
}

// A modern client can be told to retry without input requests.
func TestRetryLegs(t *testing.T) {
	w := newWorld(t)
	c := w.connect("legacy", func(cfg *mcp.Config) { cfg.Hold, cfg.Legs = time.Millisecond, 1 })
	c.modern("{}")
	r := resultOf(t, c.ask("tools/call", `{"name":"browse","arguments":{}}`))
	if r.ResultType != "input_required" || r.RequestState == "" || r.InputRequests != nil {
		t.Fatalf("the result is %+v", r)
	}
	wants(t, c.ask("tools/call", `{"name":"browse","arguments":{},"requestState":"`+r.RequestState+`"}`), "askance_wait")
}

// What a server requests during a call reaches the client in the form of the client's era.
func TestInputWithinACall(t *testing.T) {
	w := newWorld(t)
	for _, p := range pairs {
		t.Run(p.client+" "+p.server, func(t *testing.T) {
			c := w.connect(p.server)
			call := `{"name":"lookup","arguments":{"elicit":1}`
			if p.client == "legacy" {
				c.initialize(`{"elicitation":{}}`)
				id := c.start("tools/call", call+`}`)
				asked := c.read()
				wants(t, asked, `"method":"elicitation/create"`, "name?")
				var m struct{ ID json.RawMessage }
				if err := json.Unmarshal([]byte(asked), &m); err != nil {
					t.Fatal(err)
				}
				c.send(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"name":"Ann"}}}`, m.ID)
				wants(t, c.read(), `"id":`+id+",", "Ann")
				return
			}
			c.modern(`{"elicitation":{"form":{}}}`)
			r := resultOf(t, c.ask("tools/call", call+`}`))
			if r.ResultType != "input_required" || len(r.InputRequests) != 1 {
				t.Fatalf("the result is %+v", r)
			}
			for name, request := range r.InputRequests {
				wants(t, string(request), "elicitation/create", "name?")
				wants(t, c.ask("tools/call", call+`,"requestState":"`+r.RequestState+`","inputResponses":{"`+name+`":{"action":"accept","content":{"name":"Ann"}}}}`), "Ann")
			}
		})
	}
}

// A server that asks a client for what it does not support gets an error, and the client no request.
func TestAskOfClientWithoutCapability(t *testing.T) {
	for _, p := range pairs {
		t.Run(p.client+" "+p.server, func(t *testing.T) {
			c := newWorld(t).connect(p.server)
			if p.client == "legacy" {
				c.initialize(`{"roots":{}}`)
			} else {
				c.modern(`{"roots":{}}`)
			}
			id := c.start("tools/call", `{"name":"lookup","arguments":{"elicit":1}}`)
			wants(t, c.read(), `"id":`+id+",", "the client does not support elicitation/create")
		})
	}
}

// A client's response that cannot be read ends the question.
func TestUnreadableResponse(t *testing.T) {
	for _, response := range []string{`"error":"boom"`, `"error":null`, `"result":{"name":"cut \ud83d"}`} {
		c := newWorld(t).connect("legacy")
		c.initialize(`{"elicitation":{}}`)
		id := c.start("tools/call", `{"name":"lookup","arguments":{"elicit":1}}`)
		var m struct{ ID json.RawMessage }
		if err := json.Unmarshal([]byte(c.read()), &m); err != nil {
			t.Fatal(err)
		}
		c.send(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, response)
		wants(t, c.read(), `"id":`+id+",", "the response of the client cannot be read")
	}
}

// If a client cancels, its approval request is interrupted.
func TestCancel(t *testing.T) {
	w := newWorld(t)
	c := w.connect("legacy")
	c.initialize("{}")
	id := c.start("tools/call", `{"name":"browse","arguments":{}}`)
	key := w.asking().Key
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)
	if call := w.A.Finished(key); call.Cause != string(toolcall.CauseInterrupt) {
		t.Errorf("the call ended by %s", call.Cause)
	}
	wants(t, c.ask("ping", "{}"), `"result":{}`) // and no response to the cancelled request comes first
}

// With several upstreams, names of tools begin with an alias.
func TestSeveralUpstreams(t *testing.T) {
	w := newWorld(t)
	both := func(cfg *mcp.Config) {
		up := *cfg.Upstreams[0]
		other := up
		up.Alias, other.Alias = "a", "a-b"
		other.Command = append(append([]string{}, up.Command[:2]...), "modern", w.ran)
		cfg.Upstreams = []*mcp.Upstream{&up, &other}
	}
	c := w.connect("legacy", both)
	c.initialize("{}")
	wants(t, c.ask("tools/list", "{}"), `"name":"a_lookup"`, `"name":"a_browse"`, `"name":"a-b_lookup"`)
	wants(t, c.ask("tools/call", `{"name":"lookup","arguments":{}}`), "Unknown tool")
	for _, alias := range []string{"askance", "A", "a_b", ""} {
		cfg := w.config("legacy", both)
		cfg.Upstreams[1].Alias = alias
		if _, err := mcp.New(cfg); err == nil {
			t.Errorf("the alias %q is accepted", alias)
		}
	}
	cfg := w.config("legacy", both)
	cfg.Upstreams[1].Alias = "a"
	if _, err := mcp.New(cfg); err == nil {
		t.Error("two upstreams with the same alias are accepted")
	}
}

// If the status may come from a proxy after the request began, the outcome is unknown. Every
// other refusal says that the call did not run.
func TestRefusalsOfAnHTTPServer(t *testing.T) {
	w := newWorld(t)
	for status, says := range map[int]string{400: "did not run", 403: "did not run", 408: "may have happened", 409: "may have happened", 502: "may have happened"} {
		server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			result := map[string]string{
				"server/discover": `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public"}`,
				"tools/list":      `{"resultType":"complete","tools":[{"name":"lookup","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"public"}`,
			}[r.Header.Get("Mcp-Method")]
			var m struct {
				ID json.RawMessage `json:"id"`
			}
			if err := json.NewDecoder(r.Body).Decode(&m); err != nil || result == "" {
				rw.WriteHeader(status)
				return
			}
			rw.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
		}))
		c := w.connect("modern", func(cfg *mcp.Config) {
			cfg.Upstreams = []*mcp.Upstream{{URL: server.URL}}
		})
		c.initialize("{}")
		wants(t, c.ask("tools/call", `{"name":"lookup","arguments":{"n":`+strconv.Itoa(status)+`}}`), says)
		server.CloseClientConnections()
		t.Cleanup(server.Close)
	}
}

// What a client reads about a server that is down contains nothing of its URL, which may contain
// a key.
func TestNoServer(t *testing.T) {
	w := newWorld(t)
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	c := w.connect("modern", func(cfg *mcp.Config) { cfg.Upstreams = []*mcp.Upstream{{URL: server.URL + "/mcp?key=secret"}} })
	for _, got := range []string{c.initialize("{}"), c.ask("tools/list", "{}"), c.ask("tools/call", `{"name":"lookup","arguments":{}}`)} {
		if strings.Contains(got, "secret") || !strings.Contains(got, "rror") {
			t.Errorf("the client reads %s", got)
		}
	}
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// post sends a message with the headers of a call of the tool, and returns status and response.
func post(t *testing.T, server, tool, body string, change func(*http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("MCP-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", "tools/call")
	r.Header.Set("Mcp-Name", tool)
	change(r)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var text strings.Builder
	if err := res.Write(&text); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, text.String()
}

// The endpoint refuses requests of other sites, and requests that contradict their headers.
func TestHTTPRefusals(t *testing.T) {
	w := newWorld(t)
	g, err := mcp.New(w.config("modern"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	server := httptest.NewServer(g.Handler(mcp.HTTPConfig{Authenticate: func(*http.Request) (string, error) { return "ann", nil }}))
	t.Cleanup(server.Close)
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + meta + `,"name":"lookup","arguments":{}}}`
	for name, c := range map[string]struct {
		body   string
		change func(*http.Request)
		status int
		says   string
	}{
		"a regular call":   {call, func(*http.Request) {}, 200, "did lookup"},
		"other page":       {call, func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, 403, "name it with --http-origin"},
		"other host":       {call, func(r *http.Request) { r.Host = "evil.example" }, 403, ""},
		"other name":       {call, func(r *http.Request) { r.Header.Set("Mcp-Name", "browse") }, 400, "-32020"},
		"no name":          {call, func(r *http.Request) { r.Header.Del("Mcp-Name") }, 400, "-32020"},
		"encoded name":     {call, func(r *http.Request) { r.Header.Set("Mcp-Name", "=?base64?bG9va3Vw?=") }, 200, "did lookup"},
		"other method":     {call, func(r *http.Request) { r.Header.Set("Mcp-Method", "tools/list") }, 400, "-32020"},
		"two methods":      {call, func(r *http.Request) { r.Header.Add("Mcp-Method", "tools/list") }, 400, "-32020"},
		"old version":      {call, func(r *http.Request) { r.Header.Set("MCP-Protocol-Version", "2025-11-25") }, 400, "-32020"},
		"unknown version":  {strings.ReplaceAll(call, "2026-07-28", "2031-01-01"), func(r *http.Request) { r.Header.Set("MCP-Protocol-Version", "2031-01-01") }, 400, "-32022"},
		"no envelope":      {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lookup"}}`, func(*http.Request) {}, 400, "-32602"},
		"broken":           {`{"jsonrpc":"2.0","id":1,`, func(*http.Request) {}, 400, "-32700"},
		"twice":            {`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, func(*http.Request) {}, 400, "-32700"},
		"other type":       {call, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415, ""},
		"no session":       {`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, func(r *http.Request) { r.Header.Del("MCP-Protocol-Version") }, 400, "initialize"},
		"unknown session":  {`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, func(r *http.Request) { r.Header.Del("MCP-Protocol-Version"); r.Header.Set("Mcp-Session-Id", "x") }, 404, ""},
		"too large":        {`{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 5<<20) + `"}`, func(*http.Request) {}, 413, ""},
		"method not known": {`{"jsonrpc":"2.0","id":1,"method":"x/y","params":{` + meta + `}}`, func(r *http.Request) { r.Header.Set("Mcp-Method", "x/y") }, 404, "-32601"},
	} {
		t.Run(name, func(t *testing.T) {
			status, text := post(t, server.URL, "lookup", c.body, c.change)
			if status != c.status || !strings.Contains(text, c.says) {
				t.Errorf("%d %s", status, text)
			}
		})
	}
}

// A browser asks before a page of another origin may use the endpoint, without a token.
func TestPreflight(t *testing.T) {
	g, err := mcp.New(mcp.Config{Key: make([]byte, 32), Upstreams: []*mcp.Upstream{{Command: []string{"/nonexistent"}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	h := g.Handler(mcp.HTTPConfig{Origins: []string{"https://app.example"}, Authenticate: func(*http.Request) (string, error) { return "", errors.New("no token") }})
	for _, c := range []struct {
		method, origin, asks string
		status               int
		allowed              string
	}{
		{"OPTIONS", "https://app.example", "POST", 204, "https://app.example"},
		{"OPTIONS", "https://evil.example", "POST", 403, ""},
		{"OPTIONS", "http://localhost:3000", "POST", 401, ""}, // not listed
		{"OPTIONS", "https://app.example", "", 401, "https://app.example"},
		{"POST", "https://app.example", "", 401, "https://app.example"}, // the page can read why
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, "http://127.0.0.1/mcp", nil)
		r.Header.Set("Origin", c.origin)
		r.Header.Set("Access-Control-Request-Method", c.asks)
		r.Header.Set("Access-Control-Request-Headers", "authorization,mcp-method")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got := w.Header()
		if w.Code != c.status || got.Get("Access-Control-Allow-Origin") != c.allowed || got.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%+v: %d %v", c, w.Code, got)
		}
		if asked := got.Get("Access-Control-Allow-Headers"); (asked == "authorization,mcp-method") != (c.status == 204) {
			t.Errorf("%+v: headers %q", c, asked)
		}
	}
}

// If a call is interrupted while it runs, it is cancelled at the server.
func TestInterruptedWhileRunning(t *testing.T) {
	w := newWorld(t)
	c := w.connect("legacy")
	c.initialize("{}")
	id := c.start("tools/call", `{"name":"lookup","arguments":{"hang":1}}`)
	until(t, "the tool runs", func() bool { return w.runs() > 0 })
	key := w.keyOf(w.lastCall())
	if _, err := w.A.Client(gatewaytest.Olga).Interrupt(t.Context(), toolcall.InterruptRequest{Session: key.Session, Reply: key.Reply}); err != nil {
		t.Fatal(err)
	}
	wants(t, c.read(), `"id":`+id+",", `"isError":true`, "interrupted")
	until(t, "the server records the cancellation", func() bool { return w.runs() > 1 })
	if b, _ := os.ReadFile(w.ran); !strings.HasSuffix(string(b), "cancelled\n") {
		t.Errorf("the server was not told: %s", b)
	}
}

// With the operator's permission a form decides, as a vote on what it showed. Without the
// permission there is no form.
func TestForm(t *testing.T) {
	w := newWorld(t)
	c := w.connect("legacy", func(cfg *mcp.Config) { cfg.Hold = time.Millisecond })
	c.modern(`{"elicitation":{"form":{}}}`)
	wants(t, c.ask("tools/call", `{"name":"browse","arguments":{"n":0}}`), "askance_wait")
	w.respond(toolcall.Response{Kind: toolcall.ResponseReject})
	c.stop()

	c = w.connect("legacy", func(cfg *mcp.Config) {
		cfg.Vote = func(ctx context.Context, principal string, r toolcall.Response) error {
			if principal != "ann" {
				t.Errorf("the vote is by %s", principal)
			}
			_, err := w.A.Client(gatewaytest.Ann).SubmitResponse(ctx, r)
			return err
		}
	})
	c.modern(`{"elicitation":{"form":{}}}`)
	for _, answer := range []struct{ content, want string }{
		{`{"decision":"approve"}`, `"text":"did browse"`},
		{`{"decision":"reject","feedback":"not now"}`, "not now"},
	} {
		r := resultOf(t, c.ask("tools/call", `{"name":"browse","arguments":{"n":1}}`))
		wants(t, string(r.InputRequests["askance"]), `"mode":"form"`, `{\"n\":1}`, `"enum":["approve","reject"]`)
		wants(t, c.ask("tools/call", `{"name":"browse","arguments":{"n":1},"requestState":"`+r.RequestState+`","inputResponses":{"askance":{"action":"accept","content":`+answer.content+`}}}`), answer.want)
	}
	if n := w.runs(); n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
}

// One principal cannot use up the sessions of others.
func TestSessionsOfOnePrincipal(t *testing.T) {
	w := newWorld(t)
	g, err := mcp.New(w.config("legacy"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	server := httptest.NewServer(g.Handler(mcp.HTTPConfig{Sessions: 4, Authenticate: func(r *http.Request) (string, error) { return r.Header.Get("X-Test-Name"), nil }}))
	t.Cleanup(server.Close)
	for i, step := range []struct {
		name string
		want int
	}{{"ann", http.StatusOK}, {"ann", http.StatusOK}, {"ann", http.StatusServiceUnavailable}, {"bob", http.StatusOK}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Test-Name", step.name)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != step.want {
			t.Errorf("session %d, of %s: %d, want %d", i+1, step.name, res.StatusCode, step.want)
		}
	}
}

// A rule that an approver remembers for the session of one principal answers for no other.
func TestSessionOfEachPrincipal(t *testing.T) {
	w := &world{World: gatewaytest.New(t, gatewaytest.Policy("version: 1\nname: none\nrules: []\n")), t: t, ran: filepath.Join(t.TempDir(), "ran")}
	g, err := mcp.New(w.config("modern", func(cfg *mcp.Config) { cfg.Hold = time.Millisecond }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	server := httptest.NewServer(g.Handler(mcp.HTTPConfig{Authenticate: func(r *http.Request) (string, error) { return r.Header.Get("X-Test-Name"), nil }}))
	t.Cleanup(server.Close)
	call := func(name, tool, arguments string) string {
		t.Helper()
		_, got := post(t, server.URL, tool, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+meta+`,"name":"`+tool+`","arguments":`+arguments+`}}`, func(r *http.Request) { r.Header.Set("X-Test-Name", name) })
		return got
	}
	held := regexp.MustCompile(`mcp_[0-9A-Z]+_[0-9a-f]+`)
	browse := func(name, arguments string) string {
		t.Helper()
		got := call(name, "browse", arguments)
		for id := held.FindString(got); id != "" && !strings.Contains(got, "waits for the approval") && !strings.Contains(got, "did browse"); {
			got = call(name, "askance_wait", `{"call":"`+id+`"}`)
		}
		return got
	}
	wants(t, browse("ann", `{"n":1}`), "waits for the approval")
	w.respond(toolcall.Response{Kind: toolcall.ResponseApprove, Rules: w.asking().Suggested})
	wants(t, browse("ann", `{"n":2}`), "did browse")
	if got := browse("bob", `{"n":3}`); !strings.Contains(got, "waits for the approval") {
		t.Fatal(got)
	}
	if c := w.asking(); c.Agent != "bob" || c.Session == "s1" {
		t.Errorf("the session of %s is %s", c.Agent, c.Session)
	}
}

// An open request and the stream of a session end soon after their credentials.
func TestRevokedWhileOpen(t *testing.T) {
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			w := &world{World: gatewaytest.New(t, gatewaytest.Policy("version: 1\nname: none\nrules: []\n")), t: t, ran: filepath.Join(t.TempDir(), "ran")}
			g, err := mcp.New(w.config(era))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(g.Close)
			var revoked atomic.Bool
			server := httptest.NewServer(g.Handler(mcp.HTTPConfig{Authenticate: func(*http.Request) (string, error) {
				if revoked.Load() {
					return "", errors.New("revoked")
				}
				return "ann", nil
			}}))
			t.Cleanup(server.Close)
			if era == "legacy" {
				_, begun := post(t, server.URL, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`, func(r *http.Request) {
					r.Header.Del("MCP-Protocol-Version")
				})
				session := regexp.MustCompile(`(?i)mcp-session-id: (\S+)`).FindStringSubmatch(begun)
				if session == nil {
					t.Fatal(begun)
				}
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				r.Header = http.Header{"Accept": {"text/event-stream"}, "Mcp-Session-Id": {session[1]}}
				stream, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer stream.Body.Close()
				revoked.Store(true)
				if _, err := io.ReadAll(stream.Body); err != nil || stream.StatusCode != http.StatusOK {
					t.Errorf("the stream ended with %d, %v", stream.StatusCode, err)
				}
				return
			}
			ended := make(chan string)
			go func() {
				_, got := post(t, server.URL, "browse", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+meta+`,"name":"browse","arguments":{}}}`, func(*http.Request) {})
				ended <- got
			}()
			w.asking()
			revoked.Store(true)
			if got := <-ended; strings.Contains(got, "did browse") {
				t.Error(got)
			}
		})
	}
}

// A request whose credentials end before its body arrives is not carried out.
func TestRevokedBeforeTheBody(t *testing.T) {
	w := &world{World: gatewaytest.New(t, gatewaytest.Policy("version: 1\nname: none\nrules: []\n")), t: t, ran: filepath.Join(t.TempDir(), "ran")}
	g, err := mcp.New(w.config("modern"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	var revoked atomic.Bool
	server := httptest.NewServer(g.Handler(mcp.HTTPConfig{Authenticate: func(*http.Request) (string, error) {
		if revoked.Swap(true) {
			return "", errors.New("revoked")
		}
		return "ann", nil
	}}))
	t.Cleanup(server.Close)
	status, got := post(t, server.URL, "", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+meta+`}}`, func(r *http.Request) {
		r.Header.Set("Mcp-Method", "tools/list")
	})
	if status != http.StatusUnauthorized {
		t.Errorf("%d %s, want 401", status, got)
	}
}
