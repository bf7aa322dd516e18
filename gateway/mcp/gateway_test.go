package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/gateway/mcp"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const rules = `version: 1
name: tools
rules:
  - {name: never, tool: lookup, behavior: deny, when: has(args.banned), message: '"not on Sundays"', denial: {allowed: Calls on Mondays, contact: "#ops"}}
  - {name: open, tool: lookup, behavior: allow, when: '!has(args.banned)'}
  - {name: money, tool: browse, behavior: ask}
`

var key = []byte("0123456789abcdef0123456789abcdef")

// world is an askance server with a fixture server behind an MCP gateway.
type world struct {
	*gatewaytest.World
	t   *testing.T
	ran string // the file that gets a line for each run
}

func newWorld(t *testing.T) *world {
	return &world{World: gatewaytest.New(t, gatewaytest.Policy(rules)), t: t, ran: filepath.Join(t.TempDir(), "ran")}
}

func (w *world) runs() int {
	b, _ := os.ReadFile(w.ran)
	return strings.Count(string(b), "\n")
}

// until waits for a change that is made without a notification.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(gatewaytest.Patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("it did not happen that %s", what)
		}
	}
}

func (w *world) config(era string, change ...func(*mcp.Config)) mcp.Config {
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	cfg := mcp.Config{
		Askance: w.A.Client(gatewaytest.Bot), Key: key, Session: "s1", Principal: "ann", Hold: time.Hour,
		Upstreams: []*mcp.Upstream{{Command: []string{self, serverArg, era, w.ran}}},
	}
	for _, f := range change {
		f(&cfg)
	}
	return cfg
}

// client is a client over standard input and output that shows messages unchanged.
type client struct {
	t    *testing.T
	in   io.WriteCloser
	out  *bufio.Scanner
	next int
	meta string // for modern requests
	stop func()
}

// connect starts a gateway with one client.
func (w *world) connect(era string, change ...func(*mcp.Config)) *client {
	w.t.Helper()
	g, err := mcp.New(w.config(era, change...))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.connectTo(g)
}

// connectTo connects a client to a gateway, which ends with the client.
func (w *world) connectTo(g *mcp.Gateway) *client {
	w.t.Helper()
	fromClient, in := io.Pipe()
	out, toClient := io.Pipe()
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := g.ServeStdio(ctx, "ann", fromClient, toClient); err != nil {
			w.t.Errorf("serve: %v", err)
		}
		toClient.Close()
	}()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 8<<20)
	c := &client{t: w.t, in: in, out: lines, stop: func() {
		cancel()
		out.Close()
		g.Close()
		<-done
	}}
	w.t.Cleanup(c.stop)
	return c
}

func (c *client) send(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.in, format+"\n", args...); err != nil {
		c.t.Fatal(err)
	}
}

// read returns the next message.
func (c *client) read() string {
	c.t.Helper()
	if !c.out.Scan() {
		c.t.Fatalf("the gateway ended: %v", c.out.Err())
	}
	return c.out.Text()
}

// start sends a request and returns its id.
func (c *client) start(method, params string) string {
	c.t.Helper()
	c.next++
	if c.meta != "" {
		if params = strings.TrimPrefix(params, "{"); params != "}" {
			params = "," + params
		}
		params = `{"_meta":` + c.meta + params
	}
	c.send(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.next, method, params)
	return fmt.Sprint(c.next)
}

// ask sends a request and returns its response.
func (c *client) ask(method, params string) string {
	c.t.Helper()
	id := c.start(method, params)
	line := c.read()
	if !strings.Contains(line, `"id":`+id+",") {
		c.t.Fatalf("the response to %s is %s", id, line)
	}
	return line
}

func (c *client) initialize(capabilities string) string {
	c.t.Helper()
	r := c.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"t","version":"1"}}`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return r
}

