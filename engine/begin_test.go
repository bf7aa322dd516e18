package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func beginCases() []engineCase {
	return []engineCase{
		{"once", begunOnce},
		{"two processes at the same time", begunTwice},
		{"or is ended", mustNotBegin},
		{"but not again after a revocation", notBegunAgain},
		{"and is revoked at the same time", begunWhileRevoked},
	}
}

func (r *replica) begin(key toolcall.Key, claim string) (*toolcall.Call, error) {
	return r.bot().Begin(r.w.Context(), toolcall.BeginRequest{Key: key, Claim: claim})
}

// begunOnce checks that only the process that was first may run a call, also after a restart, and
// that the call can no longer be revoked then.
func begunOnce(w *world) {
	e := w.engine()
	for id, end := range map[message.CallID]func(*replica, *toolcall.Call) (*toolcall.Call, error){
		"result": func(r *replica, c *toolcall.Call) (*toolcall.Call, error) {
			return r.bot().Report(w.Context(), toolcall.ReportRequest{Key: c.Key, Result: message.ToolResultBlock{State: message.ToolResultSuccess, Output: message.Content{Text: "done"}}})
		},
		"resolve": func(r *replica, c *toolcall.Call) (*toolcall.Call, error) {
			return r.operator().Resolve(w.Context(), toolcall.ResolveRequest{Key: c.Key, Attempt: c.Attempt.Number, Outcome: toolcall.OutcomeHappened, Output: "done"})
		},
	} {
		c := e.propose(call(id, external, `{}`))[0]
		first, err := e.begin(c.Key, "one")
		w.must(err)
		if first.Phase() != toolcall.PhaseRunning || first.Attempt.Worker != "bot" || first.Begun != 1 || first.Attempt.LeaseMS != 0 || first.Input != `{}` {
			w.Errorf("a call that began is %s with the attempt %+v", describe(first), first.Attempt)
		}
		other := w.engine()
		for _, r := range []*replica{e, other} {
			if again, err := r.begin(c.Key, "one"); err != nil || again.Seq != first.Seq {
				w.Errorf("the same claim again: %+v, %v", again, err)
			}
			_, err = r.begin(c.Key, "two")
			if err := w.refusal(err, message.ErrSuperseded); toolcall.CallOf(err) == nil {
				w.Errorf("the error for a second claim does not show the call")
			}
			_, err = r.operator().Revoke(w.Context(), toolcall.RevokeRequest{Key: c.Key})
			w.wantErr(err, message.ErrState)
			if out := r.wait(toolcall.UntilRunnable, time.Minute, id); !out.Done {
				w.Errorf("a process that asks for the call waits although another one runs it")
			}
		}
		c, err = end(other, first)
		w.must(err)
		w.wantResult(c, message.ToolResultSuccess, "done")
		w.wantPath(c.Key, "propose+allow+submit start "+string(id))
		_, err = e.begin(c.Key, "one")
		w.wantErr(err, message.ErrFinished)
	}
}

func begunTwice(w *world) {
	replicas := []*replica{w.engine(), w.engine(), w.engine()}
	for n := range 5 {
		c := replicas[0].propose(call(message.CallID(fmt.Sprint("c", n)), external, `{}`))[0]
		var mu sync.Mutex
		var began []string
		var all sync.WaitGroup
		for i, r := range replicas {
			all.Go(func() {
				claim := fmt.Sprint("claim", i)
				if c, err := r.begin(c.Key, claim); err == nil && c.Attempt.Claim == claim {
					mu.Lock()
					defer mu.Unlock()
					began = append(began, claim)
				}
			})
		}
		all.Wait()
		if len(began) != 1 {
			w.Errorf("%v may all run the call", began)
		}
	}
}

// mustNotBegin checks the calls that must not run, and says so as an error.
func mustNotBegin(w *world) {
	e := w.engine()
	calls := e.propose(call("revoked", external, `{}`), call("denied", external, `{"to":"x"}`), call("unknown", external, `{}`), call("local", block, `{}`), call("asking", askOut, `{}`))
	revoked, denied, unknown, local, asking := calls[0].Key, calls[1].Key, calls[2].Key, calls[3].Key, calls[4].Key
	_, err := e.operator().Revoke(w.Context(), toolcall.RevokeRequest{Key: revoked})
	w.must(err)
	_, err = e.begin(revoked, "x")
	w.wantResult(toolcall.CallOf(w.refusal(err, message.ErrFinished)), message.ToolResultDenied, "")
	_, err = e.bot().Report(w.Context(), toolcall.ReportRequest{Key: unknown, Unknown: true})
	w.must(err)
	for key, want := range map[toolcall.Key]*message.Error{unknown: message.ErrSuperseded, local: message.ErrState, asking: message.ErrState} {
		_, err = e.begin(key, "x")
		w.wantErr(err, want)
	}
	for _, claim := range []string{"", string(make([]byte, 129))} {
		_, err = e.begin(denied, claim)
		w.wantErr(err, message.ErrInvalid)
	}
	_, err = e.as(toolcall.RoleRuntime, "mallory").Begin(w.Context(), toolcall.BeginRequest{Key: denied, Claim: "x"})
	w.wantErr(err, message.ErrForeign)
	_, err = e.operator().Begin(w.Context(), toolcall.BeginRequest{Key: denied, Claim: "x"})
	w.wantErr(err, message.ErrForbidden)
	began := e.propose(call("began", external, `{}`))[0].Key
	_, err = e.begin(began, "x")
	w.must(err)
	w.policy.use(w, append(rules(), noTool(external))...)
	_, err = e.begin(began, "x")
	w.must(err) // a repeated request of the process that runs it
	_, err = e.begin(began, "y")
	w.wantErr(err, message.ErrForbidden) // not superseded: that lets a client run an idempotent tool again
	_, err = e.begin(denied, "x")
	w.wantResult(toolcall.CallOf(w.refusal(err, message.ErrFinished)), message.ToolResultDenied, "no-"+external)
	w.policy.use(w, rules()...)
	open := e.propose(call("open", external, `{}`), call("running", external, `{}`))
	_, err = e.begin(open[1].Key, "x")
	w.must(err)
	e.interrupt()
	for _, c := range open {
		_, err = e.begin(c.Key, "x")
		w.wantResult(toolcall.CallOf(w.refusal(err, message.ErrFinished)), message.ToolResultInterrupted, "interrupted")
	}
}

