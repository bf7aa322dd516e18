package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// pollEvery is how often a client may ask for a task.
const pollEvery = 2 * time.Second

func (p *peer) hasTasks() bool { return p.modern && p.can("extensions", tasksExtension) }

// task describes the call as a task of the client's era.
func (h *held) task(modern bool) object {
	h.mu.Lock()
	call, done, unknown, input, wanted := h.call, h.outcome, h.unknown, h.input, h.wanted
	h.mu.Unlock()
	status, text, updated := "working", "waiting for a decision", h.created
	if call != nil {
		updated = call.UpdatedAt
		switch call.State {
		case message.ToolCallAsking:
			if text = "waiting for approval"; h.link() != "" {
				text += ": " + h.link()
			}
		case message.ToolCallSubmitted:
			text = "running"
		default:
		}
	}
	switch {
	case done != nil && done.err != nil:
		status, text = "failed", done.err.text
	case done != nil:
		status, text = "completed", ""
		if call != nil && toolcall.Cause(call.Cause) == toolcall.CauseInterrupt && !wanted {
			status = "cancelled"
		}
	case unknown:
		text = "the outcome is unknown: the call may have happened. It stays open until an operator resolves it"
	case input != nil && modern:
		status, text = "input_required", "the server asks for input"
	}
	ttl, poll := "ttlMs", "pollIntervalMs"
	if !modern {
		ttl, poll = "ttl", "pollInterval"
	}
	o := object{
		{Name: "taskId", Value: quote(string(h.key.Call))}, {Name: "status", Value: quote(status)},
		{Name: "createdAt", Value: quote(h.created.UTC().Format(time.RFC3339))}, {Name: "lastUpdatedAt", Value: quote(updated.UTC().Format(time.RFC3339))},
		{Name: ttl, Value: []byte("null")}, {Name: poll, Value: intID(pollEvery.Milliseconds())},
	}
	if text != "" {
		o = o.with("statusMessage", quote(text))
	}
	if !modern {
		return o
	}
	switch {
	case status == "input_required" && input.requests != nil:
		o = o.with("inputRequests", input.requests)
	case done != nil && done.err != nil:
		o = o.with("error", done.err.bytes())
	case status == "completed":
		r := objectOf(done.result)
		if r.get("resultType") == nil {
			r = r.with("resultType", quote("complete"))
		}
		o = o.with("result", r.bytes())
	}
	return o
}

// handleTask carries out the methods of tasks.
func (e *exchange) handleTask(ctx context.Context) (json.RawMessage, error) {
	p := e.peer
	legacyOnly := e.method == "tasks/result" || e.method == "tasks/list"
	switch {
	case p.modern && legacyOnly, !p.modern && (e.method == "tasks/update" || !p.can("tasks")):
		return nil, noMethod(e.method)
	case p.modern && !p.hasTasks():
		return nil, &rpcError{code: codeCapability, text: "the request does not declare the tasks extension", data: json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`)}
	case e.method == "tasks/list":
		return p.listTasks(), nil
	}
	id := message.CallID(e.params.text("taskId"))
	if !p.g.ownsCall(id, p.principal) {
		return nil, badParams("there is no task %s", id)
	}
	h, err := p.g.find(ctx, p, id, "")
	if err != nil {
		return nil, err
	}
	switch e.method {
	case "tasks/cancel":
		return p.cancelTask(h)
	case "tasks/update":
		h.answerInput(e.params.get("inputResponses"))
		return json.RawMessage(`{}`), nil
	case "tasks/result":
		result, err := h.awaitResult(ctx, e)
		if err != nil {
			return nil, err
		}
		o := objectOf(result)
		meta := objectOf(o.get("_meta")).with(metaPrefix+"related-task", encode(map[string]string{"taskId": string(id)}))
		return o.with("_meta", meta.bytes()).bytes(), nil
	}
	o := h.task(p.modern)
	if status := o.text("status"); status == "completed" || status == "failed" {
		h.forget()
	}
	return o.bytes(), nil
}

func (p *peer) cancelTask(h *held) (json.RawMessage, error) {
	h.mu.Lock()
	ended, unknown := h.outcome != nil, h.unknown
	h.mu.Unlock()
	switch {
	case !ended && !unknown:
		h.cancel()
	case p.modern:
	case unknown:
		return nil, badParams("the task may have happened, and only an operator can resolve it")
	default:
		return nil, badParams("the task has ended")
	}
	if p.modern {
		return json.RawMessage(`{}`), nil
	}
	return h.task(false).with("status", quote("cancelled")).bytes(), nil
}

// answerInput answers what the server asked within the call, all at once or key by key. Unknown
// keys are ignored.
func (h *held) answerInput(answers json.RawMessage) {
	h.mu.Lock()
	input := h.input
	h.mu.Unlock()
	if input == nil {
		return
	}
	rest := *input
	var open object
	for _, m := range objectOf(input.requests) {
		if a := objectOf(answers).get(m.Name); a != nil {
			rest.answers = rest.answers.with(m.Name, a)
			continue
		}
		open = append(open, m)
	}
	if len(open) == 0 {
		h.takeAnswers(input.leg, rest.answers.bytes())
		return
	}
	rest.requests = open.bytes()
	h.change(func() {
		if h.input == input {
			h.input = &rest
		}
	})
}

// awaitResult holds tasks/result until the call has ended.
func (h *held) awaitResult(ctx context.Context, x *exchange) (json.RawMessage, error) {
	h.change(func() { h.user = x })
	defer h.change(func() {
		if h.user == x { // what the server asks now goes to a client that waits
			h.user = nil
		}
	})
	for {
		h.mu.Lock()
		changed, done := h.changed, h.outcome
		h.mu.Unlock()
		if done != nil {
			h.forget()
			return done.reply()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// startTask starts a call as a legacy task, because the client wants one.
func (e *exchange) startTask(ctx context.Context, t *tool, arguments json.RawMessage) (json.RawMessage, error) {
	p := e.peer
	if !p.can("tasks") {
		return nil, badParams("the client does not declare tasks")
	}
	h := p.g.start(ctx, e, t, e.params, arguments)
	return object{{Name: "task", Value: h.task(false).bytes()}}.bytes(), nil
}

func (p *peer) listTasks() json.RawMessage {
	p.g.mu.Lock()
	var own []*held
	for _, h := range p.g.calls {
		if h.principal == p.principal {
			own = append(own, h)
		}
	}
	p.g.mu.Unlock()
	slices.SortFunc(own, func(a, b *held) int { return strings.Compare(string(a.key.Call), string(b.key.Call)) })
	var items []json.RawMessage
	for _, h := range own {
		items = append(items, h.task(false).bytes())
	}
	return object{{Name: "tasks", Value: arrayOf(items)}}.bytes()
}

// tellTask tells the subscriptions to the task that it has ended.
func (h *held) tellTask() {
	if !h.peer.hasTasks() {
		return
	}
	h.peer.tellListeners(&frame{method: "notifications/tasks", params: h.task(true).bytes()})
}