func (c *client) modern(capabilities string) {
	c.meta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}`
}

func wants(t *testing.T, got string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(got, p) {
			t.Errorf("%s\nlacks %s", got, p)
		}
	}
}

// asking waits for the one open approval request.
func (w *world) asking() *toolcall.Call {
	w.t.Helper()
	for {
		list, err := w.A.Client(gatewaytest.Bot).List(w.t.Context(), toolcall.ListRequest{States: []message.ToolCallState{message.ToolCallAsking}})
		if err != nil {
			w.t.Fatal(err)
		}
		if len(list.Calls) > 0 {
			return list.Calls[0]
		}
		_, err = w.A.Client(gatewaytest.Bot).Events(w.t.Context(), toolcall.EventsRequest{Session: "s1", WaitMS: 1000})
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) respond(r toolcall.Response) {
	w.t.Helper()
	c := w.asking()
	r.Key, r.Digest = c.Key, c.Digest
	w.A.SubmitResponse(gatewaytest.Ann, r)
}

var pairs = []struct{ client, server string }{{"legacy", "legacy"}, {"legacy", "modern"}, {"modern", "legacy"}, {"modern", "modern"}}

// Arguments, results, definitions and errors pass unchanged, in every combination of eras.
func TestPassesUnchanged(t *testing.T) {
	w := newWorld(t)
	for _, p := range pairs {
		t.Run(p.client+" "+p.server, func(t *testing.T) {
			c := w.connect(p.server)
			if p.client == "legacy" {
				wants(t, c.initialize("{}"), `"instructions":"be kind"`, `"protocolVersion":"2025-11-25"`)
			} else {
				c.modern("{}")
				wants(t, c.ask("server/discover", "{}"), `"instructions":"be kind"`, `"2026-07-28"`, `"resultType":"complete"`)
			}
			wants(t, c.ask("tools/list", "{}"), `"big":9007199254740993`, `"name":"askance_wait"`)
			wants(t, c.ask("tools/call", `{"name":"lookup","arguments":{"n": 9007199254740993, "a":"<b>"}}`), `"text":"did lookup"`, `{"type":"hologram","n":9007199254740993}`, `"odd":9007199254740993`)
			if b, _ := os.ReadFile(w.ran); !strings.Contains(string(b), `lookup {"n": 9007199254740993, "a":"<b>"}`) {
				t.Errorf("the server got %s", b)
			}
			wants(t, c.ask("tools/call", `{"name":"lookup","arguments":{"fault":1}}`), `"error":{"code":-32055,"message":"no","data":{"n":9007199254740993}}`)
			wants(t, c.ask("tools/call", `{"name":"none","arguments":{}}`), `"code":-32602`, "Unknown tool")
		})
	}
}

// Each outcome has a different result.
func TestOutcomes(t *testing.T) {
	w := newWorld(t)
	c := w.connect("legacy")
	c.initialize("{}")
	wants(t, c.ask("tools/call", `{"name":"lookup","arguments":{"banned":1}}`), `"isError":true`, "denied: ", "Allowed instead: Calls on Mondays. Contact: #ops.", `"dev.askance/decision":{`, `"rule":"never"`, `"denial":{"cause":"deny","rule":"never","reason":"not on Sundays","allowed":"Calls on Mondays","contact":"#ops"}`)
	if n := w.runs(); n != 0 {
		t.Errorf("a denied call ran %d times", n)
	}
	edited, output, plain := `{"n":2}`, `{"n":7}`, "by hand"
	for _, step := range []struct {
		tool string
		r    toolcall.Response
		want []string
		runs int
	}{
		{"browse", toolcall.Response{Kind: toolcall.ResponseApprove}, []string{`"text":"did browse"`, "hologram"}, 1},
		{"browse", toolcall.Response{Kind: toolcall.ResponseApprove, Input: &edited}, []string{`"text":"ran with changed arguments: {\"n\":2}"`, `"text":"did browse"`}, 2},
		{"browse", toolcall.Response{Kind: toolcall.ResponseReject, Feedback: "use the other one"}, []string{`"isError":true`, "use the other one", `"denial":{"cause":"reject","rule":"money","reason":"use the other one","by":"ann"}`}, 2},
		{"browse", toolcall.Response{Kind: toolcall.ResponseRespond, Output: plain}, []string{`"isError":false`, `"text":"by hand"`}, 2},
		{"browse", toolcall.Response{Kind: toolcall.ResponseRespond, Output: output}, []string{`"isError":false`, `"structuredContent":{"n":7}`}, 2},
	} {
		id := c.start("tools/call", `{"name":"`+step.tool+`","arguments":{"n":1}}`)
		w.respond(step.r)
		got := c.read()
		wants(t, got, append(step.want, `"id":`+id+",")...)
		if n := w.runs(); n != step.runs {
			t.Errorf("%+v: the tool ran %d times, want %d", step.r, n, step.runs)
		}
	}
	wants(t, c.ask("tools/call", `{"name":"lookup","arguments":{"die":1}}`), `"isError":true`, "may have happened", "do not repeat")
}

// A server receives only the name and arguments that were decided about, in one message, even if
// it ignores the case of names or ends lines at any line break.
func TestOnlyDecidedCallsRun(t *testing.T) {
	w := newWorld(t)
	for _, p := range pairs {
		t.Run(p.client+" "+p.server, func(t *testing.T) {
			c := w.connect(p.server)
			if p.client == "legacy" {
				c.initialize("{}")
			} else {
				c.modern("{}")
			}
			wants(t, c.ask("tools/call", `{"name":"lookup","arguments":{"n":1},"Name":"browse","ARGUMENTS":{"n":2},"argument\u017f":{"n":3}}`), "did lookup")
			wants(t, c.ask("tools/call", `{"name":"lookup","arguments":{"a":`+"\r"+`{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{"name":"browse","arguments":{}}}`+"\r"+`}}`), "did lookup")
			if got := c.ask("tools/call", `{"name":"lookup","arguments":{"breaks":1}}`); !strings.Contains(got, "did it") || strings.Contains(got, "\r") {
				t.Errorf("the result is %q", got)
			}
		})
	}
	if b, err := os.ReadFile(w.ran); err != nil || strings.Contains("\n"+string(b), "\nbrowse") || strings.Contains(string(b), `"n":2`) || strings.Contains(string(b), `"n":3`) {
		t.Errorf("the server ran something that was not decided: %s %v", b, err)
	}
}

// A client that cannot wait gets the wait tool, and the result after the decision.
func TestWaitTool(t *testing.T) {
	w := newWorld(t)
	c := w.connect("legacy", func(cfg *mcp.Config) { cfg.Hold = time.Millisecond })
	c.initialize("{}")
	held := c.ask("tools/call", `{"name":"browse","arguments":{}}`)
	wants(t, held, `"structuredContent":{"askance":{`, "askance_wait")
	if strings.Contains(held, "isError") {
		t.Errorf("a held call is an error: %s", held)
	}
	id := string(w.asking().Call)
	wants(t, held, id)
	var got string
	for got = "deciding"; strings.Contains(got, "deciding"); { // so short a hold can end before the engine replies
		got = c.ask("tools/call", `{"name":"askance_wait","arguments":{"call":"`+id+`"}}`)
	}
	wants(t, got, "waits for the approval")
	wants(t, c.ask("tools/call", `{"name":"askance_wait","arguments":{"call":"mcp_00_00"}}`), `"isError":true`, `no held call \"mcp_00_00\"`)
	w.respond(toolcall.Response{Kind: toolcall.ResponseApprove})
	w.A.Finished(toolcall.Key{Space: w.A.ID, Session: "s1", Reply: message.ReplyID(id), Call: message.CallID(id)})
	for got = "is held"; strings.Contains(got, "is held"); { // as above
		got = c.ask("tools/call", `{"name":"askance_wait","arguments":{"call":"`+id+`"}}`)
	}
	wants(t, got, `"text":"did browse"`)
	if n := w.runs(); n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
}

// Parameters that were not reviewed do not reach the server with an approved call.
func TestUnreviewedParams(t *testing.T) {
	for _, row := range []struct{ era, want string }{
		{"legacy", "[progressToken traceparent]"},
		{"modern", "[io.modelcontextprotocol/clientCapabilities io.modelcontextprotocol/protocolVersion progressToken traceparent]"},
	} {
		t.Run(row.era, func(t *testing.T) {
			w := newWorld(t)
			c := w.connect(row.era)
			envelope := ""
			if row.era == "modern" {
				envelope = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},`
			} else {
				c.initialize("{}")
			}
			c.start("tools/call", `{"name":"browse","arguments":{"meta":1},"inputResponses":{"who":{"action":"accept"}},"_meta":{`+envelope+`"progressToken":"p","traceparent":"00-1-2-01","dev.askance/idempotency-key":"k","vendor.example/mode":"delete"}}`)
			w.asking()
			w.respond(toolcall.Response{Kind: toolcall.ResponseApprove})
			got := c.read()
			for strings.Contains(got, "notifications/progress") {
				got = c.read()
			}
			wants(t, got, `"text":"`+row.want+`"`)
		})
	}
}

// Repeating a call while the first is open joins the first.
func TestRepeatedCallJoins(t *testing.T) {
	w := newWorld(t)
	c := w.connect("legacy")
	c.initialize("{}")
	first := c.start("tools/call", `{"name":"browse","arguments":{"n":1}}`)
	w.asking()
	second := c.start("tools/call", `{"name":"browse","arguments":{"n":1},"_meta":{"progressToken":"p"}}`)
	wants(t, c.read(), "notifications/progress") // the second call is held
	w.respond(toolcall.Response{Kind: toolcall.ResponseApprove})
	got := c.read() + c.read()
	wants(t, got, `"id":`+first+",", `"id":`+second+",", "did browse")
	if n := w.runs(); n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
}

// A restarted gateway continues a call that waits for approval, and never repeats one that
// another process took.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	short := func(cfg *mcp.Config) { cfg.Hold = time.Millisecond }
	c := w.connect("legacy", short)
	c.initialize("{}")
	c.ask("tools/call", `{"name":"browse","arguments":{}}`)
	id := string(w.asking().Call)
	c.stop()
	w.respond(toolcall.Response{Kind: toolcall.ResponseApprove})
	if n := w.runs(); n != 0 {
		t.Fatalf("the tool ran %d times without a gateway", n)
	}
	c = w.connect("legacy")
	c.initialize("{}")
	wait := `{"name":"askance_wait","arguments":{"call":"` + id + `"}}`
	wants(t, c.ask("tools/call", wait), "did browse")
	c.stop()
	c = w.connect("legacy")
	c.initialize("{}")
	wants(t, c.ask("tools/call", wait), "did browse")
	if n := w.runs(); n != 1 {
		t.Errorf("the tool ran %d times", n)
	}

	wants(t, c.ask("tools/call", `{"name":"lookup","arguments":{"die":1}}`), "may have happened")
	lost := w.lastCall()
	c.stop()
	c = w.connect("legacy", short)
	c.initialize("{}")
	until(t, "the call is looked up", func() bool {
		return strings.Contains(c.ask("tools/call", `{"name":"askance_wait","arguments":{"call":"`+lost+`"}}`), "may have happened")
	})
	if n := w.runs(); n != 2 {
		t.Errorf("the tool ran %d times: a lost call ran again", n)
	}
}

// A lost idempotent call may have run, even if the server cannot take it again.
func TestLostBeforeAServerThatIsGone(t *testing.T) {
	w := newWorld(t)
	c := w.connect("legacy", func(cfg *mcp.Config) { cfg.Upstreams[0].Idempotent = []string{"lookup"} })
	c.initialize("{}")
	got := c.ask("tools/call", `{"name":"lookup","arguments":{"die":"forever"}}`)
	if w.runs() != 1 || !strings.Contains(got, "may have happened") || strings.Contains(got, "did not run") {
		t.Errorf("after %d runs: %s", w.runs(), got)
	}
}

func (w *world) lastCall() string {
	w.t.Helper()
	list, err := w.A.Client(gatewaytest.Bot).List(w.t.Context(), toolcall.ListRequest{})
	if err != nil || len(list.Calls) == 0 {
		w.t.Fatalf("no open call: %v", err)
	}
	return string(list.Calls[len(list.Calls)-1].Call)
}

// A call does not run after its definition changed, even if the server reports no change.
func TestChangedDefinition(t *testing.T) {
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) { changedDefinition(t, era) })
	}
}

func changedDefinition(t *testing.T, era string) {
	w := newWorld(t)
	c := w.connect(era)
	c.initialize("{}")
	c.start("tools/call", `{"name":"browse","arguments":{}}`)
	w.asking()
	if err := os.WriteFile(w.ran+".changed", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.respond(toolcall.Response{Kind: toolcall.ResponseApprove})
	wants(t, c.read(), `"isError":true`, "the call did not run: the definition of the tool changed")
	if n := w.runs(); n != 0 {
		t.Errorf("the changed tool ran %d times", n)
	}
}

// resultOf returns the result of a response.
func resultOf(t *testing.T, line string) (r struct {
	ResultType, RequestState, TaskID, Status string
	InputRequests                            map[string]json.RawMessage
}) {
	t.Helper()
	var m struct{ Result json.RawMessage }
	if err := json.Unmarshal([]byte(line), &m); err != nil || m.Result == nil {
		t.Fatalf("no result: %s", line)
	}
	if err := json.Unmarshal(m.Result, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// keyOf returns the key of a call of the gateway.
func (w *world) keyOf(id string) toolcall.Key {
	return toolcall.Key{Space: w.A.ID, Session: "s1", Reply: message.ReplyID(id), Call: message.CallID(id)}
}