// notBegunAgain checks that no second process runs a call whose standing approval was revoked.
func notBegunAgain(w *world) {
	w.policy.use(w, permission.Rule{Name: "memory", Tools: []string{askOut}, Behavior: message.BehaviorAsk, Remember: &permission.Remember{TTL: time.Hour}})
	e := w.engine()
	s := e.remember(e.ask("first", askOut, `{}`), toolcall.StandingTerms{Scope: toolcall.ScopeSession})
	c := e.propose(call("second", askOut, `{}`))[0]
	w.until("the call can begin", func() bool { return w.known(c.Key).State == message.ToolCallSubmitted })
	_, err := e.begin(c.Key, "x")
	w.must(err)
	_, err = e.begin(c.Key, "y")
	w.wantErr(err, message.ErrSuperseded)
	w.must(second(e.operator().RevokeStandingApproval(w.Context(), toolcall.RevokeStandingApprovalRequest{ID: s.ID})))
	_, err = e.begin(c.Key, "y")
	w.wantErr(err, message.ErrForbidden)
	_, err = e.begin(c.Key, "x")
	w.must(err) // a repeated request of the process that runs it
}

// begunWhileRevoked checks that either the run or the revocation wins.
func begunWhileRevoked(w *world) {
	e, other := w.engine(), w.engine()
	for n := range 10 {
		c := e.propose(call(message.CallID(fmt.Sprint("c", n)), external, `{}`))[0]
		var begun, revoked error
		var both sync.WaitGroup
		both.Go(func() { _, begun = e.begin(c.Key, "x") })
		both.Go(func() { _, revoked = other.operator().Revoke(w.Context(), toolcall.RevokeRequest{Key: c.Key}) })
		both.Wait()
		if (begun == nil) == (revoked == nil) {
			w.Errorf("begin: %v, revoke: %v", begun, revoked)
		}
	}
}

// A call that its runtime runs has no lease: it stays with the runtime, also after a restart.
func TestBegunCallHasNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t.Context(), t, newMemory)
		e := w.engine()
		c := e.propose(call("c", external, `{}`))[0]
		_, err := e.begin(c.Key, "x")
		w.must(err)
		time.Sleep(time.Hour) // hundreds of leases of other calls
		later := w.engine()
		time.Sleep(time.Hour) // hundreds of leases of other calls
		for _, r := range []*replica{e, later} {
			if now := r.wait(toolcall.UntilParked, time.Millisecond, "c").Calls[0]; now.Phase() != toolcall.PhaseRunning {
				t.Errorf("the call is %s", describe(now))
			}
		}
		w.wantPath(c.Key, "propose+allow+submit start")
	})
}

// An engine whose own step about a call failed looks at the call again. It does not take the process
// that began it meanwhile for dead.
func TestBegunWhileAStepFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t.Context(), t, newMemory)
		w.policy.use(w, remembering(func(r *permission.Rule) { r.Tools = []string{askOut} }))
		e, other := w.engine(), w.engine()
		s := e.remember(e.ask("q", askOut, `{}`), toolcall.StandingTerms{Uses: 5, Scope: toolcall.ScopeSpace})
		other.knows(s)
		e.cord.onAppend(func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
			seq, err := store(ctx, rec, prev)
			if err != nil || rec.Kind() != "submit" {
				return seq, err
			}
			if _, err := other.begin(rec.Call.Key, "x"); err != nil {
				t.Errorf("begin: %v", err)
			}
			time.Sleep(time.Second) // until this engine has read it
			return 0, cutError("append")
		})
		c := e.propose(call("c", askOut, `{}`))[0]
		time.Sleep(time.Minute)
		if now := other.wait(toolcall.UntilParked, time.Millisecond, "c").Calls[0]; now.Phase() != toolcall.PhaseRunning {
			t.Errorf("the call is %s", describe(now))
		}
		w.wantPath(c.Key, "propose+allow submit start")
	})
}
