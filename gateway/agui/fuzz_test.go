package agui

import (
	"testing"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
)

// FuzzInput reads any body of a POST. An accepted input has ids, can be compared with any
// conversation, and reaches the agent as valid messages.
func FuzzInput(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, `{"threadId":"t","runId":"r","messages":[]}`,
		`{"threadId":"t","runId":"r","protocolVersion":"1.0","state":{"a":1},"messages":[{"id":"u","role":"user","content":"hi"},{"id":"a","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{"}}]},{"id":"x","role":"tool","toolCallId":"c","content":[{"type":"text","text":"y"}],"error":"z"}],"tools":[{"name":"f","description":""}],"context":[{"description":"d","value":"v"}],"resume":[{"interruptId":"i","status":"resolved","payload":{"approved":true}},{"interruptId":"j","status":"cancelled"}]}`,
		`{"threadId":"t","runId":"","messages":[{"id":"s","role":"system","content":"x"},{"id":"u","role":"user","content":[{"type":"image","source":{"type":"data","value":"aGk=","mimeType":"image/png"}},{"type":"binary","mimeType":"text/plain","data":"eA=="}]}]}`,
	} {
		f.Add([]byte(seed))
	}
	had := []wire.Message{
		{ID: "u", Role: wire.RoleUser, Content: wire.Text("hi")},
		{ID: "a", Role: wire.RoleAssistant, ToolCalls: []wire.ToolCall{{ID: "c", Name: "f", Arguments: "{}"}}},
		{ID: "r", Role: wire.RoleTool, ToolCallID: "c", Content: wire.Text("y")},
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		in, err := decodeInput(body)
		if err != nil {
			if message.AsError("", err).Code == message.CodeInternal {
				t.Fatalf("refused as an internal error: %v", err)
			}
			return
		}
		if in.ThreadID == "" || len(in.Messages) > MaxMessages {
			t.Fatal("accepted without a thread or with too many messages")
		}
		want := mergeMessages(in.Messages, had)
		for _, m := range had {
			if m.Role == wire.RoleAssistant && counterpart(want, m) < 0 {
				t.Fatalf("the agent's message %s is lost", m.ID)
			}
		}
		h := wire.NewHistory(in.Messages)
		for _, s := range planSnapshots(in.Messages, want) {
			h.Apply(&wire.MessagesSnapshot{Messages: s})
		}
		if unique(want) && unique(in.Messages) && needsSnapshot(h.Messages(), want) {
			t.Fatal("a client that received everything still needs a snapshot")
		}
		r := &run{in: in}
		r.peer = peerOfTests
		input, err := r.turnInput((&thread{}).newMessages(in))
		if err != nil {
			return
		}
		for _, m := range input.Messages {
			if err := m.Validate(); err != nil {
				t.Fatalf("an invalid message: %v", err)
			}
		}
	})
}

// unique reports whether every message has its own id and every result its own call. Otherwise
// clients behave differently.
func unique(messages []wire.Message) bool {
	for i, m := range messages {
		if counterpart(messages, m) != i {
			return false
		}
	}
	return true
}

var peerOfTests = &gateway.Peer{Identity: gateway.Identity{Name: "ann"}}
