package judge_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The capabilities that the judges declare, as JSON.
const (
	noCapabilities = `{}`
	withTasks      = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	withURL        = `{"elicitation":{"url":{}}}`
)

// peer is an MCP client of one era that writes its messages byte by byte.
type peer struct {
	t            testing.TB
	legacy       bool
	capabilities string
	headers      map[string]string // extra headers of each HTTP request

	url, token string // HTTP
	session    string // Mcp-Session-Id, if a legacy server has sessions
	pipe       *pipe  // set for stdio
}

// lastID is the id of the last request of any peer.
var lastID atomic.Int64

// message is a response, a notification or a request from the server.
type message struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
		Data    json.RawMessage
	}

	raw string
}

// exchange is a request of the client with the messages that come back.
type exchange struct {
	t        testing.TB
	id       string
	status   int // the HTTP status, available after the first message
	messages chan *message
	cancel   context.CancelFunc // ends the HTTP request
}

// meta is the _meta member of a modern request.
func (p *peer) meta(more string) string {
	if more != "" {
		more = "," + more
	}
	return `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"judge","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + p.capabilities + more + `}`
}

// start sends a request. params contains the members of its params except _meta, and meta
// contains more members of _meta.
func (p *peer) start(method, name, params, meta string, headers ...string) *exchange {
	p.t.Helper()
	id := fmt.Sprint(lastID.Add(1))
	switch {
	case !p.legacy:
		meta = p.meta(meta)
	case meta != "":
		meta = `"_meta":{` + meta + `}`
	}
	if params != "" && meta != "" {
		meta = "," + meta
	}
	text := `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + meta + `}}`
	x := &exchange{t: p.t, id: id, messages: make(chan *message, 64)}
	if p.pipe != nil {
		p.pipe.start(x, text)
		return x
	}
	ctx, cancel := context.WithCancel(context.Background())
	x.cancel = cancel
	p.t.Cleanup(cancel)
	r := p.post(ctx, text)
	if !p.legacy {
		r.Header.Set("Mcp-Method", method)
		if name != "" {
			r.Header.Set("Mcp-Name", name)
		}
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	go x.read(r, p)
	return x
}

func (p *peer) post(ctx context.Context, text string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, strings.NewReader(text))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if p.token != "" {
		r.Header.Set("Authorization", "Bearer "+p.token)
	}
	if p.session != "" {
		r.Header.Set("Mcp-Session-Id", p.session)
	}
	version := "2026-07-28"
	if p.legacy {
		version = "2025-11-25"
	}
	r.Header.Set("MCP-Protocol-Version", version)
	for k, v := range p.headers {
		r.Header.Set(k, v)
	}
	return r
}

// read passes on the messages of an HTTP response, which is JSON or a stream.
func (e *exchange) read(r *http.Request, p *peer) {
	defer close(e.messages)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return // the client or the gateway disconnected
	}
	defer res.Body.Close()
	e.status = res.StatusCode
	if s := res.Header.Get("Mcp-Session-Id"); s != "" {
		p.session = s
	}
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		if raw, err := io.ReadAll(res.Body); err == nil {
			e.hand(raw)
		}
		return
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data:"); ok && strings.TrimSpace(data) != "" {
			e.hand([]byte(strings.TrimSpace(data)))
		}
	}
}

// hand passes on one message. Text that is not a message has only raw.
func (e *exchange) hand(raw []byte) {
	m := &message{raw: string(bytes.TrimSpace(raw))}
	_ = json.Unmarshal(raw, m) // the test sees the text
	e.messages <- m
}

// next returns the next message, or nil after the end of the exchange.
func (e *exchange) next() *message {
	e.t.Helper()
	select {
	case m := <-e.messages:
		return m
	case <-time.After(patience):
		e.t.Fatalf("request %s gets no message", e.id)
		return nil
	}
}

// response waits for the response and returns it with the messages before it.
func (e *exchange) response() (*message, []*message) {
	e.t.Helper()
	var before []*message
	for {
		m := e.next()
		if m == nil {
			e.t.Fatalf("request %s ended without a response, after %d messages", e.id, len(before))
		}
		if m.Method == "" {
			return m, before
		}
		before = append(before, m)
	}
}

