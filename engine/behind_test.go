package engine_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// touch makes engine i read a call from the journal, ahead of what it follows.
func (w *wired) touch(i int, id message.CallID) {
	w.Helper()
	_, err := w.as(i, toolcall.RoleApprover, "ann").SubmitResponse(w.Context(), toolcall.Response{Key: callKey(id), Kind: toolcall.ResponseReject, Digest: "none"})
	if err == nil {
		w.Fatalf("%s took an answer that names no approval request", id)
	}
}

// An engine that has fallen behind reads a call before those that it waits for.
func TestSerialCallWaitsForCallsThatAreNotKnownYet(t *testing.T) {
	inWires(t, 2, func(w *wired) {
		w.propose(0, bareCall("a", serial), bareCall("b", safe))
		w.report(0, "a")
		w.pass(0)
		w.report(0, "b")
		w.pass(0)
		w.wires[1].lag(true)
		w.propose(0, bareCall("c", serial), bareCall("d", serial))
		w.touch(1, "d")
		w.pass(3 * wiredGrace)
		w.want("c", message.ToolCallSubmitted, "")
		w.want("d", message.ToolCallPending, "") // else both run at once
		w.wires[1].lag(false)
		w.report(0, "c")
		w.pass(0)
		w.want("d", message.ToolCallSubmitted, "")
	})
}

// An engine that has fallen behind reads a call before the one whose approval request it
// hides behind.
func TestCallStaysHiddenBehindARequestThatIsNotKnownYet(t *testing.T) {
	inWires(t, 2, func(w *wired) {
		w.wires[1].lag(true)
		w.propose(0, bareCall("a", asks), bareCall("b", asks))
		w.touch(1, "b")
		w.pass(3 * wiredGrace)
		w.want("a", message.ToolCallAsking, "")
		w.want("b", message.ToolCallPending, "a")
		w.wires[1].lag(false)
		w.approve(0, "a")
		w.pass(0)
		w.want("b", message.ToolCallAsking, "")
	})
}

// The engine that took an answer dies before it sees to the calls that hid
// behind the approval request, and the call that was allowed runs for long.
func TestHiddenCallsAreSeenToWhenTheAnsweringEngineDies(t *testing.T) {
	inWires(t, 2, func(w *wired) {
		w.propose(0, bareCall("a", asks), bareCall("b", asks))
		w.pass(5 * wiredGrace) // the looks that the proposal itself asked for are over
		w.wires[0].onStored(func(*toolcall.EventRecord) { w.wires[0].cut() })
		_, err := w.as(0, toolcall.RoleApprover, "ann").SubmitResponse(w.Context(), toolcall.Response{Key: callKey("a"), Kind: toolcall.ResponseApprove, Digest: w.now("a").Digest})
		if !errors.Is(err, message.ErrUnknownOutcome) {
			w.Fatalf("an engine that dies answers %v", err)
		}
		w.pass(3 * wiredGrace)
		w.want("a", message.ToolCallSubmitted, "")
		w.want("b", message.ToolCallAsking, "")
	})
}

// A call comes late, after others of later proposals have begun, and to an engine that
// does not know that yet.
func TestLateCallWaitsForThoseThatCameBeforeIt(t *testing.T) {
	inWires(t, 2, func(w *wired) {
		w.wires[0].onStored(func(f *toolcall.EventRecord) {
			if f.Call != nil && f.Call.Call == "a" {
				w.wires[0].cut()
			}
		})
		_, err := w.as(0, toolcall.RoleRuntime, "bot").Propose(w.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{bareCall("a", serial), bareCall("b", serial)}})
		if !errors.Is(err, message.ErrUnknownOutcome) {
			w.Fatalf("a proposal that breaks off: %v", err)
		}
		third := w.start()
		w.pass(2 * wiredGrace) // another engine decides what the dead one recorded
		w.report(1, "a")
		w.pass(0)
		w.wires[third].lag(true)
		w.propose(1, bareCall("c", serial))
		w.want("c", message.ToolCallSubmitted, "")
		w.propose(third, bareCall("a", serial), bareCall("b", serial))
		w.pass(30 * wiredGrace)
		w.want("b", message.ToolCallPending, "")
		w.wires[third].lag(false)
		w.report(1, "c")
		w.pass(0)
		w.want("b", message.ToolCallSubmitted, "")
	})
}

// The first record of a call stays on its way while other calls of the reply come and
// end: no clock bounds how long, and the call takes its place by where it is stored.
func TestProposalThatTakesLongHasItsPlaceByTheJournal(t *testing.T) {
	inWires(t, 2, func(w *wired) {
		w.propose(1, bareCall("warm", safe)) // the session is bound
		w.wires[0].holdWrites(true)
		proposed := make(chan error, 1)
		go func() {
			_, err := w.as(0, toolcall.RoleRuntime, "bot").Propose(w.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{bareCall("late", serial)}})
			proposed <- err
		}()
		w.pass(time.Hour)
		w.propose(1, bareCall("a", serial), bareCall("b", serial))
		w.want("a", message.ToolCallSubmitted, "")
		w.wires[0].lag(true) // it stores its call without knowing of those
		w.wires[0].holdWrites(false)
		if err := <-proposed; err != nil {
			w.Fatal(err)
		}
		for _, id := range []message.CallID{"a", "b"} {
			w.pass(time.Hour)
			w.want(id, message.ToolCallSubmitted, "")
			w.want("late", message.ToolCallPending, "")
			w.report(1, id)
		}
		w.pass(time.Hour)
		w.want("late", message.ToolCallSubmitted, "")
	})
}

