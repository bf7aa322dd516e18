package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func interruptCases() []engineCase {
	return []engineCase{
		{"open calls in every state", interruptEveryState},
		{"an interrupted reply accepts no more calls", interruptedTakesNoMore},
		{"an unknown reply", interruptUnknown},
		{"a local run is cancelled", interruptCancelsLocal},
		{"a local run on another engine is cancelled", interruptCancelsElsewhere},
		{"a proposal that races an interrupt", interruptRace},
		{"an answer that races an interrupt", interruptAnswerRace},
		{"an interrupt whose request is given up", interruptGivenUp},
		{"an interrupt whose engine dies", interruptEngineDies},
		{"a proposal whose engine dies during an interrupt", proposerDies},
		{"interrupted twice", interruptedTwice},
		{"an interrupt after the end", interruptAfterEnd},
		{"an interrupt that races the end", interruptEndRace},
		{"an interrupt of a call proposed after the end", interruptLateCall},
	}
}

const replyEnd = `{"type":"REPLY_END","session_id":"s","finished_reason":"completed","error":null}`

// replyEnds counts the end events of a reply, and those that do not say completed.
func (r *replica) replyEnds(reply message.ReplyID) (all, interrupted int) {
	r.w.Helper()
	page, err := r.bot().Events(r.w.Context(), toolcall.EventsRequest{Session: "s", Reply: reply})
	r.w.must(err)
	for _, e := range page.Events {
		if strings.Contains(string(e.Event), `"REPLY_END"`) {
			all++
			if !strings.Contains(string(e.Event), `"completed"`) {
				interrupted++
			}
		}
	}
	return all, interrupted
}

// interruptLateCall checks that an engine whose view lags closes a call that another engine
// accepted.
func interruptLateCall(w *world) {
	e, other := w.engine(), w.engine()
	w.must(e.emit(replyEnd))
	other.interrupt() // nothing is open yet, and the other engine's view has the end of the reply
	catchUp := other.cord.lag()
	q := e.ask("b", pay, `{"amount":500}`)
	other.interrupt()
	catchUp()
	w.wantResult(e.finished(q.Key), message.ToolResultInterrupted, "interrupted")
}

// interruptAfterEnd checks that an interrupt closes the calls that the runtime left open, and
// that the reply stays completed.
func interruptAfterEnd(w *world) {
	e := w.engine()
	q := e.ask("b", pay, `{"amount":500}`)
	w.must(e.emit(replyEnd))
	w.must(e.emit(replyEnd)) // sent again
	for range 2 {
		w.engine().interrupt()
	}
	w.wantResult(e.finished(q.Key), message.ToolResultInterrupted, "interrupted")
	if all, interrupted := e.replyEnds("r"); all != 1 || interrupted != 0 {
		w.Errorf("%d ends, %d of them interrupted", all, interrupted)
	}
	if got := types(w, e.events(0, 0)); strings.Contains(got, "USER_INTERRUPT") {
		w.Errorf("the events are\n%s", got)
	}
}

// interruptEndRace checks that a reply ends once: the first of the two ends it.
func interruptEndRace(w *world) {
	a, b := w.engine(), w.engine()
	for round := range 30 {
		reply := message.ReplyID(fmt.Sprint("r", round))
		emit := func(kind string) error {
			raw := message.RawJSON(fmt.Sprintf(`{"type":%q,"reply_id":%q,"session_id":"s","name":"bot","finished_reason":"completed"}`, kind, reply))
			_, err := a.bot().Emit(w.Context(), toolcall.EmitRequest{Session: "s", Reply: reply, Events: []message.RawJSON{raw}})
			return err
		}
		w.must(emit("REPLY_START"))
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := emit("REPLY_END"); err != nil {
				w.Errorf("emit: %v", err)
			}
		})
		wg.Go(func() {
			if _, err := b.bot().Interrupt(w.Context(), toolcall.InterruptRequest{Session: "s", Reply: reply}); err != nil {
				w.Errorf("interrupt: %v", err)
			}
		})
		wg.Wait()
		if all, _ := a.replyEnds(reply); all != 1 {
			w.Fatalf("the reply has %d ends:\n%s", all, types(w, a.events(0, 0)))
		}
	}
}

