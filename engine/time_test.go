package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// Tests that depend on exact times run on fake time, in which hours pass at once.

// hours is an engine in a bubble of fake time.
type hours struct {
	*testing.T
	journal *engine.Memory
	eng     *engine.Engine
	opts    []engine.Option
}

// inHours runs f in a bubble of fake time, with an engine that has one tool, "t".
func inHours(t *testing.T, tool engine.Tool, rule permission.Rule, run engine.Executor, f func(h *hours)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &hours{T: t, journal: engine.NewMemory()}
		h.eng = h.engine(tool, rule, run)
		f(h)
	})
}

// A run has its full time even if the directory answered late.
func TestSlowDirectory(t *testing.T) {
	slow := directoryFunc(func(context.Context) ([]string, error) {
		time.Sleep(1500 * time.Millisecond)
		return []string{"g"}, nil
	})
	var left time.Duration
	run := local{"t": func(ctx context.Context, _ toolcall.Invocation) (string, error) {
		deadline, _ := ctx.Deadline()
		left = time.Until(deadline)
		return "done", ctx.Err()
	}}
	synctest.Test(t, func(t *testing.T) {
		h := &hours{T: t, journal: engine.NewMemory(), opts: []engine.Option{engine.WithDirectory(slow)}}
		h.eng = h.engine(engine.Tool{}, permission.Rule{Behavior: message.BehaviorAsk, Approvers: permission.Approvers{Groups: []string{"g"}}, Executor: permission.Executor{Timeout: time.Second}}, run)
		c := h.propose()
		if _, err := h.as(toolcall.RoleApprover, "ann").SubmitResponse(h.Context(), toolcall.Response{Key: c.Key, Kind: toolcall.ResponseApprove, Digest: c.Digest}); err != nil {
			t.Fatal(err)
		}
		if c = h.after(time.Second); c.Result == nil || c.Result.State != message.ToolResultSuccess || left != time.Second {
			t.Errorf("the run had %v and ended with %+v", left, c.Result)
		}
	})
}

func (h *hours) engine(tool engine.Tool, rule permission.Rule, run engine.Executor, more ...permission.Rule) *engine.Engine {
	h.Helper()
	rule.Name, rule.Tools, tool.Name = "r", []string{"t"}, "t"
	policy, err := permission.Compile(permission.Policy{Rules: append(more, rule)}, permission.Options{Tools: []permission.Tool{tool.Tool}, Enforced: engine.Duties()})
	if err != nil {
		h.Fatal(err)
	}
	opts := append([]engine.Option{engine.WithDrain(time.Second)}, h.opts...)
	if run != nil {
		opts = append(opts, engine.WithExecutor(run))
	}
	eng, err := engine.New("default", h.journal, policy, []engine.Tool{tool}, opts...)
	if err != nil {
		h.Fatal(err)
	}
	if err := eng.Start(h.Context()); err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { _ = eng.Close() }) // its error does not matter to a test
	return eng
}

func (h *hours) as(role toolcall.Role, name string) *engine.Port {
	return h.eng.As(toolcall.Principal{Role: role, Name: name})
}

func (h *hours) propose() *toolcall.Call {
	h.Helper()
	out, err := h.as(toolcall.RoleRuntime, "bot").Propose(h.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r",
		Calls: []message.ToolCallBlock{{ID: "c", Name: "t", Input: `{}`}}})
	if err != nil {
		h.Fatal(err)
	}
	return out.Calls[0]
}

// after lets time pass and returns the call as it is then.
func (h *hours) after(d time.Duration) *toolcall.Call {
	h.Helper()
	time.Sleep(d)
	synctest.Wait()
	out, err := h.as(toolcall.RoleOperator, "olga").Show(h.Context(), toolcall.ShowRequest{Key: key})
	if err != nil {
		h.Fatal(err)
	}
	return out.Call
}

var key = toolcall.Key{Space: "default", Session: "s", Reply: "r", Call: "c"}

