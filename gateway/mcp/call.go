package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// callTool carries out tools/call: it holds the call until askance has decided.
func (e *exchange) callTool(ctx context.Context) (json.RawMessage, error) {
	p := e.peer
	name := e.params.text("name")
	arguments := e.arguments()
	switch {
	case name == "":
		return nil, badParams("name is missing")
	case strictjson.KindOf(arguments) != "object":
		return nil, badParams("arguments is not an object")
	case len(arguments) > toolcall.MaxInputBytes:
		return refusal("the arguments are larger than askance takes: pass large content by reference", nil).result, nil
	}
	if name == waitTool && !p.g.cfg.NoWaitTool {
		return e.waitForCall(ctx, objectOf(arguments).text("call"))
	}
	up, inner := p.g.split(name)
	if up == nil {
		return nil, badParams("Unknown tool: %s", name)
	}
	l, err := p.linkTo(up)
	if err != nil {
		return refusal("the call did not run: "+err.Error(), nil).result, nil //nolint:nilerr // a result that the model can read
	}
	t, err := l.findTool(ctx, inner, false)
	if err != nil {
		return refusal("the call did not run: the tools of the server cannot be listed: "+err.Error(), nil).result, nil //nolint:nilerr // the same
	}
	if t == nil {
		return nil, badParams("Unknown tool: %s", name)
	}
	if e.header != nil {
		if err := checkParamHeaders(e.header, t.definition.get("inputSchema"), arguments); err != nil {
			return nil, err
		}
	}
	if given := e.params.get("requestState"); given != nil {
		s, err := e.state()
		if err != nil {
			return nil, err
		}
		h, err := p.g.find(ctx, p, s.Call, s.Session)
		if err != nil {
			return nil, err
		}
		e.resume(ctx, h, s)
		return h.present(ctx, e, true)
	}
	if task := e.params.get("task"); task != nil && !p.modern {
		return e.startTask(ctx, t, arguments)
	}
	h := p.g.start(ctx, e, t, e.params, arguments)
	h.answerInput(e.params.get("inputResponses")) // a repeat without state can answer questions of the call that it joins
	return h.present(ctx, e, false)
}

// arguments returns the arguments of the request, by default an empty object.
func (e *exchange) arguments() json.RawMessage {
	if arguments := e.params.get("arguments"); arguments != nil {
		return arguments
	}
	return json.RawMessage("{}")
}

func (e *exchange) digest() string { return digestOf(e.params.text("name"), e.arguments()) }

// state opens the state that the client returned with the same request.
func (e *exchange) state() (state, error) {
	return e.peer.g.openState(e.params.text("requestState"), e.peer.principal, e.digest())
}

// waitForCall is the wait tool.
func (e *exchange) waitForCall(ctx context.Context, id string) (json.RawMessage, error) {
	p := e.peer
	if !p.g.ownsCall(message.CallID(id), p.principal) {
		return refusal(fmt.Sprintf("there is no held call %q: use the id that the held call returned", id), nil).result, nil
	}
	h, err := p.g.find(ctx, p, message.CallID(id), "")
	if err != nil {
		return refusal(err.Error(), nil).result, nil
	}
	if e.params.get("requestState") != nil {
		s, err := e.state()
		if err != nil || s.Call != h.key.Call {
			return nil, errState
		}
		e.resume(ctx, h, s)
	}
	return h.present(ctx, e, true)
}

// find returns a held call, from the journal if another process held it.
func (g *Gateway) find(ctx context.Context, p *peer, id message.CallID, session message.SessionID) (*held, error) {
	g.mu.Lock()
	h := g.calls[id]
	g.mu.Unlock()
	if h != nil {
		return h, nil
	}
	list, err := g.cfg.Askance.List(ctx, toolcall.ListRequest{Session: session, Call: id, All: true, Limit: 1})
	for err == nil && len(list.Calls) == 0 && list.Next != 0 {
		list, err = g.cfg.Askance.List(ctx, toolcall.ListRequest{Session: session, Call: id, All: true, Limit: 1, After: list.Next})
	}
	if err != nil {
		return nil, errors.Join(errors.New("askance cannot look the call up"), err)
	}
	if len(list.Calls) == 0 {
		return nil, badParams("there is no call %s", id)
	}
	return g.restore(p, list.Calls[0])
}

// findOpen returns the client's open call with the same arguments in the configured session that
// another process proposed, or nil if there is none or it cannot be read.
func (g *Gateway) findOpen(ctx context.Context, p *peer, tool string, arguments json.RawMessage) *held {
	if !g.shared || g.cfg.NoJoin || g.isJoined(joinOf(p.principal, tool, arguments)) {
		return nil
	}
	r := toolcall.ListRequest{Session: g.sessionOf(p.principal), Tool: tool}
	for {
		list, err := g.cfg.Askance.List(ctx, r)
		if err != nil {
			return nil // the proposal reports what is wrong
		}
		for _, c := range list.Calls {
			if c.Input == string(arguments) && g.ownsCall(c.Call, p.principal) {
				if h, err := g.restore(p, c); err == nil {
					return h
				}
			}
		}
		if r.After = list.Next; list.Next == 0 {
			return nil
		}
	}
}

