package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// wrapped is a policy in a wrapper that adds no methods.
type wrapped struct{ engine.Policy }

// A wrapper does not lose features of its policy: arguments are hidden before their call is
// known, and the rule limits what is remembered.
func TestWrappedPolicy(t *testing.T) {
	policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{
		{Name: "pin", Tools: []string{"pay"}, Behavior: message.BehaviorAsk, Redact: []string{"args.pin"}},
		{Name: "ask", Tools: []string{"send"}, Behavior: message.BehaviorAsk, Remember: &permission.Remember{TTL: time.Hour, Scope: []string{"args.to"}}},
	}}, permission.Options{Enforced: engine.Duties()})
	if err != nil {
		t.Fatal(err)
	}
	tools := []engine.Tool{{Tool: permission.Tool{Name: "pay"}, Placement: toolcall.PlaceExternal}, {Tool: permission.Tool{Name: "send"}, Placement: toolcall.PlaceExternal, ConcurrencySafe: true}}
	eng, err := engine.New("default", engine.NewMemory(), wrapped{wrapped{policy}}, tools)
	if err != nil {
		t.Fatal(err)
	}
	if err := eng.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	bot, ann := eng.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}), eng.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"})
	_, err = bot.Emit(t.Context(), toolcall.EmitRequest{Session: "s", Reply: "r", Events: []message.RawJSON{message.RawJSON(`{"type":"TOOL_CALL_DELTA","reply_id":"r","tool_call_id":"c","delta":"{\"pin\":\"pin-0815\"}"}`)}})
	if err != nil {
		t.Fatal(err)
	}
	seen, err := ann.Events(t.Context(), toolcall.EventsRequest{Session: "s"})
	if err != nil || len(seen.Events) != 1 || strings.Contains(string(seen.Events[0].Event), "pin-0815") {
		t.Errorf("streamed arguments: %+v, %v", seen.Events, err)
	}
	propose := func(id message.CallID, input string) *toolcall.Call {
		t.Helper()
		r, err := bot.Propose(t.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{{ID: id, Name: "send", Input: input}}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Calls[0]
	}
	q := propose("a", `{"to":"x"}`)
	if _, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: q.Key, Kind: toolcall.ResponseApprove, Digest: q.Digest, Remember: &toolcall.StandingTerms{}}); err != nil {
		t.Fatal(err)
	}
	if c := propose("b", `{"to":"x"}`); c.Decision.Standing == "" {
		t.Errorf("the same call again is %s, want it allowed by the standing approval", c.State)
	}
	if c := propose("c", `{"to":"y"}`); c.State != message.ToolCallAsking {
		t.Errorf("another value is %s, want it to ask", c.State)
	}
}
