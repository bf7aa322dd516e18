package toolcall_test

import (
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// BenchmarkStored measures encoding and reading back a record, as a writer does, and decoding a
// result that builds on the previous record.
func BenchmarkStored(b *testing.B) {
	s := newShelf(b)
	c := newCall()
	c.Records = 1
	s.add(recordOf(1, c, []toolcall.Step{{Cause: "propose", To: "pending"}}))
	base := s.read[10]
	d := c.Clone()
	end := "2026-11-23T17:09:45.468276"
	d.Records, d.State, d.Cause, d.First = 2, "finished", "result", 10
	d.Result = &message.ToolResultBlock{ID: d.Call, Name: d.Tool, Output: message.Content{Text: "done"}, State: "success", Metadata: map[string]any{}, CreatedAt: end, FinishedAt: &end}
	rec := recordOf(2, d, []toolcall.Step{{Cause: "result", From: "pending", To: "finished"}})
	s.add(rec)
	body := s.bodies[1]
	b.Run("encode and read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := toolcall.EncodeAndRead(rec, base); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encode and read an explanation", func(b *testing.B) {
		explained := *rec
		explained.Explanation = message.RawJSON(`["` + strings.Repeat("x", 8<<10) + `"]`)
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := toolcall.EncodeAndRead(&explained, base); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			stored, err := toolcall.DecodeStored(body)
			if err == nil {
				_, err = stored.Expand(base)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
