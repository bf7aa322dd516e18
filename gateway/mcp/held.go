package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/askance-dev/askance/internal/mcpresult"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// held is one tool call from its proposal until its result is on record.
type held struct {
	g         *Gateway
	key       toolcall.Key
	record    *record
	peer      *peer // whose connection runs it
	principal string
	tool      *tool
	params    object // of the client's request
	arguments json.RawMessage
	join      string
	created   time.Time
	turn      chan struct{} // has an element while the client is asked

	mu      sync.Mutex // guards the rest
	changed chan struct{}
	call    *toolcall.Call
	outcome *outcome // nil: none yet
	unknown bool     // it is not known whether it ran
	doubt   error    // why that is not known, if this gateway ran it
	ended   time.Time
	user    *exchange
	users   int
	input   *inputLeg
	leg     int                     // of the upstream's questions
	legs    int                     // of empty retries
	stop    context.CancelCauseFunc // of the run at the upstream
	wanted  bool                    // false: the client gave it up
}

// outcome is what a client gets.
type outcome struct {
	result json.RawMessage
	err    *rpcError
}

// reply returns the outcome as the result or error of a request.
func (o *outcome) reply() (json.RawMessage, error) {
	if o.err != nil {
		return nil, o.err
	}
	return o.result, nil
}

// inputLeg is what the upstream asks of the client within a call.
type inputLeg struct {
	leg      int
	requests json.RawMessage // nil: none
	state    string          // the upstream's own; "": none
	answers  object          // what the client answered so far
	answer   chan json.RawMessage
}

// change changes the call under its lock and wakes those who wait for it.
func (h *held) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	close(h.changed)
	h.changed = make(chan struct{})
}

// start proposes a new call and follows it, or joins the same call that is open.
func (g *Gateway) start(ctx context.Context, x *exchange, t *tool, params object, arguments json.RawMessage) *held {
	if h := g.findOpen(ctx, x.peer, t.clientName(), arguments); h != nil {
		return h
	}
	id := g.newCallID(x.peer.principal)
	h := &held{
		g: g, key: toolcall.Key{Session: g.sessionOf(x.peer.principal), Reply: message.ReplyID(id), Call: id}, peer: x.peer, principal: x.peer.principal,
		tool: t, params: params, arguments: arguments, created: time.Now(),
		changed: make(chan struct{}), wanted: true,
	}
	h.bind()
	g.mu.Lock()
	defer g.mu.Unlock()
	if first := g.joins[h.join]; first != nil && !g.cfg.NoJoin && first.isJoinable() {
		return first
	}
	g.joins[h.join] = h
	g.calls[id] = h
	g.removeOldCalls()
	h.follow(func(ctx context.Context) (*toolcall.Call, error) {
		return h.record.propose(ctx, cmp.Or(g.cfg.Agent, h.principal), t, arguments)
	})
	return h
}

// joinTime is how long a repeated call gets the result that no client received.
const joinTime = 10 * time.Minute

// isJoinable reports whether a repeat joins this call.
func (h *held) isJoinable() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.outcome == nil || time.Since(h.ended) < joinTime
}

// maxCalls bounds the calls in memory; finished ones are also in the journal.
const maxCalls = 2000

func (g *Gateway) removeOldCalls() {
	if len(g.calls) <= maxCalls {
		return
	}
	var oldest *held
	for _, h := range g.calls {
		h.mu.Lock()
		if h.outcome != nil && (oldest == nil || h.created.Before(oldest.created)) {
			oldest = h
		}
		h.mu.Unlock()
	}
	if oldest != nil {
		delete(g.calls, oldest.key.Call)
		if g.joins[oldest.join] == oldest {
			delete(g.joins, oldest.join)
		}
	}
}

// follow drives the call in the background, starting with what begin returns.
func (h *held) follow(begin func(context.Context) (*toolcall.Call, error)) {
	h.peer.users++ // the caller holds the lock

	h.g.busy.add()
	go func() {
		idle := sync.OnceFunc(h.g.busy.done) // a call that waits for a person does not delay Close
		defer idle()
		defer h.g.release(h.peer)
		h.drive(h.g.life, begin, idle)
	}()
}

