package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func restartCases() []engineCase {
	ends := []struct {
		name string
		end  func(*replica)
	}{{"closed", (*replica).stop}, {"killed", (*replica).kill}}
	var cases []engineCase
	for _, c := range []struct {
		name string
		run  func(w *world, end func(*replica))
	}{
		{"while asking", restartAsking},
		{"while hidden and waiting for a turn", restartPending},
		{"while submitted", restartSubmitted},
		{"while a worker runs it", restartBegun},
		{"while allowed and not begun", restartAllowed},
		{"while an external party has it", restartExternal},
	} {
		for _, e := range ends {
			cases = append(cases, engineCase{c.name + ", " + e.name, func(w *world) { c.run(w, e.end) }})
		}
	}
	return append(cases,
		engineCase{"while it runs locally, not idempotent", restartLocalUnknown},
		engineCase{"while it runs locally, idempotent", restartLocalRetried},
		engineCase{"closing waits for running calls", closeDrains},
		engineCase{"closed twice", closedTwice},
		engineCase{"a blocked call", restartHeld},
		engineCase{"a finished journal", restartFinished},
	)
}

func restartAsking(w *world, end func(*replica)) {
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	end(e)
	e = w.engine()
	again := e.state(q.Key, message.ToolCallAsking)
	if again.Digest != q.Digest || again.Request.Input != q.Request.Input {
		w.Errorf("the approval request changed: %+v, was %+v", again.Request, q.Request)
	}
	list, err := e.bot().List(w.Context(), toolcall.ListRequest{Session: "s"})
	if err != nil || len(list.Calls) != 1 {
		w.Errorf("the runtime finds %d open calls, %v", len(list.Calls), err)
	}
	_, err = e.ann().SubmitResponse(w.Context(), approve(q))
	w.must(err)
	w.wantResult(e.finished(q.Key), message.ToolResultSuccess, "ran")
	w.wantRuns(q.Key, 1)
}

func restartPending(w *world, end func(*replica)) {
	e := w.engine()
	e.propose(call("a", deploy, `{}`), call("b", deploy, `{}`))
	e.propose(call("c", note, `{}`), call("d", serial, `{}`))
	end(e)
	e = w.engine()
	for _, id := range []message.CallID{"a", "b", "c"} {
		_, err := e.ann().SubmitResponse(w.Context(), approve(e.state(w.key(id), message.ToolCallAsking)))
		w.must(err)
		w.wantResult(e.finished(w.key(id)), message.ToolResultSuccess, "ran")
	}
	w.wantResult(e.finished(w.key("d")), message.ToolResultSuccess, "ran")
}

func restartSubmitted(w *world, end func(*replica)) {
	e := w.engine()
	c := e.submit("c", remote)
	end(e)
	e = w.engine()
	e.start(c, "w1", "x")
	w.must(second(e.worker("w1").Result(w.Context(), resultRequest(c, "x", "done"))))
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "done")
}

func restartBegun(w *world, end func(*replica)) {
	e := w.engine()
	kept, lost := e.submit("c", remote), e.submit("d", dies)
	e.start(kept, "w1", "x")
	e.start(lost, "w1", "y")
	end(e)
	e = w.engine()
	if reply, err := e.worker("w1").Heartbeat(w.Context(), beatRequest(kept, "x")); err != nil || reply.Cancel {
		w.Errorf("the worker's heartbeat after the restart got %+v, %v", reply, err)
	}
	w.must(second(e.worker("w1").Result(w.Context(), resultRequest(kept, "x", "done"))))
	w.wantResult(e.finished(kept.Key), message.ToolResultSuccess, "done")
	e.held(lost.Key, toolcall.BlockedUnknown)
}

func restartAllowed(w *world, end func(*replica)) {
	e := w.unstarted()
	e.tools.lacks(echo)
	w.must(e.Start(w.Context()))
	c := e.propose(call("c", echo, `{}`))[0]
	end(e)
	e = w.engine()
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "ran")
	w.wantRuns(c.Key, 1)
}