func ruleWhen(name, tool string, b message.Behavior, when string) permission.Rule {
	return permission.Rule{Name: name, Tools: []string{tool}, Behavior: b, When: when}
}

func (r *replica) interrupt() []*toolcall.Call {
	r.w.Helper()
	out, err := r.bot().Interrupt(r.w.Context(), toolcall.InterruptRequest{Session: "s", Reply: "r", Reason: "enough"})
	if err != nil {
		r.w.Fatalf("interrupt: %v", err)
	}
	return out.Calls
}

func interruptEveryState(w *world) {
	e := w.engine()
	e.tools.lacks(typed)
	e.propose(call("pending", block, `{}`), call("turn", blockTurn, `{}`), call("hidden-by", deploy, `{}`), call("hidden", deploy, `{}`),
		call("allowed", typed, `{"n":1}`), call("offered", remote, `{}`), call("begun", remote, `{}`), call("out", external, `{}`))
	w.effects.release(w.key("pending"))
	e.waitFor(w.key("turn"), "started", (*toolcall.Call).Started)
	e.interrupt()
	for _, id := range []message.CallID{"turn", "hidden-by", "hidden", "allowed", "offered", "begun", "out"} {
		c := e.finished(w.key(id))
		w.wantResult(c, message.ToolResultInterrupted, "interrupted")
	}
	w.wantResult(e.finished(w.key("pending")), message.ToolResultSuccess, "")

	// without a batch, so that each call is in the state that its id names
	req := toolcall.ProposeRequest{Session: "s", Reply: "r2", Calls: []message.ToolCallBlock{
		call("asking", deploy, `{}`), call("hidden", deploy, `{}`), call("allowed", typed, `{"n":1}`), call("offered", remote, `{}`),
		call("begun", remote, `{}`), call("running", block, `{}`), call("out", external, `{}`), call("done", echo, `{}`), call("denied", rm, `{}`),
	}}
	_, err := e.bot().Propose(w.Context(), req)
	w.must(err)
	at := func(id message.CallID) toolcall.Key { k := w.key(id); k.Reply = "r2"; return k }
	_, err = e.worker("w1").Start(w.Context(), toolcall.StartRequest{Key: at("begun"), Attempt: 1, Claim: "x"})
	w.must(err)
	e.finished(at("done"))
	out, err := e.ann().Interrupt(w.Context(), toolcall.InterruptRequest{Session: "s", Reply: "r2"})
	w.must(err)
	if len(out.Calls) != 7 {
		w.Errorf("the interrupt closed %q, want 7 calls", names(out.Calls))
	}
	for _, c := range out.Calls {
		w.wantResult(c, message.ToolResultInterrupted, "interrupted")
	}
	if cancels := w.hub.cancelsFor(at("begun")); len(cancels) != 1 || cancels[0].worker != "w1" || cancels[0].beat.Claim != "x" {
		w.Errorf("the worker was told %+v", cancels)
	}
	beat, err := e.worker("w1").Heartbeat(w.Context(), toolcall.HeartbeatRequest{Key: at("begun"), Attempt: 1, Claim: "x"})
	if err != nil || !beat.Cancel || !beat.Stale {
		w.Errorf("the worker's heartbeat says %+v, %v", beat, err)
	}
	if c := e.finished(at("done")); c.Cause != "result" {
		w.Errorf("the finished call moved: %s", describe(c))
	}
	_, err = e.worker("w1").Start(w.Context(), toolcall.StartRequest{Key: at("offered"), Attempt: 1, Claim: "y"})
	w.wantErr(err, message.ErrFinished)
}

