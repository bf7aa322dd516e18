package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/askance-dev/askance/gateway/mcp"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// answer returns the next message that is no news of the list of tools.
func (c *client) answer() string {
	c.t.Helper()
	for {
		if line := c.read(); !strings.Contains(line, "notifications/tools/list_changed") {
			return line
		}
	}
}

// A call whose server answers with what is no response to it, or ends and leaves a program that holds
// its output open, has an unknown outcome and does not wait for ever.
func TestUnreadableServer(t *testing.T) {
	t.Parallel()
	for how, why := range map[string]string{
		"unreadable": "its message cannot be read", "orphan": "Reason: ", "stranger": "it sent a response with the id 999, which is not that of the request",
		"batch": "it is a batch", "half": "its message cannot be read",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.connect("legacy")
			c.initialize("{}")
			wants(t, c.ask("tools/call", `{"name":"lookup","arguments":{"`+how+`":1}}`), "outcome unknown", why)
			c.start("tools/call", `{"name":"lookup","arguments":{}}`)
			wants(t, c.answer(), "did lookup")
		})
	}
}

// An answer that is not a result of a tool leaves the outcome unknown. A text that is cut within a
// character is a result.
func TestAnswerThatIsNoResult(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"legacy", "modern"} {
		for how, says := range map[string]string{
			"null": "outcome unknown", "listless": "outcome unknown", "errand": "outcome unknown", "plain": "outcome unknown",
			"both": "no error", "codeless": `"code":-32603,"message":"boom"`, "cut": "cut \uFFFD", "empty": `"content":[]`,
		} {
			w := newWorld(t)
			c := w.connect(era)
			c.initialize("{}")
			c.start("tools/call", `{"name":"lookup","arguments":{"`+how+`":1}}`)
			wants(t, c.answer(), says)
			until(t, "the call with "+how+" is blocked or finished", func() bool { return w.only().Blocked == toolcall.BlockedUnknown || !w.only().Open() })
			if open := w.only().Open(); open != (says == "outcome unknown") {
				t.Errorf("%s: the call is open: %t", how, open)
			}
			if n := w.runs(); n != 1 {
				t.Errorf("%s: the tool ran %d times", how, n)
			}
		}
	}
}

// A server that does not read its input delays neither the end of the call nor that of the gateway.
func TestDeafServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.connect("legacy")
	c.initialize("{}")
	c.ask("tools/list", "{}")
	if err := os.WriteFile(w.ran+".deaf", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	id := c.start("tools/call", `{"name":"lookup","arguments":{"x":"`+strings.Repeat("x", 200<<10)+`"}}`)
	until(t, "the tool runs", func() bool { return w.runs() > 0 })
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)
	w.A.Finished(w.only().Key)
	c.stop()
}

// A server that asks for nothing again and again gets the call a bounded number of times.
func TestEndlessInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.connect("modern")
	c.initialize("{}")
	wants(t, c.ask("tools/call", `{"name":"lookup","arguments":{"endless":1}}`), "may have happened", "again and again")
	if n := w.runs(); n > 10 {
		t.Errorf("the server got the call %d times", n)
	}
}

// A server that asks for input without saying for which, or in a revision without such a result, does
// not get the call again, which it could take for another one.
func TestVagueInput(t *testing.T) {
	t.Parallel()
	for era, how := range map[string]string{"modern": "vague", "legacy": "endless"} {
		w := newWorld(t)
		c := w.connect(era)
		c.initialize("{}")
		wants(t, c.ask("tools/call", `{"name":"lookup","arguments":{"`+how+`":1}}`), "outcome unknown", "the MCP server asks for input")
		if n := w.runs(); n != 1 {
			t.Errorf("%s: the server got the call %d times", era, n)
		}
	}
}

// A server can ask a bounded number of times at once.
func TestManyAsks(t *testing.T) {
	t.Parallel()
	c := newWorld(t).connect("legacy")
	c.initialize(`{"elicitation":{}}`)
	c.start("tools/call", `{"name":"lookup","arguments":{"curious":1}}`)
	asked := 0
	for !strings.Contains(c.read(), `"result"`) {
		asked++
	}
	c.start("ping", "{}")
	for !strings.Contains(c.read(), `"result"`) {
		asked++
	}
	if asked > 100 {
		t.Errorf("the client is asked %d times", asked)
	}
}

// A modern client answers what a legacy server asks one after the other.
func TestTwoAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.connect("legacy")
	c.modern(`{"elicitation":{"form":{}}}`)
	answer := ""
	for range 2 {
		r := c.ask("tools/call", `{"name":"lookup","arguments":{"twice":1}`+answer+`}`)
		wants(t, r, "input_required", "name?")
		var m struct{ Result struct{ RequestState string } }
		if err := json.Unmarshal([]byte(r), &m); err != nil {
			t.Fatal(err)
		}
		answer = `,"requestState":"` + m.Result.RequestState + `","inputResponses":{"server":{"action":"accept"}}`
	}
	wants(t, c.ask("tools/call", `{"name":"lookup","arguments":{"twice":1}`+answer+`}`), "both")
}

