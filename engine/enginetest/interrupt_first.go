package enginetest

import (
	"context"
	"sync/atomic"

	"github.com/askance-dev/askance/message"
)

// interruptFirstCases are about an interrupt that the journal has before a
// fact of its reply, while the engine that writes that fact does not know it.
func interruptFirstCases() []testCase[*world] {
	return []testCase[*world]{
		{"an interrupt before a first fact, seen by the watch", func(w *world) { interruptBeforeFirst(w, false) }},
		{"an interrupt before a first fact, not seen by the watch", func(w *world) { interruptBeforeFirst(w, true) }},
		{"an interrupt before a first fact, and the journal cannot be read", interruptBeforeFirstUnreadable},
		{"an interrupt before the turn of a pending call", interruptBeforeTurn},
		{"an interrupt before a plan", interruptBeforePlan},
	}
}

// storeInterrupt has an engine store the interrupt of the session's reply "r"
// and die before it closes any call.
func (w *world) storeInterrupt(session message.SessionID) {
	w.Helper()
	e := w.engine()
	e.cord.onAppend(cutAfter(e, func(f *message.Fact) bool { return f.Reply != nil }))
	_, err := e.bot().Interrupt(w.Context(), message.InterruptRequest{Session: session, Reply: "r"})
	w.wantErr(err, message.ErrUnavailable)
	e.kill()
	rec, err := w.journal.Last(w.Context(), message.Key{Space: w.space, Session: session, Reply: "r"})
	w.must(err)
	if phase := rec.Fact.Reply.Phase; phase != message.ReplyInterrupted {
		w.Fatalf("the reply is %s, want %s", phase, message.ReplyInterrupted)
	}
}

// onFirst runs do right before the first fact of a call is stored.
func onFirst(id message.CallID, do func()) fault {
	return func(ctx context.Context, f *message.Fact, prev uint64, store appendFunc) (uint64, error) {
		if f.Call != nil && f.Call.Call == id && f.Call.Facts == 1 {
			do()
		}
		return store(ctx, f, prev)
	}
}

// interruptBeforeFirst: the proposal answers that the call is interrupted, and
// the call begins nothing.
func interruptBeforeFirst(w *world, lags bool) {
	e := w.engine()
	for _, tool := range []string{echo, deploy, remote, external} {
		session := message.SessionID("s-" + tool)
		propose := func(b message.ToolCallBlock) *message.Call {
			out, err := e.bot().Propose(w.Context(), message.ProposeRequest{Session: session, Reply: "r", Calls: []message.ToolCallBlock{b}})
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

// interruptBeforeFirstUnreadable: the engine asks for the reply until it can be
// read, and closes the call then.
func interruptBeforeFirstUnreadable(w *world) {
	e := w.engine()
	e.propose(call("a", deploy, `{}`))
	catchUp := e.cord.lag() // so that the engine learns of the interrupt by asking alone
	defer catchUp()
	var down atomic.Bool
	e.cord.onAppend(onFirst("b", func() {
		w.storeInterrupt("s")
		down.Store(true)
	}))
	e.cord.onLast(func(key message.Key) error {
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

// interruptBeforeTurn: a pending call whose turn comes in an engine that does
// not know the interrupt yet is closed, not decided.
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

// interruptBeforePlan: a proposal that needs a plan is refused, and nothing of
// it is stored.
func interruptBeforePlan(w *world) {
	e := w.engine()
	e.propose(call("a", deploy, `{}`))
	catchUp := e.cord.lag()
	w.storeInterrupt("s")
	size := len(w.records())
	_, err := e.bot().Propose(w.Context(), request(call("b", serial, `{}`), call("c", serial, `{}`)))
	w.wantErr(err, message.ErrInterrupted)
	catchUp()
	w.until("only the interrupt is carried out", func() bool { return len(w.openCalls("s")) == 0 })
	for _, r := range w.records()[size:] {
		if r.Fact != nil && (r.Fact.Reply != nil && len(r.Fact.Reply.Batches) > 0 || r.Key.Call == "b" || r.Key.Call == "c") {
			w.Errorf("written: %s of %s", r.Fact.Kind(), r.Key)
		}
	}
}
