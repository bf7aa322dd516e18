package agui_test

import (
	"slices"

	"github.com/askance-dev/askance/internal/aguitest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/agui"
	"pgregory.net/rapid"
)

var (
	fewIDs  = rapid.SampledFrom([]string{"a", "b"})
	fewTags = rapid.SampledFrom([]*string{nil, nil, nil, new("s"), new("")})
)

// drawStep draws an event with few different ids, so a stream of them is often valid for a while
// before it fails.
func drawStep(t *rapid.T) agui.Event {
	id, tag := fewIDs.Draw(t, "id"), agui.Tagged{SubagentRunID: fewTags.Draw(t, "tag")}
	opt := func() *string { return rapid.SampledFrom([]*string{nil, &id}).Draw(t, "optional") }
	kinds := []agui.Event{
		&agui.RunStarted{ThreadID: "t", RunID: id},
		&agui.RunStarted{ThreadID: "t", RunID: id, Input: &agui.RunInput{Messages: []agui.Message{{ID: id, Role: agui.RoleReasoning, Content: agui.Text(""), SubagentRunID: tag.SubagentRunID}}}},
		&agui.RunFinished{ThreadID: "t", RunID: id},
		&agui.RunError{Message: "m"},
		&agui.StepStarted{Tagged: tag, StepName: id}, &agui.StepFinished{Tagged: tag, StepName: id},
		&agui.TextMessageStart{Tagged: tag, MessageID: id}, &agui.TextMessageContent{Tagged: tag, MessageID: id}, &agui.TextMessageEnd{Tagged: tag, MessageID: id},
		&agui.ToolCallStart{Tagged: tag, ToolCallID: id, ToolCallName: "n", ParentMessageID: opt()}, &agui.ToolCallArgs{Tagged: tag, ToolCallID: id}, &agui.ToolCallEnd{Tagged: tag, ToolCallID: id},
		&agui.ToolCallResult{Tagged: tag, MessageID: id, ToolCallID: id},
		&agui.ReasoningStart{Tagged: tag, MessageID: id}, &agui.ReasoningEnd{Tagged: tag, MessageID: id},
		&agui.ReasoningMessageStart{Tagged: tag, MessageID: id}, &agui.ReasoningMessageContent{Tagged: tag, MessageID: id}, &agui.ReasoningMessageEnd{Tagged: tag, MessageID: id},
		&agui.ReasoningEncryptedValue{Tagged: tag, Subtype: agui.EncryptedMessage, EntityID: id}, &agui.ReasoningEncryptedValue{Tagged: tag, Subtype: agui.EncryptedToolCall, EntityID: id},
		&agui.ActivitySnapshot{Tagged: tag, MessageID: id, Content: message.RawJSON("{}"), Replace: rapid.SampledFrom([]*bool{nil, new(false)}).Draw(t, "replace")},
		&agui.ActivityDelta{Tagged: tag, MessageID: id},
		&agui.SubagentStarted{SubagentRunID: "s", Name: "n", ParentSubagentRunID: opt()}, &agui.SubagentFinished{SubagentRunID: "s"}, &agui.SubagentError{SubagentRunID: "s"},
		&agui.MessagesSnapshot{Messages: []agui.Message{
			{ID: id, Role: agui.RoleAssistant, SubagentRunID: tag.SubagentRunID, ToolCalls: []agui.ToolCall{{ID: id}}},
			{ID: id, Role: agui.RoleActivity, Activity: message.RawJSON("{}"), SubagentRunID: tag.SubagentRunID},
		}},
		&agui.Custom{Tagged: tag, Value: message.RawJSON("null")}, &agui.Raw{Tagged: tag, Event: message.RawJSON("null")}, &agui.StateSnapshot{Tagged: tag, Snapshot: message.RawJSON("{}")},
		&agui.TextMessageChunk{Tagged: tag, MessageID: opt(), Delta: opt(), Name: opt()},
		&agui.ToolCallChunk{Tagged: tag, ToolCallID: opt(), ToolCallName: opt(), ParentMessageID: opt(), Delta: opt()},
		&agui.ReasoningMessageChunk{Tagged: tag, MessageID: opt(), Delta: opt()},
	}
	return rapid.SampledFrom(kinds).Draw(t, "event")
}

// drawStream draws a stream that is mostly valid: of several candidates for each place it prefers
// those that the verifier accepts.
func drawStream(t *rapid.T) []agui.Event {
	out := []agui.Event{&agui.RunStarted{ThreadID: "t", RunID: "a"}}
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

// verdict returns the index of the first refused event, or the number of events.
func verdict(events []agui.Event) int {
	var v aguitest.ClientVerifier
	for i, e := range events {
		if v.Check(e) != nil {
			return i
		}
	}
	return len(events)
}
