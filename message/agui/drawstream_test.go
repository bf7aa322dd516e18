package agui

import (
	"slices"

	"github.com/askance-dev/askance/message"
	"pgregory.net/rapid"
)

var (
	fewIDs  = rapid.SampledFrom([]string{"a", "b"})
	fewTags = rapid.SampledFrom([]*string{nil, nil, nil, new("s"), new("")})
)

// drawStep makes an event with ids of a small choice, so that a stream of them
// often goes right for a while and then wrong.
func drawStep(t *rapid.T) Event {
	id, tag := fewIDs.Draw(t, "id"), Tagged{SubagentRunID: fewTags.Draw(t, "tag")}
	opt := func() *string { return rapid.SampledFrom([]*string{nil, &id}).Draw(t, "optional") }
	kinds := []Event{
		&RunStarted{ThreadID: "t", RunID: id},
		&RunStarted{ThreadID: "t", RunID: id, Input: &RunInput{Messages: []Message{{ID: id, Role: RoleReasoning, Content: Text(""), SubagentRunID: tag.SubagentRunID}}}},
		&RunFinished{ThreadID: "t", RunID: id},
		&RunError{Message: "m"},
		&StepStarted{Tagged: tag, StepName: id}, &StepFinished{Tagged: tag, StepName: id},
		&TextMessageStart{Tagged: tag, MessageID: id}, &TextMessageContent{Tagged: tag, MessageID: id}, &TextMessageEnd{Tagged: tag, MessageID: id},
		&ToolCallStart{Tagged: tag, ToolCallID: id, ToolCallName: "n", ParentMessageID: opt()}, &ToolCallArgs{Tagged: tag, ToolCallID: id}, &ToolCallEnd{Tagged: tag, ToolCallID: id},
		&ToolCallResult{Tagged: tag, MessageID: id, ToolCallID: id},
		&ReasoningStart{Tagged: tag, MessageID: id}, &ReasoningEnd{Tagged: tag, MessageID: id},
		&ReasoningMessageStart{Tagged: tag, MessageID: id}, &ReasoningMessageContent{Tagged: tag, MessageID: id}, &ReasoningMessageEnd{Tagged: tag, MessageID: id},
		&ReasoningEncryptedValue{Tagged: tag, Subtype: EncryptedMessage, EntityID: id}, &ReasoningEncryptedValue{Tagged: tag, Subtype: EncryptedToolCall, EntityID: id},
		&ActivitySnapshot{Tagged: tag, MessageID: id, Content: message.RawJSON("{}"), Replace: rapid.SampledFrom([]*bool{nil, new(false)}).Draw(t, "replace")},
		&ActivityDelta{Tagged: tag, MessageID: id},
		&SubagentStarted{SubagentRunID: "s", Name: "n", ParentSubagentRunID: opt()}, &SubagentFinished{SubagentRunID: "s"}, &SubagentError{SubagentRunID: "s"},
		&MessagesSnapshot{Messages: []Message{
			{ID: id, Role: RoleAssistant, SubagentRunID: tag.SubagentRunID, ToolCalls: []ToolCall{{ID: id}}},
			{ID: id, Role: RoleActivity, Activity: message.RawJSON("{}"), SubagentRunID: tag.SubagentRunID},
		}},
		&Custom{Tagged: tag, Value: message.RawJSON("null")}, &Raw{Tagged: tag, Event: message.RawJSON("null")}, &StateSnapshot{Tagged: tag, Snapshot: message.RawJSON("{}")},
		&TextMessageChunk{Tagged: tag, MessageID: opt(), Delta: opt(), Name: opt()},
		&ToolCallChunk{Tagged: tag, ToolCallID: opt(), ToolCallName: opt(), ParentMessageID: opt(), Delta: opt()},
		&ReasoningMessageChunk{Tagged: tag, MessageID: opt(), Delta: opt()},
	}
	return rapid.SampledFrom(kinds).Draw(t, "event")
}

// drawStream makes a stream that mostly goes right: of several candidates for
// each place it prefers those that the verifier takes.
func drawStream(t *rapid.T) []Event {
	out := []Event{&RunStarted{ThreadID: "t", RunID: "a"}}
	for range rapid.IntRange(12, 40).Draw(t, "length") {
		e := drawStep(t)
		for range 6 {
			if rapid.IntRange(1, 30).Draw(t, "careless") == 30 || verdict(append(slices.Clip(out), e)) > len(out) {
				break
			}
			e = drawStep(t)
		}
		out = append(out, e)
	}
	return out
}

// verdict is the index of the first event that is refused, or their number.
func verdict(events []Event) int {
	var v Verifier
	for i, e := range events {
		if v.Check(e) != nil {
			return i
		}
	}
	return len(events)
}
