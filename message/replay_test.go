package message

import (
	"encoding/base64"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func encodeBase64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// drawEvent draws any event of reply r, with few different ids so that they collide.
func drawEvent(t *rapid.T) Event {
	id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id")
	text := rapid.String().Draw(t, "text")
	h := EventHeader{ID: rapid.StringMatching(`[a-z]{4}`).Draw(t, "event"), CreatedAt: "t", Reply: "r"}
	calls := []ToolCallBlock{{ID: CallID(id), SuggestedRules: []PermissionRule{{Behavior: BehaviorAllow, Source: text}}}}
	u := "https://e.test/" + id
	b64 := encodeBase64([]byte(text))
	return rapid.SampledFrom([]Event{
		&ReplyStart{EventHeader: h}, &ModelCallStart{EventHeader: h}, &ExceedMaxIters{EventHeader: h}, &UserInterrupt{EventHeader: h},
		&ReplyEnd{EventHeader: h, FinishedReason: FinishedError, Error: &ErrorInfo{Message: text}},
		&ModelCallEnd{EventHeader: h, InputTokens: 1, OutputTokens: 2},
		&TextBlockStart{h, id}, &TextBlockDelta{h, id, text}, &TextBlockEnd{h, id},
		&ThinkingBlockStart{h, id}, &ThinkingBlockDelta{h, id, text}, &ThinkingBlockEnd{h, id},
		&DataBlockStart{h, id, "a/b"}, &DataBlockDelta{h, id, b64, "a/b"}, &DataBlockEnd{h, id},
		&HintBlockEvent{h, id, &text, Content{Text: text}},
		&ToolCallStart{h, CallID(id), "n"}, &ToolCallDelta{h, CallID(id), text}, &ToolCallEnd{h, CallID(id)},
		&ToolResultStart{h, CallID(id), "n"}, &ToolResultTextDelta{h, CallID(id), text},
		&ToolResultDataDelta{h, CallID(id), id, "a/b", nil, &u}, &ToolResultDataDelta{h, CallID(id), id, "a/b", &b64, nil},
		&ToolResultEnd{h, CallID(id), ToolResultSuccess},
		&RequireUserConfirm{h, calls}, &RequireExternalExecution{h, calls},
		&UserConfirmResult{h, []ConfirmResult{{Confirmed: id == "a", ToolCall: calls[0]}}},
		&ExternalExecutionResult{h, []ToolResultBlock{{ID: CallID(id), Output: Content{Text: text}}}},
	}).Draw(t, "kind")
}

// Replaying the encoded events builds the same message as the events, and the message survives
// encoding.
func TestReplayIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		live, replica := &Msg{Role: RoleAssistant, ID: "r"}, &Msg{Role: RoleAssistant, ID: "r"}
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			e := drawEvent(t)
			raw, err := e.MarshalJSON()
			if err != nil {
				t.Fatalf("%s: %v", e.Type(), err)
			}
			decoded, err := DecodeEvent(raw)
			if err != nil {
				t.Fatalf("%v in %s", err, raw)
			}
			if err := Append(live, e); err != nil {
				t.Fatalf("%v in %s", err, raw)
			}
			if err := Append(replica, decoded); err != nil {
				t.Fatalf("%v in %s", err, raw)
			}
		}
		a, err := live.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		b, err := replica.MarshalJSON()
		if err != nil || string(a) != string(b) {
			t.Fatalf("live and replica differ\n%s", cmp.Diff(string(a), string(b)))
		}
		loaded, err := DecodeMsg(a)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := loaded.MarshalJSON(); err != nil || string(c) != string(a) {
			t.Fatalf("loading changed the message: %v\n%s", err, cmp.Diff(string(a), string(c)))
		}
	})
}