func (g *Gateway) isJoined(join string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.joins[join] != nil
}

// restore follows a call that another process proposed.
func (g *Gateway) restore(p *peer, call *toolcall.Call) (*held, error) {
	up, inner := g.split(call.Tool)
	if up == nil {
		return nil, badParams("no upstream has the tool %s", call.Tool)
	}
	arguments := json.RawMessage(call.Input)
	h := &held{
		g: g, key: call.Key, peer: p, principal: p.principal, params: object{{Name: "name", Value: quote(inner)}, {Name: "arguments", Value: arguments}},
		arguments: arguments, created: call.ProposedAt, changed: make(chan struct{}), wanted: true, call: call, unknown: call.Blocked.NeedsOperator(),
		tool: &tool{up: up, name: inner},
	}
	if call.Open() {
		l, err := p.linkTo(up)
		if err != nil {
			return nil, err
		}
		t, err := l.findTool(g.life, inner, false)
		if err != nil {
			return nil, err
		}
		if t != nil && t.isDecided(call) {
			h.tool = t
		}
	}
	h.bind()
	g.mu.Lock()
	defer g.mu.Unlock()
	if first := g.calls[call.Call]; first != nil {
		return first, nil
	}
	g.calls[call.Call] = h
	if g.joins[h.join] == nil && call.Open() {
		g.joins[h.join] = h
	}
	h.follow(func(context.Context) (*toolcall.Call, error) { return call, nil })
	return h, nil
}

// takeAnswers passes the client's answers to a question of the upstream on to it.
func (h *held) takeAnswers(leg int, answers json.RawMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.input == nil || h.input.leg != leg {
		return // an older question, or one of askance: its answer decides nothing
	}
	select {
	case h.input.answer <- answers:
		h.input = nil
	default: // answered already
	}
}

// progressEvery is how often a client is told that its call is held.
const progressEvery = 10 * time.Second

// heldProgress keeps the progress of waiting below the tool's, because progress must increase.
const heldProgress = 1e6

// view is a request that waits for a call.
type view struct {
	*held
	x     *exchange
	later bool            // the client already knows that the call is held
	shown bool            // it was told where people decide
	over  bool            // it cannot wait longer
	token json.RawMessage // of its progress; nil: it wants none
	told  int             // progress messages
}

