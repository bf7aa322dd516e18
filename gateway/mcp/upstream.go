package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
)

// Upstream is an MCP server behind the gateway: a command or a URL.
type Upstream struct {
	// Alias begins the names of its tools, if there are several upstreams.
	Alias string
	// Command is started for each client; Env are additional variables for it.
	Command []string
	Env     []string
	// URL is a streamable HTTP endpoint. Header is sent with each request to it.
	URL    string
	Header map[string]string
	// Idempotent names tools that may run again after a lost answer.
	Idempotent []string
	// TrustAnnotations believes the idempotentHint and readOnlyHint of its tools.
	TrustAnnotations bool
}

// errNotSent means that the server did not carry out a request: it did not get it, or refused it.
var errNotSent = errors.New("the MCP server cannot be reached")

// errLost means that a server may have carried out a request, but did not answer it.
var errLost = errors.New("the MCP server did not answer")

// wire carries messages to one server. Messages that come back go to the link.
type wire interface {
	// send sends a message; for a request it may return before the response.
	send(ctx context.Context, f *frame, of *waiting) error
	close()
}

// link is a connection to an upstream on behalf of one peer.
type link struct {
	up      *Upstream
	peer    *peer
	log     *slog.Logger
	modern  bool
	version string
	about   object // the result of initialize or server/discover
	wire    wire

	mu      sync.Mutex // guards the rest
	next    int64
	pending map[string]*waiting
	notices int // notifications to which the server sent no response, as is right
	dead    error
	tools   *toolList
	asks    int                // requests of the server that have no answer
	listens context.CancelFunc // of the modern change notifications
	follows <-chan struct{}    // closed when the server sends them
}

// waiting is a request that has no response yet.
type waiting struct {
	id    json.RawMessage
	token json.RawMessage // the client's progress token
	// on gets the notifications and requests that come before the response.
	on    func(*frame)
	extra map[string]string
	reply chan *frame
	acked chan struct{} // of a subscription: closed when the server follows it
	told  bool          // the server was told that it is cancelled; the link's mutex guards it
}

// probeTime bounds the wait for the answer of a server of unknown era.
const probeTime = 10 * time.Second