func (h *held) drive(ctx context.Context, begin func(context.Context) (*toolcall.Call, error), idle func()) {
	call, err := begin(ctx)
	if err != nil {
		h.finish(refusal("askance could not decide about this call, and it did not run: "+err.Error(), nil))
		idle()
		if isTemporary(err) { // it may be on record: people are not asked for a call that will not run
			h.record.interrupt(ctx, "the gateway got no answer to the proposal, and the call did not run")
		}
		return
	}
	for call.Open() && call.State != message.ToolCallSubmitted {
		h.change(func() { h.call = call })
		if call.State == message.ToolCallAsking {
			idle()
		}
		if call, err = h.record.wait(ctx, toolcall.UntilRunnable); err != nil {
			return // the gateway ends
		}
	}
	h.change(func() { h.call = call })
	if call.Open() && !call.Blocked.NeedsOperator() {
		h.g.busy.add()
		if call = h.run(ctx, call); call.Open() && (ctx.Err() == nil || h.stop != nil) { // else another gateway may still run it
			h.change(func() { h.call, h.unknown = call, true })
			call = h.record.reportUnknown(ctx, call)
		}
		h.g.busy.done()
	}
	idle()
	for call.Open() { // its outcome is unknown until a person states it
		h.change(func() { h.call, h.unknown = call, true })
		if call, err = h.record.wait(ctx, toolcall.UntilFinished); err != nil {
			return
		}
	}
	h.change(func() { h.call = call })
	h.finish(h.outcomeOf(call))
}

func (h *held) finish(o *outcome) {
	h.change(func() {
		h.outcome = cmp.Or(h.outcome, o)
		h.unknown, h.ended = false, time.Now()
	})
	h.tellTask()
}

// otherTime is how long this gateway waits for the result of another one, before the outcome
// counts as unknown.
const otherTime = 10 * time.Second

// maxRuns bounds how often an idempotent tool runs.
const maxRuns = 3

// watchAfter is how long a call runs before the gateway watches whether it is ended from
// outside.
const watchAfter = 250 * time.Millisecond

// run runs the call at the upstream, once, and reports its result. The call that it
// returns is open if the outcome is unknown.
func (h *held) run(ctx context.Context, call *toolcall.Call) *toolcall.Call {
	now, err := h.record.begin(ctx)
	mine := err == nil
	if !mine {
		now = h.notBegun(ctx, call, err)
		if now.Phase() != toolcall.PhaseRunning || !errors.Is(err, message.ErrSuperseded) || !h.tool.isIdempotent() || ctx.Err() != nil {
			return now
		}
	}
	runCtx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	wanted := true
	h.change(func() {
		if wanted = h.wanted; wanted { // otherwise this gateway does not run it
			h.stop = stop
		}
	})
	switch {
	case !wanted && mine:
		return h.report(ctx, call, refusal("the call did not run: the client cancelled it", nil))
	case !wanted: // cancel is interrupting it
		return h.record.waitForOther(ctx, call, otherTime)
	}
	defer time.AfterFunc(watchAfter, func() {
		if found, err := h.record.wait(runCtx, toolcall.UntilFinished); err == nil && !found.Open() {
			stop(errEnded)
		}
	}).Stop()
	var result json.RawMessage
	begun := !mine // a server took it and did not answer
	for range maxRuns {
		result, err = h.callUpstream(runCtx, json.RawMessage(now.Input))
		begun = begun || errors.Is(err, errLost)
		if !errors.Is(err, errLost) || !h.tool.isIdempotent() || ctx.Err() != nil {
			break
		}
	}
	re, isRPC := errors.AsType[*rpcError](err)
	switch {
	case err == nil:
		return h.report(ctx, call, &outcome{result: result})
	case isRPC:
		return h.report(ctx, call, &outcome{err: re})
	case (errors.Is(err, errNotSent) || errors.Is(err, errChanged)) && !begun:
		return h.report(ctx, call, refusal("the call did not run: "+err.Error(), nil))
	case (errors.Is(err, errCancelled) || errors.Is(err, errEnded)) && ctx.Err() == nil:
		return h.report(ctx, call, &outcome{result: encode(map[string]any{"content": []any{textBlock("the call was cancelled while it ran; it may have had its effect")}, "isError": true})})
	}
	h.g.cfg.Log.Error("the outcome of a call is unknown", "call", h.key.Call, "tool", call.Tool, "error", err)
	h.change(func() { h.doubt = err })
	return call
}

