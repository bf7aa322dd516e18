package engine_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// asked proposes one call of an external tool to an engine with these rules.
func asked(t *testing.T, input string, rules ...permission.Rule) (*engine.Engine, *toolcall.Call) {
	t.Helper()
	policy, err := permission.Compile(permission.Policy{Rules: rules}, permission.Options{Enforced: engine.Duties()})
	if err != nil {
		t.Fatal(err)
	}
	eng, err := engine.New("default", engine.NewMemory(), policy, []engine.Tool{{Tool: permission.Tool{Name: "t"}, Placement: toolcall.PlaceExternal}})
	if err != nil {
		t.Fatal(err)
	}
	if err := eng.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	out, err := eng.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(t.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{{ID: "c", Name: "t", Input: input}}})
	if err != nil {
		t.Fatal(err)
	}
	return eng, out.Calls[0]
}

func answerAs(t *testing.T, eng *engine.Engine, name string, resp toolcall.Response) (*toolcall.Call, error) {
	t.Helper()
	return eng.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: name}).SubmitResponse(t.Context(), resp)
}

// An edit permanently voids the approvals before it: if a second edit restores the old
// arguments, their approvers are asked again.
func TestEditAndBackAsksAgain(t *testing.T) {
	eng, c := asked(t, `{"n":0}`, permission.Rule{Name: "two", Tools: []string{"t"}, Behavior: message.BehaviorAsk, Quorum: 2})
	step := func(name, input string) {
		t.Helper()
		resp := toolcall.Response{Key: c.Key, Kind: toolcall.ResponseApprove, Digest: c.Digest}
		if input != "" {
			resp.Input = &input
		}
		var err error
		if c, err = answerAs(t, eng, name, resp); err != nil {
			t.Fatal(err)
		}
	}
	step("ann", "")
	step("bob", `{"n":1}`)
	step("bob", `{"n":0}`)
	if got := c.Tally(); c.State != message.ToolCallAsking || got.Agreed || len(got.Approvals) != 1 {
		t.Fatalf("the call is %s with the approvals %+v", c.State, got.Approvals)
	}
	step("ann", "")
	if c.State != message.ToolCallSubmitted {
		t.Errorf("the call is %s after both approved what bob wrote", c.State)
	}
}

// An edit does not reveal what the approval request before it hid.
func TestEditKeepsWhatIsHidden(t *testing.T) {
	const secret = "tell-no-one"
	eng, c := asked(t, `{"pin":"`+secret+`","kind":"card"}`,
		permission.Rule{Name: "ask", Tools: []string{"t"}, Behavior: message.BehaviorAsk, Quorum: 2},
		permission.Rule{Name: "hide", Tools: []string{"t"}, Behavior: message.BehaviorAllow, When: `args.kind == "card"`, Redact: []string{"args.pin"}})
	list, err := eng.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"}).List(t.Context(), toolcall.ListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	shown := list.Calls[0].Input
	if strings.Contains(shown, secret) {
		t.Fatal("the value is shown before the edit: " + shown)
	}
	asCash := strings.Replace(shown, `"card"`, `"cash"`, 1)
	got, err := answerAs(t, eng, "ann", toolcall.Response{Key: c.Key, Kind: toolcall.ResponseApprove, Digest: c.Digest, Input: &asCash})
	if text, _ := json.Marshal([]any{got, err}); message.AsError("", err).Code != message.CodeForbidden || strings.Contains(string(text), secret) {
		t.Errorf("an approver gets %s, %v", text, err)
	}
	if list, err = eng.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"}).List(t.Context(), toolcall.ListRequest{}); err != nil || list.Calls[0].Digest != c.Digest {
		t.Errorf("the approval request has changed: %+v, %v", list.Calls, err)
	}
	without := `{"kind":"cash"}` // nothing is left to hide
	if got, err = answerAs(t, eng, "ann", toolcall.Response{Key: c.Key, Kind: toolcall.ResponseApprove, Digest: c.Digest, Input: &without}); err != nil || got.Input != without {
		t.Errorf("an edit that removes the value: %+v, %v", got, err)
	}
}

// A worker's progress lines repeat nothing that rules hide.
func TestProgressHides(t *testing.T) {
	c := &toolcall.Call{Input: `{"card":{"pin":"tell-no-one"}}`, Redact: []string{"args.card"}}
	if text := engine.ShownText(c, "paying with tell-no-one"); text != "paying with [redacted]" {
		t.Error(text)
	}
	if text := engine.ShownText(&toolcall.Call{Input: c.Input}, "paying with tell-no-one"); text != "paying with tell-no-one" {
		t.Error(text)
	}
}