// A client that joined the call of another one answers what the server asks it.
func TestAskWhoWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g, err := mcp.New(w.config("legacy"))
	if err != nil {
		t.Fatal(err)
	}
	first, second := w.connectTo(g), w.connectTo(g)
	for _, c := range []*client{first, second} {
		c.initialize(`{"elicitation":{}}`)
		c.start("tools/call", `{"name":"browse","arguments":{"elicit":1},"_meta":{"progressToken":1}}`)
		wants(t, c.read(), "waiting for approval") // it has joined
	}
	w.respond(toolcall.Response{Kind: toolcall.ResponseApprove})
	wants(t, second.read(), `"method":"elicitation/create"`, `"id":"askance-1"`)
	second.send(`{"jsonrpc":"2.0","id":"askance-1","result":{"action":"accept","content":{"name":"joe"}}}`)
	wants(t, second.read(), "joe")
	wants(t, first.read(), "joe")
}

// A client that no longer waits for a task is not asked.
func TestAskWhoWaitsForATask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g, err := mcp.New(w.config("legacy"))
	if err != nil {
		t.Fatal(err)
	}
	first, second := w.connectTo(g), w.connectTo(g)
	first.initialize(`{"elicitation":{},"tasks":{}}`)
	second.initialize(`{"elicitation":{},"tasks":{}}`)
	first.ask("tools/call", `{"name":"browse","arguments":{"elicit":1},"task":{}}`)
	id := second.start("tasks/result", `{"taskId":"`+string(w.asking().Call)+`"}`)
	second.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)
	second.ask("ping", "{}")
	w.respond(toolcall.Response{Kind: toolcall.ResponseApprove})
	wants(t, first.read(), `"method":"elicitation/create"`)
}

// A gateway does not run an idempotent call again while another one runs it and has a result soon.
func TestIdempotentRunsElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var taken atomic.Bool
	idempotent := func(cfg *mcp.Config) { cfg.Upstreams[0].Idempotent = []string{"lookup"} }
	first := w.connect("legacy", idempotent)
	second := w.connect("legacy", idempotent, faulty{begin: func() error { taken.Store(true); return nil }}.between)
	for _, c := range []*client{first, second} {
		c.initialize("{}")
		c.start("tools/call", `{"name":"lookup","arguments":{"gate":1}}`)
		until(t, "the tool runs", func() bool { return w.runs() > 0 })
	}
	until(t, "the call is taken", taken.Load)
	if err := os.WriteFile(w.ran+".open", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wants(t, first.read(), "passed")
	wants(t, second.read(), "passed")
	if n := w.runs(); n != 1 {
		t.Errorf("the call ran %d times", n)
	}
}

// A call that is repeated after its client cancelled it is a new one.
func TestRepeatAfterCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.connect("legacy")
	c.initialize("{}")
	id := c.start("tools/call", `{"name":"browse","arguments":{}}`)
	first := w.asking()
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)
	w.A.Finished(first.Key)
	c.start("tools/call", `{"name":"browse","arguments":{}}`)
	w.respond(toolcall.Response{Kind: toolcall.ResponseApprove})
	wants(t, c.read(), "did browse")
}

// stubborn is a server that interrupts nothing.
type stubborn struct {
	mcp.Client
	asked atomic.Bool
}

func (s *stubborn) Interrupt(context.Context, toolcall.InterruptRequest) (toolcall.InterruptReply, error) {
	s.asked.Store(true)
	return toolcall.InterruptReply{}, &message.Error{Code: message.CodeForbidden, What: "no"}
}

// A cancelled call that could not be interrupted does not run, and its outcome is known.
func TestCancelledAndApproved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := &stubborn{}
	c := w.connect("legacy", func(cfg *mcp.Config) { s.Client = cfg.Askance; cfg.Askance = s })
	c.initialize("{}")
	id := c.start("tools/call", `{"name":"browse","arguments":{}}`)
	w.asking()
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)
	until(t, "the server asks", s.asked.Load)
	w.respond(toolcall.Response{Kind: toolcall.ResponseApprove})
	w.A.Finished(w.only().Key)
	if call := w.only(); !strings.Contains(call.Result.Output.String(), "did not run") || w.runs() != 0 {
		t.Errorf("the call ran %d times, with the result %s", w.runs(), call.Result.Output)
	}
}

func say(rw http.ResponseWriter, format string, args ...any) {
	_, _ = fmt.Fprintf(rw, format, args...) // a gateway that is gone gets nothing
}

