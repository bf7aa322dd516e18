package agui_test

import (
	"testing"

	"github.com/askance-dev/askance/internal/aguitest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/agui"
)

var (
	benchDelta     = &agui.TextMessageContent{MessageID: "msg-1", Delta: "some words of text"}
	benchInterrupt = &agui.RunFinished{ThreadID: "t", RunID: "r", Outcome: &agui.Outcome{Type: agui.OutcomeInterrupt, Interrupts: []agui.Interrupt{{
		ID: "int-1", Reason: agui.ReasonToolCall, ToolCallID: new("call-1"),
		ResponseSchema: message.RawJSON(`{"type":"object","properties":{"approved":{"type":"boolean"}},"required":["approved"]}`),
	}}}}
)

func BenchmarkAppendFrame(b *testing.B) {
	for name, e := range map[string]agui.Event{"delta": benchDelta, "interrupt": benchInterrupt} {
		b.Run(name, func(b *testing.B) {
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if buf, err = agui.AppendFrame(buf[:0], e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecodeEvent(b *testing.B) {
	for name, e := range map[string]agui.Event{"delta": benchDelta, "interrupt": benchInterrupt} {
		data, err := agui.AppendJSON(nil, e)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := aguitest.DecodeEvent(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
