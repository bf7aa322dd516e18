package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
)

// separator ends the alias in the name of a tool or prompt. No alias contains it, so two names
// never collide.
const separator = "_"

// clientName returns the name of a tool or prompt of an upstream, as clients see it.
func (u *Upstream) clientName(name string) string {
	if u.Alias == "" {
		return name
	}
	return u.Alias + separator + name
}

// split finds the upstream of a name that a client sent.
func (g *Gateway) split(name string) (*Upstream, string) {
	for _, up := range g.cfg.Upstreams {
		if up.Alias == "" {
			return up, name
		}
		if inner, found := strings.CutPrefix(name, up.Alias+separator); found {
			return up, inner
		}
	}
	return nil, ""
}

// listener makes the waiting request that passes on what comes before the response.
func (e *exchange) listener(l *link) *waiting {
	return &waiting{on: func(f *frame) {
		if f.isRequest() {
			go e.peer.askFor(l, f, e.send)
			return
		}
		e.send(f)
	}}
}

// members of list results.
var listMembers = map[string]string{"resources/list": "resources", "resources/templates/list": "resourceTemplates", "prompts/list": "prompts"}

// capabilityOf returns the capability that a server with a method declares.
func capabilityOf(method string) string {
	switch {
	case strings.HasPrefix(method, "resources/"):
		return "resources"
	case strings.HasPrefix(method, "prompts/"):
		return "prompts"
	case strings.HasPrefix(method, "logging/"):
		return "logging"
	}
	return "completions"
}

// relayList passes a list on: unchanged from one upstream, joined from several.
func (e *exchange) relayList(ctx context.Context) (json.RawMessage, error) {
	p := e.peer
	links, err := p.all()
	if err != nil {
		return nil, err
	}
	if len(p.g.cfg.Upstreams) == 1 {
		return links[0].call(ctx, e.method, e.params, e.listener(links[0]))
	}
	member, capable := listMembers[e.method], false
	var items []json.RawMessage
	for _, l := range links {
		if !l.has(capabilityOf(e.method)) {
			continue
		}
		capable = true
		page, _, err := l.listPages(ctx, e.method, member)
		if err != nil {
			l.log.Warn("cannot list", "method", e.method, "error", err)
			continue
		}
		for _, item := range page {
			o := objectOf(item)
			if member == "prompts" {
				o = o.with("name", quote(l.up.clientName(o.text("name"))))
			}
			if uri := o.text("uri"); uri != "" && member == "resources" {
				p.mu.Lock()
				if owner, known := p.owners[uri]; known && owner != l.up.Alias {
					p.mu.Unlock()
					continue // the first upstream with a URI has it
				}
				p.owners[uri] = l.up.Alias
				p.mu.Unlock()
			}
			items = append(items, o.bytes())
		}
	}
	if !capable {
		return nil, noMethod(e.method)
	}
	return object{{Name: member, Value: arrayOf(items)}}.bytes(), nil
}

// relay passes a request on to the upstream that has its subject.
func (e *exchange) relay(ctx context.Context) (json.RawMessage, error) {
	p := e.peer
	links, params, err := e.route()
	if err != nil {
		return nil, err
	}
	var firstErr error
	for _, l := range links {
		if l.modern && strings.HasSuffix(e.method, "subscribe") {
			p.watch(l, e.method == "resources/subscribe", e.params.get("uri"))
			return json.RawMessage("{}"), nil
		}
		result, err := e.relayTo(ctx, l, params)
		if err == nil {
			return result, nil
		}
		firstErr = cmp.Or(firstErr, err)
		if _, ok := errors.AsType[*rpcError](err); !ok || ctx.Err() != nil {
			return nil, err
		}
	}
	return nil, firstErr
}

// relayTo passes a request on. The questions of a modern server become requests to a legacy
// client.
func (e *exchange) relayTo(ctx context.Context, l *link, params object) (json.RawMessage, error) {
	p := e.peer
	for range maxRounds {
		result, err := l.call(ctx, e.method, params, e.listener(l))
		if err != nil || p.modern || objectOf(result).text("resultType") != "input_required" {
			return result, err
		}
		answers, err := p.askAll(ctx, e.send, objectOf(result).get("inputRequests"))
		if err != nil {
			return nil, err
		}
		params = params.with("inputResponses", answers).without("requestState")
		if state := objectOf(result).get("requestState"); state != nil {
			params = params.with("requestState", state)
		}
	}
	return nil, &rpcError{code: codeInternal, text: "the server asks for input again and again"}
}

