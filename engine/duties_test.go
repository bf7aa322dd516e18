package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// A call asks for approval under rules with any of the duties.
func TestDuties(t *testing.T) {
	for _, tc := range []struct {
		name string
		rule permission.Rule
		want message.ToolCallState
	}{
		{"plain ask", permission.Rule{Behavior: message.BehaviorAsk}, message.ToolCallAsking},
		{"users", permission.Rule{Behavior: message.BehaviorAsk, Approvers: permission.Approvers{Users: []string{"ann"}}}, message.ToolCallAsking},
		{"quorum", permission.Rule{Behavior: message.BehaviorAsk, Quorum: 2}, message.ToolCallAsking},
		{"groups", permission.Rule{Behavior: message.BehaviorAsk, Approvers: permission.Approvers{Groups: []string{"g"}}}, message.ToolCallAsking},
		{"redact", permission.Rule{Behavior: message.BehaviorAsk, Redact: []string{"args.a"}}, message.ToolCallAsking},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.rule.Name, tc.rule.Tools = "r", []string{"t"}
			policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{tc.rule}}, permission.Options{Enforced: engine.Duties()})
			if err != nil {
				t.Fatal(err)
			}
			tool := engine.Tool{Tool: permission.Tool{Name: "t"}, Placement: toolcall.PlaceExternal}
			eng, err := engine.New("default", engine.NewMemory(), policy, []engine.Tool{tool})
			if err != nil {
				t.Fatal(err)
			}
			if err := eng.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer eng.Close()
			bot := eng.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
			r, err := bot.Propose(t.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r",
				Calls: []message.ToolCallBlock{{ID: "c", Name: "t", Input: `{"a": 1}`}}})
			if err != nil {
				t.Fatal(err)
			}
			call := r.Calls[0]
			if call.State != tc.want {
				t.Errorf("state %s, want %s", call.State, tc.want)
			}
		})
	}
}

// A duty that the engine does not enforce must not weaken the policy: the policy denies the
// call, and its explanation says so.
func TestUnmetDutiesDeny(t *testing.T) {
	for duty, rule := range map[permission.Duty]permission.Rule{
		permission.DutyQuorum:          {Behavior: message.BehaviorAsk, Quorum: 2},
		permission.DutyRedact:          {Behavior: message.BehaviorAsk, Redact: []string{"args.a"}},
		permission.DutyExecutorSubject: {Behavior: message.BehaviorAllow, Executor: permission.Executor{Subject: "x"}},
		permission.DutyExecutorTimeout: {Behavior: message.BehaviorAllow, Executor: permission.Executor{Timeout: 1}},
		permission.DutyAudit:           {Behavior: message.BehaviorAllow, Audit: permission.AuditFull},
	} {
		rule.Name, rule.Tools = "r", []string{"t"}
		others := slices.DeleteFunc(engine.Duties(), func(d permission.Duty) bool { return d == duty })
		if _, err := permission.Compile(permission.Policy{Rules: []permission.Rule{rule}}, permission.Options{Enforced: others}); err == nil || !strings.Contains(err.Error(), string(duty)+": is not enforced yet") {
			t.Errorf("a policy with %s is loaded for an engine that does not enforce it: %v", duty, err)
		}
		bundle, err := permission.Compile(permission.Policy{Rules: []permission.Rule{rule}}, permission.Options{Enforced: engine.Duties()})
		if err != nil {
			t.Fatal(err)
		}
		req := permission.Request{Tool: "t", Input: []byte(`{"a": 1}`)}
		if d := engine.Meeting(bundle, engine.Duties()...).Decide(t.Context(), req); d.Behavior == message.BehaviorDeny {
			t.Errorf("%s is denied by an engine that enforces it: %s", duty, d.Reason)
		}
		policy := engine.Meeting(bundle, others...)
		if d := policy.Decide(t.Context(), req); d.Behavior != message.BehaviorDeny || !strings.Contains(d.Reason, "does not enforce "+string(duty)) {
			t.Errorf("%s, unmet: %s, %s", duty, d.Behavior, d.Reason)
		}
		if x := policy.Explain(t.Context(), req); x.Decision != message.BehaviorDeny {
			t.Errorf("%s, unmet, is explained as %s", duty, x.Decision)
		}
	}
}

// A rule sees the run, and how many calls it has made.
func TestRequestKnowsTheRun(t *testing.T) {
	policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{
		{Name: "few", Tools: []string{"t"}, Behavior: message.BehaviorAllow, When: `caller.run_id == "r" && ctx.attempt == 1`},
		{Name: "many", Tools: []string{"t"}, Behavior: message.BehaviorDeny, When: `ctx.calls_this_run > 3`},
	}}, permission.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tool := engine.Tool{Tool: permission.Tool{Name: "t"}, Placement: toolcall.PlaceExternal, ConcurrencySafe: true}
	eng, err := engine.New("default", engine.NewMemory(), policy, []engine.Tool{tool})
	if err != nil {
		t.Fatal(err)
	}
	if err := eng.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	bot := eng.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	var calls []message.ToolCallBlock
	for _, id := range []message.CallID{"a", "b", "c", "d", "e"} {
		calls = append(calls, message.ToolCallBlock{ID: id, Name: "t", Input: `{}`})
	}
	var got []string
	for _, part := range [][]message.ToolCallBlock{calls[:2], calls[2:]} {
		r, err := bot.Propose(t.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: part})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range r.Calls {
			got = append(got, c.Decision.Rule)
		}
	}
	if want := "few few few many many"; strings.Join(got, " ") != want {
		t.Errorf("decided by %v, want %s", got, want)
	}
}