// start claims the attempt as a worker.
func (h *hours) start(attempt int) {
	h.Helper()
	if _, err := h.as(toolcall.RoleWorker, "w").Start(h.Context(), toolcall.StartRequest{Key: key, Attempt: attempt, Claim: "x"}); err != nil {
		h.Fatal(err)
	}
}

func (h *hours) beat() toolcall.HeartbeatReply {
	h.Helper()
	r, err := h.as(toolcall.RoleWorker, "w").Heartbeat(h.Context(), toolcall.HeartbeatRequest{Key: key, Attempt: 1, Claim: "x"})
	if err != nil {
		h.Fatal(err)
	}
	return r
}

var (
	allow      = permission.Rule{Behavior: message.BehaviorAllow}
	remoteTool = engine.Tool{Placement: toolcall.PlaceRemote}
)

func TestRequestExpiresOnTime(t *testing.T) {
	ask := permission.Rule{Behavior: message.BehaviorAsk, Expiry: 36 * time.Hour}
	inHours(t, engine.Tool{}, ask, nil, func(h *hours) {
		c := h.propose()
		if now := h.after(36*time.Hour - time.Millisecond); now.State != message.ToolCallAsking {
			h.Fatalf("the call is %s before its deadline", now.State)
		}
		time.Sleep(time.Millisecond) // at the deadline itself no answer counts any more
		_, err := h.as(toolcall.RoleApprover, "ann").SubmitResponse(h.Context(), toolcall.Response{Key: key, Kind: toolcall.ResponseApprove, Digest: c.Digest})
		if !errors.Is(err, message.ErrFinished) {
			h.Errorf("an answer at the deadline: %v", err)
		}
		if now := h.after(time.Second); now.Cause != "expire" || len(now.Votes) != 0 {
			h.Errorf("the call ended by %s with %d votes", now.Cause, len(now.Votes))
		}
	})
}

func TestDeadWorkerIsNoticedWithinLeaseAndASecond(t *testing.T) {
	inHours(t, remoteTool, allow, nil, func(h *hours) {
		h.propose()
		h.start(1)
		for range 40 { // alive for 100 s
			time.Sleep(engine.DefaultLease / 4)
			if r := h.beat(); r.Cancel {
				h.Fatalf("a heartbeat was answered %+v", r)
			}
		}
		if c := h.after(engine.DefaultLease - time.Millisecond); c.Blocked != toolcall.NotBlocked {
			h.Errorf("the call is blocked as %s within the lease", c.Blocked)
		}
		if c := h.after(time.Second); c.Blocked != toolcall.BlockedUnknown {
			h.Errorf("a second after the lease the call is blocked as %q", c.Blocked)
		}
	})
}

// An engine that has just started must first listen for a whole lease.
func TestNewEngineListensForAWholeLease(t *testing.T) {
	inHours(t, remoteTool, allow, nil, func(h *hours) {
		h.propose()
		h.start(1)
		time.Sleep(9 * time.Second)
		if err := h.eng.Close(); err != nil {
			h.Fatal(err)
		}
		h.eng = h.engine(remoteTool, allow, nil)
		if c := h.after(9 * time.Second); c.Blocked != toolcall.NotBlocked {
			h.Errorf("18 s after the call's start, 9 s after the engine's, the call is blocked as %s", c.Blocked)
		}
		if c := h.after(2 * time.Second); c.Blocked != toolcall.BlockedUnknown {
			h.Errorf("11 s after the engine's start the call is blocked as %q", c.Blocked)
		}
	})
}

