package agui_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/askance-dev/askance/message/agui"
)

// A server answers a run with a stream of events.
func ExampleWriter() {
	in, err := agui.DecodeRunInput([]byte(`{"threadId":"t1","runId":"r1","protocolVersion":"1.0",
		"messages":[{"id":"m1","role":"user","content":"hello"}],"tools":[],"context":[]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	peer, err := agui.PeerOf(in.ProtocolVersion)
	if err != nil {
		fmt.Println(err)
		return
	}
	w := agui.NewWriter(os.Stdout, peer)
	for _, e := range []agui.Event{
		&agui.RunStarted{ThreadID: in.ThreadID, RunID: in.RunID, ProtocolVersion: new(agui.Version)},
		&agui.TextMessageStart{MessageID: "m2", Role: new(agui.RoleAssistant)},
		&agui.TextMessageContent{MessageID: "m2", Delta: "hi"},
		&agui.TextMessageEnd{MessageID: "m2"},
		&agui.RunFinished{ThreadID: in.ThreadID, RunID: in.RunID},
	} {
		if err := w.Write(e); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// data: {"type":"RUN_STARTED","threadId":"t1","runId":"r1","protocolVersion":"1.0"}
	//
	// data: {"type":"TEXT_MESSAGE_START","messageId":"m2","role":"assistant"}
	//
	// data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"m2","delta":"hi"}
	//
	// data: {"type":"TEXT_MESSAGE_END","messageId":"m2"}
	//
	// data: {"type":"RUN_FINISHED","threadId":"t1","runId":"r1"}
}

// A client reads the events, and is told what departs from the protocol.
func ExampleReader() {
	stream := "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t1\",\"runId\":\"r1\"}\n\n" +
		": keep-alive\n\n" +
		"data: {\"type\":\"TOOL_CALL_START\",\"toolCallId\":\"c1\",\"toolCallName\":\"refund\",\"parentMessageId\":null}\n\n"
	d := &agui.Decoder{OnDeviation: func(dev agui.Deviation) { fmt.Println("-", dev.Kind, dev.Path) }}
	for r := agui.NewReader(strings.NewReader(stream), d); ; {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Type())
	}
	// Output:
	// RUN_STARTED
	// - null /parentMessageId
	// TOOL_CALL_START
}

// Errors say what is wrong, where, and how to mend it.
func ExampleDecodeEvent() {
	_, err := agui.DecodeEvent([]byte(`{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":{"path":"/tmp"}}`))
	fmt.Println(err)
	// Output: decode AG-UI event: decode JSON at /delta (byte 51): wrong type: want string, got object; see the field's documented type
}
