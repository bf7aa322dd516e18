package api

import (
	"context"

	"github.com/askance-dev/askance/message"
)

// Client is what a runtime, an approver's surface or an operator works with: the
// operations of the table as methods. All methods may be called from many
// goroutines. Errors are *message.Error.
type Client interface {
	Caller
	Propose(ctx context.Context, r message.ProposeRequest) (message.ProposeReply, error)
	Wait(ctx context.Context, r message.WaitRequest) (message.WaitReply, error)
	Emit(ctx context.Context, r message.EmitRequest) (message.EmitReply, error)
	Events(ctx context.Context, r message.EventsRequest) (message.EventsReply, error)
	Report(ctx context.Context, r message.ReportRequest) (*message.Call, error)
	SubmitResponse(ctx context.Context, r message.Response) (*message.Call, error)
	Interrupt(ctx context.Context, r message.InterruptRequest) (message.InterruptReply, error)
	Resolve(ctx context.Context, r message.ResolveRequest) (*message.Call, error)
	Revoke(ctx context.Context, r message.RevokeRequest) (*message.Call, error)
	List(ctx context.Context, r message.ListRequest) (message.ListReply, error)
	Show(ctx context.Context, r message.ShowRequest) (message.ShowReply, error)
	Info(ctx context.Context) (message.InfoReply, error)
	Load(ctx context.Context, r message.LoadRequest) (message.LoadReply, error)
	StandingApprovals(ctx context.Context, r message.StandingApprovalsRequest) (message.StandingApprovalsReply, error)
	ShowStandingApproval(ctx context.Context, r message.ShowStandingApprovalRequest) (message.ShowStandingApprovalReply, error)
	RevokeStandingApproval(ctx context.Context, r message.RevokeStandingApprovalRequest) (*message.StandingApproval, error)
	Explain(ctx context.Context, r message.ExplainRequest) (message.ExplainReply, error)
}

// Methods makes a Client of a Caller.
type Methods struct{ Caller }

var _ Client = Methods{}

// Propose calls the operation.
func (m Methods) Propose(ctx context.Context, r message.ProposeRequest) (message.ProposeReply, error) {
	return Propose.Call(ctx, m.Caller, r)
}

// Wait calls the operation.
func (m Methods) Wait(ctx context.Context, r message.WaitRequest) (message.WaitReply, error) {
	return Wait.Call(ctx, m.Caller, r)
}

// Emit calls the operation.
func (m Methods) Emit(ctx context.Context, r message.EmitRequest) (message.EmitReply, error) {
	return Emit.Call(ctx, m.Caller, r)
}

// Events calls the operation.
func (m Methods) Events(ctx context.Context, r message.EventsRequest) (message.EventsReply, error) {
	return Events.Call(ctx, m.Caller, r)
}

// Report calls the operation.
func (m Methods) Report(ctx context.Context, r message.ReportRequest) (*message.Call, error) {
	return Report.Call(ctx, m.Caller, r)
}

// SubmitResponse calls the operation.
func (m Methods) SubmitResponse(ctx context.Context, r message.Response) (*message.Call, error) {
	return SubmitResponse.Call(ctx, m.Caller, r)
}

// Interrupt calls the operation.
func (m Methods) Interrupt(ctx context.Context, r message.InterruptRequest) (message.InterruptReply, error) {
	return Interrupt.Call(ctx, m.Caller, r)
}

// Resolve calls the operation.
func (m Methods) Resolve(ctx context.Context, r message.ResolveRequest) (*message.Call, error) {
	return Resolve.Call(ctx, m.Caller, r)
}

// Revoke calls the operation.
func (m Methods) Revoke(ctx context.Context, r message.RevokeRequest) (*message.Call, error) {
	return Revoke.Call(ctx, m.Caller, r)
}

// List calls the operation.
func (m Methods) List(ctx context.Context, r message.ListRequest) (message.ListReply, error) {
	return List.Call(ctx, m.Caller, r)
}

// Show calls the operation.
func (m Methods) Show(ctx context.Context, r message.ShowRequest) (message.ShowReply, error) {
	return Show.Call(ctx, m.Caller, r)
}

// Info calls the operation.
func (m Methods) Info(ctx context.Context) (message.InfoReply, error) {
	return Info.Call(ctx, m.Caller, struct{}{})
}

// Load calls the operation.
func (m Methods) Load(ctx context.Context, r message.LoadRequest) (message.LoadReply, error) {
	return Load.Call(ctx, m.Caller, r)
}

// StandingApprovals calls the operation.
func (m Methods) StandingApprovals(ctx context.Context, r message.StandingApprovalsRequest) (message.StandingApprovalsReply, error) {
	return Standings.Call(ctx, m.Caller, r)
}

// ShowStandingApproval calls the operation.
func (m Methods) ShowStandingApproval(ctx context.Context, r message.ShowStandingApprovalRequest) (message.ShowStandingApprovalReply, error) {
	return ShowStandingApproval.Call(ctx, m.Caller, r)
}

// RevokeStandingApproval calls the operation.
func (m Methods) RevokeStandingApproval(ctx context.Context, r message.RevokeStandingApprovalRequest) (*message.StandingApproval, error) {
	return RevokeStandingApproval.Call(ctx, m.Caller, r)
}

// Explain calls the operation.
func (m Methods) Explain(ctx context.Context, r message.ExplainRequest) (message.ExplainReply, error) {
	return Explain.Call(ctx, m.Caller, r)
}

// WorkerMethods are the operations of workers as methods.
type WorkerMethods struct{ Caller }

// Start calls the operation.
func (m WorkerMethods) Start(ctx context.Context, r message.StartRequest) (message.StartReply, error) {
	return Start.Call(ctx, m.Caller, r)
}

// Heartbeat calls the operation.
func (m WorkerMethods) Heartbeat(ctx context.Context, r message.HeartbeatRequest) (message.HeartbeatReply, error) {
	return Heartbeat.Call(ctx, m.Caller, r)
}

// Result calls the operation.
func (m WorkerMethods) Result(ctx context.Context, r message.ResultRequest) (message.ResultReply, error) {
	return Result.Call(ctx, m.Caller, r)
}

// Progress calls the operation.
func (m WorkerMethods) Progress(ctx context.Context, r message.ProgressRequest) error {
	_, err := Progress.Call(ctx, m.Caller, r)
	return err
}