// A call that no worker takes is offered again and again, ever more rarely, always with a
// grant that is currently valid.
func TestOffersGrowRare(t *testing.T) {
	inHours(t, remoteTool, allow, nil, func(h *hours) {
		first := h.propose().Attempt.Grant
		if c := h.after(engine.DefaultOfferTimeout + time.Second); c.Attempt.Offers != 2 || c.Attempt.Number != 1 || c.Attempt.Grant.Nonce == first.Nonce {
			h.Errorf("after ten minutes: offer %d of attempt %d", c.Attempt.Offers, c.Attempt.Number)
		}
		for range 7 * 24 {
			c := h.after(time.Hour)
			if !time.Now().Before(c.Attempt.Grant.Expires) || time.Now().Before(c.Attempt.Grant.NotBefore) {
				h.Fatalf("the grant is from %s to %s", c.Attempt.Grant.NotBefore, c.Attempt.Grant.Expires)
			}
		}
		if c := h.after(0); c.Records > 40 {
			h.Errorf("a week of waiting cost %d event records", c.Records)
		}
		h.start(1)
	})
}

func TestQueueDeadline(t *testing.T) {
	tool := remoteTool
	tool.QueueTimeout = 25 * time.Minute
	inHours(t, tool, allow, nil, func(h *hours) {
		h.propose()
		if c := h.after(25*time.Minute - time.Second); c.Blocked != toolcall.NotBlocked {
			h.Errorf("the call is blocked as %s before its queue deadline", c.Blocked)
		}
		if c := h.after(2 * time.Second); c.Blocked != toolcall.BlockedNoWorker {
			h.Errorf("after the queue deadline the call is blocked as %q", c.Blocked)
		}
	})
}

// A call that a rule routes to workers has the queue deadline of its tool.
func TestQueueDeadlineOfRoute(t *testing.T) {
	tool := engine.Tool{QueueTimeout: 25 * time.Minute} // local without the rule
	rule := permission.Rule{Behavior: message.BehaviorAllow, Executor: permission.Executor{Subject: "exec.payments"}}
	inHours(t, tool, rule, nil, func(h *hours) {
		first := h.propose()
		if first.State != message.ToolCallSubmitted || first.Attempt.Grant.Route != "exec.payments" {
			h.Fatalf("it is %s: %+v", first.State, first.Attempt)
		}
		if c := h.after(11 * time.Minute); c.Attempt.Offers != 2 || c.Attempt.Grant.Route != "exec.payments" {
			h.Errorf("offer %d has the route %q", c.Attempt.Offers, c.Attempt.Grant.Route)
		}
		if c := h.after(14*time.Minute + time.Second); c.Blocked != toolcall.BlockedNoWorker {
			h.Errorf("after the queue deadline the call is blocked as %q", c.Blocked)
		}
		if _, err := h.as(toolcall.RoleOperator, "olga").Resolve(h.Context(), toolcall.ResolveRequest{Key: key, Attempt: 1, Outcome: toolcall.OutcomeRunAgain}); err != nil {
			h.Fatal(err)
		}
		if c := h.after(0); c.Attempt.Number != 2 || c.Attempt.Grant.Route != "exec.payments" {
			h.Errorf("run again, the call is in attempt %d on the route %q", c.Attempt.Number, c.Attempt.Grant.Route)
		}
	})
}

func TestAttemptsBackOff(t *testing.T) {
	tool := remoteTool
	tool.Idempotent = true
	inHours(t, tool, allow, nil, func(h *hours) {
		h.propose()
		for n, pause := range []time.Duration{time.Second, 2 * time.Second} {
			h.start(n + 1)
			if c := h.after(engine.DefaultLease + 10*time.Millisecond); c.RetryAt.IsZero() || c.Attempt.Number != n+1 {
				h.Fatalf("after the lease of attempt %d: attempt %d, again at %s", n+1, c.Attempt.Number, c.RetryAt)
			}
			if c := h.after(pause - 100*time.Millisecond); c.Attempt.Number != n+1 {
				h.Errorf("attempt %d was made too early", c.Attempt.Number)
			}
			if c := h.after(200 * time.Millisecond); c.Attempt.Number != n+2 || c.Started() {
				h.Errorf("after the pause the call is in attempt %d", c.Attempt.Number)
			}
		}
		h.start(3)
		if c := h.after(11 * time.Second); c.Blocked != toolcall.BlockedDeadLetter {
			h.Errorf("after three attempts the call is blocked as %q", c.Blocked)
		}
	})
}

