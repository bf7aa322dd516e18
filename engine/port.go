package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/engine/internal/summary"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// Port is the engine as one principal sees it. It implements Client and the worker protocol:
// Call checks that the principal's role may use the operation. All methods may be called from
// many goroutines.
type Port struct {
	api.Methods
	api.WorkerMethods
	e      *Engine
	by     toolcall.Principal
	queues []toolcall.Queue // of a worker; any if empty
	relays bool             // forwards heartbeats, which only this engine receives
}

var _ Client = (*Port)(nil)

// As returns the engine for an authenticated principal. The caller vouches for the
// principal: its name must come from a transport that authenticated it.
func (e *Engine) As(by toolcall.Principal) *Port {
	by.Auth = cmp.Or(by.Auth, "in-process")
	p := &Port{e: e, by: by}
	p.Methods.Caller, p.WorkerMethods.Caller = p, p
	return p
}

// Worker is As for a worker that may act for only one queue.
func (e *Engine) Worker(by toolcall.Principal, queue toolcall.Queue) *Port {
	p := e.As(by)
	if queue.Tool != "" {
		p.queues = []toolcall.Queue{queue}
	}
	return p
}

// RemoteWorker is As for a worker that may act for only some queues, and whose requests
// no other engine receives, as over HTTP. Without queues it may do nothing.
func (e *Engine) RemoteWorker(by toolcall.Principal, queues []toolcall.Queue) *Port {
	p := e.As(by)
	p.queues, p.relays = append([]toolcall.Queue{{}}, queues...), true // no call has the zero queue
	return p
}

// checkRight checks the principal's role and name, the request's version, and that the
// engine works.
func (p *Port) checkRight(ctx context.Context, op *api.Operation, request any) error {
	switch {
	case p.by.Name == "" || len(p.by.Name) > toolcall.MaxIDBytes:
		return &message.Error{Code: message.CodeForbidden, What: "the principal has no usable name", Hint: "authenticate"}
	case !slices.Contains(op.Roles, p.by.Role):
		return &message.Error{Code: message.CodeForbidden, What: "role " + string(p.by.Role) + " cannot use this operation", Hint: "use a principal with a permitted role"}
	case p.e.closing.Load():
		return &message.Error{Code: message.CodeUnavailable, What: "the engine is stopped", Hint: "try another replica"}
	case p.e.store.Following().Err() != nil:
		return p.e.blindError()
	case ctx.Err() != nil:
		return givenUpError(context.Cause(ctx))
	}
	// The engine would ignore parts of a newer request. A request without a version has version 1.
	if v := op.Version(request); v < 0 || v > 1 {
		return &message.Error{Code: message.CodeInvalid, What: fmt.Sprintf("request version %d is unknown", v), Hint: "this engine speaks version 1"}
	}
	return nil
}

// handler carries out an operation for a principal who may use it.
type handler func(ctx context.Context, p *Port, request any) (any, error)

