package engine_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func roleCases() []engineCase {
	return []engineCase{{"every method and every role", everyRole}, {"principals without a usable name", noName}}
}

// methods lists the methods of a Port, with the roles that may use each.
var methods = []struct {
	name string
	may  []toolcall.Role
	call func(ctx context.Context, p *engine.Port, key toolcall.Key) error
}{
	{"Propose", []toolcall.Role{toolcall.RoleRuntime}, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(p.Propose(ctx, request(call("c", deploy, `{}`))))
	}},
	{"Answer", []toolcall.Role{toolcall.RoleApprover}, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(p.SubmitResponse(ctx, toolcall.Response{Key: k, Kind: toolcall.ResponseReject, Digest: "x"}))
	}},
	{"Report", []toolcall.Role{toolcall.RoleRuntime, toolcall.RoleOperator}, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(p.Report(ctx, toolcall.ReportRequest{Key: k, Result: message.ToolResultBlock{State: message.ToolResultSuccess}}))
	}},
	{"Interrupt", []toolcall.Role{toolcall.RoleRuntime, toolcall.RoleApprover, toolcall.RoleOperator}, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(p.Interrupt(ctx, toolcall.InterruptRequest{Session: "unknown", Reply: "r"}))
	}},
	{"Resolve", []toolcall.Role{toolcall.RoleOperator}, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(p.Resolve(ctx, toolcall.ResolveRequest{Key: k, Attempt: 1, Outcome: toolcall.OutcomeHappened}))
	}},
	{"Revoke", []toolcall.Role{toolcall.RoleOperator, toolcall.RoleApprover}, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(p.Revoke(ctx, toolcall.RevokeRequest{Key: k}))
	}},
	{"Emit", []toolcall.Role{toolcall.RoleRuntime}, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(p.Emit(ctx, toolcall.EmitRequest{Session: "s", Reply: "r"}))
	}},
	{"Events", readers, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(p.Events(ctx, toolcall.EventsRequest{Session: "s"}))
	}},
	{"Wait", readers, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(p.Wait(ctx, toolcall.WaitRequest{Session: "s", Reply: "r", TimeoutMS: 1}))
	}},
	{"List", readers, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(p.List(ctx, toolcall.ListRequest{}))
	}},
	{"Show", readers, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(p.Show(ctx, toolcall.ShowRequest{Key: k}))
	}},
	{"Info", append(slices.Clone(readers), toolcall.RoleWorker), func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(p.Info(ctx))
	}},
	{"Leases", overseers, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(p.StandingApprovals(ctx, toolcall.StandingApprovalsRequest{}))
	}},
	{"ShowLease", overseers, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(p.ShowStandingApproval(ctx, toolcall.ShowStandingApprovalRequest{ID: "sta_x"}))
	}},
	{"Explain", overseers, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(p.Explain(ctx, toolcall.ExplainRequest{Key: k}))
	}},
	{"Preview", readers, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(api.Preview.Call(ctx, p, previewOf(call("c", deploy, `{}`))))
	}},
	{"ProofStatus", overseers, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(api.ProofStatus.Call(ctx, p, api.ProofStatusRequest{}))
	}},
	{"Receipt", overseers, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(api.Receipt.Call(ctx, p, api.ReceiptRequest{Key: k}))
	}},
	{"CheckReceipt", overseers, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(api.CheckReceipt.Call(ctx, p, api.CheckReceiptRequest{}))
	}},
	{"RevokeLease", []toolcall.Role{toolcall.RoleOperator, toolcall.RoleApprover}, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(p.RevokeStandingApproval(ctx, toolcall.RevokeStandingApprovalRequest{ID: "sta_x"}))
	}},
	{"Start", []toolcall.Role{toolcall.RoleWorker}, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(p.Start(ctx, toolcall.StartRequest{Key: k, Attempt: 1, Claim: "x"}))
	}},
	{"Heartbeat", []toolcall.Role{toolcall.RoleWorker}, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(p.Heartbeat(ctx, toolcall.HeartbeatRequest{Key: k, Attempt: 1, Claim: "x"}))
	}},
	{"Progress", []toolcall.Role{toolcall.RoleWorker}, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return p.Progress(ctx, toolcall.ProgressRequest{Key: k, Attempt: 1, Claim: "x"})
	}},
	{"Result", []toolcall.Role{toolcall.RoleWorker}, func(ctx context.Context, p *engine.Port, k toolcall.Key) error {
		return second(p.Result(ctx, toolcall.ResultRequest{Key: k, Attempt: 1, Claim: "x", Result: message.ToolResultBlock{State: message.ToolResultSuccess}}))
	}},
}

// overseers are the roles that may see standing approvals.
var overseers = []toolcall.Role{toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor}

var readers = []toolcall.Role{toolcall.RoleRuntime, toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor}

// everyRole goes through the whole table. A role that may use a method gets an answer or an
// error about the request; any other role gets a forbidden error and writes nothing.
func everyRole(w *world) {
	e := w.engine()
	q := e.ask("c", deploy, `{}`)
	size := len(w.records())
	for _, m := range methods {
		for _, role := range []toolcall.Role{toolcall.RoleRuntime, toolcall.RoleApprover, toolcall.RoleWorker, toolcall.RoleOperator, toolcall.RoleAuditor, toolcall.RoleEngine, "", "admin"} {
			err := m.call(w.Context(), e.as(role, "bot"), q.Key)
			forbidden := err != nil && message.AsError("", err).Code == message.CodeForbidden
			if forbidden == slices.Contains(m.may, role) {
				w.Errorf("%s as %q: %v", m.name, role, err)
			}
		}
	}
	w.wantSize(size)
}

func noName(w *world) {
	e := w.engine()
	q := e.ask("c", deploy, `{}`)
	size := len(w.records())
	for _, name := range []string{"", strings.Repeat("x", toolcall.MaxIDBytes+1)} {
		for _, m := range methods {
			if err := m.call(w.Context(), e.as(m.may[0], name), q.Key); message.AsError("", orUnknown(err)).Code != message.CodeForbidden {
				w.Errorf("%s without a name: %v", m.name, err)
			}
		}
	}
	ctx, cancel := context.WithCancel(w.Context())
	cancel()
	for _, m := range methods {
		if err := m.call(ctx, e.as(m.may[0], "bot"), q.Key); message.AsError("", orUnknown(err)).Code != message.CodeUnavailable {
			w.Errorf("%s with an ended context: %v", m.name, err)
		}
	}
	w.wantSize(size)
}

// Every operation of the table has a handler.
func TestEveryOperationIsHandled(t *testing.T) {
	eng, err := engine.New("default", engine.NewMemory(), new(permission.Bundle), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range api.Table() {
		p := eng.As(toolcall.Principal{Role: op.Roles[0], Name: "x"})
		in, _ := op.Types()
		if _, err := p.Call(t.Context(), op, reflect.Zero(in).Interface()); err != nil && (strings.Contains(err.Error(), "does not have") || strings.Contains(err.Error(), "the request is a")) {
			t.Errorf("%s: %v", op.Name, err)
		}
	}
}
