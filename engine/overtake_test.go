package engine_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
)

// looks is how many looks at a gate the tests below make fail, in all patterns:
// as many as three calls take that wait for one that is forgotten.
const looks = 7

// A call whose gate could not be looked at holds back those after it in its
// group: else the next one finds the gate open a moment later, asks, and nobody
// hides behind anybody. Whichever of the looks fail, each call hides behind the
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

// overtake ends what a group of calls waits for. The looks at their gates whose
// bits are set in failing find the journal out of reach.
func overtake(w *wired, failing int, group []message.CallID) {
	w.Helper()
	blocks := []message.ToolCallBlock{block("first", serial)}
	for _, id := range group {
		blocks = append(blocks, block(id, asks))
	}
	w.propose(0, blocks...)
	var seen atomic.Int32
	w.wires[0].onLast(func(key message.Key) error {
		if key.Call != "first" { // finished and forgotten by then: the journal is asked what became of it
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
		w.Fatal("nobody looked at the first call")
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
	w.wires[0].onStored(func(f *message.Fact) {
		if f.Call == nil || f.Call.Call != after || f.Call.Facts != 1 {
			return
		}
		w.wires[0].onLast(func(key message.Key) error {
			if key.Call == "" { // a look at the reply, before a call that waited is decided
				<-proposed
			}
			return nil
		})
		w.report(0, "first")
	})
	w.propose(0, block("first", serial), block("a", asks), block("b", asks), block("c", asks))
	close(proposed)
	w.pass(wiredGrace)
	w.want("a", message.ToolCallAsking, "")
	w.want("b", message.ToolCallPending, "a")
	w.want("c", message.ToolCallPending, "a")
}
