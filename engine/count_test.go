package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// uncounted is a journal that cannot count calls while err is set.
type uncounted struct {
	*engine.Memory
	err   error
	asked int
}

func (j *uncounted) CountCalls(ctx context.Context, reply toolcall.Key) (int, uint64, error) {
	if j.asked++; j.err != nil {
		return 0, 0, j.err
	}
	return j.Memory.CountCalls(ctx, reply)
}

// A limit on the calls of a run holds when the engine has forgotten them, and when they
// cannot be counted, also in a rule that says what an unknown number is.
func TestForgottenCallsCount(t *testing.T) {
	for _, limit := range []permission.Rule{
		{Name: "many", Tools: []string{"*"}, Behavior: message.BehaviorDeny, When: `ctx.?calls_this_run.orValue(1) > 3`},
		{Name: "many", Tools: []string{"*"}, Behavior: message.BehaviorDeny, When: `has(ctx.calls_this_run) && ctx.calls_this_run > 3`},
		{Name: "few", Tools: []string{"t"}, Behavior: message.BehaviorAllow, When: `ctx.?calls_this_run.orValue(1) <= 3`},
	} {
		for _, keep := range []int{0, 1, 2, 100} {
			t.Run(fmt.Sprint(limit.When, keep), func(t *testing.T) { forgottenCallsCount(t, limit, keep) })
		}
	}
}

func forgottenCallsCount(t *testing.T, limit permission.Rule, keep int) {
	rules := []permission.Rule{{Name: "no", Tools: []string{"no"}, Behavior: message.BehaviorDeny}, limit}
	if limit.Behavior == message.BehaviorDeny {
		rules = append(rules, permission.Rule{Name: "free", Tools: []string{"t"}, Behavior: message.BehaviorAllow})
	}
	policy, err := permission.Compile(permission.Policy{Rules: rules}, permission.Options{})
	if err != nil {
		t.Fatal(err)
	}
	j := &uncounted{Memory: engine.NewMemory()}
	var tools []engine.Tool
	for _, name := range []string{"no", "t"} {
		tools = append(tools, engine.Tool{Tool: permission.Tool{Name: name}, Placement: toolcall.PlaceExternal, ConcurrencySafe: true})
	}
	start := func() *engine.Engine {
		e, err := engine.New("default", j, policy, tools, engine.WithKeep(keep))
		if err == nil {
			err = e.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := start()
	defer func() { e.Close() }()
	propose := func(tool string, reply message.ReplyID, id string) message.ToolCallState {
		t.Helper()
		r, err := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(t.Context(), toolcall.ProposeRequest{Session: "s", Reply: reply, Calls: []message.ToolCallBlock{{ID: message.CallID(id), Name: tool, Input: `{}`}}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Calls[0].State
	}
	for i := range 3 {
		propose("no", "r", fmt.Sprint("no", i))
		propose("no", "other", fmt.Sprint("no", i))
	}
	if got := propose("t", "r", "fourth"); got == message.ToolCallSubmitted {
		t.Errorf("the fourth call is %s", got)
	}
	if got := propose("t", "second", "first"); got != message.ToolCallSubmitted {
		t.Errorf("the first call of another run is %s", got)
	}
	e.Close()
	e = start()
	if got := propose("t", "r", "fifth"); got == message.ToolCallSubmitted {
		t.Errorf("after a restart the fifth call is %s", got)
	}
	if keep == 100 {
		if j.asked > 0 {
			t.Errorf("the journal was asked %d times for what is in memory", j.asked)
		}
		return
	}
	j.err = errors.New("the journal does not answer")
	for i := range 3 {
		propose("no", "third", fmt.Sprint("no", i))
	}
	if got := propose("t", "third", "fourth"); got == message.ToolCallSubmitted {
		t.Errorf("the fourth call, not counted, is %s", got)
	}
}