// passedMeta are the members of _meta that a call keeps. No one reviewed the others.
var passedMeta = []string{"progressToken", "traceparent", "tracestate", metaLevel}

// errChanged means that the tool is no longer the one about which was decided; nothing was sent.
var errChanged = errors.New("the definition of the tool changed after the call was decided. Call it again, so that the current definition is decided about")

// callUpstream sends the approved arguments, and passes on what the server asks.
func (h *held) callUpstream(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
	l, err := h.peer.linkTo(h.tool.up)
	if err != nil {
		return nil, err
	}
	now, err := l.findTool(ctx, h.tool.name, true)
	if err != nil && l.deadError() != nil { // its session can end while a person decides
		if l, err = h.peer.linkTo(h.tool.up); err == nil {
			now, err = l.findTool(ctx, h.tool.name, true)
		}
	}
	if err != nil {
		return nil, errors.Join(errNotSent, err)
	}
	if now == nil || now.hash != h.tool.hash {
		return nil, errChanged
	}
	params := object{{Name: "name", Value: quote(h.tool.name)}, {Name: "arguments", Value: input}}
	if meta := objectOf(h.params.get("_meta")).only(passedMeta...); len(meta) > 0 {
		params = params.with("_meta", meta.bytes())
	}
	if h.params.get("arguments") == nil && string(input) == "{}" {
		params = params.without("arguments")
	}
	values, _ := paramHeaders(now.definition.get("inputSchema"), input)
	for range maxRounds {
		w := &waiting{extra: values, on: func(f *frame) { h.fromServer(ctx, l, f) }}
		result, err := h.callPatiently(ctx, l, params, w)
		if err != nil {
			return nil, err
		}
		switch r, err := mcpresult.Read(result, maxFrame); {
		case err != nil: // no client can read it
			return nil, fmt.Errorf("the MCP server did not answer with a result of a tool: %w", err)
		case !r.NeedsInput() && r.Content == nil && objectOf(result).get("content") != nil: // clients refuse null
			return objectOf(result).with("content", json.RawMessage("[]")).bytes(), nil
		case !r.NeedsInput():
			return result, nil
		}
		o := objectOf(result)
		if !l.modern || o.get("inputRequests") == nil && o.get("requestState") == nil { // to the server, a repeat would be another call
			return nil, errors.New("the MCP server asks for input, but not for which, or in a revision that has no such result")
		}
		answers, err := h.askClient(ctx, o.get("inputRequests"), o.text("requestState"))
		if re, ok := errors.AsType[*rpcError](err); ok && re.code == codeNoMethod {
			return refusal("the call may have happened; do not repeat it: the MCP server asks for input, but "+re.text, nil).result, nil
		}
		if err != nil {
			return nil, err
		}
		params = params.without("requestState", "inputResponses")
		if answers != nil {
			params = params.with("inputResponses", answers)
		}
		if raw := o.get("requestState"); raw != nil {
			params = params.with("requestState", raw)
		}
	}
	return refusal("the call may have happened; do not repeat it: the MCP server asks for input again and again", nil).result, nil
}

// cancelTime is how long a server that was told to cancel may still answer.
const cancelTime = 5 * time.Second

