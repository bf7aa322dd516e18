package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// days is a space with two engines whose people are in groups.
type days struct {
	*testing.T
	journal *engine.Memory
	engines []*engine.Engine
	hints   *hints
	rules   []permission.Rule
}

// hints counts the notifications to inboxes.
type hints struct {
	engine.Signals
	mu  sync.Mutex // guards n
	all []uint64
}

func (h *hints) Hint(c *toolcall.Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, c.Seq)
}

func (h *hints) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all)
}

func inDays(t *testing.T, rule permission.Rule, f func(d *days)) {
	t.Helper()
	rule.Name, rule.Tools, rule.Behavior = "r", []string{"t"}, message.BehaviorAsk
	synctest.Test(t, func(t *testing.T) {
		d := &days{T: t, journal: engine.NewMemory(), hints: &hints{}, rules: []permission.Rule{rule}}
		d.start()
		d.start()
		f(d)
	})
}

func (d *days) start(opts ...engine.Option) {
	d.Helper()
	policy, err := permission.Compile(permission.Policy{Rules: d.rules}, permission.Options{Enforced: engine.Duties()})
	if err != nil {
		d.Fatal(err)
	}
	people := engine.StaticDirectory{"ann": {"team"}, "bob": {"leads"}, "cy": {"managers"}, "dora": {"team"}}
	tool := engine.Tool{Tool: permission.Tool{Name: "t"}, Placement: toolcall.PlaceExternal}
	e, err := engine.New("default", d.journal, policy, []engine.Tool{tool}, append([]engine.Option{engine.WithDirectory(people), engine.WithSignals(d.hints)}, opts...)...)
	if err != nil {
		d.Fatal(err)
	}
	if err := e.Start(d.Context()); err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { _ = e.Close() }) // its error does not matter to a test
	d.engines = append(d.engines, e)
}

func (d *days) propose() *toolcall.Call {
	d.Helper()
	out, err := d.engines[0].As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(d.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r",
		Calls: []message.ToolCallBlock{{ID: "c", Name: "t", Input: `{}`}}})
	if err != nil {
		d.Fatal(err)
	}
	return out.Calls[0]
}

func (d *days) approve(name string) error {
	d.Helper()
	_, err := d.engines[len(d.engines)-1].As(toolcall.Principal{Role: toolcall.RoleApprover, Name: name}).SubmitResponse(d.Context(), toolcall.Response{Key: key, Kind: toolcall.ResponseApprove, Digest: d.now().Digest})
	return err
}

func (d *days) now() *toolcall.Call {
	d.Helper()
	out, err := d.engines[len(d.engines)-1].As(toolcall.Principal{Role: toolcall.RoleOperator, Name: "olga"}).Show(d.Context(), toolcall.ShowRequest{Key: key})
	if err != nil {
		d.Fatal(err)
	}
	return out.Call
}

func (d *days) pass(t time.Duration) *toolcall.Call {
	d.Helper()
	time.Sleep(t)
	synctest.Wait()
	return d.now()
}

// wantMay checks who may answer now by letting them approve.
func (d *days) wantMay(want map[string]bool) {
	d.Helper()
	for name, may := range want {
		err := d.approve(name)
		if may && err != nil || !may && !errors.Is(err, message.ErrForbidden) {
			d.Errorf("%s answers: %v, want that they may: %t", name, err, may)
		}
	}
}

var escalating = permission.Rule{
	Approvers: permission.Approvers{Groups: []string{"team"}}, Quorum: 4,
	Escalation: []permission.Escalation{
		{After: time.Hour, To: permission.Approvers{Groups: []string{"leads"}}},
		{After: 20 * time.Hour, To: permission.Approvers{Groups: []string{"managers"}}},
	},
	Expiry: 24 * time.Hour, OnExpiry: permission.OnExpiryEscalate,
}

