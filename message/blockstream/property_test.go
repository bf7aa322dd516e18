package blockstream_test

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
	"github.com/askance-dev/askance/message/blockstream/blocktest"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawEvents draws events of three replies in any order, sensible or not.
func drawEvents(t *rapid.T) []message.Event {
	n := 0
	one := func(t *rapid.T) message.Event {
		n++
		h := message.EventHeader{ID: "e" + strconv.Itoa(n), Reply: rapid.SampledFrom([]message.ReplyID{"r1", "r1", "r1", "r2", "r3"}).Draw(t, "reply"), CreatedAt: "2026-03-01T09:00:00"}
		id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id")
		call := message.CallID(id)
		delta := rapid.SampledFrom([]string{"", "x", `{"a":1}`, `{`, "é😀"}).Draw(t, "delta")
		state := rapid.SampledFrom([]message.ToolResultState{"success", "error", "denied", "interrupted"}).Draw(t, "state")
		input := rapid.SampledFrom([]string{`{}`, `{"a":1}`, `{"b": 2}`, `no`}).Draw(t, "input")
		b := message.ToolCallBlock{ID: call, Name: "t", Input: input}
		switch rapid.IntRange(0, 19).Draw(t, "kind") {
		case 0:
			return &message.ReplyStart{EventHeader: h, Session: "s_1"}
		case 1:
			return &message.ReplyEnd{EventHeader: h, FinishedReason: rapid.SampledFrom([]message.FinishedReason{"completed", "interrupted", "error"}).Draw(t, "reason")}
		case 2:
			return &message.TextBlockStart{EventHeader: h, BlockID: id}
		case 3, 4:
			return &message.TextBlockDelta{EventHeader: h, BlockID: id, Delta: delta}
		case 5:
			return &message.TextBlockEnd{EventHeader: h, BlockID: id}
		case 6:
			return &message.ThinkingBlockStart{EventHeader: h, BlockID: id}
		case 7:
			return &message.ThinkingBlockDelta{EventHeader: h, BlockID: id, Delta: delta}
		case 8:
			return &message.ThinkingBlockEnd{EventHeader: h, BlockID: id}
		case 9:
			return &message.ToolCallStart{EventHeader: h, ToolCallID: call, ToolCallName: "t"}
		case 10:
			return &message.ToolCallDelta{EventHeader: h, ToolCallID: call, Delta: delta}
		case 11:
			return &message.ToolCallEnd{EventHeader: h, ToolCallID: call}
		case 12:
			return &message.ToolResultStart{EventHeader: h, ToolCallID: call, ToolCallName: "t"}
		case 13:
			return &message.ToolResultTextDelta{EventHeader: h, ToolCallID: call, Delta: delta}
		case 14:
			return &message.ToolResultEnd{EventHeader: h, ToolCallID: call, State: state}
		case 15:
			return &message.RequireUserConfirm{EventHeader: h, ToolCalls: []message.ToolCallBlock{b}}
		case 16:
			return &message.UserConfirmResult{EventHeader: h, ConfirmResults: []message.ConfirmResult{{Confirmed: state == "success", ToolCall: b}}}
		case 17:
			return &message.RequireExternalExecution{EventHeader: h, ToolCalls: []message.ToolCallBlock{b}}
		case 18:
			return &message.ExternalExecutionResult{EventHeader: h, ExecutionResults: []message.ToolResultBlock{{ID: call, Name: "t", State: state, Output: message.Content{Text: delta}}}}
		default:
			return &message.ModelCallEnd{EventHeader: h}
		}
	}
	return rapid.SliceOfN(rapid.Custom(one), 0, 60).Draw(t, "events")
}

// For any events the frames are in a valid order and survive encoding, and neither client gets a
// delta for a block it does not know. The same events lead to the same frames, and every open
// approval was shown.
func TestFramesKeepTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := drawEvents(t)
		frames, open := fold(t, events)
		again, _ := fold(t, events)
		if diff := cmp.Diff(frames, again); diff != "" {
			t.Fatal(diff)
		}
		var c blocktest.Checker
		r, d := newReact(), newDart()
		cards := map[string]bool{}
		for _, raw := range frames {
			f, err := blocktest.DecodeFrame([]byte(raw))
			if err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			if err := c.Frame(f); err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			if b, ok := f.(*blockstream.BlockStart); ok {
				if a, ok := b.Block.(*blockstream.ApprovalRequest); ok {
					cards[a.ApprovalKey] = true
				}
			}
			for _, v := range []viewer{r, d} {
				var msg object
				if err := json.Unmarshal([]byte(raw), &msg); err != nil {
					t.Fatal(err)
				}
				v.handle(msg)
			}
		}
		if !c.Done() || r.ignored+d.ignored != 0 || r.streaming || d.streaming || len(r.of("tool_result")) > len(events) {
			t.Fatalf("done %v, ignored %d %d", c.Done(), r.ignored, d.ignored)
		}
		for _, a := range open {
			if !cards[a.Key] {
				t.Fatalf("%s is open but was never shown", a.Key)
			}
		}
	})
}

func fold(t *rapid.T, events []message.Event) ([]string, []blockstream.Asked) {
	m, err := blockstream.NewMapper(blockstream.Config{Session: "s_1"})
	if err != nil {
		t.Fatal(err)
	}
	var frames []blockstream.Frame
	for _, e := range events {
		out, err := m.Event(e)
		if err != nil && len(out) > 0 {
			t.Fatal("frames and an error")
		}
		frames = append(frames, out...)
	}
	open := m.Open()
	frames = append(frames, m.Close()...)
	var out []string
	for _, f := range frames {
		raw, err := blockstream.AppendFrame(nil, f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(raw))
	}
	return out, open
}

// A client that reads blocks gets the same text as the folded message.
func TestTextSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, err := message.AssistantMsg("a", message.List(), message.WithID("r1"))
		if err != nil {
			t.Fatal(err)
		}
		bm, err := blockstream.NewMapper(blockstream.Config{Session: "s_1"})
		if err != nil {
			t.Fatal(err)
		}
		s := on("r1").start()
		for _, id := range []string{"a", "b"} {
			s.text(id, rapid.SliceOfN(rapid.String(), 0, 4).Draw(t, "deltas")...)
		}
		s.end(message.FinishedCompleted, nil)
		r := newReact()
		for _, e := range s.out {
			if err := message.Append(m, e); err != nil {
				t.Fatal(err)
			}
			frames, err := bm.Event(e)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range frames {
				raw, err := blockstream.AppendFrame(nil, f)
				if err != nil {
					t.Fatal(err)
				}
				var msg object
				if err := json.Unmarshal(raw, &msg); err != nil {
					t.Fatal(err)
				}
				r.handle(msg)
			}
		}
		got := ""
		for _, b := range r.of("text") {
			got += b["text"].(string)
		}
		if want, _ := m.TextContent(""); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}
