package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/askance-dev/askance/internal/child"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/internal/strictjson"
)

// httpWire is the wire to a streamable HTTP endpoint.
type httpWire struct {
	l       *link
	client  *http.Client
	ctx     context.Context //nolint:containedctx // the life of the wire: it ends with close
	stop    context.CancelFunc
	mu      sync.Mutex // guards session
	session string
}

func newHTTPWire(l *link) *httpWire {
	w := &httpWire{l: l, client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

func (h *httpWire) request(ctx context.Context, method string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, h.l.up.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range h.l.up.Header {
		r.Header.Set(name, value)
	}
	if h.l.version != "" {
		r.Header.Set("MCP-Protocol-Version", h.l.version)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.session != "" && !h.l.modern {
		r.Header.Set("Mcp-Session-Id", h.session)
	}
	return r, nil
}

func (h *httpWire) send(ctx context.Context, f *frame, w *waiting) error {
	r, err := h.request(ctx, http.MethodPost, f.bytes())
	if err != nil {
		return errors.Join(errNotSent, withoutURL(err))
	}
	if f.method == "initialize" {
		r.Header.Del("MCP-Protocol-Version")
	}
	if h.l.modern && f.method != "" {
		r.Header.Set("Mcp-Method", f.method)
		if name, has := nameOf(f.method, objectOf(f.params)); has {
			r.Header.Set("Mcp-Name", headerValue(name))
		}
		if w != nil {
			for name, value := range w.extra {
				r.Header.Set("Mcp-Param-"+name, headerValue(value))
			}
		}
	}
	res, err := h.client.Do(r)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			return errors.Join(errNotSent, withoutURL(err))
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return errLost
	}
	if f.method == "initialize" && res.StatusCode == http.StatusOK {
		h.mu.Lock()
		h.session = res.Header.Get("Mcp-Session-Id")
		h.mu.Unlock()
	}
	return h.read(ctx, res, f, w)
}

// withoutURL strips the URL from an error of net/http: clients and models read the error, and the
// URL may carry a key.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

func (h *httpWire) read(ctx context.Context, res *http.Response, f *frame, w *waiting) error {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")) // an invalid type is not JSON
	switch {
	case res.StatusCode == http.StatusNotFound && !h.l.modern && h.session != "":
		_ = res.Body.Close()
		h.l.fail(errNotSent) // the session is over: the next request opens another
		return errNotSent
	case res.StatusCode == http.StatusOK && kind == "text/event-stream":
		if !h.l.modern && f.method == "notifications/initialized" {
			break
		}
		go h.stream(ctx, res, w)
		return nil
	case kind == "application/json":
		defer func() { _ = res.Body.Close() }() // it was only read
		body, err := io.ReadAll(io.LimitReader(res.Body, maxFrame+1))
		if err != nil {
			return errLost
		}
		got, err := readMessage(body)
		if w != nil && got != nil && got.isResponse() && (res.StatusCode == http.StatusOK || got.fault != nil) {
			if err == nil && (got.id == nil || got.fault != nil) { // an error need not name the request
				got.id = w.id
			}
			h.l.receive(got, w)
			return nil
		}
	}
	_ = res.Body.Close()
	switch {
	case w == nil && res.StatusCode < 300:
		if f.method == "notifications/initialized" && !h.l.modern {
			opened := make(chan struct{})
			go h.follow(sync.OnceFunc(func() { close(opened) }))
			select { // what a server sends before the stream is open is lost
			case <-opened:
			case <-time.After(openTime):
			case <-ctx.Done():
			}
		}
		return nil
	case res.StatusCode == http.StatusRequestTimeout || res.StatusCode == http.StatusConflict: // also sent for requests that began
	case res.StatusCode >= 400 && res.StatusCode < 500:
		return fmt.Errorf("%w: HTTP status %d", errNotSent, res.StatusCode)
	}
	return fmt.Errorf("%w: HTTP status %d", errLost, res.StatusCode)
}

// stream reads the stream of one request. A legacy stream that breaks continues after its last
// event.
func (h *httpWire) stream(ctx context.Context, res *http.Response, w *waiting) {
	answered := false
	take := func(f *frame) {
		answered = answered || w != nil && f.isResponse() && string(f.id) == string(w.id)
		h.l.receive(f, w)
	}
	last, wait, whole := readEvents(res.Body, take)
	for !answered && last != "" && !h.l.modern && ctx.Err() == nil {
		var next string
		if next, wait = h.get(ctx, last, wait, take, func() {}); next == "" {
			break
		}
		last = next
	}
	if !answered && w != nil {
		if whole && !h.l.modern { // the session's own stream may carry the response
			_ = sleep.For(ctx, lateTime)
		}
		offer(w.reply, nil)
	}
}

// lateTime is how long a legacy server may answer after it closed the request's stream.
const lateTime = 15 * time.Second

// openTime bounds the wait for the stream of a legacy session: some servers answer with
// their first event.
const openTime = 2 * time.Second

// get reads a stream after an event, and returns the last id; "" if there is no stream. It calls
// opened when the server has answered.
func (h *httpWire) get(ctx context.Context, after string, wait time.Duration, take func(*frame), opened func()) (last string, next time.Duration) {
	if sleep.For(ctx, wait) != nil {
		return "", wait
	}
	r, err := h.request(ctx, http.MethodGet, nil)
	if err != nil {
		return "", wait
	}
	r.Header.Set("Accept", "text/event-stream")
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	res, err := h.client.Do(r)
	opened()
	if err != nil {
		return "", wait
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return "", wait
	}
	if last, next, _ = readEvents(res.Body, take); last == "" {
		last = after
	}
	return last, next
}

// follow reads the stream of a legacy session until it is closed or the server has
// none.
func (h *httpWire) follow(opened func()) {
	last, wait := "", time.Duration(0)
	for h.ctx.Err() == nil {
		began := time.Now()
		next, pause := h.get(h.ctx, last, wait, func(f *frame) { h.l.receive(f, nil) }, opened)
		if next == "" && time.Since(began) < time.Second {
			return
		}
		last, wait = next, max(pause, time.Second)
	}
}

func (h *httpWire) close() {
	h.stop()
	h.mu.Lock()
	session := h.session
	h.mu.Unlock()
	if session == "" || h.l.modern {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), child.Grace)
	defer cancel()
	if r, err := h.request(ctx, http.MethodDelete, nil); err == nil {
		if res, err := h.client.Do(r); err == nil {
			_ = res.Body.Close()
		}
	}
}

// minReconnect is the shortest pause before a reconnect: a server that ends each stream at once would
// otherwise keep the gateway busy for as long as a call waits.
const minReconnect = 100 * time.Millisecond

// readEvents reads server-sent events to the end of the stream. It returns the last
// id, the time to wait before a reconnect, and whether the server ended the stream.
func readEvents(body io.ReadCloser, take func(*frame)) (last string, wait time.Duration, whole bool) {
	defer func() { _ = body.Close() }() // it was only read
	wait = time.Second
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 64<<10), maxFrame)
	var data []byte
	id := "" // of the event that is not complete
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			id = value
		case "retry":
			if ms, err := strconv.Atoi(value); err == nil && ms >= 0 {
				wait = min(max(time.Duration(ms)*time.Millisecond, minReconnect), time.Minute)
			}
		case "data":
			if len(data)+len(value) > maxFrame {
				return "", wait, false
			}
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, value...)
		}
		if lines.Text() != "" {
			continue
		}
		last = id
		if f, _ := readMessage(data); f != nil { // only a message has a receiver
			take(f)
		}
		data = nil
	}
	return last, wait, lines.Err() == nil
}

