package blockstream_test

import (
	"testing"

	"github.com/askance-dev/askance/internal/codectest"
	"github.com/askance-dev/askance/message/blockstream"
	"github.com/askance-dev/askance/message/blockstream/blocktest"
	"github.com/askance-dev/askance/toolcall"
)

func FuzzDecodeFrame(f *testing.F) {
	for _, row := range published(f) {
		f.Add([]byte(row))
	}
	for _, s := range []string{``, `{}`, `[]`, `{"type":"pong","event_id":null}`, `{"type":"content_block_delta","index":0,"delta":{}}`, `{"type":"message_start","session_id":"","timestamp":1e300,"display_mode":"chat"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := blocktest.DecodeFrame(data)
		if err == nil {
			codectest.Stable(t, v, 0, encodeFrame, func(data []byte) (blockstream.Frame, error) {
				return blocktest.DecodeLarge(data, 16<<20) // encoding can make it larger
			})
		}
	})
}

func encodeFrame(f blockstream.Frame) ([]byte, error) { return blockstream.AppendFrame(nil, f) }

// FuzzDecodeCommand also applies every decision that can be decoded to an approval request. It
// never changes the tool, and only the word approve approves.
func FuzzDecodeCommand(f *testing.F) {
	for _, s := range []string{
		`{"type":"auth","token":"t"}`, `{"type":"subscribe","session_id":"a","last_event_id":"b"}`, `{"type":"chat","message":"x","content_urls":["u"]}`,
		`{"type":"approval","decisions":["approve"]}`, `{"type":"approval","approval_key":"s_1","decisions":[{"type":"edit","edited_action":{"name":"t","args":{"q":2}}}]}`,
		`{"type":"approval","decisions":[{"decision":"reject","message":"no","tool_use_id":"c"}]}`, `{"type":"approval","decisions":[{"type":"respond","message":"x"}]}`, `{"type":"stop"}`, `{}`,
	} {
		f.Add([]byte(s))
	}
	asked := blockstream.Asked{Key: "s_1", Session: "s", MessageID: "m", Calls: []blockstream.AskedCall{{Key: toolcall.Key{Call: "c"}, Tool: "t", Input: `{"q":1}`, Digest: "d"}}}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := blockstream.DecodeCommand(data)
		if err != nil {
			return
		}
		codectest.Stable(t, v, blockstream.MaxCommandBytes, blockstream.EncodeCommand, blockstream.DecodeCommand)
		a, ok := v.(*blockstream.Approval)
		if !ok {
			return
		}
		responses, err := asked.Responses(a)
		if err != nil {
			return
		}
		for i, ans := range responses {
			approves := a.Decisions[i].Type == blockstream.DecisionApprove || a.Decisions[i].Type == blockstream.DecisionEdit
			if ans.Digest != "d" || ans.Call != "c" || (ans.Kind == toolcall.ResponseApprove) != approves || !approves && ans.Input != nil {
				t.Fatalf("%s: %+v", data, ans)
			}
		}
	})
}

func FuzzParseCursor(f *testing.F) {
	f.Add("00000000000000000009-000012")
	f.Add("01HXYZ100")
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := blockstream.ParseCursor(s); err == nil && c.String() != s {
			t.Fatalf("%q reads as %v", s, c)
		}
	})
}
