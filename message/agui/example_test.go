package agui_test

import (
	"fmt"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/agui"
)

// A server answers a run with a stream of events.
func ExampleAppendFrame() {
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
	write(peer,
		&agui.RunStarted{ThreadID: in.ThreadID, RunID: in.RunID, ProtocolVersion: new(agui.Version)},
		&agui.TextMessageStart{MessageID: "m2", Role: new(agui.RoleAssistant)},
		&agui.TextMessageContent{MessageID: "m2", Delta: "hi"},
		&agui.TextMessageEnd{MessageID: "m2"},
		&agui.RunFinished{ThreadID: in.ThreadID, RunID: in.RunID},
	)
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

// write prints events as a stream for a peer.
func write(peer agui.Peer, events ...agui.Event) {
	for _, e := range events {
		adapted, _ := peer.Adapt(e)
		frame, err := agui.AppendFrame(nil, adapted)
		if err != nil {
			fmt.Println(err)
		}
		fmt.Print(string(frame))
	}
}

// An error says what is wrong, where, and what to do.
func ExampleDecodeRunInput() {
	_, err := agui.DecodeRunInput([]byte(`{"threadId":"t1","runId":"r1","messages":{}}`))
	fmt.Println(err)
	// Output: decode run input: decode JSON at /messages (byte 41): wrong type: want array, got object; give a value of the wanted type
}

// An approval request ends a run, and the answer starts the next. The payload contains denials,
// edits and rules.
func ExampleThread_Resume() {
	open := agui.Interrupt{
		ID: "q1", Reason: agui.ReasonToolCall, ToolCallID: new("call-1"), ResponseSchema: agui.ResponseSchema(true, false),
	}
	thread := agui.Thread{Open: []agui.Interrupt{open}}
	answer := func(entries ...agui.ResumeEntry) {
		r, err := thread.Resume(entries, time.Now())
		if err != nil {
			fmt.Println("refused:", err)
			return
		}
		a := r.Answers[0]
		fmt.Println(a.Interrupt.ID, a.Approved, string(a.Edited), a.Abandoned)
	}
	answer()
	answer(agui.ResumeEntry{InterruptID: "q1", Status: agui.ResumeResolved, Payload: message.RawJSON(`{"approved":true,"editedArgs":{"cents":400}}`)})
	answer(agui.ResumeEntry{InterruptID: "q1", Status: agui.ResumeResolved, Payload: message.RawJSON(`{"approved":true,"editedargs":{"cents":400}}`)})
	answer(agui.ResumeEntry{InterruptID: "q1", Status: agui.ResumeCancelled})
	// Output:
	// refused: resume AG-UI run: interrupt q1: the thread waits for an answer, but the run has none
	// q1 true {"cents":400} false
	// refused: resume AG-UI run: interrupt q1: decode JSON at /editedargs (byte 30): unknown member: "editedargs"; remove it or correct its spelling; names are case-sensitive
	// q1 false  true
}

// The events of a reply become the events of a run.
func ExampleMapper() {
	m := agui.NewMapper(agui.Run{ThreadID: "t1", RunID: "r1", Peer: agui.Peer10}, agui.Mapping{})
	h := message.EventHeader{CreatedAt: "2026-03-01T09:00:00", Reply: "reply-1"}
	write(agui.Peer10, m.Map(&message.TextBlockStart{EventHeader: h, BlockID: "b1"})...)
	write(agui.Peer10, m.Map(&message.TextBlockDelta{EventHeader: h, BlockID: "b1", Delta: "hi"})...)
	write(agui.Peer10, m.Map(&message.ReplyEnd{EventHeader: h, FinishedReason: message.FinishedInterrupted})...)
	// Output:
	// data: {"type":"RUN_STARTED","threadId":"t1","runId":"r1","protocolVersion":"1.0","timestamp":1772355600000,"metadata":{"agentscope":{"replyId":"reply-1"}}}
	//
	// data: {"type":"TEXT_MESSAGE_START","messageId":"b1","role":"assistant","timestamp":1772355600000}
	//
	// data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"b1","delta":"hi","timestamp":1772355600000}
	//
	// data: {"type":"TEXT_MESSAGE_END","messageId":"b1","timestamp":1772355600000}
	//
	// data: {"type":"RUN_FINISHED","threadId":"t1","runId":"r1","outcome":{"type":"cancelled"},"timestamp":1772355600000,"metadata":{"agentscope":{"finishedReason":"interrupted","sessionId":""}}}
}
