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
)

func roleCases() []engineCase {
	return []engineCase{{"every method and every role", everyRole}, {"principals without a usable name", noName}}
}

// methods are all methods of a Port, with the roles that may use each.
var methods = []struct {
	name string
	may  []message.Role
	call func(ctx context.Context, p *engine.Port, key message.Key) error
}{
	{"Propose", []message.Role{message.RoleRuntime}, func(ctx context.Context, p *engine.Port, k message.Key) error {
		return second(p.Propose(ctx, request(call("c", deploy, `{}`))))
	}},
	{"Answer", []message.Role{message.RoleApprover}, func(ctx context.Context, p *engine.Port, k message.Key) error {
		return second(p.SubmitResponse(ctx, message.Response{Key: k, Kind: message.ResponseReject, Digest: "x"}))
	}},
	{"Report", []message.Role{message.RoleRuntime, message.RoleOperator}, func(ctx context.Context, p *engine.Port, k message.Key) error {
		return second(p.Report(ctx, message.ReportRequest{Key: k, Result: message.ToolResultBlock{State: message.ToolResultSuccess}}))
	}},
	{"Interrupt", []message.Role{message.RoleRuntime, message.RoleApprover, message.RoleOperator}, func(ctx context.Context, p *engine.Port, k message.Key) error {
		return second(p.Interrupt(ctx, message.InterruptRequest{Session: "unknown", Reply: "r"}))
	}},
	{"Resolve", []message.Role{message.RoleOperator}, func(ctx context.Context, p *engine.Port, k message.Key) error {
		return second(p.Resolve(ctx, message.ResolveRequest{Key: k, Attempt: 1, Outcome: message.OutcomeHappened}))
	}},
	{"Revoke", []message.Role{message.RoleOperator, message.RoleApprover}, func(ctx context.Context, p *engine.Port, k message.Key) error {
		return second(p.Revoke(ctx, message.RevokeRequest{Key: k}))
	}},
	{"Emit", []message.Role{message.RoleRuntime}, func(ctx context.Context, p *engine.Port, k message.Key) error {
		return second(p.Emit(ctx, message.EmitRequest{Session: "s", Reply: "r"}))
	}},
	{"Events", readers, func(ctx context.Context, p *engine.Port, k message.Key) error {
		return second(p.Events(ctx, message.EventsRequest{Session: "s"}))
	}},
	{"Wait", readers, func(ctx context.Context, p *engine.Port, k message.Key) error {
		return second(p.Wait(ctx, message.WaitRequest{Session: "s", Reply: "r", TimeoutMS: 1}))
	}},
	{"List", readers, func(ctx context.Context, p *engine.Port, k message.Key) error {
		return second(p.List(ctx, message.ListRequest{}))
	}},
	{"Show", readers, func(ctx context.Context, p *engine.Port, k message.Key) error {
		return second(p.Show(ctx, message.ShowRequest{Key: k}))
	}},
	{"Info", append(slices.Clone(readers), message.RoleWorker), func(ctx context.Context, p *engine.Port, k message.Key) error {
		return second(p.Info(ctx))
	}},
	{"Leases", overseers, func(ctx context.Context, p *engine.Port, k message.Key) error {
		return second(p.StandingApprovals(ctx, message.StandingApprovalsRequest{}))
	}},
	{"ShowLease", overseers, func(ctx context.Context, p *engine.Port, k message.Key) error {
		return second(p.ShowStandingApproval(ctx, message.ShowStandingApprovalRequest{ID: "sta_x"}))
	}},
	{"Explain", overseers, func(ctx context.Context, p *engine.Port, k message.Key) error {
		return second(p.Explain(ctx, message.ExplainRequest{Key: k}))
	}},
	{"Preview", readers, func(ctx context.Context, p *engine.Port, k message.Key) error {
		return second(api.Preview.Call(ctx, p, request(call("c", deploy, `{}`))))
	}},
	{"RevokeLease", []message.Role{message.RoleOperator, message.RoleApprover}, func(ctx context.Context, p *engine.Port, k message.Key) error {
		return second(p.RevokeStandingApproval(ctx, message.RevokeStandingApprovalRequest{ID: "sta_x"}))
	}},
	{"Start", []message.Role{message.RoleWorker}, func(ctx context.Context, p *engine.Port, k message.Key) error {
		return second(p.Start(ctx, message.StartRequest{Key: k, Attempt: 1, Claim: "x"}))
	}},
	{"Heartbeat", []message.Role{message.RoleWorker}, func(ctx context.Context, p *engine.Port, k message.Key) error {
		return second(p.Heartbeat(ctx, message.HeartbeatRequest{Key: k, Attempt: 1, Claim: "x"}))
	}},
	{"Progress", []message.Role{message.RoleWorker}, func(ctx context.Context, p *engine.Port, k message.Key) error {
		return p.Progress(ctx, message.ProgressRequest{Key: k, Attempt: 1, Claim: "x"})
	}},
	{"Result", []message.Role{message.RoleWorker}, func(ctx context.Context, p *engine.Port, k message.Key) error {
		return second(p.Result(ctx, message.ResultRequest{Key: k, Attempt: 1, Claim: "x", Result: message.ToolResultBlock{State: message.ToolResultSuccess}}))
	}},
}

// overseers are those who may look at standing approvals.
var overseers = []message.Role{message.RoleApprover, message.RoleOperator, message.RoleAuditor}

var readers = []message.Role{message.RoleRuntime, message.RoleApprover, message.RoleOperator, message.RoleAuditor}

// everyRole goes through the whole table, twice: a role that may gets an answer
// or an error about the request, one that may not gets forbidden and writes
// nothing.
func everyRole(w *world) {
	e := w.engine()
	q := e.ask("c", deploy, `{}`)
	size := len(w.records())
	for _, m := range methods {
		for _, role := range []message.Role{message.RoleRuntime, message.RoleApprover, message.RoleWorker, message.RoleOperator, message.RoleAuditor, message.RoleEngine, "", "admin"} {
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
	for _, name := range []string{"", strings.Repeat("x", message.MaxIDBytes+1)} {
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
		p := eng.As(message.Principal{Role: op.Roles[0], Name: "x"})
		in, _ := op.Types()
		if _, err := p.Call(t.Context(), op, reflect.Zero(in).Interface()); err != nil && (strings.Contains(err.Error(), "does not have") || strings.Contains(err.Error(), "the request is a")) {
			t.Errorf("%s: %v", op.Name, err)
		}
	}
}
