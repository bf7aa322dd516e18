package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

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

func (u *uncounted) CountCalls(ctx context.Context, reply toolcall.Key) (int, uint64, error) {
	if u.asked++; u.err != nil {
		return 0, 0, u.err
	}
	return u.Memory.CountCalls(ctx, reply)
}

// A limit on the calls of a run holds when the engine has forgotten them and when they cannot
// be counted, even if the rule handles an unknown number.
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
			t.Errorf("the journal was asked %d times for calls that are in memory", j.asked)
		}
		return
	}
	j.err = errors.New("the journal does not answer")
	for i := range 3 {
		propose("no", "third", fmt.Sprint("no", i))
	}
	if got := propose("t", "third", "fourth"); got == message.ToolCallSubmitted {
		t.Errorf("the fourth call, which cannot be counted, is %s", got)
	}
}

// A limit holds for calls of a run that are proposed at the same time to several engines.
func TestConcurrentCallsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{
			{Name: "many", Tools: []string{"t"}, Behavior: message.BehaviorDeny, When: `ctx.calls_this_run > 3`},
			{Name: "free", Tools: []string{"t"}, Behavior: message.BehaviorAllow},
		}}, permission.Options{})
		if err != nil {
			t.Fatal(err)
		}
		j := unhurriedJournal{engine.NewMemory()}
		var engines []*engine.Engine
		for range 2 {
			e, err := engine.New("default", j, policy, []engine.Tool{{Tool: permission.Tool{Name: "t"}, Placement: toolcall.PlaceExternal, ConcurrencySafe: true}})
			if err == nil {
				err = e.Start(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() { e.Close() }()
			engines = append(engines, e)
		}
		bot := toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				r := toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{{ID: message.CallID(fmt.Sprint("c", i)), Name: "t", Input: `{}`}}}
				if _, err := engines[i%2].As(bot).Propose(t.Context(), r); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		r, err := engines[0].As(bot).Wait(t.Context(), toolcall.WaitRequest{Session: "s", Reply: "r", Until: toolcall.UntilParked, TimeoutMS: 30_000})
		if err != nil {
			t.Fatal(err)
		}
		allowed := 0
		for _, c := range r.Calls {
			if c.State == message.ToolCallSubmitted {
				allowed++
			} else if c.State != message.ToolCallFinished {
				t.Errorf("call %s is %s", c.Call, c.State)
			}
		}
		if allowed != 3 || len(r.Calls) != 10 {
			t.Errorf("%d of %d calls are allowed, want 3 of 10", allowed, len(r.Calls))
		}
	})
}

// changing is a policy that is replaced once the engine has asked whether its rules read
// the number of calls.
type changing struct {
	*permission.Live
	change func()
}

func (c *changing) ReadsCallsThisRun() bool {
	reads := c.Live.ReadsCallsThisRun()
	if c.change != nil {
		c.change()
		c.change = nil
	}
	return reads
}

type ruleText string

func (r *ruleText) Read(context.Context) ([]permission.File, error) {
	return []permission.File{{Name: "rules", Data: []byte("version: 1\nname: p\nrules:\n" + *r)}}, nil
}

// A limit holds for a call that an engine began to decide before the limit came into force,
// even if the rule handles an unknown number.
func TestCallsCountForANewPolicy(t *testing.T) {
	const free = "  - {name: free, tool_name: t, behavior: allow}\n"
	for _, limit := range []string{
		"  - {name: many, tool_name: t, behavior: deny, when: ctx.?calls_this_run.orValue(1) > 3}\n" + free,
		"  - {name: many, tool_name: t, behavior: deny, when: has(ctx.calls_this_run) && ctx.calls_this_run > 3}\n" + free,
		"  - {name: few, tool_name: t, behavior: allow, when: ctx.?calls_this_run.orValue(1) <= 3}\n",
	} {
		text := ruleText(free)
		live, err := permission.NewLive(&text, permission.LiveOptions{Options: permission.Options{AllowUnknownTools: true, Enforced: engine.Duties()}})
		if err == nil {
			err = live.Reload(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		policy := &changing{Live: live}
		e, err := engine.New("default", engine.NewMemory(), policy, []engine.Tool{{Tool: permission.Tool{Name: "t"}, Placement: toolcall.PlaceExternal, ConcurrencySafe: true}})
		if err == nil {
			err = e.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		propose := func(id string) *toolcall.Call {
			r, err := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(t.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{{ID: message.CallID(id), Name: "t", Input: `{}`}}})
			if err != nil {
				t.Fatal(err)
			}
			return r.Calls[0]
		}
		for i := range 3 {
			if c := propose(fmt.Sprint("c", i)); c.State != message.ToolCallSubmitted {
				t.Fatalf("call %d is %s", i, c.State)
			}
		}
		policy.change = func() {
			text = ruleText(limit)
			if err := live.Reload(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if c := propose("fourth"); c.State == message.ToolCallSubmitted {
			t.Errorf("with %q the fourth call is %s by %+v", limit, c.State, c.Decision)
		}
		e.Close()
	}
}
