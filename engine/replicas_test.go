package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func replicaCases() []engineCase {
	return []engineCase{
		{"work through one is seen by the other", seenByOther},
		{"a lagging replica decides from the journal", laggingDecides},
		{"a lagging replica protects sessions", laggingSessions},
		{"the other takes over what was pending", takeOverPending},
		{"the other takes over timers", takeOverTimers},
		{"the other takes over a lease", takeOverLease},
		{"a long local run stays with its owner", longLocalRun},
		{"a replica that fell behind does no harm", fallenBehind},
		{"a run whose owner others believe dead is stopped", deafRun},
		{"the next attempt runs on the same engine", deafRunHere},
		{"a lagging replica knows all calls of a reply, in order", laggingReply},
		{"an engine that cannot follow the journal refuses", blindEngine},
	}
}

func seenByOther(w *world) {
	e, other := w.engine(), w.engine()
	for i := range 10 {
		id := message.CallID(fmt.Sprint("c", i))
		e.ask(id, pay, `{"amount":500}`)
		list, err := other.bot().List(w.Context(), toolcall.ListRequest{Session: "s", Call: id, States: []message.ToolCallState{message.ToolCallAsking}})
		w.must(err)
		if len(list.Calls) != 1 {
			w.Fatalf("the approval request %s is open, but the other replica lists %d calls", id, len(list.Calls))
		}
		_, err = other.ann().SubmitResponse(w.Context(), approve(list.Calls[0]))
		w.must(err)
		out, err := e.bot().Wait(w.Context(), toolcall.WaitRequest{Session: "s", Reply: "r", TimeoutMS: patience.Milliseconds()})
		if err != nil || !out.Done || len(out.Calls) != i+1 {
			w.Fatalf("wait: %d calls, done %v, %v", len(out.Calls), out.Done, err)
		}
	}
}

// laggingDecides checks that a replica whose view is stuck answers every request from the
// journal's last record.
func laggingDecides(w *world) {
	e, other := w.engine(), w.engine()
	q := e.ask("a", pay, `{"amount":500}`)
	q2 := e.ask("b", pay, `{"amount":500}`)
	c := e.submit("c", remote)
	other.state(q.Key, message.ToolCallAsking)
	other.state(c.Key, message.ToolCallSubmitted)
	catchUp := other.cord.lag()
	_, err := e.ann().SubmitResponse(w.Context(), reject(q))
	w.must(err)
	again, err := e.ann().SubmitResponse(w.Context(), edit(q2, `{"amount":50,"currency":"USD"}`))
	w.must(err)
	e.start(c, "w1", "x")
	d := e.ask("d", deploy, `{}`)

	_, err = other.bob().SubmitResponse(w.Context(), approve(q))
	if e := w.refusal(err, message.ErrFinished); toolcall.CallOf(e) == nil || toolcall.CallOf(e).Cause != "reject" {
		w.Errorf("the loser sees %+v", toolcall.CallOf(e))
	}
	_, err = other.bob().SubmitResponse(w.Context(), approve(q2))
	if e := w.refusal(err, message.ErrDigest); toolcall.CallOf(e) == nil || toolcall.CallOf(e).Digest != again.Digest {
		w.Errorf("the loser sees %+v", toolcall.CallOf(e))
	}
	_, err = other.worker("w2").Start(w.Context(), startRequest(c, "y"))
	w.wantErr(err, message.ErrSuperseded)
	beat, err := other.worker("w1").Heartbeat(w.Context(), beatRequest(c, "x"))
	if err != nil || beat.Cancel {
		w.Errorf("the owner's heartbeat got %+v, %v", beat, err)
	}
	same, err := other.bot().Propose(w.Context(), request(call("d", deploy, `{}`)))
	if err != nil || same.Calls[0].Digest != d.Digest {
		w.Errorf("proposed again on a lagging replica: %+v, %v", same.Calls, err)
	}
	w.must(second(other.worker("w1").Result(w.Context(), resultRequest(c, "x", "done"))))
	catchUp()
	w.wantResult(other.finished(c.Key), message.ToolResultSuccess, "done")
	w.wantPath(c.Key, "propose+allow+submit start result")
}

