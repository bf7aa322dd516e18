package engine_test

import (
	"crypto/ed25519"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func workerCases() []engineCase {
	return []engineCase{
		{"submit, start, heartbeat, progress, result", remoteCall},
		{"the grant", grantVerifies},
		{"the same claim again", sameClaim},
		{"another claim is superseded", otherClaim},
		{"one of many claims wins", oneClaimWins},
		{"a worker rejects a task", workerRejects},
		{"workers reject a task too often", workersRejectTooOften},
		{"only remote calls are started by workers", startOnlyRemote},
		{"a worker of another tool", otherTool},
		{"a dead worker, idempotent", deadWorkerIdempotent},
		{"a dead worker, not idempotent", deadWorkerUnknown},
		{"heartbeats keep the lease", heartbeatsKeep},
		{"heartbeats seen by another replica keep the lease", heartbeatsElsewhere},
		{"revoke before the start", revokeBeforeStart},
		{"the signed start reply", startReplyVerifies},
		{"a start for an older grant", olderGrant},
		{"an attempt given back before it began", givenBack},
		{"a held attempt given back", heldGivenBack},
		{"attempts given back do not count as lost", givenBackIsNotLost},
		{"revoked after it was given back", revokedAfterGivenBack},
		{"an attempt that the worker may not give back", notTheirsToGiveBack},
		{"denied after it was given back", deniedAfterGivenBack},
	}
}

func startRequest(c *toolcall.Call, claim string) toolcall.StartRequest {
	return toolcall.StartRequest{Key: c.Key, Attempt: max(c.Attempt.Number, 1), Claim: claim}
}

func resultRequest(c *toolcall.Call, claim, text string) toolcall.ResultRequest {
	return toolcall.ResultRequest{Key: c.Key, Attempt: max(c.Attempt.Number, 1), Claim: claim,
		Result: message.ToolResultBlock{State: message.ToolResultSuccess, Output: message.Content{Text: text}}}
}

func beatRequest(c *toolcall.Call, claim string) toolcall.HeartbeatRequest {
	return toolcall.HeartbeatRequest{Key: c.Key, Attempt: max(c.Attempt.Number, 1), Claim: claim}
}

// start claims an attempt, checks the reply, and notes the effect.
func (r *replica) start(c *toolcall.Call, worker, claim string) toolcall.StartReply {
	r.w.Helper()
	reply, err := r.worker(worker).Start(r.w.Context(), startRequest(c, claim))
	if err != nil {
		r.w.Fatalf("start %s: %v", c.Key, err)
	}
	if reply.LeaseMS <= 0 || reply.HeartbeatMS <= 0 || reply.HeartbeatMS > reply.LeaseMS/2 || reply.IdempotencyKey != c.IdempotencyKey() {
		r.w.Errorf("the reply to the start is %+v", reply)
	}
	r.w.effects.happened(run{key: c.Key, tool: c.Tool, input: c.Input, attempt: max(c.Attempt.Number, 1), claim: claim, owner: worker, idem: reply.IdempotencyKey})
	return reply
}

// submit proposes one remote call.
func (r *replica) submit(id message.CallID, tool string) *toolcall.Call {
	r.w.Helper()
	c := r.propose(call(id, tool, `{"n":1}`))[0]
	if c.State != message.ToolCallSubmitted || c.Attempt.Number != 1 || c.Attempt.Grant == nil || c.Started() {
		r.w.Fatalf("a remote call is %s", describe(c))
	}
	return c
}

func remoteCall(w *world) {
	e := w.engine()
	c := e.submit("c", remote)
	e.start(c, "w1", "x")
	reply, err := e.worker("w1").Heartbeat(w.Context(), beatRequest(c, "x"))
	if err != nil || reply.At.IsZero() || reply != (toolcall.HeartbeatReply{At: reply.At}) {
		w.Errorf("the heartbeat returned %+v, %v", reply, err)
	}
	w.must(e.worker("w1").Progress(w.Context(), toolcall.ProgressRequest{Key: c.Key, Attempt: 1, Claim: "x", N: 1, Text: "half"}))
	if got := w.hub.progressOf(c.Key); len(got) != 1 || got[0].Text != "half" {
		w.Errorf("progress is %+v", got)
	}
	res, err := e.worker("w1").Result(w.Context(), resultRequest(c, "x", "done"))
	if err != nil || !res.Stored || res.State != message.ToolCallFinished {
		w.Errorf("the result returned %+v, %v", res, err)
	}
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "done")
	w.wantPath(c.Key, "propose+allow+submit start result")
}