func interruptedTakesNoMore(w *world) {
	e, other := w.engine(), w.engine()
	blocks := []message.ToolCallBlock{call("a", block, `{}`), call("b", deploy, `{}`)}
	e.propose(blocks...)
	e.interrupt()
	for _, r := range []*replica{e, other} {
		for i, b := range []message.ToolCallBlock{call("c", echo, `{}`), call("d", serial, `{}`), call("e", deploy, `{}`)} {
			out, err := r.bot().Propose(w.Context(), request(b))
			switch {
			case err == nil && r == other: // other had not heard of the interrupt when it wrote the call
				w.wantResult(out.Calls[0], message.ToolResultInterrupted, "interrupted")
			case !errors.Is(err, message.ErrInterrupted):
				w.Errorf("proposal %d on %s: %v", i, r.ID(), err)
			}
		}
		again := r.propose(blocks...) // known calls are returned
		w.wantResult(again[0], message.ToolResultInterrupted, "")
	}
	for _, id := range []message.CallID{"c", "d", "e"} {
		w.wantRuns(w.key(id), 0)
	}
}

func interruptUnknown(w *world) {
	e := w.engine()
	for _, r := range []toolcall.InterruptRequest{{Session: "unknown", Reply: "r"}} {
		_, err := e.bot().Interrupt(w.Context(), r)
		w.wantErr(err, message.ErrNotFound)
	}
	for _, r := range []toolcall.InterruptRequest{{Session: "s"}, {Reply: "r"}, {Session: "s", Reply: "r", V: 9}} {
		_, err := e.ann().Interrupt(w.Context(), r)
		w.wantErr(err, message.ErrInvalid)
	}
	w.wantSize(0)
	e.propose(call("c", external, `{}`))
	size := len(w.records())
	_, err := e.bot().Interrupt(w.Context(), toolcall.InterruptRequest{Session: "s", Reply: "mistyped"})
	w.wantErr(err, message.ErrNotFound)
	w.wantSize(size)
	_, err = e.bot().Emit(w.Context(), toolcall.EmitRequest{Session: "s", Reply: "streamed", Events: []message.RawJSON{
		message.RawJSON(`{"type":"REPLY_START","reply_id":"streamed","session_id":"s","name":"agent"}`)}})
	w.must(err)
	w.must(second(e.bot().Interrupt(w.Context(), toolcall.InterruptRequest{Session: "s", Reply: "streamed"})))
}

func interruptCancelsLocal(w *world) {
	e := w.engine()
	c := e.propose(call("c", block, `{}`))[0]
	w.until("it runs", func() bool { return len(w.effects.of(c.Key)) == 1 })
	e.interrupt()
	w.wantResult(e.finished(c.Key), message.ToolResultInterrupted, "interrupted")
	w.until("the result of the cancelled run is noted as late", func() bool { return w.path(c.Key) == "propose+allow+start interrupt note" })
}

func interruptCancelsElsewhere(w *world) {
	e, other := w.engine(), w.engine()
	c := e.propose(call("c", block, `{}`))[0]
	w.until("it runs", func() bool { return len(w.effects.of(c.Key)) == 1 })
	other.interrupt()
	w.until("the result of the cancelled run is noted as late", func() bool { return w.path(c.Key) == "propose+allow+start interrupt note" })
}

// interruptRace checks that in any order no call of the reply stays open and none begins
// after the interrupt.
func interruptRace(w *world) {
	engines := []*replica{w.engine(), w.engine()}
	for round := range 60 {
		session := message.SessionID(fmt.Sprint("s", round))
		first := toolcall.ProposeRequest{Session: session, Reply: "r", Calls: []message.ToolCallBlock{call("first", deploy, `{}`)}}
		_, err := engines[0].bot().Propose(w.Context(), first)
		w.must(err)
		req := toolcall.ProposeRequest{Session: session, Reply: "r"}
		for i, tool := range []string{block, serial, deploy, remote, external, echo} {
			req.Calls = append(req.Calls, call(message.CallID(fmt.Sprint("c", i)), tool, `{}`))
		}
		if round%2 == 0 { // without the serial call, so without a plan
			req.Calls = append(req.Calls[:1], req.Calls[2:]...)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := engines[0].bot().Propose(w.Context(), req)
			if err != nil && !errors.Is(err, message.ErrInterrupted) {
				w.Errorf("propose: %v", err)
			}
		})
		wg.Go(func() {
			if _, err := engines[round/2%2].bot().Interrupt(w.Context(), toolcall.InterruptRequest{Session: session, Reply: "r"}); err != nil {
				w.Errorf("interrupt: %v", err)
			}
		})
		wg.Wait()
		w.until("no call of the session is open in the journal", func() bool { return len(w.openCalls(session)) == 0 })
	}
	w.until("no call runs any more", func() bool {
		for _, e := range engines {
			list, err := e.operator().List(w.Context(), toolcall.ListRequest{})
			if err != nil || len(list.Calls) > 0 {
				return false
			}
		}
		return true
	})
}

