package toolcall_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// anyEvent draws an event that may or may not fit, with right and wrong digests, attempts and
// claims.
func anyEvent(t *rapid.T) toolcall.Event {
	at := base(time.Duration(rapid.IntRange(0, 1000).Draw(t, "at")))
	attempt := rapid.IntRange(0, 3).Draw(t, "attempt")
	claim := rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "claim")
	digest := rapid.SampledFrom([]string{"", "sha256:other", decided("ask", "").Digest}).Draw(t, "digest")
	vote := toolcall.Vote{Kind: rapid.SampledFrom([]toolcall.ResponseKind{"approve", "reject", "submit_response", "?"}).Draw(t, "kind"), Digest: digest, At: at.At}
	switch rapid.IntRange(0, 15).Draw(t, "event") {
	case 0:
		return toolcall.Proposed{Base: at, Call: newCall()}
	case 1:
		return toolcall.Refused{Base: at}
	case 2:
		place := rapid.SampledFrom([]toolcall.Placement{toolcall.PlaceLocal, toolcall.PlaceRemote, toolcall.PlaceExternal}).Draw(t, "place")
		return decided(rapid.SampledFrom([]message.Behavior{"allow", "ask", "deny", "passthrough", ""}).Draw(t, "behavior"), place)
	case 3:
		return toolcall.Hidden{Base: at, Behind: "c0"}
	case 4:
		return toolcall.Responded{Base: at, Vote: vote}
	case 5:
		return toolcall.Edited{Base: at, Vote: vote, Input: `{"n":2}`}
	case 6:
		return toolcall.Expired{Base: at}
	case 7:
		return toolcall.Submitted{Base: at, Attempt: toolcall.Attempt{Number: 1}}
	case 8:
		return toolcall.Started{Base: at, Attempt: attempt, Worker: "w", Claim: claim}
	case 9:
		return toolcall.Offered{Base: at, Attempt: toolcall.Attempt{Number: attempt}}
	case 10:
		return toolcall.Lost{Base: at, Attempt: attempt, RetryAt: t0.Add(time.Hour)}
	case 11:
		return toolcall.Suspended{Base: at, Attempt: attempt, Blocked: toolcall.BlockedUnknown}
	case 12:
		return toolcall.Resulted{Base: at, Attempt: attempt, Claim: claim}
	case 14:
		return toolcall.Returned{Base: at, Attempt: attempt, Claim: claim, RetryAt: t0.Add(time.Hour)}
	case 13:
		return toolcall.Resolved{Base: at, Attempt: attempt}
	default:
		if rapid.Bool().Draw(t, "revoke") {
			return toolcall.Revoked{Base: at}
		}
		return toolcall.Interrupted{Base: at}
	}
}

// TestProperties sends random events to the machine. A finished call never changes, nothing is
// dispatched or started before it was allowed, a refused step changes nothing, and replaying the
// event records leads to the same state.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var cur *toolcall.Call
		var records []*toolcall.EventRecord
		wasAllowed := false
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			m := toolcall.Load(cur)
			took := false
			for range rapid.IntRange(1, 3).Draw(t, "steps in an event record") {
				took = m.Step(anyEvent(t)) == nil || took
			}
			if !took {
				if len(m.Path()) != 0 {
					t.Fatalf("refused steps are in the path: %v", m.Path())
				}
				continue
			}
			if cur != nil && cur.State == message.ToolCallFinished {
				t.Fatalf("a finished call moved: %v", m.Path())
			}
			for _, s := range m.Path() {
				wasAllowed = wasAllowed || s.To == message.ToolCallAllowed
				if (s.Cause == string(toolcall.CauseSubmit) || s.Cause == string(toolcall.CauseStart)) && !wasAllowed {
					t.Fatalf("%s before it was allowed", s.Cause)
				}
			}
			for _, e := range m.Effects() {
				if e == toolcall.EffectRun && !wasAllowed {
					t.Fatalf("effect %s before it was allowed", e)
				}
			}
			cur = m.Call()
			records = append(records, &toolcall.EventRecord{Call: cur, Path: m.Path()})
		}
		if len(records) == 0 {
			return
		}
		got, err := toolcall.Replay(records)
		if err != nil {
			t.Fatalf("replay: %v", err)
		}
		if got != cur {
			t.Fatalf("replay ends in %+v, the machine in %+v", got, cur)
		}
	})
}
