package engine_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func resultCases() []engineCase {
	return []engineCase{
		{"sent again", resultAgain},
		{"sent again without ids of blocks", resultAgainWithoutIDs},
		{"another one under the same claim", resultOther},
		{"from the wrong worker", resultWrongWorker},
		{"before the start", resultBeforeStart},
		{"for an older attempt", resultStale},
		{"for a blocked call", resultHeld},
		{"while the next attempt is due", resultBeforeRetry},
		{"from many senders at once", resultRaces},
		{"strangers cannot fill the journal", resultFlood},
		{"of every kind", resultKinds},
		{"that cannot be stored", resultUnfit},
	}
}

func resultAgain(w *world) {
	e, other := w.engine(), w.engine()
	c := e.submit("c", remote)
	e.start(c, "w1", "x")
	for i := range 3 {
		for _, r := range []*replica{e, other} {
			res, err := r.worker("w1").Result(w.Context(), resultRequest(c, "x", "done"))
			if err != nil || !res.Stored || res.State != message.ToolCallFinished {
				w.Errorf("sending %d to %s: %+v, %v", i, r.ID(), res, err)
			}
		}
	}
	w.wantPath(c.Key, "propose+allow+submit start result")
}

// Each request that names no ids of blocks gets others when it is read.
func resultAgainWithoutIDs(w *world) {
	e := w.engine()
	c := e.submit("c", remote)
	e.start(c, "w1", "x")
	for i := range 2 {
		r := resultRequest(c, "x", "")
		raw := `[{"type":"text","text":"a"},{"type":"data","source":{"media_type":"image/png","data":"AAAA"}}]`
		w.must(json.Unmarshal([]byte(raw), &r.Result.Output))
		res, err := e.worker("w1").Result(w.Context(), r)
		if err != nil || !res.Stored {
			w.Errorf("sending %d: %+v, %v", i, res, err)
		}
	}
	w.wantPath(c.Key, "propose+allow+submit start result")
	r := resultRequest(c, "x", "")
	w.must(json.Unmarshal([]byte(`[{"type":"text","text":"b"},{"type":"data","source":{"media_type":"image/png","data":"AAAA"}}]`), &r.Result.Output))
	if res, err := e.worker("w1").Result(w.Context(), r); err == nil && res.Stored {
		w.Errorf("another result was stored: %+v", res)
	}
}

func resultOther(w *world) {
	e := w.engine()
	c := e.submit("c", remote)
	e.start(c, "w1", "x")
	_, err := e.worker("w1").Result(w.Context(), resultRequest(c, "x", "done"))
	w.must(err)
	res, err := e.worker("w1").Result(w.Context(), resultRequest(c, "x", "something else"))
	if err == nil && res.Stored {
		w.Errorf("another result under the same claim was stored")
	}
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "done")
}

func resultWrongWorker(w *world) {
	e := w.engine()
	c := e.submit("c", remote)
	e.start(c, "w1", "x")
	for _, r := range []struct{ worker, claim string }{{"w2", "x"}, {"w2", "y"}, {"w1", "y"}} {
		res, err := e.worker(r.worker).Result(w.Context(), resultRequest(c, r.claim, "forged"))
		if err == nil && res.Stored {
			w.Errorf("the result of %+v was stored", r)
		}
	}
	w.must(second(e.worker("w1").Result(w.Context(), resultRequest(c, "x", "done"))))
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "done")
	if res, err := e.worker("w2").Result(w.Context(), resultRequest(c, "x", "done")); err == nil {
		w.Errorf("another worker is told that its result is stored: %+v", res)
	}
}

func second[T any](_ T, err error) error { return err }

func resultBeforeStart(w *world) {
	e := w.engine()
	c := e.submit("c", remote)
	res, err := e.worker("w1").Result(w.Context(), resultRequest(c, "x", "forged"))
	if err == nil && res.Stored {
		w.Error("a result without a start was stored")
	}
	_, err = e.worker("w1").Result(w.Context(), toolcall.ResultRequest{Key: w.key("unknown"), Attempt: 1, Claim: "x", Result: resultRequest(c, "x", "").Result})
	w.wantErr(err, message.ErrNotFound)
	e.start(c, "w1", "x") // the call can still be started
}