func grantVerifies(w *world) {
	_, key, err := ed25519.GenerateKey(nil)
	w.must(err)
	e := w.engine(engine.WithSigningKey(key))
	c := e.submit("c", remote)
	rec, err := w.journal.Last(w.Context(), c.Key)
	w.must(err)
	record := rec.Record
	if record.WorkQueue() != (toolcall.Queue{Tool: remote}) {
		w.Fatalf("the event record is not a task in its tool's queue: %s", record.WorkQueue())
	}
	req, g := *record.Call.Request, record.Call.Attempt.Grant
	right := toolcall.NewKeySet(e.PublicKey())
	if err := g.VerifyQueue(right, req, toolcall.Queue{Tool: remote}, 1, time.Now()); err != nil {
		w.Errorf("the grant does not verify: %v", err)
	}
	if g.IdempotencyKey != c.IdempotencyKey() || req.Input != record.Call.Input || len(g.Approvals) == 0 || g.Nonce == "" {
		w.Errorf("the grant is %+v for %+v", g, req)
	}
	other, _, err := ed25519.GenerateKey(nil)
	w.must(err)
	changed := req
	changed.Input = `{"n":2}`
	forged := *g
	forged.Tool = rm
	for name, err := range map[string]error{
		"another key":      g.VerifyQueue(toolcall.NewKeySet(other), req, toolcall.Queue{Tool: remote}, 1, time.Now()),
		"no key":           g.VerifyQueue(nil, req, toolcall.Queue{Tool: remote}, 1, time.Now()),
		"other arguments":  g.VerifyQueue(right, changed, toolcall.Queue{Tool: remote}, 1, time.Now()),
		"another tool":     g.VerifyQueue(right, req, toolcall.Queue{Tool: once}, 1, time.Now()),
		"a changed grant":  forged.VerifyQueue(right, req, toolcall.Queue{Tool: rm}, 1, time.Now()),
		"another attempt":  g.VerifyQueue(right, req, toolcall.Queue{Tool: remote}, 2, time.Now()),
		"before its time":  g.VerifyQueue(right, req, toolcall.Queue{Tool: remote}, 1, time.Now().Add(-time.Hour)),
		"after its expiry": g.VerifyQueue(right, req, toolcall.Queue{Tool: remote}, 1, g.Expires),
	} {
		if err == nil {
			w.Errorf("the grant verifies with %s", name)
		}
	}
}

func sameClaim(w *world) {
	e, other := w.engine(), w.engine()
	c := e.submit("c", remote)
	first := e.start(c, "w1", "x")
	size := len(w.records())
	for _, r := range []*replica{e, other} {
		again, err := r.worker("w1").Start(w.Context(), startRequest(c, "x"))
		if err != nil || again.LeaseMS != first.LeaseMS || !again.Deadline.Equal(first.Deadline) || again.IdempotencyKey != first.IdempotencyKey {
			w.Errorf("the same claim got %+v, %v, before %+v", again, err, first)
		}
	}
	w.wantSize(size)
}

