package story_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/story"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/clitest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

var start = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// call returns a call to which everything possible has happened.
func call() *toolcall.Call {
	return &toolcall.Call{
		Key:  toolcall.Key{Space: "default", Session: "s", Reply: "r", Call: "call_1"},
		Tool: "refund", Input: `{"cents":500}`, Placement: toolcall.PlaceRemote, Behind: "call_0",
		Decision: &toolcall.Decision{Behavior: message.BehaviorAsk, Rule: "large", Source: "policy", Reason: "rule large: args.cents > 100"},
		Request:  &toolcall.ApprovalRequest{Text: "Refund\x1b[2J 500 cents?"}, Digest: "sha256:00",
		Votes:   []toolcall.Vote{{Kind: toolcall.ResponseReject, Feedback: "too much\r\nrm"}},
		Attempt: toolcall.Attempt{Number: 2, Worker: "w1", Claim: "c", StartedAt: start.Add(time.Second), Grant: &toolcall.Grant{}},
		Blocked: toolcall.BlockedUnknown, RetryAt: start.Add(time.Minute),
		Result: &message.ToolResultBlock{State: message.ToolResultSuccess, Output: message.Content{Text: "first line\nsecond\n"}},
	}
}

// tell writes the story of records and returns the text.
func tell(t *testing.T, records ...toolcall.JournalEntry) string {
	t.Helper()
	var b bytes.Buffer
	s := story.New(term.New(&b), start)
	for i, r := range records {
		r.Seq = uint64(i + 1)
		s.Record(r)
	}
	s.CaughtUp()
	return b.String()
}

func record(c *toolcall.Call, causes ...string) toolcall.JournalEntry {
	rec := &toolcall.EventRecord{By: toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"}, At: start.Add(1500 * time.Millisecond), Call: c}
	for _, cause := range causes {
		rec.Path = append(rec.Path, toolcall.Step{Cause: cause})
	}
	return toolcall.JournalEntry{Record: rec}
}

func event(t *testing.T, e message.Event) toolcall.JournalEntry {
	t.Helper()
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return toolcall.JournalEntry{Event: raw}
}

// TestEveryStep writes the text of every transition of the state machine.
func TestEveryStep(t *testing.T) {
	time.Local = time.UTC
	local, external, plain := call(), call(), call()
	local.Placement, external.Placement = toolcall.PlaceLocal, toolcall.PlaceExternal
	plain.Decision = &toolcall.Decision{Behavior: message.BehaviorAllow, Source: "fallback_bypass", Reason: "bypass mode"}
	failed := call()
	failed.Result = &message.ToolResultBlock{State: message.ToolResultError}
	clitest.Golden(t, "steps", tell(t,
		record(call(), "propose"), record(call(), "refuse"), record(call(), "deny"), record(call(), "ask"), record(call(), "allow"), record(plain, "allow"),
		record(call(), "hide"), record(call(), "approve"), record(call(), "edit"), record(call(), "reject"), record(call(), "respond"), record(call(), "expire"),
		record(call(), "submit"), record(external, "submit"), record(call(), "start"), record(local, "start"), record(call(), "offer"), record(call(), "lose"), record(call(), "return"),
		record(call(), "suspend"), record(call(), "result"), record(failed, "result"), record(call(), "resolve"), record(call(), "revoke"), record(call(), "interrupt"),
		record(local, "propose", "allow", "start"), record(call(), "approve", "submit"), record(call(), "propose", "ask"), record(external, "allow", "submit"),
		toolcall.JournalEntry{Record: &toolcall.EventRecord{At: start, Call: call(), Note: &toolcall.Note{What: "late_result"}}},
		toolcall.JournalEntry{Record: &toolcall.EventRecord{At: start, By: toolcall.Principal{Name: "ann"}, Reply: &toolcall.ReplyState{Key: call().ReplyKey(), Phase: toolcall.ReplyInterrupted}}},
		toolcall.JournalEntry{Time: start, Invalid: context.Canceled},
	))
}

func TestWordsOfTheModel(t *testing.T) {
	h := message.NewHeader("r")
	clitest.Golden(t, "words", tell(t,
		event(t, &message.ModelCallStart{EventHeader: h, ModelName: "m"}),
		event(t, &message.TextBlockDelta{EventHeader: h, BlockID: "b", Delta: "I will refund the second char"}),
		event(t, &message.TextBlockDelta{EventHeader: h, BlockID: "b", Delta: "ge, and I will do so now\x1b[31m, if you agree.\nReally."}),
		record(call(), "propose"),
		event(t, &message.ThinkingBlockDelta{EventHeader: h, BlockID: "t", Delta: "thinking"}),
		event(t, &message.ThinkingBlockEnd{EventHeader: h, BlockID: "t"}),
		toolcall.JournalEntry{Event: []byte(`{`)},
	))
}

func TestHold(t *testing.T) {
	var b bytes.Buffer
	s := story.New(term.New(&b), start)
	first, second := s.Hold(), s.Hold()
	s.Progress(call(), toolcall.ProgressRequest{Text: "one"})
	s.Progress(call(), toolcall.ProgressRequest{Text: "two"})
	first()
	first() // calling it again does no harm
	if b.Len() > 0 {
		t.Errorf("printed while a person was asked: %s", b.String())
	}
	second()
	if one, two, both := strings.Cut(b.String(), "\n"); !both || !strings.Contains(one, "one") || !strings.Contains(two, "two") {
		t.Errorf("printed afterwards: %q", b.String())
	}
}

func TestMessage(t *testing.T) {
	reason := message.FinishedError
	m := &message.Msg{
		ID: "r", Name: "bot", Role: message.RoleAssistant, Usage: &message.Usage{InputTokens: 3, OutputTokens: 4}, FinishedReason: &reason,
		Error: &message.ErrorInfo{Type: message.ErrorRateLimit, Message: "slow down"},
		Content: []message.Block{
			&message.TextBlock{Text: strings.Repeat("some words ", 12)},
			&message.ThinkingBlock{Thinking: "hm"},
			&message.HintBlock{Hint: message.Content{Text: "hint"}},
			&message.DataBlock{ID: "d1"},
			&message.ToolCallBlock{ID: "c1", Name: "refund", Input: `{"a":1}`, State: message.ToolCallFinished},
			&message.ToolResultBlock{ID: "c1", Name: "refund", State: message.ToolResultDenied, Output: message.List(&message.TextBlock{Text: "no"}, &message.DataBlock{})},
			&message.UnknownBlock{Kind: "new"},
		},
	}
	var b bytes.Buffer
	if err := story.Message(term.New(&b), m, map[message.CallID]string{"c1": `{"a":2}`}); err != nil {
		t.Fatal(err)
	}
	clitest.Golden(t, "message", b.String())
}