// openCalls reads the open calls of a session from the journal itself.
func (w *world) openCalls(session message.SessionID) map[toolcall.Key]*toolcall.Call {
	w.Helper()
	open := map[toolcall.Key]*toolcall.Call{}
	for after := uint64(0); ; {
		records, next, err := w.journal.Read(w.Context(), toolcall.Key{Space: w.space, Session: session}, after, 500)
		w.must(err)
		for _, r := range records {
			if r.Record != nil && r.Record.Call != nil {
				open[r.Key] = r.Record.Call
				if !r.Record.Call.Open() {
					delete(open, r.Key)
				}
			}
		}
		if len(records) < 500 {
			return open
		}
		after = next
	}
}

// interruptAnswerRace checks that an approval counts only before the interrupt, and that a
// call that it began is cancelled.
func interruptAnswerRace(w *world) {
	engines := []*replica{w.engine(), w.engine()}
	for round := range 30 {
		session := message.SessionID(fmt.Sprint("s", round))
		out, err := engines[0].bot().Propose(w.Context(), toolcall.ProposeRequest{Session: session, Reply: "r", Calls: []message.ToolCallBlock{call("a", deploy, `{}`), call("b", deploy, `{}`)}})
		w.must(err)
		q := out.Calls[0]
		engines[1].state(q.Key, message.ToolCallAsking)
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = engines[round%2].ann().SubmitResponse(w.Context(), approve(q)) }) // may be too late
		wg.Go(func() {
			if _, err := engines[0].bot().Interrupt(w.Context(), toolcall.InterruptRequest{Session: session, Reply: "r"}); err != nil {
				w.Errorf("interrupt: %v", err)
			}
		})
		wg.Wait()
		if open := w.openCalls(session); len(open) > 0 {
			w.Errorf("round %d: %d calls are open after the interrupt", round, len(open))
		}
	}
}

// interruptGivenUp checks that a stored interrupt is carried out even if its request was
// cancelled.
func interruptGivenUp(w *world) {
	e := w.engine()
	c := e.propose(call("c", block, `{}`))[0]
	ctx, giveUp := context.WithCancel(w.Context())
	e.cord.onAppend(func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
		seq, err := store(ctx, rec, prev)
		if rec.Reply != nil && rec.Reply.Phase == toolcall.ReplyInterrupted {
			giveUp()
		}
		return seq, err
	})
	_, err := e.bot().Interrupt(ctx, toolcall.InterruptRequest{Session: "s", Reply: "r"})
	if err == nil {
		w.Log("the interrupt was answered before its request was cancelled")
	}
	w.wantResult(e.finished(c.Key), message.ToolResultInterrupted, "")
	w.until("the reply has ended", func() bool { return w.replyPhase() == toolcall.ReplyEnded })
}

func (w *world) replyPhase() toolcall.ReplyPhase {
	w.Helper()
	rec, err := w.journal.Last(w.Context(), w.key("").ReplyKey())
	w.must(err)
	return rec.Record.Reply.Phase
}

func interruptEngineDies(w *world) {
	e := w.engine()
	other := w.engine()
	c := e.propose(call("c", deploy, `{}`), call("d", remote, `{}`))
	other.state(c[1].Key, message.ToolCallSubmitted)
	e.cord.onAppend(func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
		seq, err := store(ctx, rec, prev)
		if rec.Reply != nil {
			e.cord.cut() // this was the engine's last write
		}
		return seq, err
	})
	_, err := e.bot().Interrupt(w.Context(), toolcall.InterruptRequest{Session: "s", Reply: "r"})
	w.wantErr(err, message.ErrUnavailable)
	for _, c := range c {
		w.wantResult(other.finished(c.Key), message.ToolResultInterrupted, "")
	}
	w.until("the reply has ended", func() bool { return w.replyPhase() == toolcall.ReplyEnded })
	e.kill()
}

