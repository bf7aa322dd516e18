package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// A rule with recheck lets a call begin only if its condition still holds when the last
// approver agrees and when a worker starts the call.
func TestRecheck(t *testing.T) {
	for _, recheck := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			tool := engine.Tool{Tool: permission.Tool{Name: deploy}, Placement: toolcall.PlaceExternal, ConcurrencySafe: true}
			e := startWithRule(t, tool, permission.Rule{
				Name: "early", Tools: []string{deploy}, Behavior: message.BehaviorAsk, Recheck: recheck, When: `ctx.now < timestamp("2000-01-01T01:00:00Z")`,
			})
			for i, wait := range []time.Duration{0, 2 * time.Hour} {
				id := message.CallID([]string{"soon", "late"}[i])
				out, err := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(t.Context(), request(call(id, deploy, `{}`)))
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(wait)
				c, err := e.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"}).SubmitResponse(t.Context(), approve(out.Calls[0]))
				if err != nil {
					t.Fatal(err)
				}
				if runs := c.State == message.ToolCallSubmitted; runs != (wait == 0 || !recheck) {
					t.Errorf("recheck %v, after %s: the call is %s (%s)", recheck, wait, c.State, c.Cause)
				}
			}
		})
	}
}

// A task that waits in its queue begins only while the condition of its rule holds.
func TestRecheckAtTheStart(t *testing.T) {
	for _, wait := range []time.Duration{0, 2 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			tool := engine.Tool{Tool: permission.Tool{Name: deploy}, Placement: toolcall.PlaceRemote, ConcurrencySafe: true}
			e := startWithRule(t, tool, permission.Rule{
				Name: "early", Tools: []string{deploy}, Behavior: message.BehaviorAllow, Recheck: true, When: `ctx.now < timestamp("2000-01-01T01:00:00Z")`,
			})
			out, err := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(t.Context(), request(call("c", deploy, `{}`)))
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			time.Sleep(wait)
			c := out.Calls[0]
			worker := e.As(toolcall.Principal{Role: toolcall.RoleWorker, Name: "w"})
			_, err = worker.Start(t.Context(), toolcall.StartRequest{Key: c.Key, Attempt: 1, Claim: "claim"})
			if (err == nil) != (wait == 0) {
				t.Errorf("after %s the start returns %v", wait, err)
			}
			shown, err := e.As(toolcall.Principal{Role: toolcall.RoleOperator, Name: "olga"}).Show(t.Context(), toolcall.ShowRequest{Key: c.Key})
			if err != nil {
				t.Fatal(err)
			}
			if denied := shown.Call.Result != nil && shown.Call.Result.State == message.ToolResultDenied; denied != (wait > 0) {
				t.Errorf("after %s the call is %s (%s)", wait, shown.Call.State, shown.Call.Cause)
			}
		})
	}
}

// A worker may not start another attempt once the condition no longer holds. The outcome of
// the earlier lost attempt stays unknown.
func TestRecheckAfterALostAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := engine.Tool{Tool: permission.Tool{Name: deploy, Idempotent: true}, Placement: toolcall.PlaceRemote, ConcurrencySafe: true, Lease: 10 * time.Second}
		e := startWithRule(t, tool, permission.Rule{
			Name: "early", Tools: []string{deploy}, Behavior: message.BehaviorAllow, Recheck: true, When: `ctx.now < timestamp("2000-01-01T01:05:00Z")`,
		})
		out, err := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(t.Context(), request(call("c", deploy, `{}`)))
		if err != nil {
			t.Fatal(err)
		}
		worker := e.As(toolcall.Principal{Role: toolcall.RoleWorker, Name: "w"})
		if _, err := worker.Start(t.Context(), startRequest(out.Calls[0], "x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(66 * time.Minute) // the lease ends at once, and the second attempt waits in the queue
		show := func() *toolcall.Call {
			rep, err := e.As(toolcall.Principal{Role: toolcall.RoleOperator, Name: "olga"}).Show(t.Context(), toolcall.ShowRequest{Key: out.Calls[0].Key})
			if err != nil {
				t.Fatal(err)
			}
			return rep.Call
		}
		second := show()
		if second.Phase() != toolcall.PhaseQueued || second.Attempt.Number != 2 {
			t.Fatalf("the call is %s in attempt %d", second.Phase(), second.Attempt.Number)
		}
		if reply, err := worker.Start(t.Context(), startRequest(second, "y")); err == nil {
			t.Errorf("the worker may start: %+v", reply)
		}
		if c := show(); c.Blocked != toolcall.BlockedUnknown {
			t.Errorf("the call is %s (%s, %q)", c.Phase(), c.Cause, c.Blocked)
		}
	})
}

// A worker may report that it never began after the engine has already given up the attempt.
// The report changes nothing.
func TestNotBegunAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := engine.Tool{Tool: permission.Tool{Name: deploy, Idempotent: true}, Placement: toolcall.PlaceRemote, ConcurrencySafe: true, Lease: 10 * time.Second}
		e := startWithRule(t, tool, permission.Rule{Name: "all", Tools: []string{deploy}, Behavior: message.BehaviorAllow})
		out, err := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(t.Context(), request(call("c", deploy, `{}`)))
		if err != nil {
			t.Fatal(err)
		}
		worker := e.As(toolcall.Principal{Role: toolcall.RoleWorker, Name: "w"})
		if _, err := worker.Start(t.Context(), startRequest(out.Calls[0], "x")); err != nil {
			t.Fatal(err)
		}
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			shown, err := e.As(toolcall.Principal{Role: toolcall.RoleOperator, Name: "olga"}).Show(t.Context(), toolcall.ShowRequest{Key: out.Calls[0].Key})
			if err != nil {
				t.Fatal(err)
			}
			if shown.Call.Phase() == toolcall.PhaseRetrying {
				if _, err := worker.Result(t.Context(), notBegun(out.Calls[0], "x")); err != nil {
					t.Errorf("Result = %v", err)
				}
				return
			}
		}
		t.Error("the attempt is never given up")
	})
}

// startWithRule starts an engine with one tool and one rule and closes it when the test ends.
func startWithRule(t *testing.T, tool engine.Tool, rule permission.Rule) *engine.Engine {
	t.Helper()
	policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{rule}}, permission.Options{Tools: []permission.Tool{tool.Tool}, Enforced: engine.Duties()})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New("sp", engine.NewMemory(), policy, []engine.Tool{tool})
	if err == nil {
		err = e.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}
