package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
)

// Port is the engine as one principal sees it. It implements Client and
// WorkerClient: Call checks that the principal's role may use the operation.
// All methods may be called from many goroutines.
type Port struct {
	api.Methods
	api.WorkerMethods
	e     *Engine
	by    message.Principal
	queue message.Queue // of a worker; none: any
}

var (
	_ Client       = (*Port)(nil)
	_ WorkerClient = (*Port)(nil)
)

// As gives the engine to an authenticated principal. The caller vouches for
// the principal: its name must come from a transport that established it.
func (e *Engine) As(by message.Principal) *Port {
	if by.Auth == "" {
		by.Auth = "in-process"
	}
	p := &Port{e: e, by: by}
	p.Methods.Caller, p.WorkerMethods.Caller = p, p
	return p
}

// Worker is As for a worker that may act only for one queue.
func (e *Engine) Worker(by message.Principal, queue message.Queue) *Port {
	p := e.As(by)
	p.queue = queue
	return p
}

// may checks the principal's role, its name, the request's version, and that
// the engine works.
func (p *Port) may(ctx context.Context, op *api.Operation, request any) error {
	switch {
	case p.by.Name == "" || len(p.by.Name) > message.MaxIDBytes:
		return &message.Error{Code: message.CodeForbidden, Op: op.Name, What: "the principal has no usable name", Hint: "authenticate"}
	case !slices.Contains(op.Roles, p.by.Role):
		return &message.Error{Code: message.CodeForbidden, Op: op.Name, What: "role " + string(p.by.Role) + " may not do this", Hint: "use a principal with one of the roles that may"}
	case p.e.closing.Load():
		return &message.Error{Code: message.CodeUnavailable, Op: op.Name, What: "the engine is stopped", Hint: "try another replica"}
	case p.e.store.Following().Err() != nil:
		return p.e.blindError(op.Name)
	case ctx.Err() != nil:
		return &message.Error{Code: message.CodeUnavailable, Op: op.Name, What: "the request was given up", Hint: "ask again", Err: context.Cause(ctx)}
	}
	return checkVersion(op.Name, op.Version(request))
}

// checkVersion refuses requests of a version that this engine does not speak:
// it would overlook what they say. A request that names none is of version 1.
func checkVersion(op string, v int) error {
	if v < 0 || v > 1 {
		return &message.Error{Code: message.CodeInvalid, Op: op, What: fmt.Sprintf("request version %d is unknown", v), Hint: "this engine speaks version 1"}
	}
	return nil
}

// handler carries out an operation for a principal who may use it.
type handler func(ctx context.Context, p *Port, request any) (any, error)

// handlers have one for each operation of the table.
var handlers = map[string]handler{
	api.Propose.Name:   handle(api.Propose, (*Port).propose),
	api.Wait.Name:      handle(api.Wait, (*Port).wait),
	api.Report.Name:    handle(api.Report, (*Port).report),
	api.Emit.Name:      handle(api.Emit, (*Port).emit),
	api.Interrupt.Name: handle(api.Interrupt, (*Port).interrupt),

	api.SubmitResponse.Name:         handle(api.SubmitResponse, (*Port).answer),
	api.Revoke.Name:                 handle(api.Revoke, (*Port).revoke),
	api.Resolve.Name:                handle(api.Resolve, (*Port).resolve),
	api.RevokeStandingApproval.Name: handle(api.RevokeStandingApproval, (*Port).revokeStandingApproval),

	api.List.Name:                 handle(api.List, (*Port).list),
	api.Show.Name:                 handle(api.Show, (*Port).show),
	api.Explain.Name:              handle(api.Explain, (*Port).explain),
	api.Preview.Name:              handle(api.Preview, (*Port).preview),
	api.Events.Name:               handle(api.Events, (*Port).events),
	api.Info.Name:                 handle(api.Info, (*Port).info),
	api.Load.Name:                 handle(api.Load, (*Port).load),
	api.Standings.Name:            handle(api.Standings, (*Port).standingApprovals),
	api.ShowStandingApproval.Name: handle(api.ShowStandingApproval, (*Port).showStandingApproval),

	api.Start.Name:     handle(api.Start, (*Port).start),
	api.Heartbeat.Name: handle(api.Heartbeat, (*Port).heartbeat),
	api.Progress.Name:  handle(api.Progress, (*Port).progress),
	api.Result.Name:    handle(api.Result, (*Port).result),
}

func handle[Req, Rep any](op api.Op[Req, Rep], do func(*Port, context.Context, Req) (Rep, error)) handler {
	return func(ctx context.Context, p *Port, request any) (any, error) {
		r, ok := request.(Req)
		if !ok {
			return nil, &message.Error{Code: message.CodeInternal, Op: op.Name, What: fmt.Sprintf("the request is a %T", request)}
		}
		return do(p, ctx, r)
	}
}