func restartExternal(w *world, end func(*replica)) {
	e := w.engine()
	c := e.propose(call("c", external, `{}`))[0]
	end(e)
	e = w.engine()
	got, err := e.bot().Report(w.Context(), toolcall.ReportRequest{Key: c.Key, Result: resultRequest(c, "", "done").Result})
	w.must(err)
	w.wantResult(got, message.ToolResultSuccess, "done")
}

// restartLocalUnknown checks that no engine runs a call again whose effect may have taken place.
func restartLocalUnknown(w *world) {
	e := w.engine()
	c := e.propose(call("c", blockOnce, `{}`))[0]
	w.until("it runs", func() bool { return len(w.effects.of(c.Key)) == 1 })
	e.kill()
	e = w.engine()
	e.held(c.Key, toolcall.BlockedUnknown)
	w.wantRuns(c.Key, 1)
	w.wantPath(c.Key, "propose+allow+start suspend")
}

func restartLocalRetried(w *world) {
	e := w.engine()
	c := e.propose(call("c", blockIdem, `{}`))[0]
	w.until("it runs", func() bool { return len(w.effects.of(c.Key)) == 1 })
	e.kill()
	e = w.engine()
	w.until("it runs again", func() bool { return len(w.effects.of(c.Key)) == 2 })
	w.effects.release(c.Key)
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "ran")
	runs := w.effects.of(c.Key)
	if runs[0].idem != runs[1].idem || runs[0].attempt != 1 || runs[1].attempt != 2 {
		w.Errorf("the runs are %+v", runs)
	}
	w.wantPath(c.Key, "propose+allow+start lose offer+start result")
}

func closeDrains(w *world) {
	e := w.engine(engine.WithDrain(patience))
	c := e.propose(call("c", block, `{}`))[0]
	w.until("it runs", func() bool { return len(w.effects.of(c.Key)) == 1 })
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		e.stop()
	}()
	w.until("the engine accepts no more calls", func() bool {
		_, err := e.bot().Propose(w.Context(), request(call("late", echo, `{}`)))
		return err != nil
	})
	w.effects.release(c.Key)
	<-closed
	other := w.engine()
	w.wantResult(other.finished(c.Key), message.ToolResultSuccess, "ran")
	list, err := other.operator().List(w.Context(), toolcall.ListRequest{})
	w.must(err)
	for _, open := range list.Calls {
		if open.Started() {
			w.Errorf("the closing engine started %s and did not run it", open.Key)
		}
	}
}

func closedTwice(w *world) {
	e := w.engine()
	e.stop()
	e.stop()
	_, err := e.bot().Propose(w.Context(), request(call("c", echo, `{}`)))
	w.wantErr(err, message.ErrUnavailable)
	_, err = e.ann().SubmitResponse(w.Context(), toolcall.Response{Key: w.key("c")})
	w.wantErr(err, message.ErrUnavailable)
	_, err = e.operator().List(w.Context(), toolcall.ListRequest{})
	w.wantErr(err, message.ErrUnavailable)
	unstarted := w.unstarted()
	w.must(unstarted.Close())
}

func restartHeld(w *world) {
	e := w.engine()
	held := e.unknown("c")
	e.kill()
	e = w.engine()
	list, err := e.operator().List(w.Context(), toolcall.ListRequest{Phases: []toolcall.Phase{toolcall.PhaseBlocked}})
	if err != nil || len(list.Calls) != 1 || list.Calls[0].Blocked != toolcall.BlockedUnknown {
		w.Fatalf("blocked after the restart: %+v, %v", list.Calls, err)
	}
	_, err = e.operator().Resolve(w.Context(), resolveRequest(held, toolcall.OutcomeHappened))
	w.must(err)
	e.finished(held.Key)
}

