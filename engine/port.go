package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/askance-dev/askance/message"
)

// Port is the engine as one principal sees it. It implements Client and
// WorkerClient; each method first checks that the principal's role may do it.
// All methods may be called from many goroutines.
type Port struct {
	e    *Engine
	by   message.Principal
	lane message.Lane // of a worker; none: any
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
	return &Port{e: e, by: by}
}

// Worker is As for a worker that may act only for one lane.
func (e *Engine) Worker(by message.Principal, lane message.Lane) *Port {
	p := e.As(by)
	p.lane = lane
	return p
}

// may checks the principal's role, its name, the request's version, and that
// the engine works.
func (p *Port) may(ctx context.Context, op string, v int, roles ...message.Role) error {
	switch {
	case p.by.Name == "" || len(p.by.Name) > message.MaxIDBytes:
		return &message.Error{Code: message.CodeForbidden, Op: op, What: "the principal has no usable name", Hint: "authenticate"}
	case !slices.Contains(roles, p.by.Role):
		return &message.Error{Code: message.CodeForbidden, Op: op, What: "role " + string(p.by.Role) + " may not do this", Hint: "use a principal with one of the roles that may"}
	case p.e.closing.Load():
		return &message.Error{Code: message.CodeUnavailable, Op: op, What: "the engine is stopped", Hint: "try another replica"}
	case p.e.following.Err() != nil:
		return p.e.blindError(op)
	case ctx.Err() != nil:
		return &message.Error{Code: message.CodeUnavailable, Op: op, What: "the request was given up", Hint: "ask again", Err: context.Cause(ctx)}
	}
	return checkVersion(op, v)
}

// checkVersion refuses requests of a version that this engine does not speak:
// it would overlook what they say. A request that names none is of version 1.
func checkVersion(op string, v int) error {
	if v < 0 || v > 1 {
		return &message.Error{Code: message.CodeInvalid, Op: op, What: fmt.Sprintf("request version %d is unknown", v), Hint: "this engine speaks version 1"}
	}
	return nil
}

var readers = []message.Role{message.RoleRuntime, message.RoleApprover, message.RoleOperator, message.RoleAuditor}

// Propose implements Client; for runtimes.
func (p *Port) Propose(ctx context.Context, r message.ProposeRequest) (message.ProposeReply, error) {
	if err := p.may(ctx, "propose", r.V, message.RoleRuntime); err != nil {
		return message.ProposeReply{}, err
	}
	calls, err := p.e.propose(ctx, p.by, r)
	return message.ProposeReply{Calls: p.shown(calls)}, p.shownError(err)
}

// Answer implements Client; for approvers.
func (p *Port) Answer(ctx context.Context, a message.Answer) (*message.Call, error) {
	if err := p.may(ctx, "answer", a.V, message.RoleApprover); err != nil {
		return nil, err
	}
	c, err := p.e.answer(ctx, p.by, a)
	return p.one(c, err)
}

// Report implements Client; for the session's runtime, and operators.
func (p *Port) Report(ctx context.Context, r message.ReportRequest) (*message.Call, error) {
	if err := p.may(ctx, "report", r.V, message.RoleRuntime, message.RoleOperator); err != nil {
		return nil, err
	}
	c, err := p.e.report(ctx, p.by, r)
	return p.one(c, err)
}

// Interrupt implements Client; for the session's runtime, approvers and
// operators.
func (p *Port) Interrupt(ctx context.Context, r message.InterruptRequest) (message.InterruptReply, error) {
	if err := p.may(ctx, "interrupt", r.V, message.RoleRuntime, message.RoleApprover, message.RoleOperator); err != nil {
		return message.InterruptReply{}, err
	}
	if err := p.ownSession(ctx, "interrupt", r.Session); err != nil {
		return message.InterruptReply{}, err
	}
	calls, err := p.e.interrupt(ctx, p.by, r)
	return message.InterruptReply{Calls: p.shown(calls)}, p.shownError(err)
}

// Settle implements Client; for operators.
func (p *Port) Settle(ctx context.Context, r message.SettleRequest) (*message.Call, error) {
	if err := p.may(ctx, "settle", r.V, message.RoleOperator); err != nil {
		return nil, err
	}
	c, err := p.e.settle(ctx, p.by, r)
	return p.one(c, err)
}

// Revoke implements Client; for operators and approvers.
func (p *Port) Revoke(ctx context.Context, r message.RevokeRequest) (*message.Call, error) {
	if err := p.may(ctx, "revoke", r.V, message.RoleOperator, message.RoleApprover); err != nil {
		return nil, err
	}
	c, err := p.e.revoke(ctx, p.by, r)
	return p.one(c, err)
}

// Emit implements Client; for the session's runtime.
func (p *Port) Emit(ctx context.Context, r message.EmitRequest) (message.EmitReply, error) {
	if err := p.may(ctx, "emit", r.V, message.RoleRuntime); err != nil {
		return message.EmitReply{}, err
	}
	out, err := p.e.emit(ctx, p.by, r)
	return out, p.shownError(err)
}

