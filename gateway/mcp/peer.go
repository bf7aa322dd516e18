package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// peer is what the gateway knows about a client: a legacy session, or all modern requests of one
// principal with the same capabilities.
type peer struct {
	g         *Gateway
	principal string
	modern    bool
	version   string
	caps      json.RawMessage // the client's capabilities
	info      json.RawMessage // its name and version; nil: it does not send them
	key       string          // in the gateway's peers

	// Guarded by the gateway's mutex.
	used    time.Time
	users   int
	retired bool // its client is gone

	mu      sync.Mutex // guards the rest
	links   map[string]*upstreamState
	out     func(*frame) // sends outside of any request; nil: cannot send
	gone    bool         // nothing can be asked
	asked   map[string]chan *frame
	nextAsk int64
	listens map[*listening]bool
	loglvl  json.RawMessage
	owners  map[string]string // resource URI to alias
	watched []json.RawMessage // resources that a legacy client follows
}

// upstreamState is the connection to one upstream, and when it may be opened again.
type upstreamState struct {
	mu    sync.Mutex // held while it is opened
	link  *link
	fails int
	again time.Time
}

func (g *Gateway) newPeer(principal string, modern bool, version string, caps, info json.RawMessage) *peer {
	p := &peer{g: g, principal: principal, modern: modern, version: version, caps: caps, info: info, asked: map[string]chan *frame{},
		listens: map[*listening]bool{}, owners: map[string]string{}, links: map[string]*upstreamState{}}
	for _, up := range g.cfg.Upstreams {
		p.links[up.Alias] = &upstreamState{}
	}
	return p
}

// exchange is one request of a client in progress.
type exchange struct {
	peer   *peer
	id     json.RawMessage
	method string
	params object
	meta   object
	// send sends what belongs to the request before its response.
	send   func(*frame)
	header http.Header // of a modern HTTP request; else nil
}

// errCancelled ends a request that the client cancelled, errGone one whose client may
// come back, errStopped all when the gateway stops, and errEnded the run of a call that an operator ended.
var (
	errCancelled = errors.New("the client cancelled the request")
	errEnded     = errors.New("the call was ended while it ran")
	errGone      = errors.New("the client is gone")
	errStopped   = errors.New("the gateway stopped before the request was answered")
)

var errNoClient = &rpcError{code: codeInternal, text: "the client cannot be asked"}

// connectTime bounds the opening of an upstream.
const connectTime = 60 * time.Second

// linkTo returns the connection to an upstream, and opens it if there is none.
func (p *peer) linkTo(up *Upstream) (*link, error) {
	s := p.links[up.Alias]
	s.mu.Lock()
	defer s.mu.Unlock()
	reopened := false
	if s.link != nil {
		if s.link.deadError() == nil {
			return s.link, nil
		}
		s.link.close()
		s.link, reopened = nil, true
	}
	if time.Now().Before(s.again) {
		return nil, fmt.Errorf("%w: %s failed; the gateway tries again in a moment", errNotSent, up.name())
	}
	ctx, cancel := context.WithTimeout(p.g.life, connectTime)
	defer cancel()
	l, err := p.connect(ctx, up)
	if err != nil {
		s.fails++
		s.again = time.Now().Add(min(time.Second<<min(s.fails-1, 5), 30*time.Second))
		p.g.cfg.Log.Warn("cannot open an MCP server", "upstream", up.Alias, "error", err)
		return nil, err
	}
	s.link, s.fails = l, 0
	l.followChanges()
	if reopened {
		p.fromUpstream(l, &frame{method: "notifications/tools/list_changed"})
	}
	return l, nil
}

func (u *Upstream) name() string {
	if u.Alias != "" {
		return "the MCP server " + u.Alias
	}
	return "the MCP server"
}

// all returns the connections in the order of the configuration. It omits upstreams that cannot
// be opened, and fails if none can be.
func (p *peer) all() (links []*link, err error) {
	ups := p.g.cfg.Upstreams
	found := make([]*link, len(ups))
	errs := make([]error, len(ups))
	var wg sync.WaitGroup
	for i, up := range ups {
		wg.Go(func() { found[i], errs[i] = p.linkTo(up) })
	}
	wg.Wait()
	if links = slices.DeleteFunc(found, func(l *link) bool { return l == nil }); len(links) == 0 {
		return nil, errors.Join(errs...)
	}
	return links, nil
}