// maxRounds bounds how often a server may ask for input within one request.
const maxRounds = 10

// askAll asks a legacy client everything that a modern server asks in one result.
func (p *peer) askAll(ctx context.Context, send func(*frame), requests json.RawMessage) (json.RawMessage, error) {
	var answers object
	for _, m := range objectOf(requests) {
		r := objectOf(m.Value)
		result, err := p.ask(ctx, send, r.text("method"), r.get("params"))
		if err != nil {
			return nil, err
		}
		answers = answers.with(m.Name, result)
	}
	return answers.bytes(), nil
}

// route finds the upstreams that may have the subject of a request, and its params
// there.
func (e *exchange) route() (links []*link, params object, err error) {
	p := e.peer
	if len(p.g.cfg.Upstreams) == 1 {
		l, err := p.linkTo(p.g.cfg.Upstreams[0])
		return []*link{l}, e.params, err
	}
	named := func(name string) (*link, string, error) {
		up, inner := p.g.split(name)
		if up == nil {
			return nil, "", badParams("no upstream has %q", name)
		}
		l, err := p.linkTo(up)
		return l, inner, err
	}
	ref := objectOf(e.params.get("ref"))
	switch {
	case e.method == "prompts/get":
		l, inner, err := named(e.params.text("name"))
		return []*link{l}, e.params.with("name", quote(inner)), err
	case e.method == "completion/complete" && ref.text("type") == "ref/prompt":
		l, inner, err := named(ref.text("name"))
		return []*link{l}, e.params.with("ref", ref.with("name", quote(inner)).bytes()), err
	}
	all, err := p.all()
	if err != nil {
		return nil, nil, err
	}
	p.mu.Lock()
	owner := p.owners[e.params.text("uri")]
	p.mu.Unlock()
	for _, l := range all {
		if l.has(capabilityOf(e.method)) && (owner == "" || owner == l.up.Alias) {
			links = append(links, l)
		}
	}
	if len(links) == 0 {
		return nil, nil, noMethod(e.method)
	}
	return links, e.params, nil
}

// setLevel passes on how much a legacy client wants logged.
func (e *exchange) setLevel(ctx context.Context) (json.RawMessage, error) {
	p := e.peer
	links, err := p.all()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.loglvl = e.params.get("level")
	p.mu.Unlock()
	known := false
	for _, l := range links {
		switch {
		case l.modern:
			known = true // the level is sent with each request
		case len(links) == 1 || l.has("logging"):
			if _, err := l.call(ctx, e.method, e.params, nil); err != nil {
				return nil, err
			}
			known = true
		}
	}
	if !known {
		return nil, noMethod(e.method)
	}
	return json.RawMessage("{}"), nil
}

// listening is one modern subscription.
type listening struct {
	x      *exchange
	filter object
}

// listen holds a subscription until the client ends it.
func (e *exchange) listen(ctx context.Context) (json.RawMessage, error) {
	p := e.peer
	want := objectOf(e.params.get("notifications"))
	links, err := p.all()
	if err != nil {
		return nil, err
	}
	var agreed object
	has := func(path ...string) bool {
		return slices.ContainsFunc(links, func(l *link) bool { return string(objectOf(l.about.get("capabilities")).at(path...)) == "true" })
	}
	for _, m := range want {
		switch {
		case m.Name == "toolsListChanged", m.Name == "taskIds",
			m.Name == "promptsListChanged" && has("prompts", "listChanged"),
			m.Name == "resourcesListChanged" && has("resources", "listChanged"),
			m.Name == "resourceSubscriptions" && has("resources", "subscribe"):
			agreed = append(agreed, m)
		}
	}
	var followed []<-chan struct{}
	for _, l := range links {
		if l.modern {
			l.mu.Lock()
			followed = append(followed, l.follows)
			l.mu.Unlock()
			if upstream := agreed.without("taskIds", "toolsListChanged"); len(upstream) > 0 { // followChanges covers toolsListChanged
				followed = append(followed, l.subscribe(ctx, upstream))
			}
			continue
		}
		for _, uri := range itemsOf(agreed.get("resourceSubscriptions")) {
			if _, err := l.call(ctx, "resources/subscribe", object{{Name: "uri", Value: uri}}, nil); err != nil {
				l.log.Warn("cannot subscribe to a resource", "error", err)
			}
		}
	}
	late := time.After(followTime)
	for _, f := range followed { // a change after the acknowledgement is not lost
		select {
		case <-f:
		case <-late:
			late = nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if late == nil {
			break
		}
	}
	s := &listening{x: e, filter: agreed}
	p.mu.Lock() // the acknowledgement is the first message
	p.listens[s] = true
	s.notify("notifications/subscriptions/acknowledged", object{strictjson.Member{Name: "notifications", Value: agreed.bytes()}})
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.listens, s)
		p.mu.Unlock()
	}()
	end := object{{Name: "_meta", Value: object{{Name: metaSubscription, Value: e.id}}.bytes()}}.bytes()
	if len(agreed) == 0 {
		return end, nil
	}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-p.g.life.Done():
		return end, nil
	}
}