// More people are asked at the times of the plan, each once however many engines run, and at
// the end of the plan the approval request denies the call.
func TestEscalation(t *testing.T) {
	inDays(t, escalating, func(d *days) {
		digest := d.propose().Digest
		for _, step := range []struct {
			wait time.Duration
			may  map[string]bool
			step int
		}{
			{0, map[string]bool{"ann": true, "bob": false, "cy": false}, 0},
			{time.Hour - time.Millisecond, map[string]bool{"bob": false}, 0},
			{time.Millisecond, map[string]bool{"bob": true, "cy": false}, 1},
			{19 * time.Hour, map[string]bool{"cy": true}, 2},
			{4 * time.Hour, map[string]bool{"dora": false}, 3}, // the deadline: only the last escalation is asked
			{24*time.Hour - time.Millisecond, nil, 3},
		} {
			c := d.pass(step.wait)
			if c.Step != step.step || c.State != message.ToolCallAsking || c.Digest != digest {
				d.Errorf("after %s the call is %s at step %d, want %d, digest changed: %t", step.wait, c.State, c.Step, step.step, c.Digest != digest)
			}
			d.wantMay(step.may)
		}
		c := d.pass(time.Millisecond)
		if c.Cause != "expire" || c.Result.State != message.ToolResultDenied {
			d.Errorf("the call ended by %s with %v", c.Cause, c.Result)
		}
		d.wantPath("propose ask", "vote", "escalate", "vote", "escalate", "vote", "escalate", "expire")
	})
}

func (d *days) wantPath(want ...string) {
	d.Helper()
	history, err := d.journal.History(d.Context(), key)
	if err != nil {
		d.Fatal(err)
	}
	var got []string
	for _, r := range history {
		var steps string
		for i, s := range r.Record.Path {
			steps += map[bool]string{true: " "}[i > 0] + s.Cause
		}
		got = append(got, steps)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		d.Errorf("the event records are %q, want %q", got, want)
	}
}

// An engine that starts when all others are gone finds every time in the journal, including
// times that have passed meanwhile.
func TestEscalationOutlivesEngines(t *testing.T) {
	inDays(t, escalating, func(d *days) {
		d.propose()
		if err := d.approve("ann"); err != nil {
			d.Fatal(err)
		}
		for _, e := range d.engines {
			if err := e.Close(); err != nil {
				d.Error(err)
			}
		}
		time.Sleep(21 * time.Hour)
		d.start()
		c := d.pass(time.Second)
		if c.Step != 2 || len(c.Votes) != 1 {
			d.Errorf("at step %d with the votes %+v", c.Step, c.Votes)
		}
		d.wantMay(map[string]bool{"cy": true})
		d.wantPath("propose ask", "vote", "escalate", "vote")
	})
}

// An answer at the exact time of a step does not depend on which timer ran first.
func TestResponseOnTheMoment(t *testing.T) {
	rule := escalating
	rule.Quorum = 1
	inDays(t, rule, func(d *days) {
		d.propose()
		time.Sleep(time.Hour) // the engines' timers run at this instant as well
		if err := d.approve("bob"); err != nil {
			d.Errorf("bob, at the moment from which he may answer: %v", err)
		}
		if c := d.pass(time.Second); c.State != message.ToolCallSubmitted || c.Votes[0].Step != 1 {
			d.Errorf("the call is %s with %+v", c.State, c.Votes)
		}
	})
}

// An edit does not extend the deadline, and people whom the plan has already asked can still
// answer.
func TestEditGoesOnInThePlan(t *testing.T) {
	rule := escalating
	rule.Quorum = 2
	inDays(t, rule, func(d *days) {
		first := d.propose()
		d.pass(2 * time.Hour)
		input := `{"n":1}`
		again, err := d.engines[1].As(toolcall.Principal{Role: toolcall.RoleApprover, Name: "bob"}).SubmitResponse(d.Context(), toolcall.Response{Key: key, Kind: toolcall.ResponseApprove, Digest: first.Digest, Input: &input})
		if err != nil {
			d.Fatal(err)
		}
		r := again.Request.Requirement
		if again.Digest == first.Digest || again.Step != 1 || !r.Deadline.Equal(first.Request.Requirement.Deadline) || len(again.Tally().Approvals) != 1 {
			d.Errorf("asked again at step %d until %s with %+v", again.Step, r.Deadline, again.Tally())
		}
		d.wantMay(map[string]bool{"cy": false})
		d.wantMay(map[string]bool{"ann": true}) // this approves the call
		if c := d.now(); c.State != message.ToolCallSubmitted || c.Input != input {
			d.Errorf("the call is %s with %s", c.State, c.Input)
		}
	})
}