// resultStale checks that the late result of an attempt that was given up is only noted, and
// that the current attempt continues under its lease.
func resultStale(w *world) {
	e := w.engine()
	c := e.submit("c", idem)
	e.start(c, "w1", "x")
	c2 := e.waitFor(c.Key, "offered again", func(c *toolcall.Call) bool { return c.Attempt.Number == 2 })
	e.start(c2, "w2", "y")
	res, err := e.worker("w1").Result(w.Context(), resultRequest(c, "x", "late"))
	if err != nil || res.Stored || res.State != message.ToolCallSubmitted {
		w.Errorf("a stale result returned %+v, %v", res, err)
	}
	w.wantPath(c.Key, "propose+allow+submit start lose offer start note")
	show, err := e.operator().Show(w.Context(), toolcall.ShowRequest{Key: c.Key})
	w.must(err)
	if n := show.History[5].Note; n == nil || n.What != "late_result" || n.Attempt != 1 || n.Result.Output.Text != "late" {
		w.Errorf("the note says %+v", n)
	}
	held := e.held(c.Key, toolcall.BlockedDeadLetter) // the second worker also falls silent
	if held.Attempt.Number != 2 {
		w.Errorf("the call is %s", describe(held))
	}
}

// resultHeld checks that the owner's result ends a blocked call: only the owner knows it.
func resultHeld(w *world) {
	e := w.engine()
	c := e.submit("c", dies)
	e.start(c, "w1", "x")
	e.held(c.Key, toolcall.BlockedUnknown)
	res, err := e.worker("w1").Result(w.Context(), resultRequest(c, "x", "done after all"))
	if err != nil || !res.Stored {
		w.Errorf("the owner's result returned %+v, %v", res, err)
	}
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "done after all")
	w.wantPath(c.Key, "propose+allow+submit start suspend result")
}

func resultBeforeRetry(w *world) {
	e := w.engine()
	c := e.submit("c", idem)
	e.cord.onAppend(refuse(func(rec *toolcall.EventRecord) bool { return rec.Kind() == "offer" }, cutError("append")))
	e.start(c, "w1", "x")
	e.waitFor(c.Key, "given up", func(c *toolcall.Call) bool { return !c.RetryAt.IsZero() })
	_, err := e.worker("w2").Start(w.Context(), startRequest(c, "y"))
	w.wantErr(err, message.ErrSuperseded)
	res, err := e.worker("w1").Result(w.Context(), resultRequest(c, "x", "done after all"))
	if err != nil || !res.Stored {
		w.Errorf("the owner's result returned %+v, %v", res, err)
	}
	e.cord.onAppend(nil)
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "done after all")
	w.wantPath(c.Key, "propose+allow+submit start lose result")
}

func resultRaces(w *world) {
	engines := []*replica{w.engine(), w.engine()}
	c := engines[0].submit("c", remote)
	engines[0].start(c, "w1", "x")
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			_, err := engines[i%2].worker("w1").Result(w.Context(), resultRequest(c, "x", fmt.Sprint("result ", i%2)))
			if err != nil {
				w.Errorf("result: %v", err)
			}
		})
	}
	wg.Wait()
	if p := w.path(c.Key); !strings.HasPrefix(p, "propose+allow+submit start result") || strings.Count(p, "result") != 1 {
		w.Errorf("the history is %q", p)
	}
}

// resultFlood checks that the journal does not grow without bound, however much a worker sends
// that never owned the attempt.
func resultFlood(w *world) {
	e := w.engine()
	done, denied := e.submit("c", remote), e.propose(call("d", rm, `{}`))[0]
	e.start(done, "w1", "x")
	w.must(second(e.worker("w1").Result(w.Context(), resultRequest(done, "x", "done"))))
	size := len(w.records())
	for i := range 20 {
		for _, c := range []*toolcall.Call{done, denied} {
			_, err := e.worker("w2").Result(w.Context(), resultRequest(c, "y", fmt.Sprint("noise ", i)))
			w.wantErr(err, message.ErrFinished)
		}
	}
	w.wantSize(size)
	for i := range 20 {
		_, _ = e.worker("w1").Result(w.Context(), resultRequest(done, "x", fmt.Sprint("noise ", i%2)))
	}
	w.wantSize(size + 1) // one note for each attempt
}

func resultKinds(w *world) {
	e := w.engine()
	for _, state := range []message.ToolResultState{message.ToolResultSuccess, message.ToolResultError, message.ToolResultInterrupted, message.ToolResultDenied} {
		c := e.submit(message.CallID(state), remote)
		e.start(c, "w1", "x")
		r := resultRequest(c, "x", "")
		r.Result.State = state
		r.Result.Output = message.List(&message.TextBlock{Text: "a", ID: "1"}, &message.DataBlock{ID: "2", Source: &message.Base64Source{MediaType: "text/plain", Data: "eA=="}})
		r.Result.Metadata = map[string]any{"n": int64(1)}
		w.must(second(e.worker("w1").Result(w.Context(), r)))
		w.wantResult(e.finished(c.Key), state, "a")
	}
}

