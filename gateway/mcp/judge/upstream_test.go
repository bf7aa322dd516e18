package judge_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// upstream is an MCP server of one era. The test sets what its tools do, and it records the exact
// text of each request, over HTTP and over stdio.
type upstream struct {
	t      testing.TB
	url    string // its HTTP endpoint
	socket string // where relay processes connect
	legacy bool   // it speaks 2025-11-25 instead of 2026-07-28

	mu      sync.Mutex // guards the fields below
	tools   []tool
	got     []*request
	streams map[chan string]struct{}
	relays  map[net.Conn]int // connections of relay processes, numbered in the order of their arrival
	began   int              // relay processes so far
}

// tool has a definition, as JSON text, and a function that returns the member of the response,
// result or error. If the function returns "", the connection is closed.
type tool struct {
	name, definition string
	run              func(*request) string
}

// request is a message that the upstream received.
type request struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Name           string
		Arguments      json.RawMessage
		Meta           map[string]json.RawMessage `json:"_meta"`
		RequestID      json.RawMessage
		RequestState   string
		InputResponses json.RawMessage
	}

	raw    string
	header http.Header          // nil over stdio
	ctx    context.Context      //nolint:containedctx // it ends with the request
	notify func(message string) // sends a message before the response
}

// define returns a definition with an input schema that accepts anything.
func define(name string, more ...string) string {
	return fmt.Sprintf(`{"name":%q,"description":"Tool %s of the judges.","inputSchema":{"type":"object"}%s}`, name, name, strings.Join(append([]string{""}, more...), ","))
}

// text returns a result with one text block.
func text(s string) string {
	return fmt.Sprintf(`"result":{"resultType":"complete","content":[{"type":"text","text":%q}]}`, s)
}

// newUpstream serves tools in the modern era until the test ends.
func newUpstream(t testing.TB, tools ...tool) *upstream {
	t.Helper()
	return newUpstreamOf(t, false, tools...)
}

func newUpstreamOf(t testing.TB, legacy bool, tools ...tool) *upstream {
	t.Helper()
	u := &upstream{t: t, legacy: legacy, tools: tools, streams: map[chan string]struct{}{}, relays: map[net.Conn]int{}}
	s := httptest.NewServer(u)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	u.url = s.URL + "/mcp"
	dir, err := os.MkdirTemp("", "up") //nolint:usetesting // a short path: the name of a socket has at most 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	u.socket = filepath.Join(dir, "s")
	l, err := net.Listen("unix", u.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.Close()
		_ = os.RemoveAll(dir)
		u.mu.Lock()
		defer u.mu.Unlock()
		for c := range u.relays {
			_ = c.Close()
		}
	})
	go u.accept(l)
	return u
}

// requests returns the messages of one method so far. For tools/call, only those of one tool.
func (u *upstream) requests(method, name string) (found []*request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, r := range u.got {
		if r.Method == method && (name == "" || r.Params.Name == name) {
			found = append(found, r)
		}
	}
	return found
}

// calls returns how often a tool was called.
func (u *upstream) calls(name string) int { return len(u.requests("tools/call", name)) }

// setTools replaces the tools and notifies each client that listens.
func (u *upstream) setTools(tools ...tool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tools = tools
	for s := range u.streams {
		s <- "notifications/tools/list_changed"
	}
}

// receive records a message, or returns nil if raw is not valid JSON.
func (u *upstream) receive(raw []byte, header http.Header) *request {
	r := &request{raw: string(raw), header: header}
	if err := json.Unmarshal(raw, r); err != nil {
		u.t.Errorf("the upstream got text that is not a JSON-RPC message: %q", raw)
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.got = append(u.got, r)
	return r
}

const methodNotFound = `"error":{"code":-32601,"message":"no such method"}`

// answer returns the member of the response.
func (u *upstream) answer(r *request) string {
	const info = `{"name":"judges","version":"1"}`
	switch r.Method {
	case "server/discover":
		if !u.legacy {
			return `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"ttlMs":0,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":` + info + `}}`
		}
	case "initialize":
		if u.legacy {
			return `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":` + info + `}`
		}
	case "ping":
		return `"result":{}`
	case "tools/list":
		u.mu.Lock()
		defer u.mu.Unlock()
		defs := make([]string, len(u.tools))
		for i, t := range u.tools {
			defs[i] = t.definition
		}
		return `"result":{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[` + strings.Join(defs, ",") + `]}`
	case "tools/call":
		if t := u.tool(r.Params.Name); t != nil {
			return t.run(r)
		}
		return `"error":{"code":-32602,"message":"no such tool"}`
	}
	return methodNotFound
}

func (u *upstream) tool(name string) *tool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range u.tools {
		if u.tools[i].name == name {
			return &u.tools[i]
		}
	}
	return nil
}

