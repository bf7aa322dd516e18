package api

import (
	"context"

	"github.com/askance-dev/askance/toolcall"
)

// Client is what a runtime, an approver's surface or an operator works with: the
// operations of the table as methods. All methods may be called from many goroutines.
// Errors are *message.Error.
type Client interface {
	Caller
	Propose(ctx context.Context, r toolcall.ProposeRequest) (toolcall.ProposeReply, error)
	Wait(ctx context.Context, r toolcall.WaitRequest) (toolcall.WaitReply, error)
	Emit(ctx context.Context, r toolcall.EmitRequest) (toolcall.EmitReply, error)
	Events(ctx context.Context, r toolcall.EventsRequest) (toolcall.EventsReply, error)
	Begin(ctx context.Context, r toolcall.BeginRequest) (*toolcall.Call, error)
	Report(ctx context.Context, r toolcall.ReportRequest) (*toolcall.Call, error)
	SubmitResponse(ctx context.Context, r toolcall.Response) (*toolcall.Call, error)
	Interrupt(ctx context.Context, r toolcall.InterruptRequest) (toolcall.InterruptReply, error)
	Resolve(ctx context.Context, r toolcall.ResolveRequest) (*toolcall.Call, error)
	Revoke(ctx context.Context, r toolcall.RevokeRequest) (*toolcall.Call, error)
	List(ctx context.Context, r toolcall.ListRequest) (toolcall.ListReply, error)
	Show(ctx context.Context, r toolcall.ShowRequest) (toolcall.ShowReply, error)
	Info(ctx context.Context) (toolcall.InfoReply, error)
	Load(ctx context.Context, r toolcall.LoadRequest) (toolcall.LoadReply, error)
	Activity(ctx context.Context, r toolcall.ActivityRequest) (toolcall.ActivityReply, error)
	StandingApprovals(ctx context.Context, r toolcall.StandingApprovalsRequest) (toolcall.StandingApprovalsReply, error)
	ShowStandingApproval(ctx context.Context, r toolcall.ShowStandingApprovalRequest) (toolcall.ShowStandingApprovalReply, error)
	RevokeStandingApproval(ctx context.Context, r toolcall.RevokeStandingApprovalRequest) (*toolcall.StandingApproval, error)
	Explain(ctx context.Context, r toolcall.ExplainRequest) (toolcall.ExplainReply, error)
}

// Methods makes a Client from a Caller.
type Methods struct{ Caller }

var _ Client = Methods{}

// Propose calls the operation.
func (m Methods) Propose(ctx context.Context, r toolcall.ProposeRequest) (toolcall.ProposeReply, error) {
	return Propose.Call(ctx, m.Caller, r)
}

// Wait calls the operation.
func (m Methods) Wait(ctx context.Context, r toolcall.WaitRequest) (toolcall.WaitReply, error) {
	return Wait.Call(ctx, m.Caller, r)
}

// Emit calls the operation.
func (m Methods) Emit(ctx context.Context, r toolcall.EmitRequest) (toolcall.EmitReply, error) {
	return Emit.Call(ctx, m.Caller, r)
}

// Events calls the operation.
func (m Methods) Events(ctx context.Context, r toolcall.EventsRequest) (toolcall.EventsReply, error) {
	return Events.Call(ctx, m.Caller, r)
}

// Begin calls the operation.
func (m Methods) Begin(ctx context.Context, r toolcall.BeginRequest) (*toolcall.Call, error) {
	return Begin.Call(ctx, m.Caller, r)
}

// Report calls the operation.
func (m Methods) Report(ctx context.Context, r toolcall.ReportRequest) (*toolcall.Call, error) {
	return Report.Call(ctx, m.Caller, r)
}

// SubmitResponse calls the operation.
func (m Methods) SubmitResponse(ctx context.Context, r toolcall.Response) (*toolcall.Call, error) {
	return SubmitResponse.Call(ctx, m.Caller, r)
}

// Interrupt calls the operation.
func (m Methods) Interrupt(ctx context.Context, r toolcall.InterruptRequest) (toolcall.InterruptReply, error) {
	return Interrupt.Call(ctx, m.Caller, r)
}

// Resolve calls the operation.
func (m Methods) Resolve(ctx context.Context, r toolcall.ResolveRequest) (*toolcall.Call, error) {
	return Resolve.Call(ctx, m.Caller, r)
}

// Revoke calls the operation.
func (m Methods) Revoke(ctx context.Context, r toolcall.RevokeRequest) (*toolcall.Call, error) {
	return Revoke.Call(ctx, m.Caller, r)
}

// List calls the operation.
func (m Methods) List(ctx context.Context, r toolcall.ListRequest) (toolcall.ListReply, error) {
	return List.Call(ctx, m.Caller, r)
}

// Show calls the operation.
func (m Methods) Show(ctx context.Context, r toolcall.ShowRequest) (toolcall.ShowReply, error) {
	return Show.Call(ctx, m.Caller, r)
}

// Info calls the operation.
func (m Methods) Info(ctx context.Context) (toolcall.InfoReply, error) {
	return Info.Call(ctx, m.Caller, struct{}{})
}

// Load calls the operation.
func (m Methods) Load(ctx context.Context, r toolcall.LoadRequest) (toolcall.LoadReply, error) {
	return Load.Call(ctx, m.Caller, r)
}

// Activity calls the operation.
func (m Methods) Activity(ctx context.Context, r toolcall.ActivityRequest) (toolcall.ActivityReply, error) {
	return Activity.Call(ctx, m.Caller, r)
}

// StandingApprovals calls the operation.
func (m Methods) StandingApprovals(ctx context.Context, r toolcall.StandingApprovalsRequest) (toolcall.StandingApprovalsReply, error) {
	return Standings.Call(ctx, m.Caller, r)
}

// ShowStandingApproval calls the operation.
func (m Methods) ShowStandingApproval(ctx context.Context, r toolcall.ShowStandingApprovalRequest) (toolcall.ShowStandingApprovalReply, error) {
	return ShowStandingApproval.Call(ctx, m.Caller, r)
}

// RevokeStandingApproval calls the operation.
func (m Methods) RevokeStandingApproval(ctx context.Context, r toolcall.RevokeStandingApprovalRequest) (*toolcall.StandingApproval, error) {
	return RevokeStandingApproval.Call(ctx, m.Caller, r)
}

// Explain calls the operation.
func (m Methods) Explain(ctx context.Context, r toolcall.ExplainRequest) (toolcall.ExplainReply, error) {
	return Explain.Call(ctx, m.Caller, r)
}

// WorkerMethods are the operations of workers as methods.
type WorkerMethods struct{ Caller }

// Start calls the operation.
func (m WorkerMethods) Start(ctx context.Context, r toolcall.StartRequest) (toolcall.StartReply, error) {
	return Start.Call(ctx, m.Caller, r)
}

// Heartbeat calls the operation.
func (m WorkerMethods) Heartbeat(ctx context.Context, r toolcall.HeartbeatRequest) (toolcall.HeartbeatReply, error) {
	return Heartbeat.Call(ctx, m.Caller, r)
}

// Result calls the operation.
func (m WorkerMethods) Result(ctx context.Context, r toolcall.ResultRequest) (toolcall.ResultReply, error) {
	return Result.Call(ctx, m.Caller, r)
}

// Progress calls the operation.
func (m WorkerMethods) Progress(ctx context.Context, r toolcall.ProgressRequest) error {
	_, err := Progress.Call(ctx, m.Caller, r)
	return err
}