// restartFinished checks that an engine that starts on a journal in which every call is
// finished writes nothing.
func restartFinished(w *world) {
	e := w.engine()
	e.finished(e.propose(call("a", echo, `{}`))[0].Key)
	e.propose(call("b", rm, `{}`))
	e.finished(e.propose(call("c", serial, `{}`))[0].Key)
	e.propose(call("d", block, `{}`))
	e.interrupt()
	w.until("the result of the cancelled run is noted as late", func() bool { return w.path(w.key("d")) == "propose+allow+start interrupt note" })
	e.stop()
	size := len(w.records())
	e = w.engine()
	w.wantResult(e.propose(call("a", echo, `{}`))[0], message.ToolResultSuccess, "ran")
	info, err := e.operator().Info(w.Context())
	if err != nil || info.Open != 0 || info.Blocked != 0 || info.Durability != w.journal.Durability() {
		w.Errorf("info is %+v, %v", info, err)
	}
	w.wantSize(size)
}

// deathCases let the engine that does the work die before or right after each of its writes.
// The client then turns to another engine. Nothing may be lost and nothing may run twice.
func deathCases() []engineCase {
	var cases []engineCase
	for n := int32(1); n <= storyWrites; n++ {
		for _, stored := range []bool{false, true} {
			name := fmt.Sprintf("before write %d", n)
			if stored {
				name = fmt.Sprintf("after write %d", n)
			}
			cases = append(cases, engineCase{name, func(w *world) { diesAt(w, n, stored) }})
		}
	}
	return cases
}

// storyWrites is the number of records that the story of diesAt writes: the session's owner,
// three proposals, an answer, two starts and three results.
const storyWrites = 10

// mortal is an engine that dies with its n-th write, and another engine.
type mortal struct {
	w        *world
	e, other *replica
}

// ask calls do with the mortal engine, and with the other one if that fails.
func (m *mortal) ask(what string, do func(*replica) error) {
	m.w.Helper()
	err := do(m.e)
	if err == nil {
		return
	}
	if code := message.AsError("", err).Code; code != message.CodeUnavailable {
		m.w.Fatalf("%s: the dying engine returned %v", what, err)
	}
	if err := do(m.other); err != nil {
		m.w.Fatalf("%s: the other engine returned %v", what, err)
	}
}

// work starts a remote call and sends its result, as one worker.
func (m *mortal) work(c *toolcall.Call) {
	m.w.Helper()
	ctx, started := m.w.Context(), false
	m.ask("start", func(r *replica) error {
		reply, err := r.worker("w1").Start(ctx, startRequest(c, "x"))
		if err == nil && !started {
			started = true
			m.w.effects.happened(run{key: c.Key, tool: c.Tool, input: c.Input, attempt: 1, claim: "x", owner: "w1", idem: reply.IdempotencyKey})
		}
		return err
	})
	m.ask("result", func(r *replica) error { return second(r.worker("w1").Result(ctx, resultRequest(c, "x", "done"))) })
}

func diesAt(w *world, n int32, stored bool) {
	m := &mortal{w: w, e: w.engine(), other: w.engine()}
	var writes atomic.Int32
	m.e.cord.onAppend(func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
		if writes.Add(1) != n {
			return store(ctx, rec, prev)
		}
		if stored {
			if _, err := store(ctx, rec, prev); err != nil {
				w.Errorf("the last write: %v", err)
			}
		}
		m.e.cord.cut()
		return 0, cutError("append")
	})
	var calls []*toolcall.Call
	m.ask("propose", func(r *replica) error {
		out, err := r.bot().Propose(w.Context(), request(call("local", again, `{}`), call("asks", askRemote, `{}`), call("remote", remote, `{}`)))
		calls = out.Calls
		return err
	})
	m.ask("submit_response", func(r *replica) error {
		_, err := r.ann().SubmitResponse(w.Context(), approve(calls[1]))
		if e := message.AsError("", orUnknown(err)); e.Code == message.CodeFinished || e.Code == message.CodeState {
			return nil // the answer was stored, but the reply to it was lost
		}
		return err
	})
	m.work(calls[1])
	m.work(calls[2])
	w.until("the engine has written for the last time", func() bool { return writes.Load() >= n }) // the local result may be written last
	m.e.kill()
	for _, c := range calls {
		w.wantResult(m.other.finished(c.Key), message.ToolResultSuccess, "")
	}
	w.wantRuns(calls[1].Key, 1)
	w.wantRuns(calls[2].Key, 1)
}
