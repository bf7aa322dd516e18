package v1_test

import (
	"fmt"

	"github.com/askance-dev/askance/message"
	v1 "github.com/askance-dev/askance/message/v1"
)

// A conversation of 1.x dicts becomes messages of 2.0. A call and its result are in the same
// message.
func ExampleCodec_ToMsgs() {
	dicts, err := v1.Codec{}.DecodeMsgs([]byte(`[
		{"id":"u1","name":"ann","role":"user","content":"Refund order 7.","metadata":{},"timestamp":"2026-11-21 09:32:43.576"},
		{"id":"a1","name":"Friday","role":"assistant","content":[{"type":"tool_use","id":"c1","name":"refund","input":{"order":7}}],"metadata":{},"timestamp":"2026-11-21 09:32:44.000"},
		{"id":"r1","name":"system","role":"system","content":[{"type":"tool_result","id":"c1","name":"refund","output":"ok"}],"metadata":{},"timestamp":"2026-11-21 09:32:45.000"},
		{"id":"a2","name":"Friday","role":"assistant","content":[{"type":"text","text":"Done."}],"metadata":{},"timestamp":"2026-11-21 09:32:46.000"}]`))
	if err != nil {
		panic(err)
	}
	msgs, err := v1.Codec{}.ToMsgs(dicts)
	if err != nil {
		panic(err)
	}
	for _, m := range msgs {
		fmt.Println(m)
	}
	call := msgs[1].ToolCall("c1")
	fmt.Println(call.Name, call.Input, call.State)
	// Output:
	// user message u1 from "ann", 1 blocks
	// assistant message a1 from "Friday", 3 blocks
	// refund {"order":7} finished
}

// An open approval request about a call is in the dict's metadata. A decision comes back in the
// same way and names the request by its digest.
func ExampleDecisions_Responses() {
	m, err := message.AssistantMsg("Friday", message.List(&message.ToolCallBlock{
		ID: "c1", Name: "refund", Input: `{"cents":500}`, State: message.ToolCallAsking, CreatedAt: "2026-03-01T09:00:00",
	}), message.WithID("reply-1"), message.WithCreatedAt("2026-03-01T09:00:00"))
	if err != nil {
		panic(err)
	}
	c := v1.Codec{Digest: func(message.ReplyID, message.CallID) string { return "sha256:1234" }}
	dicts, err := c.FromMsgs([]*message.Msg{m})
	if err != nil {
		panic(err)
	}
	fmt.Println(string(dicts[0].Metadata))
	answered, err := v1.Codec{}.DecodeMsgs([]byte(`[{"name":"ann","role":"user","content":"go on","metadata":
		{"askance":{"request_id":"reply-1","decisions":[{"tool_use_id":"c1","digest":"sha256:1234","type":"approve","input":{"cents":400}}]}}}]`))
	if err != nil {
		panic(err)
	}
	decisions, err := v1.DecisionsOf(answered[0])
	if err != nil {
		panic(err)
	}
	responses, err := decisions.Responses("default", "s")
	if err != nil {
		panic(err)
	}
	fmt.Println(responses[0].Reply, responses[0].Call, responses[0].Kind, *responses[0].Input, responses[0].Digest)
	// Output:
	// {"askance":{"calls":[{"digest":"sha256:1234","state":"asking","tool_use_id":"c1"}],"part":0,"reply_id":"reply-1","request_id":"reply-1"}}
	// reply-1 c1 approve {"cents":400} sha256:1234
}

// A dict of either dialect is encoded in the dialect of the codec.
func ExampleCodec_AppendMsg() {
	dicts, err := v1.Codec{}.DecodeMsgs([]byte(`[{"__module__":"agentscope.message.msg","__name__":"Msg","id":"1f","name":"Jarvis","role":"assistant","content":"Hi","metadata":null,"timestamp":"2025-04-09 03:39:15"}]`))
	if err != nil {
		panic(err)
	}
	newer, err := v1.Codec{Dialect: v1.V1}.AppendMsg(nil, dicts[0])
	if err != nil {
		panic(err)
	}
	fmt.Println(dicts[0].Dialect)
	fmt.Println(string(newer))
	// Output:
	// AgentScope 0.1.x
	// {"id":"1f","name":"Jarvis","role":"assistant","content":"Hi","metadata":null,"timestamp":"2025-04-09 03:39:15.000"}
}