func (p *peer) level() json.RawMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loglvl
}

// neededFor are the capabilities of a client without which a server must not ask it.
var neededFor = map[string]string{"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}

// checkAsk refuses a request of a server for which the client declares no capability.
func (p *peer) checkAsk(method string) error {
	if need := neededFor[method]; need != "" && !p.can(need) {
		return &rpcError{code: codeNoMethod, text: "the client does not support " + method}
	}
	return nil
}

// ask sends a request to a legacy client and waits for its response.
func (p *peer) ask(ctx context.Context, send func(*frame), method string, params json.RawMessage) (json.RawMessage, error) {
	if err := p.checkAsk(method); err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.nextAsk++
	id := quote(fmt.Sprintf("askance-%d", p.nextAsk))
	reply := make(chan *frame, 1)
	p.asked[string(id)] = reply
	if send == nil {
		send = p.out
	}
	gone := p.gone
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.asked, string(id))
		p.mu.Unlock()
	}()
	if send == nil || gone {
		return nil, errNoClient
	}
	send(&frame{id: id, method: method, params: params})
	select {
	case f := <-reply:
		if f.fault != nil {
			return nil, readError(f.fault)
		}
		return f.result, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// endAsks ends every ask of a client that is gone, and lets no one ask it again.
func (p *peer) endAsks() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	for _, reply := range p.asked {
		offer(reply, responseTo(nil, nil, errNoClient))
	}
}

// offer sends a value on a channel with room for one, unless it has one already.
func offer[T any](to chan<- T, value T) {
	select {
	case to <- value:
	default:
	}
}

// answered handles a response of the client.
func (p *peer) answered(f *frame) {
	p.mu.Lock()
	reply := p.asked[string(f.id)]
	p.mu.Unlock()
	if reply != nil {
		offer(reply, f)
	}
}

// notified handles a notification of the client.
func (p *peer) notified(ctx context.Context, f *frame) {
	if f.method != "notifications/roots/list_changed" {
		return
	}
	for _, s := range p.links {
		s.mu.Lock()
		l := s.link
		s.mu.Unlock()
		if l != nil && !l.modern {
			_ = l.notify(ctx, f.method, objectOf(f.params)) // the server may be gone
		}
	}
}

// onlyIn says of the methods that only one era has whether that is the modern one.
var onlyIn = map[string]bool{
	"ping": false, "initialize": false, "resources/subscribe": false, "resources/unsubscribe": false, "logging/setLevel": false,
	"server/discover": true, "subscriptions/listen": true,
}

// handle carries out one request.
func (e *exchange) handle(ctx context.Context) (json.RawMessage, error) {
	p := e.peer
	if modern, one := onlyIn[e.method]; one && modern != p.modern {
		return nil, noMethod(e.method)
	}
	switch e.method {
	case "ping":
		return json.RawMessage("{}"), nil
	case "initialize":
		return p.initialize()
	case "server/discover":
		return p.discover()
	case "tools/list":
		return p.listTools(ctx)
	case "tools/call":
		return e.callTool(ctx)
	case "resources/list", "resources/templates/list", "prompts/list":
		return e.relayList(ctx)
	case "resources/subscribe", "resources/unsubscribe", "resources/read", "prompts/get", "completion/complete":
		return e.relay(ctx)
	case "logging/setLevel":
		return e.setLevel(ctx)
	case "subscriptions/listen":
		return e.listen(ctx)
	case "tasks/get", "tasks/update", "tasks/cancel", "tasks/result", "tasks/list":
		return e.handleTask(ctx)
	}
	return nil, noMethod(e.method)
}

// initialize opens a legacy session.
func (p *peer) initialize() (json.RawMessage, error) {
	caps, server, instructions, err := p.describe()
	if err != nil {
		return nil, err
	}
	result := object{{Name: "protocolVersion", Value: quote(p.version)}, {Name: "capabilities", Value: caps}, {Name: "serverInfo", Value: server}}
	return append(result, instructions...).bytes(), nil
}