// nameOf returns what the header Mcp-Name repeats from a request.
func nameOf(method string, params object) (string, bool) {
	switch method {
	case "tools/call", "prompts/get":
		return params.text("name"), true
	case "resources/read":
		return params.text("uri"), true
	case "tasks/get", "tasks/update", "tasks/cancel":
		return params.text("taskId"), true
	}
	return "", false
}

const sentinel, sentinelEnd = "=?base64?", "?="

// headerValue writes a text as a header value.
func headerValue(text string) string {
	plain := strings.TrimSpace(text) == text && !strings.HasPrefix(text, sentinel)
	for i := range len(text) {
		plain = plain && text[i] >= ' ' && text[i] < 0x7f
	}
	if plain {
		return text
	}
	return sentinel + base64.StdEncoding.EncodeToString([]byte(text)) + sentinelEnd
}

// headerText reads a header value; ok is false if it is malformed.
func headerText(value string) (text string, ok bool) {
	inner, found := strings.CutPrefix(value, sentinel)
	inner, ended := strings.CutSuffix(inner, sentinelEnd)
	if !found || !ended {
		return value, true
	}
	b, err := base64.StdEncoding.DecodeString(inner)
	return string(b), err == nil
}

// paramHeaders returns the headers that an input schema requires, with the argument at each path
// as text; ok is false if the schema's annotations are invalid.
func paramHeaders(schema, arguments json.RawMessage) (values map[string]string, ok bool) {
	values, ok = map[string]string{}, true
	seen := map[string]bool{}
	primitives := []string{"string", "integer", "boolean"}
	var walk func(schema, value json.RawMessage, depth int)
	walk = func(schema, value json.RawMessage, depth int) {
		if depth > 16 {
			return
		}
		args := objectOf(value)
		for _, p := range objectOf(objectOf(schema).get("properties")) {
			prop := objectOf(p.Value)
			arg := args.get(p.Name)
			if raw := prop.get("x-mcp-header"); raw != nil {
				name := prop.text("x-mcp-header")
				if !httpguts.ValidHeaderFieldName(name) || seen[strings.ToLower(name)] || !slices.Contains(primitives, prop.text("type")) {
					ok = false
					return
				}
				seen[strings.ToLower(name)] = true
				if text, is := primitiveText(arg); is {
					values[name] = text
				}
			}
			walk(p.Value, arg, depth+1)
		}
	}
	walk(schema, arguments, 0)
	return values, ok
}

func primitiveText(value json.RawMessage) (string, bool) {
	if len(value) == 0 || string(value) == "null" {
		return "", false
	}
	if value[0] == '"' {
		text, err := strictjson.Text(value)
		return text, err == nil
	}
	return string(value), value[0] != '{' && value[0] != '['
}
