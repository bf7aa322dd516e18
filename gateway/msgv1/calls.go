package msgv1

import (
	"fmt"

	"github.com/askance-dev/askance/message"
	v1 "github.com/askance-dev/askance/message/v1"
	"github.com/askance-dev/askance/toolcall"
)

// Proposal reads the tool calls of one turn from the assistant's dicts, and the agent's name. It
// ignores text and thinking in them: a proposal does not record them.
func Proposal(op string, raw []message.RawJSON) (agent string, calls []message.ToolCallBlock, err error) {
	dicts, err := Decode(op, raw)
	if err != nil {
		return "", nil, err
	}
	msgs, err := Convert(op, dicts)
	if err != nil {
		return "", nil, err
	}
	if len(msgs) != 1 || msgs[0].Role != message.RoleAssistant || len(message.BlocksOf[*message.ToolResultBlock](msgs[0])) > 0 {
		return "", nil, &message.Error{Code: message.CodeInvalid, Op: op, What: "the messages are not one turn of an assistant without results", Hint: "send the assistant's message with the tool_use blocks, and no other"}
	}
	for _, b := range message.BlocksOf[*message.ToolCallBlock](msgs[0]) {
		calls = append(calls, *b)
	}
	return msgs[0].Name, calls, nil
}

// Result reads the result of one call from the dict that holds it.
func Result(op string, raw []message.RawJSON, call message.CallID) (message.ToolResultBlock, error) {
	dicts, err := Decode(op, raw)
	if err != nil {
		return message.ToolResultBlock{}, err
	}
	wrong := &message.Error{Code: message.CodeInvalid, Op: op, What: fmt.Sprintf("the messages are not one tool_result of the call %.100q", string(call)), Hint: "send the system's message with that tool_result, and no other"}
	if len(dicts) != 1 || len(dicts[0].Content.Blocks) != 1 {
		return message.ToolResultBlock{}, wrong
	}
	result, ok := dicts[0].Content.Blocks[0].(*v1.ToolResultBlock)
	if !ok || result.ID != call {
		return message.ToolResultBlock{}, wrong
	}
	// The result follows its call, as in the agent's memory.
	use := &v1.Msg{ID: "call", Role: message.RoleAssistant, Content: v1.List(&v1.ToolUseBlock{ID: call, Name: result.Name, Input: message.RawJSON("{}")}), Metadata: message.RawJSON("{}")}
	msgs, err := Convert(op, []*v1.Msg{use, dicts[0]})
	if err != nil {
		return message.ToolResultBlock{}, err
	}
	return *msgs[0].ToolResult(call), nil
}

// Calls makes dicts of the calls of a reply in their current state: the assistant's tool_use
// blocks with the open approval requests, then the results.
func Calls(kind string, reply message.ReplyID, calls []*toolcall.Call) ([]message.RawJSON, []Loss, error) {
	if len(calls) == 0 {
		return []message.RawJSON{}, nil, nil
	}
	m := &message.Msg{
		ID: string(reply), Name: calls[0].Agent, Role: message.RoleAssistant,
		CreatedAt: message.Timestamp(calls[0].ProposedAt), Metadata: map[string]any{}, Content: []message.Block{},
	}
	open := map[message.CallID]string{}
	var results []message.Block
	for _, c := range calls {
		at := message.Timestamp(c.ProposedAt)
		m.Content = append(m.Content, &message.ToolCallBlock{ID: c.Call, Name: c.Tool, Input: c.Input, State: c.State, SuggestedRules: c.Suggested, CreatedAt: at})
		if c.State == message.ToolCallAsking {
			open[c.Call] = c.Digest
		}
		if c.Result != nil {
			results = append(results, c.Result)
		}
	}
	m.Content = append(m.Content, results...)
	return Encode(kind, []*message.Msg{m}, func(_ message.ReplyID, id message.CallID) string { return open[id] })
}