func (p *peer) discover() (json.RawMessage, error) {
	caps, server, instructions, err := p.describe()
	if err != nil {
		return nil, err
	}
	result := object{{Name: "resultType", Value: quote("complete")}, {Name: "supportedVersions", Value: encode(allVersions())}, {Name: "capabilities", Value: caps}}
	meta := object{{Name: metaServer, Value: server}}
	return append(result, instructions...).with("_meta", meta.bytes()).bytes(), nil
}

// describe joins what the upstreams say about themselves. instructions is the member of that name,
// if there are any.
func (p *peer) describe() (caps, server json.RawMessage, instructions object, err error) {
	links, err := p.all()
	if err != nil {
		return nil, nil, nil, err
	}
	var joined object
	var texts []string
	for _, l := range links {
		for _, m := range objectOf(l.about.get("capabilities")) {
			joined = joined.with(m.Name, joinObjects(joined.get(m.Name), m.Value))
		}
		if text := l.about.text("instructions"); text != "" {
			texts = append(texts, text)
		}
	}
	joined = joined.without("tasks").with("tools", joinObjects(joined.get("tools"), []byte(`{"listChanged":true}`)))
	if p.modern {
		joined = joined.with("extensions", joinObjects(joined.get("extensions"), object{{Name: tasksExtension, Value: []byte("{}")}}.bytes()))
	} else {
		joined = joined.without("extensions")
		if p.version == legacyNewest && p.can("tasks") {
			joined = joined.with("tasks", []byte(`{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`))
		}
	}
	server = p.g.about()
	if len(p.g.cfg.Upstreams) == 1 {
		if info := links[0].serverInfo(); info != nil {
			server = info
		}
	}
	if len(texts) > 0 {
		instructions = object{{Name: "instructions", Value: quote(strings.Join(texts, "\n\n"))}}
	}
	return joined.bytes(), server, instructions, nil
}

func (l *link) serverInfo() json.RawMessage {
	if l.modern {
		return l.about.at("_meta", metaServer)
	}
	return l.about.get("serverInfo")
}

// joinObjects merges two objects; where both have a member, the member of b wins.
func joinObjects(a, b json.RawMessage) json.RawMessage {
	out := objectOf(a)
	for _, m := range objectOf(b) {
		if strings.HasPrefix(string(m.Value), "{") {
			m.Value = joinObjects(out.get(m.Name), m.Value)
		}
		out = out.with(m.Name, m.Value)
	}
	return out.bytes()
}

// fromUpstream handles what a server sends outside of any request.
func (p *peer) fromUpstream(l *link, f *frame) {
	if f.isRequest() {
		go p.askFor(l, f, nil)
		return
	}
	params := objectOf(f.params)
	if meta := objectOf(params.get("_meta")); meta.get(metaSubscription) != nil {
		if meta = meta.without(metaSubscription); len(meta) == 0 {
			params = params.without("_meta")
		} else {
			params = params.with("_meta", meta.bytes())
		}
		f = &frame{method: f.method, params: params.bytes()}
	}
	if p.modern {
		p.tellListeners(f)
		return
	}
	if !slices.Contains(relayed, f.method) {
		return
	}
	p.mu.Lock()
	out := p.out
	p.mu.Unlock()
	if out != nil {
		out(f)
	}
}

// relayed are the notifications of a server that a legacy client gets.
var relayed = []string{
	"notifications/message", "notifications/resources/updated", "notifications/resources/list_changed",
	"notifications/tools/list_changed", "notifications/prompts/list_changed",
}

// askFor asks a legacy client on behalf of a server, and answers the server.
func (p *peer) askFor(l *link, f *frame, send func(*frame)) {
	if f.method == "ping" {
		l.answer(p.g.life, f.id, []byte("{}"), nil)
		return
	}
	if p.modern {
		l.answer(p.g.life, f.id, nil, &rpcError{code: codeInternal, text: "the gateway cannot tell for which call the server asks"})
		return
	}
	ctx, cancel := context.WithTimeout(p.g.life, inputTime)
	defer cancel()
	result, err := p.ask(ctx, send, f.method, f.params)
	l.answer(p.g.life, f.id, result, err)
}

func (p *peer) close() {
	var wg sync.WaitGroup
	for _, s := range p.links {
		wg.Go(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.link != nil {
				s.link.close()
				s.link = nil
			}
		})
	}
	wg.Wait()
}
