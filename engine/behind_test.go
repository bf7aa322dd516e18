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

// touch makes engine i read a call from the journal before its watch delivers the call.
func (w *wired) touch(i int, id message.CallID) {
	w.Helper()
	_, err := w.as(i, toolcall.RoleApprover, "ann").SubmitResponse(w.Context(), toolcall.Response{Key: callKey(id), Kind: toolcall.ResponseReject, Digest: "none"})
	if err == nil {
		w.Fatalf("%s accepted an answer that names no approval request", id)
	}
}

// A request about a call comes to an engine that has fallen behind, and whose reads are old. Its
// sender learned of the call's state from another engine.
func TestRequestAboutAStateThatIsNotKnownYet(t *testing.T) {
	for name, row := range map[string]struct {
		tool string
		send func(w *wired) error
	}{
		"response": {asks, func(w *wired) error {
			_, err := w.as(1, toolcall.RoleApprover, "ann").SubmitResponse(w.Context(), toolcall.Response{Key: callKey("a"), Kind: toolcall.ResponseApprove, Digest: w.now("a").Digest})
			return err
		}},
		"report": {safe, func(w *wired) error {
			_, err := w.as(1, toolcall.RoleRuntime, "bot").Report(w.Context(), toolcall.ReportRequest{Key: callKey("a"), Result: message.ToolResultBlock{State: message.ToolResultSuccess}})
			return err
		}},
		"revoke": {remote, func(w *wired) error {
			_, err := w.as(1, toolcall.RoleOperator, "op").Revoke(w.Context(), toolcall.RevokeRequest{Key: callKey("a")})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inWires(t, 2, func(w *wired) {
				w.propose(0, bareCall("warm", safe)) // the session is bound
				w.pass(0)
				w.wires[1].lag(true)
				w.wires[1].onLast(func(toolcall.Key) error { return message.ErrNotFound })
				w.propose(0, bareCall("a", row.tool))
				sent := make(chan error, 1)
				go func() { sent <- row.send(w) }()
				w.pass(0)
				w.wires[1].lag(false)
				if err := <-sent; err != nil {
					w.Error(err)
				}
			}, engine.WithLag(func() time.Duration { return time.Second }))
		})
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
		w.want("d", message.ToolCallPending, "") // otherwise both run at once
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

// The engine that accepted an answer dies before it handles the calls that hid behind the
// approval request, and the allowed call keeps running.
func TestHiddenCallsAreSeenToWhenTheAnsweringEngineDies(t *testing.T) {
	inWires(t, 2, func(w *wired) {
		w.propose(0, bareCall("a", asks), bareCall("b", asks))
		w.pass(5 * wiredGrace) // the checks that the proposal scheduled are over
		w.wires[0].onStored(func(*toolcall.EventRecord) { w.wires[0].cut() })
		_, err := w.as(0, toolcall.RoleApprover, "ann").SubmitResponse(w.Context(), toolcall.Response{Key: callKey("a"), Kind: toolcall.ResponseApprove, Digest: w.now("a").Digest})
		if !errors.Is(err, message.ErrUnknownOutcome) {
			w.Fatalf("the dying engine returned %v", err)
		}
		w.pass(3 * wiredGrace)
		w.want("a", message.ToolCallSubmitted, "")
		w.want("b", message.ToolCallAsking, "")
	})
}

// A call is recorded late, after calls of later proposals have begun, by an engine that does
// not know of them yet.
func TestLateCallWaitsForThoseThatCameBeforeIt(t *testing.T) {
	inWires(t, 2, func(w *wired) {
		w.wires[0].onStored(func(rec *toolcall.EventRecord) {
			if rec.Call != nil && rec.Call.Call == "a" {
				w.wires[0].cut()
			}
		})
		_, err := w.as(0, toolcall.RoleRuntime, "bot").Propose(w.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{bareCall("a", serial), bareCall("b", serial)}})
		if !errors.Is(err, message.ErrUnknownOutcome) {
			w.Fatalf("the interrupted proposal: %v", err)
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

// The first record of a call is delayed while other calls of the reply begin and end. No
// clock limits the delay: the call's place is the position of its record in the journal.
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
		w.wires[0].lag(true) // it stores its call without knowing of the others
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

// An engine skips its own event records in the watch and waits for their acknowledgements.
// Meanwhile other engines already act on those records.
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

// A write that is sent again after a lost acknowledgement may be refused with certainty.
// It is still not certain that the first one wrote nothing.
func TestRefusalAfterALostAcknowledgementIsNotCertain(t *testing.T) {
	inWires(t, 1, func(w *wired) {
		w.propose(0, bareCall("a", asks))
		w.wires[0].onStored(func(*toolcall.EventRecord) { w.wires[0].cut() })
		_, err := w.as(0, toolcall.RoleApprover, "ann").SubmitResponse(w.Context(), toolcall.Response{Key: callKey("a"), Kind: toolcall.ResponseReject, Digest: w.now("a").Digest})
		if !errors.Is(err, message.ErrUnknownOutcome) {
			w.Errorf("the stored write returned %v", err)
		}
		w.want("a", message.ToolCallFinished, "")
	})
}

// looks is the number of looks at a gate that the tests below make fail, in every pattern.
// Three calls that wait for a forgotten one look that often.
const looks = 7

// A call whose gate could not be read holds back the later calls of its group. Otherwise
// the next one would find the gate open a moment later and ask, and no call would hide.
// For every combination of failed looks, each call must hide behind the first.
func TestLaterCallDoesNotOvertakeOneWhoseGateWasUnsure(t *testing.T) {
	for failing := range 1 << looks {
		for _, group := range [][]message.CallID{{"a"}, {"a", "b", "c"}} {
			t.Run(fmt.Sprintf("%d calls, %0*b", len(group), looks, failing), func(t *testing.T) {
				inWires(t, 1, func(w *wired) { overtake(w, failing, group) }, engine.WithKeep(0))
			})
		}
	}
}

// overtake ends the call that a group of calls waits for. Each look at their reply whose bit
// is set in failing finds the journal unreachable.
func overtake(w *wired, failing int, group []message.CallID) {
	w.Helper()
	blocks := []message.ToolCallBlock{bareCall("first", serial)}
	for _, id := range group {
		blocks = append(blocks, bareCall(id, asks))
	}
	w.propose(0, blocks...)
	var seen atomic.Int32
	w.wires[0].onLast(func(key toolcall.Key) error {
		if key.Call != "" || key.Reply == "" { // the engine reads the reply before it decides a call that waited
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

// The call that a group waits for ends while the group is being proposed. The calls that are
// proposed later still hide behind the first, however long the engine takes to handle it.
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
	w.wires[0].onStored(func(rec *toolcall.EventRecord) {
		records := 1
		if after == "first" {
			records = 2 // recorded, then allowed
		}
		if rec.Call == nil || rec.Call.Call != after || rec.Call.Records != records {
			return
		}
		w.wires[0].onLast(func(key toolcall.Key) error {
			if key.Call == "" { // a read of the reply, before a call that waited is decided
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