// do sends a request and waits for its response.
func (p *peer) do(method, name, params, meta string, headers ...string) *message {
	p.t.Helper()
	m, _ := p.start(method, name, params, meta, headers...).response()
	return m
}

// call starts a tool call. arguments and more are JSON text.
func (p *peer) call(tool, arguments string, more ...string) *exchange {
	p.t.Helper()
	params := fmt.Sprintf(`"name":%q,"arguments":%s`, tool, arguments)
	return p.start("tools/call", tool, strings.Join(append([]string{params}, more...), ","), "")
}

// result contains what the judges read of a tool call's result.
type result struct {
	ResultType        string
	Content           []struct{ Type, Text string }
	StructuredContent json.RawMessage
	IsError           bool
	Meta              map[string]json.RawMessage `json:"_meta"`
	RequestState      string
	InputRequests     map[string]struct {
		Method string
		Params struct{ Mode, Message, URL string }
	}

	TaskID        string
	Status        string
	StatusMessage string
	Result        *result
	Error         *struct{ Code int }

	raw string
}

func (r *result) text() string {
	var parts []string
	for _, c := range r.Content {
		parts = append(parts, c.Text)
	}
	return strings.Join(parts, "\n")
}

// result waits for the response, which must be a result.
func (e *exchange) result() *result {
	e.t.Helper()
	m, _ := e.response()
	return m.result(e.t)
}

func (m *message) result(t testing.TB) *result {
	t.Helper()
	r := &result{raw: string(m.Result)}
	if m.Result == nil {
		t.Fatalf("the response is not a result: %s", m.raw)
	}
	if err := json.Unmarshal(m.Result, r); err != nil {
		t.Fatalf("the result %s: %v", m.Result, err)
	}
	return r
}

// initialize opens a legacy connection.
func (p *peer) initialize() *peer {
	p.t.Helper()
	m := p.do("initialize", "", `"protocolVersion":"2025-11-25","capabilities":`+p.capabilities+`,"clientInfo":{"name":"judge","version":"1"}`, "")
	if m.Result == nil {
		p.t.Fatalf("initialize: %s", m.raw)
	}
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return p
}

// send sends a notification or a response.
func (p *peer) send(text string) {
	p.t.Helper()
	if p.pipe != nil {
		p.pipe.write(text)
		return
	}
	res, err := http.DefaultClient.Do(p.post(p.t.Context(), text))
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		p.t.Fatalf("%s: %s", text, res.Status)
	}
}

// pipe connects to the stdin and stdout of a stdio server.
type pipe struct {
	t  testing.TB
	in io.WriteCloser

	mu      sync.Mutex // guards open and writes to in
	open    map[string]*exchange
	garbage []string
}

// newPipe reads the messages of a stdio server until it ends.
func newPipe(t testing.TB, in io.WriteCloser, out io.Reader) *pipe {
	p := &pipe{t: t, in: in, open: map[string]*exchange{}}
	go func() {
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadBytes('\n')
			if len(line) > 0 {
				p.receive(line)
			}
			if err != nil {
				p.mu.Lock()
				defer p.mu.Unlock()
				for _, x := range p.open {
					close(x.messages)
				}
				p.open = nil
				return
			}
		}
	}()
	return p
}

// receive passes a response to its exchange, and everything else to all exchanges.
func (p *pipe) receive(line []byte) {
	var m message
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := json.Unmarshal(line, &m); err != nil {
		p.garbage = append(p.garbage, string(line))
		return
	}
	if x := p.open[string(m.ID)]; x != nil && m.Method == "" {
		x.hand(line)
		close(x.messages)
		delete(p.open, string(m.ID))
		return
	}
	for _, x := range p.open {
		x.hand(line)
	}
}

func (p *pipe) start(x *exchange, text string) {
	p.mu.Lock()
	if p.open == nil {
		close(x.messages)
	} else {
		p.open[x.id] = x
	}
	p.mu.Unlock()
	p.write(text)
}

func (p *pipe) write(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = io.WriteString(p.in, text+"\n") // if the server ended, the reader notices
}