// An engine passes over its own event records and waits to hear that they are stored.
// Meanwhile others go on from them.
func TestCallStaysHiddenBehindARequestThatIsNotAcknowledged(t *testing.T) {
	inWires(t, 2, func(w *wired) {
		w.propose(0, bareCall("warm", safe)) // the session is bound
		w.pass(0)
		w.wires[1].mute(true)
		proposed := make(chan error, 1)
		go func() {
			_, err := w.as(1, toolcall.RoleRuntime, "bot").Propose(w.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{bareCall("a", asks), bareCall("b", asks)}})
			proposed <- err
		}()
		w.pass(0)
		w.want("a", message.ToolCallAsking, "")
		w.propose(0, bareCall("a", asks), bareCall("b", asks))
		w.pass(3 * wiredGrace)
		w.want("b", message.ToolCallPending, "a")
		w.wires[1].mute(false)
		if err := <-proposed; err != nil {
			w.Error(err)
		}
	})
}

// A write that is sent again because its acknowledgement was lost may be refused
// for certain. Then it is still not certain that nothing was written.
func TestRefusalAfterALostAcknowledgementIsNotCertain(t *testing.T) {
	inWires(t, 1, func(w *wired) {
		w.propose(0, bareCall("a", asks))
		w.wires[0].onStored(func(*toolcall.EventRecord) { w.wires[0].cut() })
		_, err := w.as(0, toolcall.RoleApprover, "ann").SubmitResponse(w.Context(), toolcall.Response{Key: callKey("a"), Kind: toolcall.ResponseReject, Digest: w.now("a").Digest})
		if !errors.Is(err, message.ErrUnknownOutcome) {
			w.Errorf("what is stored was answered with %v", err)
		}
		w.want("a", message.ToolCallFinished, "")
	})
}

// looks is how many looks at a gate the tests below make fail, in all patterns:
// as many as three calls take that wait for one that is forgotten.
const looks = 7

// A call whose gate could not be looked at holds back those after it in its
// group. Otherwise the next one finds the gate open a moment later and asks, and no
// call hides. For every combination of failed looks, each call hides behind the
// first.
func TestLaterCallDoesNotOvertakeOneWhoseGateWasUnsure(t *testing.T) {
	for failing := range 1 << looks {
		for _, group := range [][]message.CallID{{"a"}, {"a", "b", "c"}} {
			t.Run(fmt.Sprintf("%d calls, %0*b", len(group), looks, failing), func(t *testing.T) {
				inWires(t, 1, func(w *wired) { overtake(w, failing, group) }, engine.WithKeep(0))
			})
		}
	}
}

// overtake ends what a group of calls waits for. The looks at their reply whose
// bits are set in failing find the journal out of reach.
func overtake(w *wired, failing int, group []message.CallID) {
	w.Helper()
	blocks := []message.ToolCallBlock{bareCall("first", serial)}
	for _, id := range group {
		blocks = append(blocks, bareCall(id, asks))
	}
	w.propose(0, blocks...)
	var seen atomic.Int32
	w.wires[0].onLast(func(key toolcall.Key) error {
		if key.Call != "" || key.Reply == "" { // before a call that waited is decided, the journal is asked for its reply
			return nil
		}
		if n := seen.Add(1); n <= looks && failing&(1<<(n-1)) != 0 {
			return errWire
		}
		return nil
	})
	w.report(0, "first")
	w.pass((looks + 1) * wiredGrace)
	if seen.Load() == 0 {
		w.Fatal("no engine looked at the reply")
	}
	w.want("a", message.ToolCallAsking, "")
	for _, id := range group[1:] {
		w.want(id, message.ToolCallPending, "a")
	}
}

// What a group of calls waits for ends while they are being proposed: those that
// come after that hide behind the first all the same, however long the engine
// takes to see to that one.
func TestProposedCallDoesNotOvertakeOneThatHadToWait(t *testing.T) {
	for _, after := range []message.CallID{"first", "a", "b", "c"} {
		t.Run("after "+string(after), func(t *testing.T) {
			inWires(t, 1, func(w *wired) { overtakeProposed(w, after) })
		})
	}
}

func overtakeProposed(w *wired, after message.CallID) {
	w.Helper()
	proposed := make(chan struct{})
	w.wires[0].onStored(func(f *toolcall.EventRecord) {
		records := 1
		if after == "first" {
			records = 2 // recorded, then allowed
		}
		if f.Call == nil || f.Call.Call != after || f.Call.Records != records {
			return
		}
		w.wires[0].onLast(func(key toolcall.Key) error {
			if key.Call == "" { // a look at the reply, before a call that waited is decided
				<-proposed
			}
			return nil
		})
		w.report(0, "first")
	})
	w.propose(0, bareCall("first", serial), bareCall("a", asks), bareCall("b", asks), bareCall("c", asks))
	close(proposed)
	w.pass(wiredGrace)
	w.want("a", message.ToolCallAsking, "")
	w.want("b", message.ToolCallPending, "a")
	w.want("c", message.ToolCallPending, "a")
}