// connect opens a link. The server's answer to server/discover shows its era.
func (p *peer) connect(ctx context.Context, up *Upstream) (*link, error) {
	l := &link{up: up, peer: p, log: p.g.cfg.Log.With("upstream", up.Alias), pending: map[string]*waiting{}}
	if err := l.open(ctx); err != nil {
		return nil, err
	}
	probe, cancel := context.WithTimeout(ctx, probeTime)
	err := l.discover(probe)
	cancel()
	if wantsModern(err) {
		err = l.discover(ctx)
	}
	if err == nil {
		return l, nil
	}
	l.modern = false
	if errors.Is(err, errLost) || errors.Is(err, errNotSent) { // some servers exit on an unknown opening
		l.wire.close()
		if err := l.open(ctx); err != nil {
			return nil, err
		}
	}
	if err := l.initialize(ctx); err != nil {
		l.close()
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	return l, nil
}

// discover opens a modern connection.
func (l *link) discover(ctx context.Context) error {
	l.modern, l.version = true, modernVersion
	result, err := l.call(ctx, "server/discover", nil, nil)
	if err == nil && !listsModern(result, "supportedVersions") {
		err = errors.New("no common revision")
	}
	l.about = objectOf(result)
	return err
}

// wantsModern reports whether a server refused a revision and speaks the modern one.
func wantsModern(err error) bool {
	re, ok := errors.AsType[*rpcError](err)
	return ok && re.code == codeVersion && listsModern(re.data, "supported")
}

func listsModern(data json.RawMessage, member string) bool {
	return slices.ContainsFunc(itemsOf(objectOf(data).get(member)), func(v json.RawMessage) bool { return string(v) == `"`+modernVersion+`"` })
}

func (l *link) open(ctx context.Context) (err error) {
	l.mu.Lock()
	l.dead = nil
	l.mu.Unlock()
	if l.up.URL != "" {
		l.wire = newHTTPWire(l)
		return nil
	}
	l.wire, err = startProcess(ctx, l)
	return err
}

func (l *link) initialize(ctx context.Context) error {
	version := l.peer.version
	if !isLegacy(version) {
		version = legacyNewest
	}
	info := l.peer.info
	if info == nil {
		info = l.peer.g.about()
	}
	params := object{{Name: "protocolVersion", Value: quote(version)}, {Name: "capabilities", Value: l.peer.upstreamCapabilities()}, {Name: "clientInfo", Value: info}}
	result, err := l.call(ctx, "initialize", params, nil)
	if wantsModern(err) { // it starts slowly: it read server/discover after probeTime
		return l.discover(ctx)
	}
	if err != nil {
		return err
	}
	l.about = objectOf(result)
	if l.version = l.about.text("protocolVersion"); !isLegacy(l.version) {
		return fmt.Errorf("the server speaks the unknown revision %q", l.version)
	}
	return l.notify(ctx, "notifications/initialized", nil)
}

// has reports whether the server declares a capability.
func (l *link) has(path ...string) bool {
	return objectOf(l.about.get("capabilities")).at(path...) != nil
}

// call sends a request and waits for its response.
func (l *link) call(ctx context.Context, method string, params object, w *waiting) (json.RawMessage, error) {
	w = cmp.Or(w, &waiting{})
	w.reply = make(chan *frame, 1)
	l.mu.Lock()
	if l.dead != nil {
		l.mu.Unlock()
		return nil, errNotSent
	}
	l.next++
	w.id = intID(l.next)
	l.pending[string(w.id)] = w
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.pending, string(w.id))
		l.mu.Unlock()
	}()
	if method != "initialize" {
		params = l.forUpstream(params)
	}
	if meta := objectOf(params.get("_meta")); meta.get("progressToken") != nil {
		w.token = meta.get("progressToken")
		params = params.with("_meta", meta.with("progressToken", w.id).bytes())
	}
	f := &frame{id: w.id, method: method}
	if params != nil {
		f.params = params.bytes()
	}
	if err := l.wire.send(ctx, f, w); err != nil {
		return nil, err
	}
	select {
	case f := <-w.reply:
		switch {
		case f == nil:
			return nil, errLost
		case f.err != nil:
			return nil, fmt.Errorf("%w: %w", errLost, f.err)
		case f.fault != nil:
			return nil, readError(f.fault)
		}
		return f.result, nil
	case <-ctx.Done():
		l.mu.Lock()
		told := w.told
		l.mu.Unlock()
		if method != "initialize" && !told {
			cancel, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer stop()
			_ = l.notify(cancel, "notifications/cancelled", object{{Name: "requestId", Value: w.id}}) // the server may be gone
		}
		return nil, context.Cause(ctx)
	}
}

func (l *link) notify(ctx context.Context, method string, params object) error {
	f := &frame{method: method}
	if l.modern {
		params = l.forUpstream(params)
	}
	if params != nil {
		f.params = params.bytes()
	}
	l.mu.Lock()
	l.notices++
	l.mu.Unlock()
	return l.wire.send(ctx, f, nil)
}

func (l *link) answer(ctx context.Context, id, result json.RawMessage, err error) {
	defer l.countAsk(-1)
	if serr := l.wire.send(ctx, responseTo(id, result, err), nil); serr != nil {
		l.log.Warn("cannot answer the MCP server", "error", serr)
	}
}

// maxAsks bounds the requests of a server that wait for an answer. Others get none.
const maxAsks = 100

// countAsk counts the requests of the server, and reports whether they are within their bound.
func (l *link) countAsk(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asks += n
	return l.asks <= maxAsks
}