func TestLocalDeadline(t *testing.T) {
	var cause error
	run := local{"t": func(ctx context.Context, _ toolcall.Invocation) (string, error) {
		<-ctx.Done()
		cause = context.Cause(ctx)
		return "half done", nil
	}}
	inHours(t, engine.Tool{Timeout: time.Hour}, allow, run, func(h *hours) {
		h.propose()
		if c := h.after(time.Hour - time.Second); !c.Started() || !c.Open() {
			h.Errorf("before its deadline the call is %s", c.State)
		}
		c := h.after(2 * time.Second)
		if c.Open() || c.Result.State != message.ToolResultError || !errors.Is(cause, engine.ErrDeadline) {
			h.Errorf("after its deadline the call is %s, cancelled for %v", c.State, cause)
		}
	})
}

func TestRemoteDeadline(t *testing.T) {
	tool := remoteTool
	tool.Timeout = time.Minute
	inHours(t, tool, allow, nil, func(h *hours) {
		h.propose()
		h.start(1)
		for range 23 {
			time.Sleep(engine.DefaultLease / 4)
			if r := h.beat(); r.Cancel {
				h.Fatalf("before the deadline a heartbeat was answered %+v", r)
			}
		}
		time.Sleep(engine.DefaultLease / 4)
		if r := h.beat(); !r.Cancel || r.Stale {
			h.Errorf("at the deadline a heartbeat was answered %+v", r)
		}
	})
}

// A worker that sends heartbeats and does not stop within a lease, or ten seconds, of its deadline loses
// the attempt: the outcome is unknown, also of an idempotent call, until the worker reports one.
func TestDeadlineIgnored(t *testing.T) {
	for _, idempotent := range []bool{false, true} {
		for _, lease := range []time.Duration{time.Second, engine.DefaultLease} {
			tool := remoteTool
			tool.Timeout, tool.Idempotent, tool.Lease = time.Minute, idempotent, lease
			inHours(t, tool, allow, nil, func(h *hours) {
				h.propose()
				h.start(1)
				beats := func(d time.Duration) *toolcall.Call {
					for ; d > 0; d -= lease / 4 {
						time.Sleep(lease / 4)
						h.beat()
					}
					return h.after(0)
				}
				if c := beats(tool.Timeout + 3*engine.DefaultLease/4); c.Phase() != toolcall.PhaseRunning {
					h.Fatalf("just before, the call is %s", c.Phase())
				}
				if c := beats(engine.DefaultLease / 2); c.Phase() != toolcall.PhaseBlocked || c.Blocked != toolcall.BlockedUnknown {
					h.Fatalf("after a lease more, the call is %s %s", c.Phase(), c.Blocked)
				}
				again := toolcall.ResolveRequest{Key: key, Attempt: 1, Outcome: toolcall.OutcomeRunAgain}
				if _, err := h.as(toolcall.RoleOperator, "olga").Resolve(h.Context(), again); !errors.Is(err, message.ErrState) || !strings.Contains(err.Error(), "heartbeats") {
					h.Errorf("while its worker lives, it is run again: %v", err)
				}
				if idempotent {
					time.Sleep(lease)
					if _, err := h.as(toolcall.RoleOperator, "olga").Resolve(h.Context(), again); err != nil {
						h.Errorf("after a lease of silence: %v", err)
					}
					return
				}
				r := toolcall.ResultRequest{Key: key, Attempt: 1, Claim: "x", Result: message.ToolResultBlock{State: message.ToolResultSuccess, Output: message.Content{Text: "done"}}}
				if out, err := h.as(toolcall.RoleWorker, "w").Result(h.Context(), r); err != nil || !out.Stored {
					h.Errorf("its result is %+v, %v", out, err)
				}
				if c := h.after(0); c.Open() || c.Result.State != message.ToolResultSuccess {
					h.Errorf("at the end the call is %s", c.State)
				}
			})
		}
	}
}