func laggingSessions(w *world) {
	e, other := w.engine(), w.engine()
	catchUp := other.cord.lag()
	defer catchUp()
	e.propose(call("c", block, `{}`))
	size := len(w.records())
	stranger := other.as(toolcall.RoleRuntime, "other")
	_, err := stranger.Propose(w.Context(), request(call("d", echo, `{}`)))
	w.wantErr(err, message.ErrForeign)
	_, err = stranger.Interrupt(w.Context(), toolcall.InterruptRequest{Session: "s", Reply: "r"})
	w.wantErr(err, message.ErrForeign)
	_, err = stranger.Events(w.Context(), toolcall.EventsRequest{Session: "s"})
	w.wantErr(err, message.ErrForeign)
	_, err = stranger.Wait(w.Context(), toolcall.WaitRequest{Session: "s", Reply: "r", TimeoutMS: 1})
	w.wantErr(err, message.ErrForeign)
	_, err = stranger.Emit(w.Context(), toolcall.EmitRequest{Session: "s", Reply: "r", Events: []message.RawJSON{event(1)}})
	w.wantErr(err, message.ErrForeign)
	w.wantSize(size)
}

// takeOverPending lets the engine that wrote the end of a call die before it handles the
// calls that waited for that call.
func takeOverPending(w *world) {
	e, other := w.engine(), w.engine()
	e.propose(call("a", deploy, `{}`), call("b", deploy, `{}`))
	e.propose(call("c", note, `{}`), call("d", serial, `{}`))
	e.cord.onAppend(cutAfter(e, func(rec *toolcall.EventRecord) bool { return rec.Kind() == "reject" }))
	_, err := e.ann().SubmitResponse(w.Context(), reject(e.state(w.key("a"), message.ToolCallAsking)))
	w.must(err)
	b := other.state(w.key("b"), message.ToolCallAsking)
	e.kill()
	_, err = other.ann().SubmitResponse(w.Context(), approve(b))
	w.must(err)
	other.finished(b.Key)
	_, err = other.ann().SubmitResponse(w.Context(), reject(other.state(w.key("c"), message.ToolCallAsking)))
	w.must(err)
	w.wantResult(other.finished(w.key("d")), message.ToolResultSuccess, "ran")
}

func takeOverTimers(w *world) {
	w.policy.use(w, append(rules(), permission.Rule{Name: "quick", Tools: []string{deploy}, Behavior: message.BehaviorAsk, Expiry: 300 * time.Millisecond})...)
	e, other := w.engine(), w.engine()
	q := e.ask("a", deploy, `{}`)
	e.kill()
	w.wantResult(other.finished(q.Key), message.ToolResultDenied, "no approver responded")
	w.wantPath(q.Key, "propose+ask expire")
}

func takeOverLease(w *world) {
	e, other := w.engine(), w.engine()
	c, d := e.submit("c", once), e.submit("d", idem)
	e.start(c, "w1", "x")
	e.start(d, "w1", "y")
	local := e.propose(call("l", blockIdem, `{}`))[0]
	w.until("it runs", func() bool { return len(w.effects.of(local.Key)) == 1 })
	e.kill()
	other.held(c.Key, toolcall.BlockedUnknown)
	other.waitFor(d.Key, "offered again", func(c *toolcall.Call) bool { return c.Attempt.Number == 2 })
	w.until("the local call runs again", func() bool { return len(w.effects.of(local.Key)) == 2 })
	w.effects.release(local.Key)
	other.finished(local.Key)
}

// longLocalRun checks that an engine sends heartbeats for its runs, so that no other engine
// takes them over.
func longLocalRun(w *world) {
	e := w.engine()
	w.engine()
	c := e.propose(call("c", blockOnce, `{}`))[0]
	timer := time.NewTimer(3 * brief)
	defer timer.Stop()
	<-timer.C
	w.wantPath(c.Key, "propose+allow+start")
	w.effects.release(c.Key)
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "ran")
}

