package enginetest

import (
	"crypto/ed25519"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

func notBegun(c *message.Call, claim string) message.ResultRequest {
	return message.ResultRequest{Key: c.Key, Attempt: c.Attempt.Number, Claim: claim, NotBegun: "the lease had passed"}
}

// startReplyVerifies: a start is answered with the engine's signature, for this
// very request and by the key that signs now.
func startReplyVerifies(w *world) {
	_, key, err := ed25519.GenerateKey(nil)
	w.must(err)
	e, other := w.engine(engine.WithSigningKey(key)), w.engine(engine.WithSigningKey(key))
	keys := message.NewKeySet(key.Public().(ed25519.PublicKey))
	c := e.submit("c", once)
	r := startRequest(c, "x")
	for i, from := range []*replica{e, e, other} {
		r.Request = string(rune('a' + i))
		reply, err := from.worker("w1").Start(w.Context(), r)
		w.must(err)
		if err := reply.Verify(keys, r, c.Attempt.Grant); err != nil {
			w.Errorf("request %d: %v", i, err)
		}
		if first := i == 0; reply.Fresh != first || reply.At.IsZero() || reply.LeaseMS != brief.Milliseconds() {
			w.Errorf("request %d got %+v, want fresh %t", i, reply, first)
		}
	}
	r.Request = string(make([]byte, 129))
	_, err = e.worker("w1").Start(w.Context(), r)
	w.wantErr(err, message.ErrInvalid)
}

// olderGrant: a start that was under way while the attempt was offered again is
// not stored for a worker that has dropped the item.
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

// givenBack: nothing ran, so the call is offered again, whether its tool is
// idempotent or not.
func givenBack(w *world) {
	for id, tool := range map[message.CallID]string{"c1": once, "c2": idem} {
		e := w.engine()
		c := e.submit(id, tool)
		_, err := e.worker("w1").Start(w.Context(), startRequest(c, "x"))
		w.must(err)
		for range 2 { // sent again, it changes nothing
			reply, err := e.worker("w1").Result(w.Context(), notBegun(c, "x"))
			if err == nil && !reply.Stored || err != nil && message.AsError("", err).Code != message.CodeSuperseded {
				w.Errorf("given back: %+v, %v", reply, err)
			}
		}
		_, err = e.worker("w1").Start(w.Context(), startRequest(c, "x"))
		w.wantErr(err, message.ErrSuperseded)
		_, err = e.worker("w1").Result(w.Context(), resultRequest(c, "x", "late"))
		w.must(err) // noted
		c = e.waitFor(c.Key, "offered again", func(c *message.Call) bool { return c.Attempt.Number == 2 })
		if c.Started() || c.Attempt.Grant.Attempt != 2 || c.Hold != message.HoldNone {
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

// heldGivenBack: a call with an unknown outcome is offered again when its owner
// says that nothing happened.
func heldGivenBack(w *world) {
	e := w.engine()
	c := e.submit("c", dies)
	_, err := e.worker("w1").Start(w.Context(), startRequest(c, "x"))
	w.must(err)
	e.held(c.Key, message.HoldUnknown)
	reply, err := e.worker("w1").Result(w.Context(), notBegun(c, "x"))
	if err != nil || !reply.Stored || reply.State != message.ToolCallSubmitted {
		w.Errorf("given back: %+v, %v", reply, err)
	}
	e.waitFor(c.Key, "offered again", func(c *message.Call) bool { return c.Attempt.Number == 2 && !c.Started() })
	w.wantPath(c.Key, "propose+allow+submit start suspend return offer")
}

// givenBackIsNotLost: an attempt that never began is none of those that the tool
// permits, which are two.
func givenBackIsNotLost(w *world) {
	e := w.engine()
	c := e.submit("c", idem)
	for n, claim := range []string{"x", "y"} {
		e.start(c, "w1", claim)
		if n == 0 {
			_, err := e.worker("w1").Result(w.Context(), notBegun(c, claim))
			w.must(err)
		}
		c = e.waitFor(c.Key, "offered again", func(c *message.Call) bool { return c.Attempt.Number == n+2 && !c.Started() })
	}
	e.start(c, "w1", "z")
	if held := e.held(c.Key, message.HoldDeadLetter); held.Attempt.Number != 3 || held.Begun != 2 {
		w.Errorf("the call is %s, %d attempts began, want 2 of 3", describe(held), held.Begun)
	}
}

// revokedAfterGivenBack: nothing ran, and the result says so.
func revokedAfterGivenBack(w *world) {
	e := w.engine()
	c := e.submit("c", once)
	e.start(c, "w1", "x")
	_, err := e.worker("w1").Result(w.Context(), notBegun(c, "x"))
	w.must(err)
	c = e.waitFor(c.Key, "offered again", func(c *message.Call) bool { return c.Attempt.Number == 2 && !c.Started() })
	c, err = e.operator().Revoke(w.Context(), message.RevokeRequest{Key: c.Key, Reason: "not now"})
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
	_, err = e.Worker(message.Principal{Role: message.RoleWorker, Name: "w1"}, message.Lane{Tool: once}).Result(w.Context(), notBegun(c, "x"))
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

// deniedAfterGivenBack: nothing ran, so a deny that came into force since ends
// the call; nothing is unknown.
func deniedAfterGivenBack(w *world) {
	e := w.engine()
	c := e.submit("c", once)
	_, err := e.worker("w1").Start(w.Context(), startRequest(c, "x"))
	w.must(err)
	w.policy.use(w, append(rules(), permission.Rule{Name: "no more", Tools: []string{once}, Behavior: message.BehaviorDeny})...)
	_, err = e.worker("w1").Result(w.Context(), notBegun(c, "x"))
	w.must(err)
	w.wantResult(e.finished(c.Key), message.ToolResultDenied, "")
	w.wantPath(c.Key, "propose+allow+submit start return revoke")
}