// handlers has one handler for each operation of the table. Those of several statements are methods.
var handlers = map[string]handler{
	api.Propose.Name: handlerOf(api.Propose, (*Port).propose),
	api.Wait.Name:    handlerOf(api.Wait, (*Port).wait),
	api.Begin.Name: handlerOf(api.Begin, func(p *Port, ctx context.Context, r toolcall.BeginRequest) (*toolcall.Call, error) {
		return p.showOne(p.e.operators.beginCall(ctx, p.by, r))
	}),
	api.Report.Name: handlerOf(api.Report, func(p *Port, ctx context.Context, r toolcall.ReportRequest) (*toolcall.Call, error) {
		return p.showOne(p.e.operators.reportResult(ctx, p.by, r))
	}),
	api.Emit.Name: handlerOf(api.Emit, func(p *Port, ctx context.Context, r toolcall.EmitRequest) (toolcall.EmitReply, error) {
		return p.e.streams.emitEvents(ctx, p.by, r)
	}),
	api.Interrupt.Name: handlerOf(api.Interrupt, (*Port).interrupt),

	api.SubmitResponse.Name: handlerOf(api.SubmitResponse, func(p *Port, ctx context.Context, resp toolcall.Response) (*toolcall.Call, error) {
		return p.showOne(p.e.responses.TakeResponse(ctx, p.by, resp))
	}),
	api.Revoke.Name: handlerOf(api.Revoke, func(p *Port, ctx context.Context, r toolcall.RevokeRequest) (*toolcall.Call, error) {
		return p.showOne(p.e.operators.revokeCall(ctx, p.by, r))
	}),
	api.Resolve.Name: handlerOf(api.Resolve, func(p *Port, ctx context.Context, r toolcall.ResolveRequest) (*toolcall.Call, error) {
		return p.showOne(p.e.operators.resolveCall(ctx, p.by, r))
	}),
	api.RevokeStandingApproval.Name: handlerOf(api.RevokeStandingApproval, func(p *Port, ctx context.Context, r toolcall.RevokeStandingApprovalRequest) (*toolcall.StandingApproval, error) {
		return p.e.standing.Revoke(ctx, p.by, r)
	}),

	api.List.Name: handlerOf(api.List, (*Port).list),
	api.Show.Name: handlerOf(api.Show, (*Port).show),
	api.Explain.Name: handlerOf(api.Explain, func(p *Port, ctx context.Context, r toolcall.ExplainRequest) (toolcall.ExplainReply, error) {
		return p.e.reader.explainCall(ctx, r)
	}),
	api.Preview.Name: handlerOf(api.Preview, (*Port).preview),
	api.Events.Name:  handlerOf(api.Events, (*Port).events),
	api.Info.Name: handlerOf(api.Info, func(p *Port, _ context.Context, _ struct{}) (toolcall.InfoReply, error) {
		return p.e.reader.describeEngine(), nil
	}),
	api.PolicyStatus.Name: handlerOf(api.PolicyStatus, func(p *Port, _ context.Context, _ struct{}) (api.PolicyStatusReply, error) {
		return p.e.reader.describePolicy(), nil
	}),
	api.PolicyText.Name: handlerOf(api.PolicyText, func(p *Port, _ context.Context, r api.PolicyTextRequest) (api.PolicyTextReply, error) {
		return p.e.reader.readPolicyText(r)
	}),
	api.ProofStatus.Name: handlerOf(api.ProofStatus, func(p *Port, ctx context.Context, r api.ProofStatusRequest) (api.ProofStatusReply, error) {
		return p.e.cfg.proofs.ProofStatus(ctx, r.Verify)
	}),
	api.Receipt.Name: handlerOf(api.Receipt, func(p *Port, ctx context.Context, r api.ReceiptRequest) (api.ReceiptReply, error) {
		return p.e.reader.makeReceipt(ctx, r)
	}),
	api.CheckReceipt.Name: handlerOf(api.CheckReceipt, func(p *Port, _ context.Context, r api.CheckReceiptRequest) (api.CheckReceiptReply, error) {
		if len(r.Receipt) > api.MaxCheckedReceipt {
			return api.CheckReceiptReply{}, &message.Error{Code: message.CodeTooLarge, What: "the receipt is too large for an engine to check", Hint: "use askance audit check"}
		}
		return p.e.cfg.proofs.CheckReceipt(r.Receipt)
	}),
	api.Load.Name: handlerOf(api.Load, func(p *Port, ctx context.Context, r toolcall.LoadRequest) (toolcall.LoadReply, error) {
		return p.e.reader.reportLoad(ctx, r)
	}),
	api.Activity.Name: handlerOf(api.Activity, (*Port).activity),
	api.Standings.Name: handlerOf(api.Standings, func(p *Port, _ context.Context, r toolcall.StandingApprovalsRequest) (toolcall.StandingApprovalsReply, error) {
		return p.e.standing.List(r), nil
	}),
	api.ShowStandingApproval.Name: handlerOf(api.ShowStandingApproval, func(p *Port, ctx context.Context, r toolcall.ShowStandingApprovalRequest) (toolcall.ShowStandingApprovalReply, error) {
		return p.e.standing.Show(ctx, r.ID)
	}),

	api.Start.Name: handlerOf(api.Start, func(p *Port, ctx context.Context, r toolcall.StartRequest) (toolcall.StartReply, error) {
		return p.e.workers.startAttempt(ctx, p.by, p.queues, r)
	}),
	api.Heartbeat.Name: handlerOf(api.Heartbeat, (*Port).heartbeat),
	api.Progress.Name: handlerOf(api.Progress, func(p *Port, ctx context.Context, r toolcall.ProgressRequest) (toolcall.ProgressReply, error) {
		return toolcall.ProgressReply{}, p.e.workers.passProgress(ctx, p.by, p.queues, r)
	}),
	api.Result.Name: handlerOf(api.Result, func(p *Port, ctx context.Context, r toolcall.ResultRequest) (toolcall.ResultReply, error) {
		return p.e.workers.storeResultOf(ctx, p.by, p.queues, r)
	}),
	api.Next.Name: handlerOf(api.Next, func(p *Port, ctx context.Context, r toolcall.NextTasksRequest) (toolcall.NextTasksReply, error) {
		return p.e.workers.takeTasks(ctx, p.by, p.queues, r)
	}),
	api.Ack.Name: handlerOf(api.Ack, func(p *Port, ctx context.Context, r toolcall.AckTaskRequest) (toolcall.AckTaskReply, error) {
		return toolcall.AckTaskReply{}, p.e.workers.ackTask(ctx, p.by, p.queues, r)
	}),
	api.Keys.Name: handlerOf(api.Keys, func(p *Port, _ context.Context, _ struct{}) (toolcall.EngineKeysReply, error) {
		return p.e.workers.engineKeys(), nil
	}),
}