// subscribe sends the notifications of list changes until the context ends.
func (u *upstream) subscribe(ctx context.Context, send func(method string)) {
	s := make(chan string, 16)
	u.mu.Lock()
	u.streams[s] = struct{}{}
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.streams, s)
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case method := <-s:
			send(method)
		}
	}
}

// ServeHTTP serves Streamable HTTP, one message per request.
func (u *upstream) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	flush := func(message string) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: %s\n\n", message)
		w.(http.Flusher).Flush()
	}
	if q.Method == http.MethodGet && u.legacy {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		u.subscribe(q.Context(), func(method string) { flush(`{"jsonrpc":"2.0","method":"` + method + `"}`) })
		return
	}
	if q.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	raw, err := io.ReadAll(q.Body)
	if err != nil {
		return // the client disconnected
	}
	r := u.receive(raw, q.Header)
	if r == nil || r.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	r.ctx, r.notify = q.Context(), flush
	if r.Method == "subscriptions/listen" && !u.legacy {
		meta := `"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(r.ID) + `}`
		flush(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + meta + `,"notifications":{"toolsListChanged":true}}}`)
		u.subscribe(q.Context(), func(method string) {
			flush(`{"jsonrpc":"2.0","method":"` + method + `","params":{` + meta + `}}`)
		})
		return
	}
	member := u.answer(r)
	if member == "" {
		panic(http.ErrAbortHandler)
	}
	message := `{"jsonrpc":"2.0","id":` + string(r.ID) + `,` + member + `}`
	if w.Header().Get("Content-Type") != "" {
		flush(message)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if member == methodNotFound && !u.legacy {
		w.WriteHeader(http.StatusNotFound)
	}
	_, _ = io.WriteString(w, message)
}

// accept serves each relay process as a stdio server.
func (u *upstream) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		u.mu.Lock()
		u.relays[c] = u.began
		u.began++
		u.mu.Unlock()
		go u.serveRelay(c)
	}
}

// processes returns how many stdio processes have started.
func (u *upstream) processes() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.began
}

func (u *upstream) serveRelay(c net.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex // guards writes to c, and running
	running := map[string]context.CancelFunc{}
	write := func(message string) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.WriteString(c, message+"\n")
	}
	defer func() {
		cancel()
		_ = c.Close()
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.relays, c)
	}()
	if u.legacy {
		go u.subscribe(ctx, func(method string) { write(`{"jsonrpc":"2.0","method":"` + method + `"}`) })
	}
	lines := bufio.NewReader(c)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		r := u.receive(line, nil)
		if r == nil {
			continue
		}
		if r.Method == "notifications/cancelled" {
			mu.Lock()
			if stop := running[string(r.Params.RequestID)]; stop != nil {
				stop()
			}
			mu.Unlock()
		}
		if r.ID == nil {
			continue
		}
		of, stop := context.WithCancel(ctx)
		r.ctx, r.notify = of, write //nolint:fatcontext // each request has its own
		mu.Lock()
		running[string(r.ID)] = stop
		mu.Unlock()
		go func() {
			defer stop()
			if r.Method == "subscriptions/listen" && !u.legacy {
				meta := `"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(r.ID) + `}`
				write(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + meta + `,"notifications":{"toolsListChanged":true}}}`)
				u.subscribe(of, func(method string) { write(`{"jsonrpc":"2.0","method":"` + method + `","params":{` + meta + `}}`) })
				return
			}
			switch member := u.answer(r); {
			case member == "":
				_ = c.Close()
			case of.Err() == nil:
				write(`{"jsonrpc":"2.0","id":` + string(r.ID) + `,` + member + `}`)
			}
		}()
	}
}

// relayMain is a stdio server that takes its messages from the upstream at a socket. It writes a
// line to stderr, as real servers do.
func relayMain(socket string) int {
	fmt.Fprintln(os.Stderr, "relay: ready")
	c, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		return 1
	}
	go func() {
		_, _ = io.Copy(c, os.Stdin)
		_ = c.(*net.UnixConn).CloseWrite()
	}()
	_, _ = io.Copy(os.Stdout, c)
	return 3
}