// An engine that has just started has not listened for the worker of a blocked call, so for a lease
// no operator can have the call run again.
func TestRunAgainAfterRestart(t *testing.T) {
	inHours(t, remoteTool, allow, nil, func(h *hours) {
		h.propose()
		h.start(1)
		if c := h.after(2 * engine.DefaultLease); c.Blocked != toolcall.BlockedUnknown {
			h.Fatalf("without heartbeats the call is %s %s", c.Phase(), c.Blocked)
		}
		if err := h.eng.Close(); err != nil {
			h.Fatal(err)
		}
		h.eng = h.engine(remoteTool, allow, nil)
		again := toolcall.ResolveRequest{Key: key, Attempt: 1, Outcome: toolcall.OutcomeRunAgain}
		time.Sleep(engine.DefaultLease - time.Second)
		if _, err := h.as(toolcall.RoleOperator, "olga").Resolve(h.Context(), again); !errors.Is(err, message.ErrState) || !strings.Contains(err.Error(), "try again in 1s)") {
			h.Errorf("before the engine listened for a lease: %v", err)
		}
		time.Sleep(time.Second)
		if _, err := h.as(toolcall.RoleOperator, "olga").Resolve(h.Context(), again); err != nil {
			h.Errorf("after a lease: %v", err)
		}
	})
}

// A worker that dies after the engine asked it to stop is silent for a lease, so an idempotent call
// is run again.
func TestDeathAfterDeadline(t *testing.T) {
	tool := remoteTool
	tool.Timeout, tool.Idempotent = time.Minute, true
	inHours(t, tool, allow, nil, func(h *hours) {
		h.propose()
		h.start(1)
		for range 7 {
			time.Sleep(9 * time.Second)
			h.beat()
		}
		if c := h.after(engine.DefaultLease - time.Second); c.Phase() != toolcall.PhaseRunning {
			h.Errorf("within the lease the call is %s %s", c.Phase(), c.Blocked)
		}
		if c := h.after(5 * time.Second); c.Attempt.Number != 2 || c.Phase() != toolcall.PhaseQueued {
			h.Errorf("later attempt %d is %s %s", c.Attempt.Number, c.Phase(), c.Blocked)
		}
	})
}

// The shortest of the tool's and the rules' timeouts bounds each attempt. An engine that
// starts later reads it from the record.
func TestRuleTimeout(t *testing.T) {
	rule := func(d time.Duration) permission.Rule {
		return permission.Rule{Behavior: message.BehaviorAllow, Executor: permission.Executor{Timeout: d}}
	}
	for _, tc := range []struct {
		name       string
		tool, rule time.Duration
		more       time.Duration // of another matching rule
		want       time.Duration
	}{
		{"only the rule", 0, time.Minute, 0, time.Minute},
		{"the tool is shorter", time.Second, time.Minute, 0, time.Second},
		{"the rule is shorter", time.Hour, time.Minute, 0, time.Minute},
		{"the shortest rule", time.Hour, time.Minute, 5 * time.Second, 5 * time.Second},
		{"less than event records can hold", 0, 10 * time.Microsecond, 0, time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tool := remoteTool
			tool.Timeout, tool.Idempotent = tc.tool, true
			var more []permission.Rule
			if tc.more > 0 {
				other := rule(tc.more)
				other.Name, other.Tools = "other", []string{"t"}
				more = append(more, other)
			}
			synctest.Test(t, func(t *testing.T) {
				h := &hours{T: t, journal: engine.NewMemory()}
				h.eng = h.engine(tool, rule(tc.rule), nil, more...)
				h.propose()
				if err := h.eng.Close(); err != nil {
					t.Fatal(err)
				}
				h.eng = h.engine(tool, allow, nil) // the policy has changed since
				h.start(1)
				if c := h.after(0); !c.Attempt.Deadline.Equal(c.Attempt.StartedAt.Add(tc.want)) {
					t.Errorf("started at %s, it ends at %s, want %s later", c.Attempt.StartedAt, c.Attempt.Deadline, tc.want)
				}
				h.after(engine.DefaultLease + 2*time.Second)
				h.start(2)
				if c := h.after(0); !c.Attempt.Deadline.Equal(c.Attempt.StartedAt.Add(tc.want)) {
					t.Errorf("attempt 2, started at %s, ends at %s, want %s later", c.Attempt.StartedAt, c.Attempt.Deadline, tc.want)
				}
			})
		})
	}
}

