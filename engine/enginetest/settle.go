package enginetest

import (
	"sync"

	"github.com/askance-dev/askance/message"
)

func settleCases() []testCase[*world] {
	return []testCase[*world]{
		{"it happened", settleHappened},
		{"it did not", settleDidNot},
		{"run it again", settleRunAgain},
		{"run a local call again", settleLocalAgain},
		{"run again what is denied by now", settleDenied},
		{"a retry of what is denied by now waits for a person", retryDenied},
		{"run again in an interrupted reply", settleInterrupted},
		{"only held calls, only the present attempt", settleFence},
		{"of two operators one wins", settleRaces},
	}
}

// unknown makes a held call: its worker started and fell silent.
func (r *replica) unknown(id message.CallID) *message.Call {
	r.w.Helper()
	c := r.submit(id, dies)
	r.start(c, "w1", "x-"+string(id))
	return r.held(c.Key, message.HoldUnknown)
}

func settleRequest(c *message.Call, o message.Outcome) message.SettleRequest {
	return message.SettleRequest{Key: c.Key, Attempt: c.Attempt.Number, Outcome: o, Output: "the receipt", Note: "looked at the ledger"}
}

func settleHappened(w *world) {
	e := w.engine()
	c, err := e.operator().Settle(w.Context(), settleRequest(e.unknown("c"), message.OutcomeHappened))
	w.must(err)
	w.wantResult(c, message.ToolResultSuccess, "the receipt")
	if c.Result.Metadata["settled_by"] != "olga" || c.Result.Metadata["note"] != "looked at the ledger" || c.Hold != message.HoldNone {
		w.Errorf("settled: %+v", c.Result)
	}
	w.wantPath(c.Key, "propose+allow+submit start suspend settle")
}

func settleDidNot(w *world) {
	e := w.engine()
	c, err := e.operator().Settle(w.Context(), settleRequest(e.unknown("c"), message.OutcomeDidNot))
	w.must(err)
	w.wantResult(c, message.ToolResultError, "looked at the ledger")
}

func settleRunAgain(w *world) {
	e := w.engine()
	c, err := e.operator().Settle(w.Context(), settleRequest(e.unknown("c"), message.OutcomeRunAgain))
	w.must(err)
	if c.State != message.ToolCallSubmitted || c.Attempt.Number != 2 || c.Started() || c.Hold != message.HoldNone || c.Attempt.Grant == nil {
		w.Fatalf("the call is %s", describe(c))
	}
	e.start(c, "w2", "y")
	w.must(second(e.worker("w2").Result(w.Context(), resultRequest(c, "y", "done"))))
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "done")
	w.wantPath(c.Key, "propose+allow+submit start suspend offer start result")
}

func settleLocalAgain(w *world) {
	dying, e := w.engine(), w.engine()
	c := dying.propose(call("c", blockOnce, `{}`))[0]
	w.until("it runs", func() bool { return len(w.effects.of(c.Key)) == 1 })
	dying.kill()
	held := e.held(c.Key, message.HoldUnknown)
	w.effects.release(c.Key)
	_, err := e.operator().Settle(w.Context(), settleRequest(held, message.OutcomeRunAgain))
	w.must(err)
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "ran")
	w.wantRuns(c.Key, 2)
	w.wantPath(c.Key, "propose+allow+start suspend offer+start result")
}

func settleDenied(w *world) {
	e := w.engine()
	held := e.unknown("c")
	w.policy.use(w, append(rules(), noTool(dies))...)
	size := len(w.records())
	_, err := e.operator().Settle(w.Context(), settleRequest(held, message.OutcomeRunAgain))
	w.wantErr(err, message.ErrForbidden)
	w.wantSize(size)
}

// retryDenied: the first attempt was lost, so it may have had its effect; a
// second one is denied. Only a person can say how the call ended.
func retryDenied(w *world) {
	e := w.engine()
	c := e.submit("c", idem)
	e.start(c, "w1", "x")
	w.policy.use(w, append(rules(), noTool(idem))...)
	held := e.held(c.Key, message.HoldUnknown)
	size := len(w.records())
	_, err := e.operator().Settle(w.Context(), settleRequest(held, message.OutcomeRunAgain))
	w.wantErr(err, message.ErrForbidden)
	w.wantSize(size)
	done, err := e.operator().Settle(w.Context(), settleRequest(held, message.OutcomeHappened))
	w.must(err)
	w.wantResult(done, message.ToolResultSuccess, "the receipt")
	w.wantPath(c.Key, "propose+allow+submit start lose suspend settle")
}

func settleInterrupted(w *world) {
	e := w.engine()
	held := e.unknown("c")
	e.interrupt()
	_, err := e.operator().Settle(w.Context(), settleRequest(held, message.OutcomeRunAgain))
	w.wantErr(err, message.ErrFinished)
	w.wantResult(e.finished(held.Key), message.ToolResultInterrupted, "")
}

func settleFence(w *world) {
	e := w.engine()
	held := e.unknown("c")
	offered := e.submit("d", remote)
	begun := e.submit("e", remote)
	e.start(begun, "w1", "z")
	done := e.finished(e.propose(call("f", echo, `{}`))[0].Key)
	size := len(w.records())
	for _, outcome := range []message.Outcome{message.OutcomeHappened, message.OutcomeDidNot, message.OutcomeRunAgain} {
		for _, attempt := range []int{0, 2, -1} {
			r := settleRequest(held, outcome)
			r.Attempt = attempt
			_, err := e.operator().Settle(w.Context(), r)
			w.wantErr(err, message.ErrSuperseded)
		}
		for _, c := range []*message.Call{offered, begun} {
			_, err := e.operator().Settle(w.Context(), settleRequest(c, outcome))
			w.wantErr(err, message.ErrState)
		}
		_, err := e.operator().Settle(w.Context(), settleRequest(done, outcome))
		w.wantErr(err, message.ErrFinished)
	}
	w.wantSize(size)
}

func settleRaces(w *world) {
	engines := []*replica{w.engine(), w.engine()}
	held := engines[0].unknown("c")
	engines[1].held(held.Key, message.HoldUnknown)
	errs := make([]error, 12)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			outcome := []message.Outcome{message.OutcomeHappened, message.OutcomeDidNot, message.OutcomeRunAgain}[i%3]
			_, errs[i] = engines[i%2].operator().Settle(w.Context(), settleRequest(held, outcome))
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if message.AsError("", err).Call == nil {
			w.Errorf("a loser got %v without the winner's outcome", err)
		}
	}
	if won != 1 {
		w.Errorf("%d operators settled it: %q", won, w.path(held.Key))
	}
}