// Call carries an operation out if the principal may use it.
func (p *Port) Call(ctx context.Context, op *api.Operation, request any) (any, error) {
	do, ok := handlers[op.Name]
	if !ok {
		return nil, &message.Error{Code: message.CodeInvalid, Op: op.Name, What: "the engine does not have this operation", Hint: "use an engine and a client of one version"}
	}
	if err := p.may(ctx, op, request); err != nil {
		return nil, err
	}
	out, err := do(ctx, p, request)
	return out, p.shownError(err)
}

func (p *Port) propose(ctx context.Context, r message.ProposeRequest) (message.ProposeReply, error) {
	calls, err := p.e.propose(ctx, p.by, r)
	return message.ProposeReply{Calls: p.shown(calls)}, err
}

func (p *Port) answer(ctx context.Context, a message.Response) (*message.Call, error) {
	c, err := p.e.answer(ctx, p.by, a)
	return p.one(c, err)
}

func (p *Port) report(ctx context.Context, r message.ReportRequest) (*message.Call, error) {
	c, err := p.e.report(ctx, p.by, r)
	return p.one(c, err)
}

func (p *Port) interrupt(ctx context.Context, r message.InterruptRequest) (message.InterruptReply, error) {
	if err := p.ownSession(ctx, "interrupt", r.Session); err != nil {
		return message.InterruptReply{}, err
	}
	calls, err := p.e.interrupt(ctx, p.by, r)
	return message.InterruptReply{Calls: p.shown(calls)}, err
}

func (p *Port) resolve(ctx context.Context, r message.ResolveRequest) (*message.Call, error) {
	c, err := p.e.resolve(ctx, p.by, r)
	return p.one(c, err)
}

func (p *Port) revoke(ctx context.Context, r message.RevokeRequest) (*message.Call, error) {
	c, err := p.e.revoke(ctx, p.by, r)
	return p.one(c, err)
}

func (p *Port) emit(ctx context.Context, r message.EmitRequest) (message.EmitReply, error) {
	return p.e.emit(ctx, p.by, r)
}

func (p *Port) events(ctx context.Context, r message.EventsRequest) (message.EventsReply, error) {
	if err := p.ownSession(ctx, "events", r.Session); err != nil {
		return message.EventsReply{}, err
	}
	return p.e.events(ctx, p, r)
}

func (p *Port) wait(ctx context.Context, r message.WaitRequest) (message.WaitReply, error) {
	if err := p.ownSession(ctx, "wait", r.Session); err != nil {
		return message.WaitReply{}, err
	}
	out, err := p.e.wait(ctx, r)
	out.Calls = p.shown(out.Calls)
	return out, err
}

func (p *Port) list(ctx context.Context, r message.ListRequest) (message.ListReply, error) {
	out, err := p.e.list(ctx, p.by, r)
	out.Calls = p.shown(out.Calls)
	return out, err
}

func (p *Port) show(ctx context.Context, r message.ShowRequest) (message.ShowReply, error) {
	out, err := p.e.show(ctx, p.by, r)
	if out.Call != nil {
		out.Call = p.redacted(out.Call)
	}
	return out, err
}

func (p *Port) info(context.Context, struct{}) (message.InfoReply, error) {
	return p.e.info(), nil
}

func (p *Port) load(ctx context.Context, r message.LoadRequest) (message.LoadReply, error) {
	out, err := p.e.load(ctx, r)
	if err != nil {
		return out, opError("load", err)
	}
	return out, nil
}

func (p *Port) start(ctx context.Context, r message.StartRequest) (message.StartReply, error) {
	return p.e.start(ctx, p.by, p.queue, r)
}

func (p *Port) heartbeat(ctx context.Context, r message.HeartbeatRequest) (message.HeartbeatReply, error) {
	return p.e.heartbeat(ctx, p.by, p.queue, r)
}

func (p *Port) progress(ctx context.Context, r message.ProgressRequest) (struct{}, error) {
	return struct{}{}, p.e.progress(ctx, p.by, p.queue, r)
}

func (p *Port) result(ctx context.Context, r message.ResultRequest) (message.ResultReply, error) {
	return p.e.resultOf(ctx, p.by, p.queue, r)
}

// ownSession keeps runtimes to the sessions that are bound to them. An unknown
// session is nobody's.
func (p *Port) ownSession(ctx context.Context, op string, s message.SessionID) error {
	if p.by.Role != message.RoleRuntime {
		return nil
	}
	session := message.Key{Space: p.e.space, Session: s}
	owner := p.e.view.Runtime(session)
	if owner == "" { // perhaps only the view has not seen it yet
		var err error
		if owner, _, err = p.e.store.LastRuntime(ctx, session); err != nil {
			return opError(op, err)
		}
	}
	if owner != "" && owner != p.by.Name {
		return &message.Error{Code: message.CodeForeign, Op: op, What: "the session " + string(s) + " belongs to another runtime", Hint: "use a session of your own"}
	}
	return nil
}