// proposerDies lets an engine write a call without having seen the interrupt before it, and
// die before it checks. The call must not stay open: it could be approved, and run in a
// reply that has ended.
func proposerDies(w *world) {
	for _, restart := range []bool{false, true} {
		session := message.SessionID(fmt.Sprint("s", restart))
		e := w.engine()
		var other *replica
		if !restart {
			other = w.engine()
		}
		_, err := e.bot().Propose(w.Context(), toolcall.ProposeRequest{Session: session, Reply: "r", Calls: []message.ToolCallBlock{call("a", deploy, `{}`)}})
		w.must(err)
		helper := w.engine()
		e.cord.onAppend(func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
			if rec.Call == nil || rec.Call.Call != "b" {
				return store(ctx, rec, prev)
			}
			if _, err := helper.bot().Interrupt(ctx, toolcall.InterruptRequest{Session: session, Reply: "r"}); err != nil {
				w.Errorf("interrupt: %v", err)
			}
			if restart {
				helper.kill()
			}
			seq, err := store(ctx, rec, prev)
			e.cord.cut()
			return seq, err
		})
		catchUp := e.cord.lag()
		_, _ = e.bot().Propose(w.Context(), toolcall.ProposeRequest{Session: session, Reply: "r", Calls: []message.ToolCallBlock{call("b", pay, `{"amount":500}`)}})
		catchUp()
		e.kill()
		if other == nil {
			other = w.engine()
		}
		key := w.key("b")
		key.Session = session
		w.wantResult(other.finished(key), message.ToolResultInterrupted, "")
	}
}

func interruptedTwice(w *world) {
	e, other := w.engine(), w.engine()
	c := e.propose(call("c", block, `{}`))[0]
	var wg sync.WaitGroup
	for _, r := range []*replica{e, other, e, other} {
		wg.Go(func() {
			if _, err := r.bot().Interrupt(w.Context(), toolcall.InterruptRequest{Session: "s", Reply: "r"}); err != nil {
				w.Errorf("interrupt: %v", err)
			}
		})
	}
	wg.Wait()
	w.until("the result of the cancelled run is noted as late", func() bool { return w.path(c.Key) == "propose+allow+start interrupt note" })
	size := len(w.records())
	if calls := e.interrupt(); len(calls) != 0 {
		w.Errorf("an interrupt of an ended reply closed %d calls", len(calls))
	}
	w.wantSize(size)
}

// interruptFirstCases store an interrupt before an event record of its reply, while the
// engine that writes that record does not know of the interrupt.
func interruptFirstCases() []engineCase {
	return []engineCase{
		{"an interrupt before a first event record, seen by the watch", func(w *world) { interruptBeforeFirst(w, false) }},
		{"an interrupt before a first event record, not seen by the watch", func(w *world) { interruptBeforeFirst(w, true) }},
		{"an interrupt before a first event record, and the journal cannot be read", interruptBeforeFirstUnreadable},
		{"an interrupt before the turn of a pending call", interruptBeforeTurn},
		{"an interrupt before calls with an order", interruptBeforeOrdered},
	}
}

// storeInterrupt makes an engine store the interrupt of the session's reply "r" and die
// before it closes any call.
func (w *world) storeInterrupt(session message.SessionID) {
	w.Helper()
	e := w.engine()
	e.cord.onAppend(cutAfter(e, func(record *toolcall.EventRecord) bool { return record.Reply != nil }))
	_, err := e.bot().Interrupt(w.Context(), toolcall.InterruptRequest{Session: session, Reply: "r"})
	w.wantErr(err, message.ErrUnavailable)
	e.kill()
	rec, err := w.journal.Last(w.Context(), toolcall.Key{Space: w.space, Session: session, Reply: "r"})
	w.must(err)
	if phase := rec.Record.Reply.Phase; phase != toolcall.ReplyInterrupted {
		w.Fatalf("the reply is %s, want %s", phase, toolcall.ReplyInterrupted)
	}
}

