package toolcall_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// TestPhasesAreWhatTheMachineDoes takes every step that the machine accepts from every phase. The
// table must have exactly the steps that it finds.
func TestPhasesAreWhatTheMachineDoes(t *testing.T) {
	found := map[toolcall.Phase]map[toolcall.Phase]bool{}
	seen := map[string]bool{}
	todo := []*toolcall.Call{nil}
	for len(todo) > 0 {
		c := todo[0]
		todo = todo[1:]
		for _, ev := range eventsFor(c) {
			m := toolcall.Load(c)
			if m.Step(ev) != nil {
				continue
			}
			next := m.Call()
			if c != nil {
				if found[c.Phase()] == nil {
					found[c.Phase()] = map[toolcall.Phase]bool{}
				}
				found[c.Phase()][next.Phase()] = true
			}
			id := fmt.Sprint(next.State, next.Cause, next.Phase(), next.Placement, next.Attempt.Number, next.Attempt.Claim, next.Begun, len(next.Votes))
			if !seen[id] && next.Attempt.Number < 3 && len(next.Votes) < 3 {
				seen[id] = true
				todo = append(todo, next)
			}
		}
	}
	for _, r := range toolcall.PhaseTable() {
		got, want := slices.Sorted(maps.Keys(found[r.Phase])), slices.Sorted(slices.Values(r.Next))
		if !slices.Equal(got, want) {
			t.Errorf("after %s the machine leads to %v, the table says %v", r.Phase, got, want)
		}
	}
}

// eventsFor returns events that fit a call: one of each kind, for each placement.
func eventsFor(c *toolcall.Call) []toolcall.Event {
	if c == nil {
		return []toolcall.Event{toolcall.Proposed{Base: base(0), Call: newCall()}}
	}
	n, later := c.Attempt.Number, t0.Add(time.Hour)
	vote := toolcall.Vote{Kind: toolcall.ResponseApprove, By: toolcall.Principal{Name: "ann"}, At: t0, Digest: c.Digest}
	with := func(k toolcall.ResponseKind) toolcall.Vote { v := vote; v.Kind = k; return v }
	out := []toolcall.Event{
		toolcall.Refused{Base: base(1)}, toolcall.Hidden{Base: base(1), Behind: "c0"}, toolcall.Denied{Base: base(1)},
		toolcall.Responded{Base: base(1), Vote: vote}, toolcall.Responded{Base: base(1), Vote: with(toolcall.ResponseReject)},
		toolcall.Edited{Base: base(1), Vote: vote, Input: `{"n":1}`}, toolcall.Voted{Base: base(1), Vote: with(toolcall.ResponseSkip)},
		toolcall.Expired{Base: base(1)}, toolcall.Interrupted{Base: base(1)}, toolcall.Revoked{Base: base(1)},
		toolcall.Started{Base: base(1), Attempt: max(n, 1), Worker: "w", Claim: fmt.Sprint("claim", n)},
		toolcall.Lost{Base: base(1), Attempt: n, RetryAt: later},
		toolcall.Returned{Base: base(1), Attempt: n, Claim: c.Attempt.Claim, RetryAt: later},
		toolcall.Suspended{Base: base(1), Attempt: n, Blocked: toolcall.BlockedUnknown},
		toolcall.Offered{Base: base(1), Attempt: toolcall.Attempt{Number: n}}, toolcall.Offered{Base: base(1), Attempt: toolcall.Attempt{Number: n + 1}},
		toolcall.Resulted{Base: base(1), Attempt: n, Claim: c.Attempt.Claim}, toolcall.Resolved{Base: base(1), Attempt: n},
	}
	if n == 0 {
		out = append(out, toolcall.Submitted{Base: base(1), Attempt: toolcall.Attempt{Number: 1}})
	}
	for _, place := range []toolcall.Placement{toolcall.PlaceLocal, toolcall.PlaceRemote, toolcall.PlaceExternal} {
		for _, b := range []message.Behavior{message.BehaviorAllow, message.BehaviorAsk, message.BehaviorDeny} {
			out = append(out, decided(b, place))
		}
	}
	return out
}