// legacyHTTP is a server of sessions over HTTP.
type legacyHTTP struct {
	sessions atomic.Int64
	lists    atomic.Int64
	page     string // the tools on each page of an endless list, if it is set
	call     func(rw http.ResponseWriter, id json.RawMessage)
	resume   func(rw http.ResponseWriter, last string)
}

func (l *legacyHTTP) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		if last := r.Header.Get("Last-Event-ID"); last != "" && l.resume != nil {
			rw.Header().Set("Content-Type", "text/event-stream")
			l.resume(rw, last)
			return
		}
		rw.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.NewDecoder(r.Body).Decode(&m) // it comes from the gateway
	rw.Header().Set("Content-Type", "application/json")
	session := fmt.Sprint(l.sessions.Load())
	switch {
	case m.ID == nil:
		rw.WriteHeader(http.StatusAccepted)
	case m.Method == "initialize":
		rw.Header().Set("Mcp-Session-Id", session)
		say(rw, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"h","version":"1"}}}`, m.ID)
	case r.Header.Get("Mcp-Session-Id") != session:
		rw.WriteHeader(http.StatusNotFound)
		say(rw, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`)
	case m.Method == "tools/list" && l.page != "":
		l.lists.Add(1)
		say(rw, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s],"nextCursor":"more"}}`, m.ID, l.page)
	case m.Method == "tools/list":
		say(rw, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"browse","inputSchema":{"type":"object"}},{"name":"lookup","inputSchema":{"type":"object"}}]}}`, m.ID)
	case m.Method == "tools/call":
		l.call(rw, m.ID)
	default:
		say(rw, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
	}
}

func (w *world) connectHTTP(s *legacyHTTP) *client {
	server := httptest.NewServer(s)
	w.t.Cleanup(server.Close)
	c := w.connect("legacy", func(cfg *mcp.Config) { cfg.Upstreams = []*mcp.Upstream{{URL: server.URL}} })
	c.initialize("{}")
	return c
}

// A call runs although the server's session ended while a person decided.
func TestSessionEndsMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := &legacyHTTP{call: func(rw http.ResponseWriter, id json.RawMessage) {
		say(rw, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"did it"}]}}`, id)
	}}
	c := w.connectHTTP(s)
	c.start("tools/call", `{"name":"browse","arguments":{}}`)
	w.asking()
	s.sessions.Add(1)
	w.respond(toolcall.Response{Kind: toolcall.ResponseApprove})
	wants(t, c.answer(), "did it")
}

// An endless list takes a bounded amount of memory.
func TestEndlessList(t *testing.T) {
	t.Parallel()
	s := &legacyHTTP{page: `{"name":"lookup","description":"` + strings.Repeat("x", 3<<20) + `"}`}
	wants(t, newWorld(t).connectHTTP(s).ask("tools/list", "{}"), "the list has more than 16 MiB")
	if n := s.lists.Load(); n > 6 {
		t.Errorf("the gateway read %d pages", n)
	}
}

// The log says that the end of a list is missing.
func TestLongList(t *testing.T) {
	t.Parallel()
	s := &legacyHTTP{page: strings.TrimSuffix(strings.Repeat(`{"name":"lookup"},`, 6000), ",")}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	var log strings.Builder // the handler writes before the answer comes
	c := newWorld(t).connect("long", func(cfg *mcp.Config) {
		cfg.Upstreams, cfg.Log = []*mcp.Upstream{{URL: server.URL}}, slog.New(slog.NewTextHandler(&log, nil))
	})
	c.initialize("{}")
	wants(t, c.ask("tools/list", "{}"), "lookup")
	if n := s.lists.Load(); n != 2 || !strings.Contains(log.String(), "left out the rest of a list") {
		t.Errorf("the gateway read %d pages, and logged\n%.1000s", n, log.String())
	}
}

// A stream that breaks within an event continues after the last whole one.
func TestStreamBreaksWithinAnEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answer := make(chan string, 1)
	s := &legacyHTTP{call: func(rw http.ResponseWriter, id json.RawMessage) {
		answer <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"did it"}]}}`, id)
		rw.Header().Set("Content-Type", "text/event-stream")
		say(rw, "id: 0\nretry: 1\ndata:\n\nid: 1\ndata: {\"jsonrpc\"")
	}, resume: func(rw http.ResponseWriter, last string) {
		if last == "0" {
			say(rw, "id: 1\ndata: %s\n\n", <-answer)
		}
	}}
	wants(t, w.connectHTTP(s).ask("tools/call", `{"name":"lookup","arguments":{}}`), "did it")
}