func resultUnfit(w *world) {
	e := w.engine()
	c := e.submit("c", remote)
	e.start(c, "w1", "x")
	size := len(w.records())
	deep := any("leaf")
	for range 100 {
		deep = []any{deep}
	}
	for name, row := range map[string]struct {
		change func(*message.ToolResultBlock)
		want   *message.Error
	}{
		"running":       {func(r *message.ToolResultBlock) { r.State = message.ToolResultRunning }, message.ErrInvalid},
		"no state":      {func(r *message.ToolResultBlock) { r.State = "" }, message.ErrInvalid},
		"unknown state": {func(r *message.ToolResultBlock) { r.State = "SUCCESS" }, message.ErrInvalid},
		"too large":     {func(r *message.ToolResultBlock) { r.Output.Text = strings.Repeat("x", toolcall.MaxOutputBytes) }, message.ErrTooLarge},
		"broken UTF-8":  {func(r *message.ToolResultBlock) { r.Output.Text = "\xff" }, message.ErrInvalid},
		"a channel":     {func(r *message.ToolResultBlock) { r.Metadata = map[string]any{"x": make(chan int)} }, message.ErrInvalid},
		"too deep":      {func(r *message.ToolResultBlock) { r.Metadata = map[string]any{"x": deep} }, message.ErrInvalid},
		"no number":     {func(r *message.ToolResultBlock) { r.Metadata = map[string]any{"x": math.NaN()} }, message.ErrInvalid},
	} {
		r := resultRequest(c, "x", "done")
		row.change(&r.Result)
		_, err := e.worker("w1").Result(w.Context(), r)
		if code := message.AsError("", orUnknown(err)).Code; code != row.want.Code {
			w.Errorf("%s: %v, want %s", name, err, row.want.Code)
		}
	}
	w.wantSize(size)
	w.must(second(e.worker("w1").Result(w.Context(), resultRequest(c, "x", "done"))))
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "done")
}

func resolveCases() []engineCase {
	return []engineCase{
		{"it happened", resolveHappened},
		{"it did not", resolveDidNot},
		{"run it again", resolveRunAgain},
		{"run a local call again", resolveLocalAgain},
		{"run again a call that is now denied", resolveDenied},
		{"a retry of a call that is now denied waits for a person", retryDenied},
		{"run again in an interrupted reply", resolveInterrupted},
		{"only blocked calls, only the current attempt", resolveFence},
		{"one of two operators wins", resolveRaces},
	}
}

// unknown makes a blocked call, whose worker started it and fell silent.
func (r *replica) unknown(id message.CallID) *toolcall.Call {
	r.w.Helper()
	c := r.submit(id, dies)
	r.start(c, "w1", "x-"+string(id))
	return r.held(c.Key, toolcall.BlockedUnknown)
}

func resolveRequest(c *toolcall.Call, o toolcall.Outcome) toolcall.ResolveRequest {
	return toolcall.ResolveRequest{Key: c.Key, Attempt: c.Attempt.Number, Outcome: o, Output: "the receipt", Note: "looked at the ledger"}
}

func resolveHappened(w *world) {
	e := w.engine()
	c, err := e.operator().Resolve(w.Context(), resolveRequest(e.unknown("c"), toolcall.OutcomeHappened))
	w.must(err)
	w.wantResult(c, message.ToolResultSuccess, "the receipt")
	if c.Result.Metadata["resolved_by"] != "olga" || c.Result.Metadata["note"] != "looked at the ledger" || c.Blocked != toolcall.NotBlocked {
		w.Errorf("resolved: %+v", c.Result)
	}
	w.wantPath(c.Key, "propose+allow+submit start suspend resolve")
}

func resolveDidNot(w *world) {
	e := w.engine()
	c, err := e.operator().Resolve(w.Context(), resolveRequest(e.unknown("c"), toolcall.OutcomeDidNot))
	w.must(err)
	w.wantResult(c, message.ToolResultError, "looked at the ledger")
}