// A clock that is set back does not undo an escalation, and one that is set forward does not
// let an expired approval request be answered.
func TestStepsOfThePlan(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := toolcall.Requirement{
		Deadline: now.Add(24 * time.Hour), OnExpiry: toolcall.OnExpiryEscalate, FinalDeadline: now.Add(48 * time.Hour),
		Approvers: []toolcall.ApproverSet{{Users: []string{"ann"}, Escalation: []toolcall.EscalationStep{{At: now.Add(time.Hour), Users: []string{"bob"}}}}},
	}
	for _, tc := range []struct {
		step int
		may  string
	}{{-1, "ann"}, {0, "ann"}, {1, "ann bob"}, {2, "bob"}, {9, "bob"}} {
		var may []string
		for _, name := range []string{"ann", "bob", "cy", ""} {
			if r.Accepts(toolcall.Vote{By: toolcall.Principal{Name: name}, Step: tc.step}) {
				may = append(may, name)
			}
		}
		if got := strings.Join(may, " "); got != tc.may {
			t.Errorf("at step %d %s may answer, want %s", tc.step, got, tc.may)
		}
	}
	c := &toolcall.Call{State: message.ToolCallAsking, Step: 1, Request: &toolcall.ApprovalRequest{Requirement: r}}
	for at, want := range map[time.Duration]int{-time.Hour: 1, 0: 1, 24 * time.Hour: 2, 1000 * time.Hour: 2} {
		if got := engine.StepAt(c, now.Add(at)); got != want {
			t.Errorf("after %s the plan is at step %d, want %d", at, got, want)
		}
	}
}

// People are reminded only of an approval request that has had no response for a while.
func TestReminders(t *testing.T) {
	inDays(t, permission.Rule{Quorum: 2}, func(d *days) {
		d.start(engine.WithReminders(time.Hour))
		for _, e := range d.engines[:2] {
			if err := e.Close(); err != nil {
				d.Error(err)
			}
		}
		d.engines = d.engines[2:]
		d.propose()
		step := func(name string, wait time.Duration, want int) {
			d.Helper()
			before := d.hints.count()
			d.pass(wait)
			if got := d.hints.count() - before; got != want {
				d.Errorf("%s: %d hints in %s, want %d", name, got, wait, want)
			}
		}
		step("open", 3*24*time.Hour, 72)
		step("half an hour", 30*time.Minute, 0)
		if err := d.approve("ann"); err != nil {
			d.Fatal(err)
		}
		step("after a vote", 59*time.Minute, 0)
		step("an hour after a vote", time.Minute, 1)
		if err := d.approve("bob"); err != nil {
			d.Fatal(err)
		}
		step("answered", 24*time.Hour, 0)
	})
	if _, err := engine.New("default", engine.NewMemory(), nil, nil, engine.WithReminders(-1)); err == nil {
		t.Error("reminders every -1 ns were accepted")
	}
}

