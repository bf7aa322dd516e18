package message_test

import (
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
)

func TestPhase(t *testing.T) {
	later, owned := time.Unix(1, 0), message.Attempt{Number: 1, Claim: "x"}
	tests := []struct {
		call message.Call
		want message.Phase
	}{
		{message.Call{}, ""},
		{message.Call{State: message.ToolCallPending}, message.PhaseWaiting},
		{message.Call{State: message.ToolCallAsking}, message.PhaseAsking},
		{message.Call{State: message.ToolCallAllowed}, message.PhaseReady},
		{message.Call{State: message.ToolCallAllowed, Attempt: owned}, message.PhaseRunning},
		{message.Call{State: message.ToolCallSubmitted}, message.PhaseQueued},
		{message.Call{State: message.ToolCallSubmitted, Attempt: owned}, message.PhaseRunning},
		{message.Call{State: message.ToolCallSubmitted, Attempt: owned, RetryAt: later}, message.PhaseRetrying},
		{message.Call{State: message.ToolCallAllowed, RetryAt: later}, message.PhaseRetrying},
		{message.Call{State: message.ToolCallSubmitted, Attempt: owned, Blocked: message.BlockedUnknown}, message.PhaseBlocked},
		{message.Call{State: message.ToolCallSubmitted, Blocked: message.BlockedNoWorker}, message.PhaseBlocked},
		{message.Call{State: message.ToolCallFinished, Attempt: owned, RetryAt: later}, message.PhaseFinished},
	}
	for _, tt := range tests {
		if got := tt.call.Phase(); got != tt.want {
			t.Errorf("the phase of %+v is %q, want %q", tt.call, got, tt.want)
		}
	}
}
