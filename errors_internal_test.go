package askance

import (
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// A blocked call's error says what an operator can do about that block.
func TestBlockedEnding(t *testing.T) {
	returned := &toolcall.TaskReturn{Worker: "w1", Reason: "the engine key is missing", Times: toolcall.MaxReturns}
	for blocked, hint := range map[toolcall.Blocked]string{
		toolcall.BlockedUnknown:    "an operator must resolve it",
		toolcall.BlockedDeadLetter: "an operator must resolve it",
		toolcall.BlockedNoWorker:   "start a worker",
		toolcall.BlockedReturned:   "worker w1 returned the task (8 of 8 times): the engine key is missing; correct that",
		toolcall.BlockedKey:        "the key of bob is unknown",
	} {
		c := &toolcall.Call{State: message.ToolCallSubmitted, Blocked: blocked, BlockedReason: "the key of bob is unknown", Returned: returned}
		if e, text := blockedEnding(c); !strings.HasPrefix(e.hint, hint) || !strings.Contains(text, "Do not repeat it") && !strings.Contains(text, "do not repeat it") {
			t.Errorf("%s: %q, %q, want the hint %q", blocked, e.hint, text, hint)
		}
	}
}

// Only a call that surely did not run may be called again after an interrupt.
func TestInterruptedEnding(t *testing.T) {
	at := toolcall.Base{}
	for name, c := range map[string]struct {
		steps []toolcall.Event
		hint  string
	}{
		"queued":           {nil, "call again if it is still needed"},
		"reported unknown": {[]toolcall.Event{toolcall.Suspended{Base: at, Attempt: 1, Blocked: toolcall.BlockedUnknown}}, "it may have taken effect: find out before you call again"},
		"begun":            {[]toolcall.Event{toolcall.Started{Base: at, Attempt: 1, Worker: "bot", Claim: "x"}}, "it may have taken effect: find out before you call again"},
	} {
		m := toolcall.Load(nil)
		steps := append([]toolcall.Event{
			toolcall.Proposed{Base: at, Call: &toolcall.Call{Tool: "t", Input: "{}"}},
			toolcall.Decided{Base: at, Decision: toolcall.Decision{Behavior: message.BehaviorAllow}, Placement: toolcall.PlaceExternal},
			toolcall.Submitted{Base: at, Attempt: toolcall.Attempt{Number: 1}},
		}, append(c.steps, toolcall.Interrupted{Base: at})...)
		for _, step := range steps {
			if err := m.Step(step); err != nil {
				t.Fatal(err)
			}
		}
		if e := resultEnding(m.Call()); e.hint != c.hint {
			t.Errorf("%s: %q, want %q", name, e.hint, c.hint)
		}
	}
}