// Events implements Client; for all who read.
func (p *Port) Events(ctx context.Context, r message.EventsRequest) (message.EventsReply, error) {
	if err := p.may(ctx, "events", r.V, readers...); err != nil {
		return message.EventsReply{}, err
	}
	if err := p.ownSession(ctx, "events", r.Session); err != nil {
		return message.EventsReply{}, err
	}
	out, err := p.e.events(ctx, p, r)
	return out, p.shownError(err)
}

// Wait implements Client; for all who read.
func (p *Port) Wait(ctx context.Context, r message.WaitRequest) (message.WaitReply, error) {
	if err := p.may(ctx, "wait", r.V, readers...); err != nil {
		return message.WaitReply{}, err
	}
	if err := p.ownSession(ctx, "wait", r.Session); err != nil {
		return message.WaitReply{}, err
	}
	out, err := p.e.wait(ctx, r)
	out.Calls = p.shown(out.Calls)
	return out, p.shownError(err)
}

// List implements Client; for all who read. A runtime sees its own calls.
func (p *Port) List(ctx context.Context, r message.ListRequest) (message.ListReply, error) {
	if err := p.may(ctx, "list", r.V, readers...); err != nil {
		return message.ListReply{}, err
	}
	out, err := p.e.list(ctx, p.by, r)
	out.Calls = p.shown(out.Calls)
	return out, p.shownError(err)
}

// Show implements Client; for all who read.
func (p *Port) Show(ctx context.Context, r message.ShowRequest) (message.ShowReply, error) {
	if err := p.may(ctx, "show", r.V, readers...); err != nil {
		return message.ShowReply{}, err
	}
	out, err := p.e.show(ctx, p.by, r)
	if out.Call != nil {
		out.Call = p.redacted(out.Call)
	}
	return out, p.shownError(err)
}

// Info implements Client; for everybody.
func (p *Port) Info(ctx context.Context) (message.InfoReply, error) {
	if err := p.may(ctx, "info", 0, append(readers, message.RoleWorker)...); err != nil {
		return message.InfoReply{}, err
	}
	return p.e.info(), nil
}

// Load implements Client; for all who read the whole space.
func (p *Port) Load(ctx context.Context, r message.LoadRequest) (message.LoadReply, error) {
	if err := p.may(ctx, "load", r.V, message.RoleApprover, message.RoleOperator, message.RoleAuditor); err != nil {
		return message.LoadReply{}, err
	}
	out, err := p.e.load(ctx, r)
	if err != nil {
		return out, opError("load", err)
	}
	return out, nil
}

// Start implements WorkerClient; for workers.
func (p *Port) Start(ctx context.Context, r message.StartRequest) (message.StartReply, error) {
	if err := p.may(ctx, "start", r.V, message.RoleWorker); err != nil {
		return message.StartReply{}, err
	}
	out, err := p.e.start(ctx, p.by, p.lane, r)
	return out, p.shownError(err)
}

// Heartbeat implements WorkerClient; for workers.
func (p *Port) Heartbeat(ctx context.Context, r message.HeartbeatRequest) (message.HeartbeatReply, error) {
	if err := p.may(ctx, "heartbeat", r.V, message.RoleWorker); err != nil {
		return message.HeartbeatReply{}, err
	}
	out, err := p.e.heartbeat(ctx, p.by, p.lane, r)
	return out, p.shownError(err)
}

// Progress implements WorkerClient; for workers.
func (p *Port) Progress(ctx context.Context, r message.ProgressRequest) error {
	if err := p.may(ctx, "progress", r.V, message.RoleWorker); err != nil {
		return err
	}
	return p.shownError(p.e.progress(ctx, p.by, p.lane, r))
}

// Result implements WorkerClient; for workers.
func (p *Port) Result(ctx context.Context, r message.ResultRequest) (message.ResultReply, error) {
	if err := p.may(ctx, "result", r.V, message.RoleWorker); err != nil {
		return message.ResultReply{}, err
	}
	out, err := p.e.resultOf(ctx, p.by, p.lane, r)
	return out, p.shownError(err)
}

// ownSession keeps runtimes to the sessions that are bound to them. An unknown
// session is nobody's.
func (p *Port) ownSession(ctx context.Context, op string, s message.SessionID) error {
	if p.by.Role != message.RoleRuntime {
		return nil
	}
	session := message.Key{Space: p.e.space, Session: s}
	owner := p.e.view.runtime(session)
	if owner == "" { // perhaps only the view has not seen it yet
		r, err := p.e.journal.Last(ctx, session)
		if err != nil && !errors.Is(err, message.ErrNotFound) {
			return opError(op, err)
		}
		if err == nil {
			if r.Fact == nil || r.Fact.Session == nil {
				return opError(op, unreadable(session, r.Invalid)) // it is somebody's
			}
			p.e.view.apply(r.Fact, r.Seq)
			owner = r.Fact.Session.Runtime
		}
	}
	if owner != "" && owner != p.by.Name {
		return &message.Error{Code: message.CodeForeign, Op: op, What: "the session " + string(s) + " belongs to another runtime", Hint: "use a session of your own"}
	}
	return nil
}