func otherClaim(w *world) {
	e := w.engine()
	c := e.submit("c", remote)
	_, err := e.worker("w1").Start(w.Context(), toolcall.StartRequest{Key: c.Key, Attempt: 2, Claim: "x"})
	w.wantErr(err, message.ErrSuperseded)
	e.start(c, "w1", "x")
	size := len(w.records())
	for _, r := range []struct{ worker, claim string }{{"w1", "y"}, {"w2", "y"}, {"w2", "x"}} {
		_, err := e.worker(r.worker).Start(w.Context(), startRequest(c, r.claim))
		w.wantErr(err, message.ErrSuperseded)
		beat, err := e.worker(r.worker).Heartbeat(w.Context(), beatRequest(c, r.claim))
		if err != nil || !beat.Cancel || !beat.Stale {
			w.Errorf("the heartbeat of %+v got %+v, %v", r, beat, err)
		}
		w.wantErr(e.worker(r.worker).Progress(w.Context(), toolcall.ProgressRequest{Key: c.Key, Attempt: 1, Claim: r.claim}), message.ErrSuperseded)
	}
	w.wantSize(size)
	if got := w.hub.progressOf(c.Key); len(got) != 0 {
		w.Errorf("progress from other workers was passed on: %+v", got)
	}
}

func oneClaimWins(w *world) {
	engines := []*replica{w.engine(), w.engine()}
	c := engines[0].submit("c", remote)
	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			_, err := engines[i%2].worker(fmt.Sprint("w", i)).Start(w.Context(), startRequest(c, fmt.Sprint("claim", i)))
			if err == nil {
				won.Add(1)
			} else if code := message.AsError("", err).Code; code != message.CodeSuperseded {
				w.Errorf("a loser got %v", err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		w.Errorf("%d workers may run it", won.Load())
	}
	w.wantPath(c.Key, "propose+allow+submit start")
}

// workerRejects checks that a worker that cannot verify a grant does not end the call. Another
// worker gets the next attempt, and people see who returned the task.
func workerRejects(w *world) {
	e := w.engine()
	c := e.submit("c", remote)
	r := startRequest(c, "x")
	r.Refuse = "no such engine key"
	_, err := e.worker("w1").Start(w.Context(), r)
	w.wantErr(err, message.ErrSuperseded)
	rep, err := e.operator().Show(w.Context(), toolcall.ShowRequest{Key: c.Key})
	w.must(err)
	if got := rep.Call; !got.Open() || got.Returned == nil || got.Returned.Worker != "w1" || got.Returned.Reason != "no such engine key" || got.Returned.Times != 1 {
		w.Errorf("the call is %s with the return %+v", got.Phase(), got.Returned)
	}
	info, err := e.operator().Info(w.Context())
	w.must(err)
	if info.Returned != 1 {
		w.Errorf("%d calls count as returned, want 1", info.Returned)
	}
	next := e.waitFor(c.Key, "offered again", func(c *toolcall.Call) bool { return c.Phase() == toolcall.PhaseQueued })
	size := len(w.records())
	_, err = e.worker("w1").Start(w.Context(), r) // as if the reply was lost
	w.wantErr(err, message.ErrSuperseded)
	w.wantSize(size)
	e.start(next, "w2", "y")
	_, err = e.worker("w2").Result(w.Context(), resultRequest(next, "y", "done"))
	w.must(err)
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "done")
	w.wantPath(c.Key, "propose+allow+submit return offer start result")
	begun := e.submit("d", remote)
	e.start(begun, "w1", "x")
	r = startRequest(begun, "y")
	r.Refuse = "mine"
	_, err = e.worker("w2").Start(w.Context(), r)
	w.wantErr(err, message.ErrSuperseded)
}

// workersRejectTooOften checks that retries are bounded. Then the call waits for an operator,
// who can have it run again.
func workersRejectTooOften(w *world) {
	e := w.engine()
	c := e.submit("c", remote)
	for n := 1; n <= toolcall.MaxReturns; n++ {
		r := startRequest(c, fmt.Sprint("x", n))
		r.Refuse = "no such engine key"
		_, err := e.worker("w1").Start(w.Context(), r)
		w.wantErr(err, message.ErrSuperseded)
		c = e.waitFor(c.Key, "offered again or blocked", func(c *toolcall.Call) bool {
			return c.Phase() == toolcall.PhaseQueued || c.Phase() == toolcall.PhaseBlocked
		})
		if blocked := c.Blocked == toolcall.BlockedReturned; blocked != (n == toolcall.MaxReturns) {
			w.Fatalf("after %d returns the call is %s (%s)", n, c.Phase(), c.Blocked)
		}
	}
	_, err := e.operator().Resolve(w.Context(), toolcall.ResolveRequest{Key: c.Key, Attempt: c.Attempt.Number, Outcome: toolcall.OutcomeRunAgain})
	w.must(err)
	c = e.waitFor(c.Key, "offered again", func(c *toolcall.Call) bool { return c.Phase() == toolcall.PhaseQueued })
	if c.Returned != nil {
		w.Errorf("the new attempt has the return %+v", c.Returned)
	}
	e.start(c, "w2", "y")
}