func handlerOf[Req, Rep any](_ api.Op[Req, Rep], do func(*Port, context.Context, Req) (Rep, error)) handler {
	return func(ctx context.Context, p *Port, request any) (any, error) {
		r, ok := request.(Req)
		if !ok {
			return nil, &message.Error{Code: message.CodeInternal, What: fmt.Sprintf("the request is a %T", request)}
		}
		return do(p, ctx, r)
	}
}

// Call carries out an operation if the principal may use it. It is the only place that sets the
// operation of its errors.
func (p *Port) Call(ctx context.Context, op *api.Operation, request any) (out any, err error) {
	do, ok := handlers[op.Name]
	if !ok {
		err = &message.Error{Code: message.CodeInvalid, What: "the engine does not have this operation", Hint: "use the same version of engine and client"}
	} else if err = p.checkRight(ctx, op, request); err == nil {
		out, err = do(ctx, p, request)
	}
	if err != nil {
		err = p.showError(store.OpError(op.Name, err))
	}
	return out, err
}

func (p *Port) propose(ctx context.Context, r toolcall.ProposeRequest) (toolcall.ProposeReply, error) {
	calls, err := p.e.proposer.proposeCalls(ctx, p.by, r)
	return toolcall.ProposeReply{Calls: p.showCalls(calls)}, err
}

func (p *Port) interrupt(ctx context.Context, r toolcall.InterruptRequest) (toolcall.InterruptReply, error) {
	if err := p.e.sessions.checkSession(ctx, p.by, r.Session); err != nil {
		return toolcall.InterruptReply{}, err
	}
	calls, err := p.e.replies.interruptReply(ctx, p.by, r)
	return toolcall.InterruptReply{Calls: p.showCalls(calls)}, err
}

func (p *Port) events(ctx context.Context, r toolcall.EventsRequest) (toolcall.EventsReply, error) {
	if err := p.e.sessions.checkSession(ctx, p.by, r.Session); err != nil {
		return toolcall.EventsReply{}, err
	}
	return p.e.streams.readEvents(ctx, p, r)
}

func (p *Port) wait(ctx context.Context, r toolcall.WaitRequest) (toolcall.WaitReply, error) {
	if err := p.e.sessions.checkSession(ctx, p.by, r.Session); err != nil {
		return toolcall.WaitReply{}, err
	}
	out, err := p.e.reader.waitForCalls(ctx, r)
	out.Calls = p.showCalls(out.Calls)
	return out, err
}

func (p *Port) list(ctx context.Context, r toolcall.ListRequest) (toolcall.ListReply, error) {
	out, err := p.e.reader.listCalls(ctx, p.by, r)
	out.Calls = p.showCalls(out.Calls)
	return out, err
}

func (p *Port) show(ctx context.Context, r toolcall.ShowRequest) (toolcall.ShowReply, error) {
	out, err := p.e.reader.showCall(ctx, p.by, r)
	if out.Call != nil {
		out.Call = p.showCall(out.Call)
	}
	return out, err
}

func (p *Port) activity(ctx context.Context, r toolcall.ActivityRequest) (toolcall.ActivityReply, error) {
	out, err := p.e.reader.reportActivity(ctx, r)
	for i, d := range out.Recent {
		if c := p.e.view.Call(d.Key); c != nil {
			out.Recent[i].Summary = p.showCall(c).Summary
		}
	}
	return out, err
}

func (p *Port) heartbeat(ctx context.Context, r toolcall.HeartbeatRequest) (toolcall.HeartbeatReply, error) {
	rep, err := p.e.workers.takeHeartbeat(ctx, p.by, p.queues, r)
	if err == nil && p.relays {
		p.e.workers.relayHeartbeat(p.by, r)
	}
	return rep, err
}