// receive handles a message from the server. of is the request on whose stream it came, if the
// wire can tell.
func (l *link) receive(f *frame, of *waiting) {
	if f.isResponse() {
		l.mu.Lock()
		w := l.pending[string(f.id)]
		l.mu.Unlock()
		if w == nil || of != nil && of != w {
			l.endUnanswered(f, of)
		} else {
			offer(w.reply, f)
		}
		return
	}
	if f.isRequest() && !l.countAsk(1) {
		l.countAsk(-1)
		l.log.Warn("left out a request of the MCP server: too many have no answer", "method", f.method)
		return
	}
	switch f.method {
	case "notifications/tools/list_changed":
		l.forgetTools()
	case "notifications/subscriptions/acknowledged":
		l.mu.Lock()
		defer l.mu.Unlock()
		if w := l.pending[string(objectOf(f.params).at("_meta", metaSubscription))]; w != nil && w.acked != nil {
			close(w.acked)
			w.acked = nil
		}
		return
	case "notifications/progress":
		params := objectOf(f.params)
		l.mu.Lock()
		w := l.pending[string(params.get("progressToken"))]
		l.mu.Unlock()
		if w == nil || w.token == nil || w.on == nil {
			return
		}
		w.on(&frame{method: f.method, params: params.with("progressToken", w.token).bytes()})
		return
	}
	if of == nil && f.isRequest() {
		of = l.only()
	}
	if of != nil && of.on != nil && (f.isRequest() || l.up.URL != "" && f.method == "notifications/message") {
		of.on(f)
		return
	}
	l.peer.fromUpstream(l, f)
}

// endUnanswered ends the requests for which a response may be meant that has no id of theirs. A late or
// repeated response ends nothing, and neither does one to a notification.
func (l *link) endUnanswered(f *frame, of *waiting) {
	if f.err == nil {
		f.err = fmt.Errorf("it sent a response with the id %s, which is not that of the request", cmp.Or(string(f.id), "null"))
		if f.fault != nil {
			f.err = fmt.Errorf("%w: %v", f.err, readError(f.fault)) //nolint:errorlint // it is not the answer to a request
		}
	}
	l.log.Warn("the MCP server sent a response that no request waits for", "error", f.err)
	l.mu.Lock()
	defer l.mu.Unlock()
	n, _ := strconv.ParseInt(string(f.id), 10, 64) // any other id is 0, which no request has
	switch {
	case of != nil: // on the stream of this request
		offer(of.reply, f)
	case n >= 1 && n <= l.next:
	case f.id == nil && l.notices > 0 && (f.result != nil || f.fault != nil && readError(f.fault).code != codeParse): // some servers answer them
		l.notices--
	default:
		l.offerAll(f)
	}
}

// offerAll gives a response to every waiting request. The caller holds the lock.
func (l *link) offerAll(f *frame) {
	for _, w := range l.pending {
		offer(w.reply, f)
	}
}

// only returns the one request with a listener, or nil if there are several or none.
func (l *link) only() (found *waiting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.pending {
		if w.on == nil {
			continue
		}
		if found != nil {
			return nil
		}
		found = w
	}
	return found
}

// fail ends every waiting request.
func (l *link) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead == nil {
		l.dead = err
	}
	l.offerAll(nil)
}

func (l *link) deadError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

func (l *link) close() {
	l.mu.Lock()
	if l.listens != nil {
		l.listens()
	}
	l.mu.Unlock()
	l.fail(errNotSent)
	l.wire.close()
}

func (l *link) listPages(ctx context.Context, method, member string) (items []json.RawMessage, last object, err error) {
	var cursor json.RawMessage
	size := 0
	for range maxPages {
		var params object
		if cursor != nil {
			params = object{strictjson.Member{Name: "cursor", Value: cursor}}
		}
		result, err := l.call(ctx, method, params, nil)
		if err != nil {
			return nil, nil, err
		}
		if size += len(result); size > maxBytes {
			return nil, nil, fmt.Errorf("the list has more than %d MiB", maxBytes>>20)
		}
		last = objectOf(result)
		items = append(items, itemsOf(last.get(member))...)
		cursor = last.get("nextCursor")
		if cursor == nil || string(cursor) == "null" {
			return items, last, nil
		}
		if len(items) > maxItems {
			l.log.Warn("left out the rest of a list of the MCP server: it is too long", "method", method, "items", len(items))
			return items, last, nil
		}
	}
	return nil, nil, fmt.Errorf("the list has more than %d pages", maxPages)
}

// Bounds of a list that a server sends.
const (
	maxPages = 100
	maxItems = 10_000
)