// followTime bounds the wait for servers that do not acknowledge a subscription.
const followTime = 5 * time.Second

// subscribe follows changes of a modern server until ctx ends. The channel is closed
// when the server has agreed, or refused.
func (l *link) subscribe(ctx context.Context, filter object) <-chan struct{} {
	acked, agreed := make(chan struct{}), make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = l.call(ctx, "subscriptions/listen", object{{Name: "notifications", Value: filter.bytes()}}, &waiting{acked: acked}) // if it fails, lists are read again after their ttlMs
	}()
	go func() {
		defer close(agreed)
		select {
		case <-acked:
		case <-ended:
		}
	}()
	return agreed
}

func (l *listening) notify(method string, params object) {
	meta := objectOf(params.get("_meta")).with(metaSubscription, l.x.id)
	l.x.send(&frame{method: method, params: params.with("_meta", meta.bytes()).bytes()})
}

// tellListeners sends a change to the modern subscriptions that want it.
func (p *peer) tellListeners(f *frame) {
	params := objectOf(f.params)
	p.mu.Lock()
	var to []*listening
	for s := range p.listens {
		if s.wants(f.method, params) {
			to = append(to, s)
		}
	}
	p.mu.Unlock()
	for _, s := range to {
		s.notify(f.method, params)
	}
}

func (l *listening) wants(method string, params object) bool {
	switch method {
	case "notifications/tools/list_changed":
		return string(l.filter.get("toolsListChanged")) == "true"
	case "notifications/prompts/list_changed":
		return string(l.filter.get("promptsListChanged")) == "true"
	case "notifications/resources/list_changed":
		return string(l.filter.get("resourcesListChanged")) == "true"
	case "notifications/resources/updated":
		return slices.ContainsFunc(itemsOf(l.filter.get("resourceSubscriptions")), func(uri json.RawMessage) bool { return string(uri) == string(params.get("uri")) })
	case "notifications/tasks":
		return slices.ContainsFunc(itemsOf(l.filter.get("taskIds")), func(id json.RawMessage) bool { return string(id) == string(params.get("taskId")) })
	}
	return false
}

// watch adds or removes a resource of a modern server that a legacy client follows.
func (p *peer) watch(l *link, add bool, uri json.RawMessage) {
	p.mu.Lock()
	p.watched = slices.DeleteFunc(p.watched, func(u json.RawMessage) bool { return string(u) == string(uri) })
	if add {
		p.watched = append(p.watched, uri)
	}
	p.mu.Unlock()
	l.followChanges()
}

// followChanges subscribes to the changes of a modern server.
func (l *link) followChanges() {
	if !l.modern {
		return
	}
	filter := object{{Name: "toolsListChanged", Value: []byte("true")}}
	if !l.peer.modern {
		filter = filter.with("promptsListChanged", []byte("true")).with("resourcesListChanged", []byte("true"))
		l.peer.mu.Lock()
		if len(l.peer.watched) > 0 {
			filter = filter.with("resourceSubscriptions", arrayOf(l.peer.watched))
		}
		l.peer.mu.Unlock()
	}
	ctx, cancel := context.WithCancel(l.peer.g.life)
	l.mu.Lock()
	if l.listens != nil {
		l.listens()
	}
	l.listens = cancel
	l.mu.Unlock()
	follows := l.subscribe(ctx, filter)
	l.mu.Lock()
	l.follows = follows
	l.mu.Unlock()
}
