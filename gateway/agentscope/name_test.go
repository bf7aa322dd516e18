package agentscope_test

import (
	"testing"

	"github.com/askance-dev/askance/gateway/agentscope"
	"github.com/askance-dev/askance/gateway/gatewaytest"
)

// TestWhoSaysIt: a message gets the name of its sender, even if its body contains another name.
func TestWhoSaysIt(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.ok(s.me(), "POST", "/chat", map[string]any{"agent_id": "bot", "session_id": "s1", "input": map[string]any{
		"id": "m1", "name": gatewaytest.Ann, "role": "user", "content": []any{map[string]any{"type": "text", "id": "b1", "text": "say hello"}},
	}}, nil)
	var history agentscope.MessagesReply
	s.ok(s.me(), "GET", "/sessions/s1/messages", nil, &history)
	if len(history.Messages) == 0 || history.Messages[0].Name != gatewaytest.Everything {
		t.Errorf("the history is %+v", history.Messages)
	}
}