// A rule's timeout cancels a local handler like the tool's own timeout, even for a call that
// needed approval.
func TestRuleTimeoutCancelsLocal(t *testing.T) {
	var cause error
	run := local{"t": func(ctx context.Context, _ toolcall.Invocation) (string, error) {
		<-ctx.Done()
		cause = context.Cause(ctx)
		return "half done", nil
	}}
	ask := permission.Rule{Behavior: message.BehaviorAsk, Executor: permission.Executor{Timeout: time.Minute}}
	inHours(t, engine.Tool{Timeout: time.Hour}, ask, run, func(h *hours) {
		c := h.propose()
		if _, err := h.as(toolcall.RoleApprover, "ann").SubmitResponse(h.Context(), toolcall.Response{Key: key, Kind: toolcall.ResponseApprove, Digest: c.Digest}); err != nil {
			h.Fatal(err)
		}
		if c := h.after(time.Minute - time.Second); !c.Started() || !c.Open() {
			h.Errorf("before its deadline the call is %s", c.State)
		}
		c = h.after(2 * time.Second)
		if c.Open() || c.Result.State != message.ToolResultError || !errors.Is(cause, engine.ErrDeadline) {
			h.Errorf("after its deadline the call is %s, cancelled for %v", c.State, cause)
		}
	})
}

// No engine can limit a run outside askance, so such a call is denied.
func TestRuleTimeoutOfExternal(t *testing.T) {
	rule := permission.Rule{Behavior: message.BehaviorAllow, Executor: permission.Executor{Timeout: time.Minute}}
	inHours(t, engine.Tool{Placement: toolcall.PlaceExternal}, rule, nil, func(h *hours) {
		if c := h.propose(); c.Open() || c.Cause != "deny" || !strings.Contains(c.Decision.Reason, "a timeout of its run") || c.Decision.TimeoutMS != 0 {
			h.Errorf("the call is %s by %s: %+v", c.State, c.Cause, c.Decision)
		}
	})
}

// A deny rule that comes into force only because time passes, under the same bundle, stops a
// call that is approved after that.
func TestDenyByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hours{T: t, journal: engine.NewMemory()}
		closed := permission.Rule{Name: "closed", Tools: []string{"t"}, Behavior: message.BehaviorDeny,
			When: `ctx.now > timestamp("` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `")`}
		h.eng = h.engine(engine.Tool{}, permission.Rule{Behavior: message.BehaviorAsk}, nil, closed)
		c := h.propose()
		h.after(2 * time.Hour)
		got, err := h.as(toolcall.RoleApprover, "ann").SubmitResponse(t.Context(), toolcall.Response{Key: c.Key, Digest: c.Digest, Kind: toolcall.ResponseApprove})
		if err != nil || got.State != message.ToolCallFinished || got.Decision.Rule != "closed" {
			t.Errorf("approved after closing time: %v, %+v", err, got)
		}
	})
}

// A start fails if its engine waits for the journal until the grant has expired.
func TestGrantExpiresWhileTheStartIsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t.Context(), t, newMemory)
		first := w.engine()
		e := w.engine()
		e.cord.lag()
		var waited atomic.Bool
		e.cord.onLast(func(key toolcall.Key) error {
			if key.Call == "" {
				waited.Store(true)
				time.Sleep(engine.DefaultOfferTimeout + time.Second)
			}
			return nil
		})
		c := first.submit("c", remote)
		first.kill()
		_, err := e.worker("w1").Start(t.Context(), startRequest(c, "x"))
		if !waited.Load() || !errors.Is(err, message.ErrSuperseded) {
			t.Errorf("the start: %v, want an expired grant; the engine read the reply: %v", err, waited.Load())
		}
	})
}
