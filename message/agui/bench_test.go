package agui

import (
	"io"
	"testing"

	"github.com/askance-dev/askance/message"
)

var (
	benchDelta     = &TextMessageContent{MessageID: "msg-1", Delta: "some words of text"}
	benchInterrupt = &RunFinished{ThreadID: "t", RunID: "r", Outcome: &Outcome{Type: OutcomeInterrupt, Interrupts: []Interrupt{{
		ID: "int-1", Reason: ReasonToolCall, ToolCallID: new("call-1"),
		ResponseSchema: message.RawJSON(`{"type":"object","properties":{"approved":{"type":"boolean"}},"required":["approved"]}`),
	}}}}
)

func BenchmarkAppendFrame(b *testing.B) {
	for name, e := range map[string]Event{"delta": benchDelta, "interrupt": benchInterrupt} {
		b.Run(name, func(b *testing.B) {
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if buf, err = AppendFrame(buf[:0], e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkWriter(b *testing.B) {
	w := NewWriter(io.Discard, PeerLegacy)
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Write(benchDelta); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeEvent(b *testing.B) {
	for name, e := range map[string]Event{"delta": benchDelta, "interrupt": benchInterrupt} {
		data, err := AppendJSON(nil, e)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := DecodeEvent(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