// present holds a request until its call has an outcome, or returns a result with which the
// client can wait. later: the client already knows that the call is held.
func (h *held) present(ctx context.Context, x *exchange, later bool) (json.RawMessage, error) {
	h.mu.Lock()
	h.user = x
	h.users++
	h.mu.Unlock()
	defer h.leave(ctx, x)
	v := &view{held: h, x: x, later: later, shown: later, token: x.meta.get("progressToken")}
	hold := time.After(h.g.cfg.Hold)
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		now := v.progress()
		if result, err := v.answer(now); result != nil || err != nil {
			return result, err
		}
		if v.told == 0 && now.isAsking() {
			v.tell()
		}
		select {
		case <-now.changed:
		case <-hold:
			v.over = true
		case <-tick.C:
			if now.call == nil || now.call.State != message.ToolCallSubmitted {
				v.tell()
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// progress is how far a call has come.
type progress struct {
	changed <-chan struct{} // closed when it is no longer current
	call    *toolcall.Call
	outcome *outcome
	unknown bool
	doubt   error
	input   *inputLeg
}

func (v *view) progress() progress {
	v.mu.Lock()
	defer v.mu.Unlock()
	return progress{v.changed, v.call, v.outcome, v.unknown, v.doubt, v.input}
}

func (p progress) isAsking() bool { return p.call != nil && p.call.State == message.ToolCallAsking }

// answer returns what the client gets now, or nil if its request waits.
func (v *view) answer(now progress) (json.RawMessage, error) {
	canBeTask := v.x.peer.hasTasks() && v.x.params.text("name") != waitTool
	switch {
	case now.outcome != nil:
		v.forget()
		return now.outcome.reply()
	case now.input != nil && v.x.peer.modern:
		return v.x.inputRequired(v.held, now.input.requests, state{Leg: now.input.leg}), nil
	case canBeTask && (now.unknown || now.isAsking()):
		return append(object{{Name: "resultType", Value: quote("task")}}, v.task(true)...).bytes(), nil // the call is now a task
	case now.unknown:
		text := "outcome unknown: the call may have happened; do not repeat it. It stays open until an operator resolves it. Its id is " + string(v.key.Call)
		if now.doubt != nil {
			text += ". Reason: " + now.doubt.Error()
		}
		return refusal(text, now.call).result, nil
	case now.isAsking():
		if form := v.askUser(now.call); form != nil {
			return form, nil
		}
	}
	if !v.over || v.g.cfg.Block || v.token != nil {
		return nil, nil
	}
	if v.x.peer.modern && v.nextLeg(v.later) {
		return v.x.inputRequired(v.held, nil, state{}), nil
	}
	return v.stillHeld(now.call), nil
}

// askUser shows the client's user an open approval request, in the way that the client has. A modern
// client gets what it returns; nil: there is nothing to show.
func (v *view) askUser(call *toolcall.Call) json.RawMessage {
	p := v.x.peer
	canLook := p.can("elicitation", "url") && v.g.cfg.Inbox != ""
	switch {
	case p.modern && canLook && (!v.shown || v.over):
		return v.x.inputRequired(v.held, v.askToLook(), state{})
	case p.canForm(call) && !v.shown:
		return v.x.inputRequired(v.held, askToDecide(call), state{Request: call.Digest})
	case !p.modern && canLook && !v.shown:
		v.shown = true
		go v.x.elicit(v.held)
	}
	return nil
}

// tell sends a progress message, if the client wants them.
func (v *view) tell() {
	if v.token == nil {
		return
	}
	v.told++
	params := map[string]any{"progressToken": v.token, "progress": float64(v.told) / heldProgress, "message": "waiting for approval"}
	v.x.send(&frame{method: "notifications/progress", params: encode(params)})
}

// leave ends the request's part in the call. A cancelled request that was the only one
// cancels the call.
func (h *held) leave(ctx context.Context, x *exchange) {
	h.mu.Lock()
	if h.user == x {
		h.user = nil
	}
	h.users--
	cancelled := errors.Is(context.Cause(ctx), errCancelled) && h.users == 0 && h.outcome == nil
	h.mu.Unlock()
	if cancelled {
		h.cancel()
	}
}

// cancel interrupts a call that has not reached the upstream, or else cancels it there. A call whose
// outcome is unknown stays so: an interruption would say that it did not happen.
func (h *held) cancel() {
	h.mu.Lock()
	if h.unknown {
		h.mu.Unlock()
		return
	}
	stop := h.stop
	h.wanted = false
	h.mu.Unlock()
	if stop != nil {
		stop(errCancelled)
		return
	}
	h.forget() // a repeat does not get the interruption
	h.g.busy.add()
	go func() {
		defer h.g.busy.done()
		ctx, done := context.WithTimeout(h.g.life, proposeTime)
		defer done()
		h.record.interrupt(ctx, "the client cancelled the call")
	}()
}

// forget makes the next call with the same arguments a new one.
func (h *held) forget() {
	h.g.mu.Lock()
	defer h.g.mu.Unlock()
	if h.g.joins[h.join] == h {
		delete(h.g.joins, h.join)
	}
}

// nextLeg reports whether the client is told to retry once more.
func (h *held) nextLeg(later bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !later {
		h.legs = 0
	}
	h.legs++
	return h.legs <= h.g.cfg.Legs
}

// inputRequired is the result with which a modern client asks its user, or only
// retries.
func (e *exchange) inputRequired(h *held, requests json.RawMessage, s state) json.RawMessage {
	o := object{{Name: "resultType", Value: quote("input_required")}}
	if requests != nil {
		o = o.with("inputRequests", requests)
	}
	s.Call, s.Session, s.Principal, s.Digest, s.Until = h.key.Call, h.key.Session, h.principal, e.digest(), time.Now().Add(stateTime).Unix()
	return o.with("requestState", quote(h.g.sealState(s))).bytes()
}

// link returns the URL at which people see the call, or "" if there is none.
func (h *held) link() string {
	if h.g.cfg.Inbox == "" {
		return ""
	}
	q := url.Values{"session": {string(h.key.Session)}, "reply": {string(h.key.Reply)}, "call": {string(h.key.Call)}}
	return h.g.cfg.Inbox + "/inbox/call?" + q.Encode()
}

func (h *held) askToLook() json.RawMessage {
	params := map[string]any{"mode": "url", "message": "A person has to approve the call of " + h.tool.clientName() + ".", "url": h.link()}
	if !h.peer.modern {
		params["elicitationId"] = string(h.key.Call)
	}
	return encode(map[string]any{"askance": map[string]any{"method": "elicitation/create", "params": params}})
}

// elicit shows a legacy client where the call is approved. Its answer decides nothing.
func (e *exchange) elicit(h *held) {
	params := objectOf(h.askToLook()).at("askance", "params")
	ctx, cancel := context.WithTimeout(h.g.life, inputTime)
	defer cancel()
	_, _ = e.peer.ask(ctx, e.send, "elicitation/create", params)
}

// stillHeld is the result for a client that cannot wait longer.
func (h *held) stillHeld(call *toolcall.Call) json.RawMessage {
	phase, digest := "deciding", ""
	if call != nil {
		phase, digest = string(call.State), call.Digest
	}
	text := "The call " + string(h.key.Call) + " is held: " + phase + "."
	if phase == string(message.ToolCallAsking) {
		text = "The call " + string(h.key.Call) + " waits for the approval of a person."
	}
	if link := h.link(); link != "" {
		text += " A person decides at " + link + "."
	}
	if !h.g.cfg.NoWaitTool {
		text += ` Call ` + waitTool + ` with {"call": "` + string(h.key.Call) + `"} for the result; do not call the tool again.`
	}
	return encode(map[string]any{
		"content":           []any{textBlock(text)},
		"structuredContent": map[string]any{"askance": map[string]string{"state": phase, "call": string(h.key.Call), "digest": digest}},
	})
}
