package message_test

import (
	"fmt"

	"github.com/askance-dev/askance/message"
)

// A message is rebuilt from the events that made it.
func ExampleAppend() {
	frames := []string{
		`{"type":"TEXT_BLOCK_START","id":"e1","created_at":"2026-03-01T09:00:00","reply_id":"reply-1","block_id":"t1"}`,
		`{"type":"TEXT_BLOCK_DELTA","id":"e2","created_at":"2026-03-01T09:00:01","reply_id":"reply-1","block_id":"t1","delta":"Hello, "}`,
		`{"type":"TEXT_BLOCK_DELTA","id":"e3","created_at":"2026-03-01T09:00:02","reply_id":"reply-1","block_id":"t1","delta":"world"}`,
		`{"type":"TOOL_CALL_START","id":"e4","created_at":"2026-03-01T09:00:03","reply_id":"reply-1","tool_call_id":"c1","tool_call_name":"refund"}`,
		`{"type":"TOOL_CALL_DELTA","id":"e5","created_at":"2026-03-01T09:00:04","reply_id":"reply-1","tool_call_id":"c1","delta":"{\"cents\":500}"}`,
	}
	m, err := message.AssistantMsg("agent", message.List(), message.WithID("reply-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, frame := range frames {
		e, err := message.DecodeEvent([]byte(frame))
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := message.Append(m, e); err != nil {
			fmt.Println(err)
			return
		}
	}
	text, _ := m.TextContent("\n")
	call := m.ToolCall("c1")
	fmt.Println(text)
	fmt.Println(call.Name, call.Input, call.State)
	// Output:
	// Hello, world
	// refund {"cents":500} pending
}

// Events are struct literals around a header.
func ExampleNewHeader() {
	e := &message.TextBlockDelta{EventHeader: message.NewHeader("reply-1"), BlockID: "t1", Delta: "hi"}
	fmt.Println(e.Type(), e.ReplyID(), len(e.ID))
	// Output: TEXT_BLOCK_DELTA reply-1 32
}

// A block of a type that this version does not know is kept unchanged.
func ExampleCodec_DecodeBlock() {
	b, err := message.Codec{}.DecodeBlock([]byte(`{"type":"hologram", "id":"h1", "light":[1.50, "x"]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	out, _ := b.MarshalJSON()
	fmt.Printf("%T %s\n%s\n", b, b.BlockID(), out)
	// Output:
	// *message.UnknownBlock h1
	// {"type":"hologram", "id":"h1", "light":[1.50, "x"]}
}

// Errors say what is wrong, where, and how to correct it.
func ExampleDecodeMsg() {
	_, err := message.DecodeMsg([]byte(`{"name":"bob","role":"user","content":[{"type":"text","Text":"hi"}]}`))
	fmt.Println(err)
	// Output: decode message: decode JSON at /content/0 (byte 39): missing member: "text"; add it; names are case-sensitive
}

func ExampleUserMsg() {
	m, err := message.UserMsg("bob", message.Content{Text: "please refund order 7"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Role, m.Name, m.HasBlocks(message.BlockText), m.FinishedAt != nil)
	// Output: user bob true true
}
