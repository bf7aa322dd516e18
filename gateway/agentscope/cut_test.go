package agentscope_test

import (
	"testing"

	"github.com/askance-dev/askance/gateway/gatewaytest"
)

// TestBodyThatBreaksOff: a message that did not arrive completely begins no turn.
func TestBodyThatBreaksOff(t *testing.T) {
	s := newStage(t)
	chat := `{"agent_id":"bot","session_id":"s1","input":{"role":"user","name":"me","content":[{"type":"text","text":"say hi"}]}}`
	s.Cut("Authorization: Bearer "+s.A.Token(gatewaytest.Everything), "/agentscope/chat", "application/json", chat)
	if status, body := s.send(s.me(), "POST", "/chat", chat); status != 200 {
		t.Errorf("the complete message: %d %s", status, body)
	}
}