// onFirst calls do right before the first event record of a call is stored.
func onFirst(id message.CallID, do func()) fault {
	return func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
		if rec.Call != nil && rec.Call.Call == id && rec.Call.Records == 1 {
			do()
		}
		return store(ctx, rec, prev)
	}
}

// interruptBeforeFirst checks that the proposal returns the call as interrupted and that the
// call does not run.
func interruptBeforeFirst(w *world, lags bool) {
	e := w.engine()
	for _, tool := range []string{echo, deploy, remote, external} {
		session := message.SessionID("s-" + tool)
		propose := func(b message.ToolCallBlock) *toolcall.Call {
			out, err := e.bot().Propose(w.Context(), toolcall.ProposeRequest{Session: session, Reply: "r", Calls: []message.ToolCallBlock{b}})
			w.must(err)
			return out.Calls[0]
		}
		propose(call("a", deploy, `{}`))
		catchUp := func() {}
		if lags {
			catchUp = e.cord.lag()
		}
		e.cord.onAppend(onFirst("b", func() { w.storeInterrupt(session) }))
		got := propose(call("b", tool, `{}`))
		w.wantResult(got, message.ToolResultInterrupted, "interrupted")
		catchUp()
		w.until("no call of the session is open in the journal", func() bool { return len(w.openCalls(session)) == 0 })
		w.wantRuns(got.Key, 0)
	}
}

// interruptBeforeFirstUnreadable checks that the engine reads the reply again until it
// succeeds, and then closes the call.
func interruptBeforeFirstUnreadable(w *world) {
	e := w.engine()
	e.propose(call("a", deploy, `{}`))
	catchUp := e.cord.lag() // so that the engine can learn of the interrupt only by reading the reply
	defer catchUp()
	var down atomic.Bool
	e.cord.onAppend(onFirst("b", func() {
		w.storeInterrupt("s")
		down.Store(true)
	}))
	e.cord.onLast(func(key toolcall.Key) error {
		if down.Load() && key.Call == "" && key.Reply != "" {
			return cutError("last")
		}
		return nil
	})
	e.propose(call("b", echo, `{}`))
	down.Store(false)
	w.until("the call is closed", func() bool { return w.path(w.key("b")) == "propose+allow+start interrupt" })
	w.wantRuns(w.key("b"), 0)
}

// interruptBeforeTurn checks that a pending call is closed, not decided, when its turn comes
// in an engine that does not know of the interrupt yet.
func interruptBeforeTurn(w *world) {
	e := w.engine()
	e.propose(call("a", blockTurn, `{}`), call("b", echo, `{}`))
	w.until("the first call runs", func() bool { return len(w.effects.of(w.key("a"))) == 1 })
	e.state(w.key("b"), message.ToolCallPending)
	catchUp := e.cord.lag()
	defer catchUp()
	w.storeInterrupt("s")
	w.effects.release(w.key("a"))
	w.until("the pending call is closed", func() bool { return w.path(w.key("b")) == "propose interrupt" })
	w.wantRuns(w.key("b"), 0)
}

// interruptBeforeOrdered checks that calls with an order are closed, not decided, by an engine
// that does not know of the interrupt yet.
func interruptBeforeOrdered(w *world) {
	e := w.engine()
	e.propose(call("a", deploy, `{}`))
	catchUp := e.cord.lag()
	w.storeInterrupt("s")
	out, err := e.bot().Propose(w.Context(), request(call("b", serial, `{}`), call("c", serial, `{}`)))
	w.wantErr(err, message.ErrInterrupted) // for c: the engine learned of the interrupt when it wrote b
	if len(out.Calls) != 1 {
		w.Fatalf("%d calls are recorded, want 1", len(out.Calls))
	}
	w.wantResult(out.Calls[0], message.ToolResultInterrupted, "interrupted")
	w.wantPath(w.key("b"), "propose interrupt")
	catchUp()
	w.until("the interrupt is carried out", func() bool { return len(w.openCalls("s")) == 0 })
}
