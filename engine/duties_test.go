package engine_test

import (
	"strings"
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// What the engine does not enforce must not get weaker: the same policy,
// compiled as if everything were enforced, denies.
func TestUnmetDutiesDeny(t *testing.T) {
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
		{"audit", permission.Rule{Behavior: message.BehaviorAllow, Audit: permission.AuditFull}, message.ToolCallFinished},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.rule.Name, tc.rule.Tools = "r", []string{"t"}
			policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{tc.rule}}, permission.Options{Enforced: permission.AllDuties()})
			if err != nil {
				t.Fatal(err)
			}
			tool := engine.Tool{Tool: permission.Tool{Name: "t"}, Placement: message.PlaceExternal}
			eng, err := engine.New("default", engine.NewMemory(), policy, []engine.Tool{tool})
			if err != nil {
				t.Fatal(err)
			}
			if err := eng.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer eng.Close()
			bot := eng.As(message.Principal{Role: message.RoleRuntime, Name: "bot"})
			r, err := bot.Propose(t.Context(), message.ProposeRequest{Session: "s", Reply: "r",
				Calls: []message.ToolCallBlock{{ID: "c", Name: "t", Input: `{"a": 1}`}}})
			if err != nil {
				t.Fatal(err)
			}
			call := r.Calls[0]
			if call.State != tc.want {
				t.Errorf("state %s, want %s", call.State, tc.want)
			}
			if tc.want == message.ToolCallFinished && !strings.Contains(call.Decision.Reason, "does not enforce") {
				t.Errorf("reason %q", call.Decision.Reason)
			}
		})
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
	tool := engine.Tool{Tool: permission.Tool{Name: "t"}, Placement: message.PlaceExternal, ConcurrencySafe: true}
	eng, err := engine.New("default", engine.NewMemory(), policy, []engine.Tool{tool})
	if err != nil {
		t.Fatal(err)
	}
	if err := eng.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	bot := eng.As(message.Principal{Role: message.RoleRuntime, Name: "bot"})
	var calls []message.ToolCallBlock
	for _, id := range []message.CallID{"a", "b", "c", "d", "e"} {
		calls = append(calls, message.ToolCallBlock{ID: id, Name: "t", Input: `{}`})
	}
	var got []string
	for _, part := range [][]message.ToolCallBlock{calls[:2], calls[2:]} {
		r, err := bot.Propose(t.Context(), message.ProposeRequest{Session: "s", Reply: "r", Calls: part})
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