// startOnlyRemote checks that no worker can start local or external calls. Local calls run in
// the engine, external calls outside askance, and neither has a grant.
func startOnlyRemote(w *world) {
	e := w.unstarted()
	e.tools.lacks(echo)
	w.must(e.Start(w.Context()))
	calls := e.propose(call("local", echo, `{}`), call("running", block, `{}`), call("out", external, `{}`), call("asking", deploy, `{}`))
	w.until("it runs", func() bool { return len(w.effects.of(w.key("running"))) == 1 })
	size := len(w.records())
	for _, c := range calls {
		for _, attempt := range []int{0, 1, 2} {
			if _, err := e.worker("w1").Start(w.Context(), toolcall.StartRequest{Key: c.Key, Attempt: attempt, Claim: "x"}); err == nil {
				w.Errorf("a worker was allowed to run the %s call %s", c.Placement, c.Call)
			}
		}
		if _, err := e.worker("w1").Result(w.Context(), resultRequest(c, "x", "forged")); err == nil {
			w.Errorf("a worker ended the %s call %s", c.Placement, c.Call)
		}
	}
	w.wantSize(size)
	w.wantRuns(w.key("local"), 0)
}

func otherTool(w *world) {
	e := w.engine()
	c := e.submit("c", remote)
	stranger := e.Worker(toolcall.Principal{Role: toolcall.RoleWorker, Name: "w1"}, toolcall.Queue{Tool: once})
	_, err := stranger.Start(w.Context(), startRequest(c, "x"))
	w.wantErr(err, message.ErrForbidden)
	e.start(c, "w1", "x")
	size := len(w.records())
	_, err = stranger.Heartbeat(w.Context(), beatRequest(c, "x"))
	w.wantErr(err, message.ErrForbidden)
	_, err = stranger.Result(w.Context(), resultRequest(c, "x", "done"))
	w.wantErr(err, message.ErrForbidden)
	w.wantErr(stranger.Progress(w.Context(), toolcall.ProgressRequest{Key: c.Key, Attempt: 1, Claim: "x"}), message.ErrForbidden)
	w.wantSize(size)
}

func deadWorkerIdempotent(w *world) {
	e := w.engine()
	c := e.submit("c", idem)
	e.start(c, "w1", "x")
	lost := e.waitFor(c.Key, "lost", func(c *toolcall.Call) bool { return !c.RetryAt.IsZero() || c.Attempt.Number == 2 })
	_, err := e.worker("w1").Start(w.Context(), startRequest(c, "x"))
	w.wantErr(err, message.ErrSuperseded)
	if lost.Attempt.Number == 1 && lost.Blocked != toolcall.NotBlocked {
		w.Errorf("the lost call is %s", describe(lost))
	}
	c = e.waitFor(c.Key, "offered again", func(c *toolcall.Call) bool { return c.Attempt.Number == 2 })
	if c.Started() || c.Attempt.Grant == nil || c.Attempt.Grant.Attempt != 2 {
		w.Errorf("the second attempt is %+v", c.Attempt)
	}
	if err := c.Attempt.Grant.VerifyQueue(toolcall.NewKeySet(e.PublicKey()), *c.Request, toolcall.Queue{Tool: idem}, 2, time.Now()); err != nil {
		w.Errorf("the second grant: %v", err)
	}
	if reply := e.start(c, "w2", "y"); reply.IdempotencyKey != c.IdempotencyKey() {
		w.Errorf("the second attempt has the key %s", reply.IdempotencyKey)
	}
	e.held(c.Key, toolcall.BlockedDeadLetter)
	w.wantPath(c.Key, "propose+allow+submit start lose offer start suspend")
}