// fallenBehind lets a replica miss a series of events and then act on its old view.
func fallenBehind(w *world) {
	e, other := w.engine(), w.engine()
	e.propose(call("a", note, `{}`), call("b", blockIdem, `{}`), call("c", echo, `{}`))
	other.state(w.key("c"), message.ToolCallPending)
	catchUp := other.cord.lag()
	_, err := e.ann().SubmitResponse(w.Context(), approve(e.state(w.key("a"), message.ToolCallAsking)))
	w.must(err)
	w.until("b runs", func() bool { return len(w.effects.of(w.key("b"))) == 1 })
	timer := time.NewTimer(2 * brief)
	defer timer.Stop()
	<-timer.C
	w.effects.release(w.key("b"))
	e.finished(w.key("c"))
	catchUp()
	other.finished(w.key("c"))
	for _, id := range []message.CallID{"a", "b", "c"} {
		w.wantRuns(w.key(id), 1)
	}
}

// deafRun lets the other engines no longer hear the owner of a local run. The next attempt
// belongs to another engine, and the first run receives a cancel.
func deafRun(w *world) {
	e := w.engine()
	c := e.propose(call("c", blockIdem, `{}`))[0]
	w.until("it runs", func() bool { return len(w.effects.of(c.Key)) == 1 })
	w.hub.leave(e)
	w.engine()
	w.until("the first run was stopped", func() bool { return strings.Contains(w.path(c.Key), "note") })
	w.effects.release(c.Key)
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "ran")
	w.wantRuns(c.Key, 2)
}

// deafRunHere is like deafRun, but the next attempt runs on the engine that still runs the
// first one.
func deafRunHere(w *world) {
	e := w.engine()
	c := e.propose(call("c", blockIdem, `{}`))[0]
	w.until("it runs", func() bool { return len(w.effects.of(c.Key)) == 1 })
	w.hub.leave(e)
	other := w.unstarted()
	other.tools.lacks(blockIdem)
	w.must(other.Start(w.Context()))
	w.until("it runs again", func() bool { return len(w.effects.of(c.Key)) == 2 })
	w.hub.join(e) // the others hear it from now on
	w.until("the first run was stopped", func() bool { return strings.Contains(w.path(c.Key), "note") })
	w.effects.release(c.Key)
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "ran")
}

// laggingReply uses a replica whose view has gaps and receives a later call before an earlier
// one.
func laggingReply(w *world) {
	e, other := w.engine(), w.engine()
	e.propose(call("a", rm, `{}`))
	other.finished(w.key("a"))
	w.until("other has a in its view", func() bool { return len(other.wait(toolcall.UntilParked, time.Millisecond, "a").Calls) == 1 })
	catchUp := other.cord.lag()
	defer catchUp()
	for _, id := range []message.CallID{"b", "c", "d"} {
		e.propose(call(id, external, `{}`))
	}
	_, err := other.ann().SubmitResponse(w.Context(), toolcall.Response{Key: w.key("d"), Kind: toolcall.ResponseReject, Digest: "x"})
	w.wantErr(err, message.ErrState)
	out := other.wait(toolcall.UntilFinished, time.Millisecond)
	if out.Done || names(out.Calls) != "a b c d" {
		w.Errorf("the wait of a lagging replica: done %v, calls %q", out.Done, names(out.Calls))
	}
	list, err := other.bot().List(w.Context(), toolcall.ListRequest{Session: "s"})
	if err != nil || names(list.Calls) != "b c d" {
		w.Errorf("the list of a lagging replica: %q, %v", names(list.Calls), err)
	}
}

// blindEngine checks that an engine whose watch has ended refuses requests, because it would
// wait for news forever.
func blindEngine(w *world) {
	e := w.engine()
	e.propose(call("c", external, `{}`))
	waiting := make(chan error, 2)
	go func() {
		_, err := e.bot().Wait(w.Context(), toolcall.WaitRequest{Session: "s", Reply: "r"})
		waiting <- err
	}()
	go func() {
		_, err := e.bot().Events(w.Context(), toolcall.EventsRequest{Session: "empty", WaitMS: patience.Milliseconds()})
		waiting <- err
	}()
	size := len(w.records())
	e.cord.cut()
	for range 2 {
		w.wantErr(<-waiting, message.ErrUnavailable)
	}
	if err := <-e.Failed(); err == nil || errors.Is(err, engine.ErrStopping) {
		w.Errorf("the engine failed with %v", err)
	}
	_, err := e.bot().Propose(w.Context(), request(call("d", echo, `{}`)))
	w.wantErr(err, message.ErrUnavailable)
	w.wantSize(size)
}