// A wait for a whole reply has its call while the engine forgets the call.
func TestWaitWhileTheCallIsForgotten(t *testing.T) {
	policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{{Name: "r", Tools: []string{"t"}, Behavior: message.BehaviorAsk}}}, permission.Options{Enforced: engine.Duties()})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New("default", engine.NewMemory(), policy, []engine.Tool{{Tool: permission.Tool{Name: "t"}, Placement: toolcall.PlaceExternal}}, engine.WithKeep(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	bot := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	for i := range 200 {
		s := message.SessionID(fmt.Sprint("s", i))
		_, err := bot.Propose(t.Context(), toolcall.ProposeRequest{Session: s, Reply: "r", Calls: []message.ToolCallBlock{{ID: "c", Name: "t", Input: `{}`}}})
		if err != nil {
			t.Fatal(err)
		}
		out, err := bot.Wait(t.Context(), toolcall.WaitRequest{Session: s, Reply: "r", Until: toolcall.UntilParked}) // a busy engine may ask later
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for open := true; open; {
					w, err := bot.Wait(t.Context(), toolcall.WaitRequest{Session: s, Reply: "r", Until: toolcall.UntilParked})
					if err != nil || len(w.Calls) != 1 {
						t.Errorf("round %d: the wait has %d calls, %v", i, len(w.Calls), err)
						return
					}
					open = w.Calls[0].Open()
				}
			})
		}
		if _, err := approver(e, "ann").SubmitResponse(t.Context(), toolcall.Response{Key: out.Calls[0].Key, Digest: out.Calls[0].Digest, Kind: toolcall.ResponseReject}); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
	}
}

// People hear of the calls that they were asked about, once for each record. Calls that the policy
// allows cause no notifications, because each makes every inbox read the list again.
func TestHintsAreOfRequests(t *testing.T) {
	inDays(t, permission.Rule{Quorum: 1, Approvers: permission.Approvers{Groups: []string{"team"}}}, func(d *days) {
		d.rules = []permission.Rule{{Name: "r", Tools: []string{"t"}, Behavior: message.BehaviorAllow}}
		d.start()
		e := d.engines[2]
		report := func(call message.CallID) {
			key := key
			key.Call = call
			if _, err := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Report(d.Context(), toolcall.ReportRequest{Key: key, Result: message.ToolResultBlock{State: message.ToolResultSuccess}}); err != nil {
				d.Fatal(err)
			}
		}
		if _, err := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(d.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{{ID: "allowed", Name: "t", Input: `{}`}}}); err != nil {
			d.Fatal(err)
		}
		report("allowed")
		if n := d.hints.count(); n != 0 {
			d.Errorf("%d notifications of a call that the policy allowed", n)
		}
		d.propose() // to the first engine, which asks
		d.wantMay(map[string]bool{"ann": true})
		report("c")
		if n := d.hints.count(); n != 3 {
			d.Errorf("%d notifications of a request that opened, was approved and whose call finished, want 3", n)
		}
	})
}

// sleeper runs each call for ten seconds, and counts the heartbeats that its engine sends.
type sleeper struct {
	hints
	beats atomic.Int64
}

func (s *sleeper) Has(string) bool { return true }

func (s *sleeper) Run(context.Context, toolcall.Invocation, func(string)) message.ToolResultBlock {
	time.Sleep(10 * time.Second)
	return message.ToolResultBlock{State: message.ToolResultSuccess}
}

func (s *sleeper) Beat(toolcall.Queue, string, toolcall.HeartbeatRequest) { s.beats.Add(1) }

// An engine sends heartbeats for a local run while it lasts: four in each lease.
func TestLocalRunSendsHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &days{T: t, journal: engine.NewMemory()}
		policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{{Name: "r", Tools: []string{"t"}, Behavior: message.BehaviorAllow}}}, permission.Options{Enforced: engine.Duties()})
		if err != nil {
			t.Fatal(err)
		}
		s := &sleeper{}
		e, err := engine.New("default", d.journal, policy, []engine.Tool{{Tool: permission.Tool{Name: "t"}, Lease: 4 * time.Second}}, engine.WithExecutor(s), engine.WithSignals(s))
		if err == nil {
			err = e.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() }) // its error does not matter to a test
		d.engines = append(d.engines, e)
		d.propose()
		if c := d.pass(9500 * time.Millisecond); c.Phase() != toolcall.PhaseRunning || s.beats.Load() != 9 {
			t.Errorf("%s after 9.5 s, with %d heartbeats", c.Phase(), s.beats.Load())
		}
		if c := d.pass(time.Minute); c.Phase() != toolcall.PhaseFinished || s.beats.Load() > 10 {
			t.Errorf("%s after 69.5 s, with %d heartbeats", c.Phase(), s.beats.Load())
		}
	})
}