func deadWorkerUnknown(w *world) {
	e := w.engine()
	c := e.submit("c", dies)
	e.start(c, "w1", "x")
	held := e.held(c.Key, toolcall.BlockedUnknown)
	if held.State != message.ToolCallSubmitted || held.Attempt.Number != 1 {
		w.Errorf("the call is %s", describe(held))
	}
	w.wantPath(c.Key, "propose+allow+submit start suspend")
	_, err := e.worker("w2").Start(w.Context(), startRequest(c, "y"))
	w.wantErr(err, message.ErrSuperseded)
	// The owner may never have received the reply to its start. It must not begin now, because a
	// person may be finding out at this moment that nothing happened.
	_, err = e.worker("w1").Start(w.Context(), startRequest(c, "x"))
	w.wantErr(err, message.ErrSuperseded)
}

func heartbeatsKeep(w *world) { keepAlive(w, w.engine(), nil) }

func heartbeatsElsewhere(w *world) {
	e := w.engine()
	keepAlive(w, e, w.engine())
}

// keepAlive sends heartbeats for longer than a lease, then lets the worker fall silent.
func keepAlive(w *world, e, watching *replica) {
	c := e.submit("c", steady)
	reply := e.start(c, "w1", "x")
	tick := time.NewTicker(time.Duration(reply.HeartbeatMS) * time.Millisecond)
	defer tick.Stop()
	for range 6 {
		<-tick.C
		if reply, err := e.worker("w1").Heartbeat(w.Context(), beatRequest(c, "x")); err != nil || reply.Cancel {
			w.Fatalf("a heartbeat got %+v, %v", reply, err)
		}
		if watching != nil { // a bus delivers it to every replica
			watching.ObserveHeartbeat("w1", c.Queue(), beatRequest(c, "x"))
			watching.ObserveHeartbeat("w2", c.Queue(), beatRequest(c, "x")) // not the owner
		}
	}
	w.wantPath(c.Key, "propose+allow+submit start")
	e.held(c.Key, toolcall.BlockedUnknown)
}

func revokeBeforeStart(w *world) {
	e := w.engine()
	c := e.submit("c", remote)
	got, err := e.operator().Revoke(w.Context(), toolcall.RevokeRequest{Key: c.Key, Reason: "changed my mind"})
	w.must(err)
	w.wantResult(got, message.ToolResultDenied, "changed my mind")
	_, err = e.worker("w1").Start(w.Context(), startRequest(c, "x"))
	w.wantErr(err, message.ErrFinished)
	begun := e.submit("d", remote)
	e.start(begun, "w1", "x")
	asking := e.ask("a", deploy, `{}`)
	size := len(w.records())
	for _, c := range []*toolcall.Call{begun, asking} {
		_, err = e.ann().Revoke(w.Context(), toolcall.RevokeRequest{Key: c.Key})
		w.wantErr(err, message.ErrState)
	}
	_, err = e.ann().Revoke(w.Context(), toolcall.RevokeRequest{Key: c.Key})
	w.wantErr(err, message.ErrFinished)
	w.wantSize(size)
}

func notBegun(c *toolcall.Call, claim string) toolcall.ResultRequest {
	return toolcall.ResultRequest{Key: c.Key, Attempt: c.Attempt.Number, Claim: claim, NotBegun: "the lease had passed"}
}