func resolveRunAgain(w *world) {
	e := w.engine()
	c, err := e.operator().Resolve(w.Context(), resolveRequest(e.unknown("c"), toolcall.OutcomeRunAgain))
	w.must(err)
	if c.State != message.ToolCallSubmitted || c.Attempt.Number != 2 || c.Started() || c.Blocked != toolcall.NotBlocked || c.Attempt.Grant == nil {
		w.Fatalf("the call is %s", describe(c))
	}
	e.start(c, "w2", "y")
	w.must(second(e.worker("w2").Result(w.Context(), resultRequest(c, "y", "done"))))
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "done")
	w.wantPath(c.Key, "propose+allow+submit start suspend offer start result")
}

func resolveLocalAgain(w *world) {
	dying, e := w.engine(), w.engine()
	c := dying.propose(call("c", blockOnce, `{}`))[0]
	w.until("it runs", func() bool { return len(w.effects.of(c.Key)) == 1 })
	dying.kill()
	held := e.held(c.Key, toolcall.BlockedUnknown)
	w.effects.release(c.Key)
	_, err := e.operator().Resolve(w.Context(), resolveRequest(held, toolcall.OutcomeRunAgain))
	w.must(err)
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "ran")
	w.wantRuns(c.Key, 2)
	w.wantPath(c.Key, "propose+allow+start suspend offer+start result")
}

func resolveDenied(w *world) {
	e := w.engine()
	held := e.unknown("c")
	w.policy.use(w, append(rules(), noTool(dies))...)
	size := len(w.records())
	_, err := e.operator().Resolve(w.Context(), resolveRequest(held, toolcall.OutcomeRunAgain))
	w.wantErr(err, message.ErrForbidden)
	w.wantSize(size)
}

// retryDenied loses the first attempt, which may have had its effect, and denies a second one.
// Only a person can say how the call ended.
func retryDenied(w *world) {
	e := w.engine()
	c := e.submit("c", idem)
	e.start(c, "w1", "x")
	w.policy.use(w, append(rules(), noTool(idem))...)
	held := e.held(c.Key, toolcall.BlockedUnknown)
	size := len(w.records())
	_, err := e.operator().Resolve(w.Context(), resolveRequest(held, toolcall.OutcomeRunAgain))
	w.wantErr(err, message.ErrForbidden)
	w.wantSize(size)
	done, err := e.operator().Resolve(w.Context(), resolveRequest(held, toolcall.OutcomeHappened))
	w.must(err)
	w.wantResult(done, message.ToolResultSuccess, "the receipt")
	w.wantPath(c.Key, "propose+allow+submit start lose suspend resolve")
}

func resolveInterrupted(w *world) {
	e := w.engine()
	held := e.unknown("c")
	e.interrupt()
	_, err := e.operator().Resolve(w.Context(), resolveRequest(held, toolcall.OutcomeRunAgain))
	w.wantErr(err, message.ErrFinished)
	w.wantResult(e.finished(held.Key), message.ToolResultInterrupted, "")
}

func resolveFence(w *world) {
	e := w.engine()
	held := e.unknown("c")
	offered := e.submit("d", remote)
	begun := e.submit("e", remote)
	e.start(begun, "w1", "z")
	done := e.finished(e.propose(call("f", echo, `{}`))[0].Key)
	size := len(w.records())
	for _, outcome := range []toolcall.Outcome{toolcall.OutcomeHappened, toolcall.OutcomeDidNot, toolcall.OutcomeRunAgain} {
		for _, attempt := range []int{0, 2, -1} {
			r := resolveRequest(held, outcome)
			r.Attempt = attempt
			_, err := e.operator().Resolve(w.Context(), r)
			w.wantErr(err, message.ErrSuperseded)
		}
		for _, c := range []*toolcall.Call{offered, begun} {
			_, err := e.operator().Resolve(w.Context(), resolveRequest(c, outcome))
			w.wantErr(err, message.ErrState)
		}
		_, err := e.operator().Resolve(w.Context(), resolveRequest(done, outcome))
		w.wantErr(err, message.ErrFinished)
	}
	w.wantSize(size)
}

func resolveRaces(w *world) {
	engines := []*replica{w.engine(), w.engine()}
	held := engines[0].unknown("c")
	engines[1].held(held.Key, toolcall.BlockedUnknown)
	errs := make([]error, 12)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			outcome := []toolcall.Outcome{toolcall.OutcomeHappened, toolcall.OutcomeDidNot, toolcall.OutcomeRunAgain}[i%3]
			_, errs[i] = engines[i%2].operator().Resolve(w.Context(), resolveRequest(held, outcome))
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
		w.Errorf("%d operators resolved it: %q", won, w.path(held.Key))
	}
}