// callPatiently calls the tool. After a cancellation it tells the server, and waits a
// little for a result.
func (h *held) callPatiently(ctx context.Context, l *link, params object, w *waiting) (json.RawMessage, error) {
	if h.tool.up.URL != "" && l.modern { // there the disconnect is the cancellation
		return l.call(ctx, "tools/call", params, w)
	}
	if ctx.Err() != nil {
		return nil, errors.Join(errNotSent, context.Cause(ctx))
	}
	type reply struct {
		result json.RawMessage
		err    error
	}
	got := make(chan reply, 1)
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	go func() {
		result, err := l.call(own, "tools/call", params, w)
		got <- reply{result, err}
	}()
	select {
	case r := <-got:
		return r.result, r.err
	case <-ctx.Done():
	}
	l.mu.Lock()
	id := w.id
	w.told = id != nil // else the request is not sent yet, and call tells the server
	l.mu.Unlock()
	if id != nil {
		go func() { // a server need not read it
			late, end := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
			defer end()
			_ = l.notify(late, "notifications/cancelled", object{{Name: "requestId", Value: id}}) // the server may be gone
		}()
	}
	if errors.Is(context.Cause(ctx), errEnded) {
		return nil, errEnded // a result no longer counts
	}
	select {
	case r := <-got:
		return r.result, r.err
	case <-time.After(cancelTime):
		return nil, context.Cause(ctx)
	}
}

// fromServer passes on what the server sends during the call.
func (h *held) fromServer(ctx context.Context, l *link, f *frame) {
	h.mu.Lock()
	x := h.user
	h.mu.Unlock()
	if !f.isRequest() {
		if x == nil {
			return
		}
		if f.method == "notifications/progress" { // for the request that waits now, not for the first
			token := x.meta.get("progressToken")
			if token == nil {
				return
			}
			f = &frame{method: f.method, params: objectOf(f.params).with("progressToken", token).bytes()}
		}
		x.send(f)
		return
	}
	go func() {
		if p, send := askedBy(h); !p.modern || f.method == "ping" {
			p.askFor(l, f, send)
			return
		}
		request := object{{Name: "method", Value: quote(f.method)}}
		if f.params != nil {
			request = request.with("params", f.params)
		}
		answers, err := h.askClient(ctx, object{strictjson.Member{Name: "server", Value: request.bytes()}}.bytes(), "")
		result := objectOf(answers).get("server")
		if err == nil && result == nil {
			err = &rpcError{code: codeInternal, text: "the client did not answer"}
		}
		l.answer(h.g.life, f.id, result, err)
	}()
}

// askedBy returns the client that a server asks within a call: the one that waits for the call now,
// or else the one that began it. send is nil for the second.
func askedBy(h *held) (p *peer, send func(*frame)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.user == nil {
		return h.peer, nil
	}
	return h.user.peer, h.user.send
}

// inputTime bounds the wait for a client's answers within a call.
const inputTime = 30 * time.Minute

// askClient asks the client what the server wants to know.
func (h *held) askClient(ctx context.Context, requests json.RawMessage, upstream string) (json.RawMessage, error) {
	p, send := askedBy(h)
	if !p.modern {
		return p.askAll(ctx, send, requests)
	}
	for _, m := range objectOf(requests) {
		if err := p.checkAsk(objectOf(m.Value).text("method")); err != nil {
			return nil, err
		}
	}
	select {
	case h.turn <- struct{}{}: // one question at a time
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	leg := &inputLeg{requests: requests, state: upstream, answer: make(chan json.RawMessage, 1)}
	h.change(func() { h.leg++; leg.leg = h.leg; h.input = leg })
	defer h.change(func() { h.input = nil })
	select {
	case answers := <-leg.answer:
		return answers, nil
	case <-time.After(inputTime):
		return nil, &rpcError{code: codeInternal, text: "the client did not answer the server in time"}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// report puts the outcome on record, and stores it for clients.
func (h *held) report(ctx context.Context, call *toolcall.Call, o *outcome) *toolcall.Call {
	done, stored := h.record.report(ctx, call, o)
	if stored {
		h.change(func() { h.outcome, h.ended = h.addNote(done, o), time.Now() })
	}
	return done
}

// bind joins the call with its record, and with the requests that repeat it.
func (h *held) bind() {
	h.record = &record{askance: h.g.cfg.Askance, log: h.g.cfg.Log, key: h.key, claim: rand.Text(), seen: func(c *toolcall.Call) { h.change(func() { h.call = c }) }}
	h.join, h.turn = joinOf(h.principal, h.tool.clientName(), h.arguments), make(chan struct{}, 1)
}

// joinOf returns a key that is equal for calls that are the same.
func joinOf(principal, tool string, arguments json.RawMessage) string {
	return principal + "\x00" + digestOf(tool, arguments)
}
