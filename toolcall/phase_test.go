package toolcall_test

import (
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func TestPhase(t *testing.T) {
	later, owned := time.Unix(1, 0), toolcall.Attempt{Number: 1, Claim: "x"}
	tests := []struct {
		call toolcall.Call
		want toolcall.Phase
	}{
		{toolcall.Call{}, ""},
		{toolcall.Call{State: message.ToolCallPending}, toolcall.PhaseWaiting},
		{toolcall.Call{State: message.ToolCallAsking}, toolcall.PhaseAsking},
		{toolcall.Call{State: message.ToolCallAllowed}, toolcall.PhaseReady},
		{toolcall.Call{State: message.ToolCallAllowed, Attempt: owned}, toolcall.PhaseRunning},
		{toolcall.Call{State: message.ToolCallSubmitted}, toolcall.PhaseQueued},
		{toolcall.Call{State: message.ToolCallSubmitted, Attempt: owned}, toolcall.PhaseRunning},
		{toolcall.Call{State: message.ToolCallSubmitted, Attempt: owned, RetryAt: later}, toolcall.PhaseRetrying},
		{toolcall.Call{State: message.ToolCallAllowed, RetryAt: later}, toolcall.PhaseRetrying},
		{toolcall.Call{State: message.ToolCallSubmitted, Attempt: owned, Blocked: toolcall.BlockedUnknown}, toolcall.PhaseBlocked},
		{toolcall.Call{State: message.ToolCallSubmitted, Blocked: toolcall.BlockedNoWorker}, toolcall.PhaseBlocked},
		{toolcall.Call{State: message.ToolCallFinished, Attempt: owned, RetryAt: later}, toolcall.PhaseFinished},
	}
	for _, tt := range tests {
		if got := tt.call.Phase(); got != tt.want {
			t.Errorf("the phase of %+v is %q, want %q", tt.call, got, tt.want)
		}
	}
}