// Only the runtime that proposed a call and the worker that runs it see what rules
// redact. All others get the redacted call, in replies, events and errors alike.

// seesAll reports whether the principal sees what rules redact. A runtime sees only its
// own calls.
func (p *Port) seesAll() bool {
	return p.by.Role == toolcall.RoleRuntime || p.by.Role == toolcall.RoleEngine
}

// showCall returns a copy of a call with as much as the principal may see. It is a copy so
// that no caller changes the engine's view.
func (p *Port) showCall(c *toolcall.Call) *toolcall.Call {
	return p.e.showCall(c, p.seesAll())
}

// Show returns a call as people other than its runtime see it, with its phase, its summary
// and its risk, for surfaces that read records.
func (e *Engine) Show(c *toolcall.Call) *toolcall.Call { return e.showCall(c, false) }

// showCall is the only place that sets the fields which replies have and records do not.
func (c *core) showCall(call *toolcall.Call, all bool) *toolcall.Call {
	call = c.clocks.Mark(call)
	redacted := call.Redacted()
	seen := redacted
	if all {
		seen = call
	}
	seen = seen.Clone()
	seen.InPhase = call.Phase()
	c.currentKeys().MarkVotes(seen, store.JournalTime())
	seen.Summary, seen.Risk = c.summarizeCall(call, redacted)
	return seen
}

// summarizeCall describes what a call would do, without what people may not see. That holds
// for the runtime's summary, too, because the runtime may pass it on.
func (c *core) summarizeCall(call, redacted *toolcall.Call) (line string, risk []string) {
	t, known := c.lines[call.Tool]
	if !known && call.Definition != nil {
		if declared := c.view.Tool(call.Definition.Hash); declared != nil { // no template: a runtime's own description is only a claim
			d := c.definitions.compileDefinition(declared)
			t = summary.Tool{Schema: d.Schema, Claims: d.Claims}
		}
	}
	if d := redacted.Decision; d != nil && d.Headline && call.Hides() {
		shown := *d
		shown.Message = shownText(call, d.Message)
		redacted = redacted.Clone()
		redacted.Decision = &shown
	}
	line = summary.Line(t, redacted)
	if folder := call.Cwd; folder != "" && path.Clean(folder) != path.Clean(c.cfg.cwd) {
		if r := []rune(folder); len(r) > 80 {
			folder = string(r[:39]) + "…" + string(r[len(r)-40:])
		}
		line += ", from " + folder // an argument may name a further one
	}
	return line, summary.Risk(t, redacted)
}

// lineOf is the summary's line alone.
func (c *core) lineOf(call, redacted *toolcall.Call) string {
	line, _ := c.summarizeCall(call, redacted)
	return line
}

func (p *Port) showCalls(calls []*toolcall.Call) []*toolcall.Call {
	out := make([]*toolcall.Call, 0, len(calls))
	for _, c := range calls {
		if c != nil {
			out = append(out, p.showCall(c))
		}
	}
	return out
}

func (p *Port) showOne(c *toolcall.Call, err error) (*toolcall.Call, error) {
	if c == nil || err != nil {
		return nil, err
	}
	return p.showCall(c), nil
}

// showError reduces the call in an error to what the principal may see.
func (p *Port) showError(err error) error {
	e, is := errors.AsType[*message.Error](err)
	if !is || e.Call == nil {
		return err
	}
	out := *e
	out.Call = nil
	if c := toolcall.CallOf(e); c != nil && (p.by.Role != toolcall.RoleRuntime || c.Runtime == p.by.Name) {
		out.Call = toolcall.ErrorCall(p.showCall(c))
	}
	return &out
}

// shownText returns a worker's text about a call for people who may not see what rules
// redact: it removes literal repetitions of hidden values.
func shownText(c *toolcall.Call, text string) string {
	said := c.Clone()
	said.Cause, said.Result = "", &message.ToolResultBlock{Output: message.Content{Text: text}}
	return said.Redacted().Result.Output.Text
}

// ListAll reads all pages of a list. If most is positive, it stops reading pages once it has
// that many calls. On an error it returns none.
func ListAll(ctx context.Context, c Client, r toolcall.ListRequest, most int) ([]*toolcall.Call, error) {
	var out []*toolcall.Call
	for {
		page, err := c.List(ctx, r)
		if err != nil {
			return nil, err
		}
		out = append(out, page.Calls...)
		if page.Next == 0 && page.Cursor == "" || most > 0 && len(out) >= most {
			return out, nil
		}
		r.After, r.Cursor = page.Next, page.Cursor
	}
}
