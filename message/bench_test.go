package message

import (
	"fmt"
	"strings"
	"testing"
)

var benchDelta = `{"id":"0123456789abcdef0123456789abcdef","created_at":"2026-03-01T09:00:00.001","metadata":{},"type":"TEXT_BLOCK_DELTA","reply_id":"r","block_id":"b","delta":"some words of text"}`

func BenchmarkDecodeEvent(b *testing.B) {
	data := []byte(benchDelta)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeEvent(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeEvent(b *testing.B) {
	e, err := DecodeEvent([]byte(benchDelta))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.MarshalJSON(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeMsg(b *testing.B) {
	for _, n := range []int{1, 100} {
		block := `{"type":"tool_call","id":"c","name":"n","input":"{\"a\":1}","state":"pending","suggested_rules":[],"created_at":"t","finished_at":null}`
		data := []byte(`{"name":"n","role":"assistant","id":"m","content":[` + strings.TrimSuffix(strings.Repeat(block+",", n), ",") + `]}`)
		b.Run(fmt.Sprintf("blocks=%d", n), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := DecodeMsg(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
