package blockstream_test

import (
	"fmt"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
)

// Events of an agent become frames, and an approval becomes responses.
func Example() {
	m, err := blockstream.NewMapper(blockstream.Config{Session: "abc-123"})
	if err != nil {
		panic(err)
	}
	h := message.EventHeader{ID: "e1", CreatedAt: "2026-03-01T09:00:00", Reply: "msg-1"}
	frames, err := m.Event(&message.RequireUserConfirm{EventHeader: h, ToolCalls: []message.ToolCallBlock{
		{ID: "toolu_1", Name: "refund", Input: `{"cents":500}`},
	}})
	if err != nil {
		panic(err)
	}
	for _, f := range frames {
		fmt.Println(blockstream.FrameTypeOf(f))
	}
	cmd, err := blockstream.DecodeCommand([]byte(`{"type":"approval","decisions":[{"type":"edit","edited_action":{"name":"refund","args":{"cents":400}}}]}`))
	if err != nil {
		panic(err)
	}
	responses, err := m.Responses(cmd.(*blockstream.Approval))
	if err != nil {
		panic(err)
	}
	fmt.Println(responses[0].Call, responses[0].Kind, *responses[0].Input)
	// Output:
	// message_start
	// content_block_start
	// content_block_delta
	// content_block_stop
	// toolu_1 approve {"cents":400}
}

func ExampleAppendFrame() {
	raw, err := blockstream.AppendFrame(nil, &blockstream.BlockDelta{
		Header: blockstream.Header{MessageID: "msg-1"}, Index: 1,
		Delta: &blockstream.TextDelta{Text: "82,000"},
	})
	fmt.Println(string(raw), err)
	// Output: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"82,000"},"message_id":"msg-1"} <nil>
}

func ExampleCut() {
	shown, cut := blockstream.Cut("short output")
	fmt.Println(shown, cut)
	// Output: short output false
}