// startReplyVerifies checks that the reply to a start is signed for this exact request with
// the engine's current key.
func startReplyVerifies(w *world) {
	_, key, err := ed25519.GenerateKey(nil)
	w.must(err)
	e, other := w.engine(engine.WithSigningKey(key)), w.engine(engine.WithSigningKey(key))
	keys := toolcall.NewKeySet(key.Public().(ed25519.PublicKey))
	c := e.submit("c", steady)
	r := startRequest(c, "x")
	for i, from := range []*replica{e, e, other} {
		r.Request = string(rune('a' + i))
		reply, err := from.worker("w1").Start(w.Context(), r)
		w.must(err)
		if err := reply.Verify(keys, r, c.Attempt.Grant); err != nil {
			w.Errorf("request %d: %v", i, err)
		}
		if first := i == 0; reply.Fresh != first || reply.At.IsZero() || reply.LeaseMS != steadyLease.Milliseconds() {
			w.Errorf("request %d got %+v, want fresh %t", i, reply, first)
		}
	}
	r.Request = string(make([]byte, 129))
	_, err = e.worker("w1").Start(w.Context(), r)
	w.wantErr(err, message.ErrInvalid)
}

// olderGrant checks that a start that was on its way while the attempt was offered again is
// not stored, because its worker has dropped the task.
func olderGrant(w *world) {
	e := w.engine()
	c := e.submit("c", remote)
	r := startRequest(c, "x")
	r.Nonce = "of an older offer"
	_, err := e.worker("w1").Start(w.Context(), r)
	w.wantErr(err, message.ErrSuperseded)
	r.Nonce = c.Attempt.Grant.Nonce
	for range 2 {
		_, err = e.worker("w1").Start(w.Context(), r)
		w.must(err)
	}
}

// givenBack checks that the call is offered again, whether its tool is idempotent or not,
// because nothing ran.
func givenBack(w *world) {
	for id, tool := range map[message.CallID]string{"c1": once, "c2": idem} {
		e := w.engine()
		c := e.submit(id, tool)
		_, err := e.worker("w1").Start(w.Context(), startRequest(c, "x"))
		w.must(err)
		for range 2 { // sending it again changes nothing
			reply, err := e.worker("w1").Result(w.Context(), notBegun(c, "x"))
			if err == nil && !reply.Stored || err != nil && message.AsError("", err).Code != message.CodeSuperseded {
				w.Errorf("given back: %+v, %v", reply, err)
			}
		}
		_, err = e.worker("w1").Start(w.Context(), startRequest(c, "x"))
		w.wantErr(err, message.ErrSuperseded)
		_, err = e.worker("w1").Result(w.Context(), resultRequest(c, "x", "late"))
		w.must(err) // noted
		c = e.waitFor(c.Key, "offered again", func(c *toolcall.Call) bool { return c.Attempt.Number == 2 })
		if c.Started() || c.Attempt.Grant.Attempt != 2 || c.Blocked != toolcall.NotBlocked {
			w.Errorf("the second attempt is %+v", c.Attempt)
		}
		e.start(c, "w2", "y")
		res, err := e.worker("w2").Result(w.Context(), resultRequest(c, "y", "done"))
		if err != nil || !res.Stored {
			w.Errorf("result %+v, %v", res, err)
		}
		w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "done")
	}
}

// heldGivenBack checks that a call with an unknown outcome is offered again when its owner
// reports that nothing happened.
func heldGivenBack(w *world) {
	e := w.engine()
	c := e.submit("c", dies)
	_, err := e.worker("w1").Start(w.Context(), startRequest(c, "x"))
	w.must(err)
	e.held(c.Key, toolcall.BlockedUnknown)
	reply, err := e.worker("w1").Result(w.Context(), notBegun(c, "x"))
	if err != nil || !reply.Stored || reply.State != message.ToolCallSubmitted {
		w.Errorf("given back: %+v, %v", reply, err)
	}
	e.waitFor(c.Key, "offered again", func(c *toolcall.Call) bool { return c.Attempt.Number == 2 && !c.Started() })
	w.wantPath(c.Key, "propose+allow+submit start suspend return offer")
}