// A call does not wait for ever for an HTTP server that answers another request, or with a batch, and
// keeps its stream open. An error need not name the request.
func TestWrongResponseOverHTTP(t *testing.T) {
	t.Parallel()
	const result = `"result":{"content":[]}}`
	for name, row := range map[string]struct{ kind, body, says string }{
		"JSON":           {"application/json", `{"jsonrpc":"2.0","id":"1",` + result, `the id \"1\", which is not that`},
		"a batch":        {"application/json", `[{"jsonrpc":"2.0","id":1,` + result + `]`, "it is a batch"},
		"an error":       {"application/json", `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32055,"message":"no"}}`, `"code":-32055`},
		"stream":         {"text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":1," + result + "\n\n", "the id 1, which is not that"},
		"stream, batch":  {"text/event-stream", "data: [{\"jsonrpc\":\"2.0\",\"id\":1," + result + "]\n\n", "it is a batch"},
		"stream, no end": {"text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":\n\n", "its message cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end := make(chan struct{})
			s := &legacyHTTP{call: func(rw http.ResponseWriter, _ json.RawMessage) {
				rw.Header().Set("Content-Type", row.kind)
				say(rw, "%s", row.body)
				if row.kind == "text/event-stream" {
					_ = http.NewResponseController(rw).Flush()
					<-end
				}
			}}
			c := newWorld(t).connectHTTP(s)
			t.Cleanup(func() { close(end) })
			wants(t, c.ask("tools/call", `{"name":"lookup","arguments":{}}`), row.says)
		})
	}
}

// A result with many escapes is on record, and not its whole JSON if that is too large.
func TestResultWithEscapes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.connect("legacy")
	c.initialize("{}")
	wants(t, c.ask("tools/call", `{"name":"lookup","arguments":{"escapes":1}}`), `\\\\\\`)
	if call := w.only(); toolcall.Cause(call.Cause) != toolcall.CauseResult {
		t.Errorf("the call is %s %s", call.Phase(), call.Blocked)
	}
}

// A request that cannot be read gets its error, as far as its id can be read.
func TestUnreadableRequest(t *testing.T) {
	t.Parallel()
	c := newWorld(t).connect("legacy")
	for message, id := range map[string]string{
		`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"x":"cut \ud83d"}}`:            `"id":"a"`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"arguments":{},"arguments":{}}}`: `"id":7`,
		`{"jsonrpc":"2.0","id":{},"method":"ping","method":"ping"}`:                               `"id":null`,
		`[{"jsonrpc":"2.0","id":7,"method":"ping"}]`:                                              `"id":null`,
	} {
		c.send("%s", message)
		wants(t, c.read(), id, `"code":-32700`)
	}
}

// away is a server that stores the first proposal, and then does not answer for a while.
type away struct {
	mcp.Client
	back atomic.Bool
}

func (a *away) Propose(ctx context.Context, r toolcall.ProposeRequest) (toolcall.ProposeReply, error) {
	if _, err := a.Client.Propose(ctx, r); err != nil {
		return toolcall.ProposeReply{}, err
	}
	<-ctx.Done()
	return toolcall.ProposeReply{}, &message.Error{Code: message.CodeUnknownOutcome, What: "no answer"}
}

func (a *away) Interrupt(ctx context.Context, r toolcall.InterruptRequest) (toolcall.InterruptReply, error) {
	if !a.back.Load() {
		return toolcall.InterruptReply{}, &message.Error{Code: message.CodeUnavailable, What: "no answer"}
	}
	return a.Client.Interrupt(ctx, r)
}

// A request for approval does not stay open after its client was told that the call did not run.
func TestProposalWithoutAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := &away{}
	c := w.connect("legacy", func(cfg *mcp.Config) { a.Client = cfg.Askance; cfg.Askance = a })
	c.initialize("{}")
	wants(t, c.ask("tools/call", `{"name":"browse","arguments":{}}`), "did not run")
	key := w.asking().Key
	a.back.Store(true)
	w.A.Finished(key)
}

// A client that does not read its stream does not block the server that it shares with others.
func TestClientDoesNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g, err := mcp.New(w.config("legacy"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	server := httptest.NewServer(g.Handler(mcp.HTTPConfig{Authenticate: func(*http.Request) (string, error) { return "ann", nil }}))
	t.Cleanup(server.Close)
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil { // so that the flood does not fit
		t.Fatal(err)
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + strings.Replace(meta, `{`, `{"progressToken":1,`, 1) + `,"name":"lookup","arguments":{"flood":1}}}`
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: lookup\r\nContent-Length: %d\r\n\r\n%s", server.Listener.Addr(), len(body), body)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the tool runs", func() bool { return w.runs() > 0 })
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{` + meta + `,"name":"lookup","arguments":{}}}`
	if status, text := post(t, server.URL, "lookup", call, func(*http.Request) {}); !strings.Contains(text, "did lookup") {
		t.Errorf("%d %s", status, text)
	}
}