// givenBackIsNotLost checks that an attempt that never began does not count as one of the two
// attempts that the tool permits.
func givenBackIsNotLost(w *world) {
	e := w.engine()
	c := e.submit("c", steadyIdem)
	for n, claim := range []string{"x", "y"} {
		e.start(c, "w1", claim)
		if n == 0 {
			_, err := e.worker("w1").Result(w.Context(), notBegun(c, claim))
			w.must(err)
		}
		c = e.waitFor(c.Key, "offered again", func(c *toolcall.Call) bool { return c.Attempt.Number == n+2 && !c.Started() })
	}
	e.start(c, "w1", "z")
	if held := e.held(c.Key, toolcall.BlockedDeadLetter); held.Attempt.Number != 3 || held.Begun != 2 {
		w.Errorf("the call is %s, %d attempts began, want 2 of 3", describe(held), held.Begun)
	}
}

// revokedAfterGivenBack checks that the result says that nothing ran.
func revokedAfterGivenBack(w *world) {
	e := w.engine()
	c := e.submit("c", steady)
	e.start(c, "w1", "x")
	_, err := e.worker("w1").Result(w.Context(), notBegun(c, "x"))
	w.must(err)
	c = e.waitFor(c.Key, "offered again", func(c *toolcall.Call) bool { return c.Attempt.Number == 2 && !c.Started() })
	c, err = e.operator().Revoke(w.Context(), toolcall.RevokeRequest{Key: c.Key, Reason: "not now"})
	w.must(err)
	if c.Result == nil || c.Result.State != message.ToolResultDenied {
		w.Errorf("the revoked call has the result %+v, want denied", c.Result)
	}
}

func notTheirsToGiveBack(w *world) {
	e := w.engine()
	c := e.submit("c", remote)
	_, err := e.worker("w1").Result(w.Context(), notBegun(c, "x"))
	w.wantErr(err, message.ErrSuperseded) // no worker has it
	e.start(c, "w1", "x")
	size := len(w.records())
	for _, r := range []struct{ worker, claim string }{{"w1", "y"}, {"w2", "x"}} {
		_, err = e.worker(r.worker).Result(w.Context(), notBegun(c, r.claim))
		w.wantErr(err, message.ErrSuperseded)
	}
	_, err = e.Worker(toolcall.Principal{Role: toolcall.RoleWorker, Name: "w1"}, toolcall.Queue{Tool: once}).Result(w.Context(), notBegun(c, "x"))
	w.wantErr(err, message.ErrForbidden)
	r := resultRequest(c, "x", "done")
	r.NotBegun = "and it ran"
	_, err = e.worker("w1").Result(w.Context(), r)
	w.wantErr(err, message.ErrInvalid)
	w.wantSize(size)
	_, err = e.worker("w1").Result(w.Context(), resultRequest(c, "x", "done"))
	w.must(err)
	_, err = e.worker("w1").Result(w.Context(), notBegun(c, "x"))
	w.wantErr(err, message.ErrFinished)
}

// deniedAfterGivenBack checks that a deny rule that came into force meanwhile ends the call.
// Nothing ran, so the outcome is known.
func deniedAfterGivenBack(w *world) {
	e := w.engine()
	c := e.submit("c", steady)
	_, err := e.worker("w1").Start(w.Context(), startRequest(c, "x"))
	w.must(err)
	w.policy.use(w, append(rules(), permission.Rule{Name: "no more", Tools: []string{steady}, Behavior: message.BehaviorDeny})...)
	_, err = e.worker("w1").Result(w.Context(), notBegun(c, "x"))
	w.must(err)
	w.wantResult(e.finished(c.Key), message.ToolResultDenied, "")
	w.wantPath(c.Key, "propose+allow+submit start return revoke")
}

// An engine refuses to start with a lease that is too short for heartbeats to renew.
func TestShortestLease(t *testing.T) {
	for lease, good := range map[time.Duration]bool{
		0: true, time.Nanosecond: false, engine.MinLease - 1: false, engine.MinLease: true, time.Hour: true,
	} {
		_, err := engine.New("default", engine.NewMemory(), new(permission.Bundle), []engine.Tool{{Tool: permission.Tool{Name: "pay"}, Lease: lease}})
		if (err == nil) != good || err != nil && (!strings.Contains(err.Error(), `"pay"`) || !strings.Contains(err.Error(), "500ms")) {
			t.Errorf("an engine with a lease of %s: %v", lease, err)
		}
	}
}
