package message

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// build applies events to a new message; ids are e1, e2, … and times t1, t2, ….
func build(t testing.TB, c Codec, events ...Event) *Msg {
	t.Helper()
	m := &Msg{Role: RoleAssistant, ID: "r"}
	for i, e := range events {
		*e.Header() = EventHeader{ID: fmt.Sprintf("e%d", i+1), CreatedAt: fmt.Sprintf("t%d", i+1), Reply: "r", Metadata: e.Header().Metadata}
		if err := c.Append(m, e); err != nil {
			t.Fatalf("event %d: %v", i+1, err)
		}
	}
	return m
}

// Blocks take their time and id from the event that creates them, so two replays build the same
// message.
func TestAppendStampsFromTheEvent(t *testing.T) {
	u := "https://e.test"
	m := build(t, Codec{},
		&TextBlockStart{BlockID: "b"}, &TextBlockEnd{BlockID: "b"},
		&HintBlockEvent{BlockID: "h", Hint: Content{Text: "x"}},
		&ToolCallStart{ToolCallID: "c", ToolCallName: "n"},
		&ToolResultStart{ToolCallID: "c", ToolCallName: "n"},
		&ToolResultTextDelta{ToolCallID: "c", Delta: "a"},
		&ToolResultDataDelta{ToolCallID: "c", BlockID: "d", MediaType: "a/b", URL: &u},
		&ToolResultTextDelta{ToolCallID: "c", Delta: "b"},
	)
	want := []Block{
		&TextBlock{ID: "b", CreatedAt: "t1", FinishedAt: new("t2")},
		&HintBlock{Hint: Content{Text: "x"}, ID: "h", CreatedAt: "t3", FinishedAt: new("t3")},
		&ToolCallBlock{ID: "c", Name: "n", State: ToolCallPending, CreatedAt: "t4"},
		&ToolResultBlock{ID: "c", Name: "n", State: ToolResultRunning, CreatedAt: "t5", Output: List(
			&TextBlock{Text: "a", ID: "e6", CreatedAt: "t6"},
			&DataBlock{ID: "d", Source: &URLSource{URL: "https://e.test/", MediaType: "a/b"}, CreatedAt: "t7"},
			&TextBlock{Text: "b", ID: "e8", CreatedAt: "t8"},
		)},
	}
	if d := cmp.Diff(want, m.Content); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestAppendRefusesAndChangesNothing(t *testing.T) {
	bad := "/relative"
	tests := []struct {
		name  string
		event Event
		want  error
	}{
		{"custom", &Custom{Name: "n"}, ErrNoReply},
		{"missing padding", &DataBlockDelta{BlockID: "3", Data: "QUJDR"}, ErrNotBase64},
		{"not ASCII", &DataBlockDelta{BlockID: "3", Data: "QUé="}, ErrNotBase64},
		{"url source", &DataBlockDelta{BlockID: "4", Data: "QQ=="}, ErrURLSource},
		{"bad url on a string output", &ToolResultDataDelta{ToolCallID: "9", URL: &bad}, ErrInvalid},
		{"neither data nor url", &ToolResultDataDelta{ToolCallID: "9"}, ErrInvalid},
		{"no state", &ToolResultEnd{ToolCallID: "7"}, ErrInvalid},
		{"overflow", &ModelCallEnd{InputTokens: 1, CacheInputTokens: math.MaxInt64, OutputTokens: math.MaxInt64}, ErrOverflow},
		{"underflow", &ModelCallEnd{InputTokens: math.MinInt64, OutputTokens: math.MinInt64, CacheCreationInputTokens: -1}, ErrOverflow},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := fullMsg(t)
			m.Usage.CacheInputTokens, m.Usage.CacheCreationInputTokens = 1, math.MinInt64
			m.Content = append(m.Content, &ToolResultBlock{ID: "9", Output: Content{Text: "s"}})
			before := m.Clone()
			*tt.event.Header() = EventHeader{ID: "e", Reply: "m"}
			err := Append(m, tt.event)
			if !errors.Is(err, tt.want) || !errors.Is(err, ErrInvalid) {
				t.Errorf("Append = %v, want %v in an invalid *Error", err, tt.want)
			}
			if d := cmp.Diff(before, m); d != "" {
				t.Errorf("the message changed\n%s", d)
			}
		})
	}
	if err := Append(nil, &UserInterrupt{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("nil message: %v", err)
	}
	if err := Append(&Msg{}, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("nil event: %v", err)
	}
}

// Every event without a matching block is reported and changes nothing.
func TestAppendSkips(t *testing.T) {
	call := ToolCallBlock{ID: "none"}
	unknown, err := DecodeEvent([]byte(`{"type":"NEW","reply_id":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	events := []Event{
		&TextBlockDelta{BlockID: "2"}, &TextBlockEnd{BlockID: "none"}, // 2 is a thinking block
		&ThinkingBlockDelta{BlockID: "1"}, &ThinkingBlockEnd{},
		&DataBlockDelta{BlockID: "none", Data: "!"}, &DataBlockEnd{},
		&ToolCallDelta{ToolCallID: "none"}, &ToolCallEnd{},
		&ToolResultTextDelta{}, &ToolResultDataDelta{Data: new("")}, &ToolResultEnd{State: ToolResultSuccess},
		&RequireUserConfirm{ToolCalls: []ToolCallBlock{call}},
		&UserConfirmResult{ConfirmResults: []ConfirmResult{{ToolCall: call}}},
		&RequireExternalExecution{ToolCalls: []ToolCallBlock{call}},
		&ExternalExecutionResult{ExecutionResults: []ToolResultBlock{{ID: "7"}}},
		unknown,
	}
	for _, e := range events {
		t.Run(string(e.Type()), func(t *testing.T) {
			m := fullMsg(t)
			before := m.Clone()
			e.Header().Reply = "m"
			told := 0
			c := Codec{OnSkip: func(Event, string) { told++ }}
			if err := c.Append(m, e); err != nil || told != 1 {
				t.Errorf("Append = %v, OnSkip was called %d times, want 1", err, told)
			}
			if d := cmp.Diff(before, m); d != "" {
				t.Errorf("the message changed\n%s", d)
			}
		})
	}
	m := fullMsg(t)
	why := ""
	c := Codec{OnSkip: func(_ Event, w string) { why = w }}
	if err := c.Append(m, &ReplyEnd{EventHeader: EventHeader{Reply: "other"}}); err != nil || !strings.Contains(why, `"other"`) {
		t.Errorf("foreign reply: %v, %q", err, why)
	}
}

// Only an asking call accepts an answer. Asking and submitted can be reached from any state.
func TestAppendCallStates(t *testing.T) {
	all := []ToolCallState{ToolCallPending, ToolCallAsking, ToolCallAllowed, ToolCallSubmitted, ToolCallFinished}
	call := ToolCallBlock{ID: "c", Name: "edited", Input: "edited"}
	answer := func(yes bool) Event {
		return &UserConfirmResult{ConfirmResults: []ConfirmResult{{Confirmed: yes, ToolCall: call}}}
	}
	for _, from := range all {
		yes, no := from, from
		if from == ToolCallAsking {
			yes, no = ToolCallAllowed, ToolCallFinished
		}
		for _, step := range []struct {
			event Event
			want  ToolCallState
		}{
			{&RequireUserConfirm{ToolCalls: []ToolCallBlock{call}}, ToolCallAsking},
			{&RequireExternalExecution{ToolCalls: []ToolCallBlock{call}}, ToolCallSubmitted},
			{answer(true), yes},
			{answer(false), no},
		} {
			m := &Msg{Content: []Block{&ToolCallBlock{ID: "c", Name: "n", Input: "i", State: from}}}
			if err := Append(m, step.event); err != nil {
				t.Fatal(err)
			}
			if c := m.ToolCall("c"); c.State != step.want || c.Name != "n" || c.Input != "i" {
				t.Errorf("after %s a call in state %s is %+v, want %s", step.event.Type(), from, c, step.want)
			}
		}
	}
}

// Changing the message never changes the event, and changing the event never changes the message.
func TestAppendSharesNothing(t *testing.T) {
	content := "x"
	confirm := &RequireUserConfirm{ToolCalls: []ToolCallBlock{{ID: "c", SuggestedRules: []PermissionRule{{RuleContent: &content}}}}}
	hint := &HintBlockEvent{Hint: List(&TextBlock{Text: "h"})}
	result := &ExternalExecutionResult{ExecutionResults: []ToolResultBlock{{ID: "x", Output: List(&TextBlock{Text: "o"}), Metadata: map[string]any{}}}}
	end := &ToolResultEnd{EventHeader: EventHeader{Metadata: map[string]any{"k": []any{1}}}, ToolCallID: "x", State: ToolResultSuccess}
	fail := &ReplyEnd{Error: &ErrorInfo{Message: "m"}}
	m := build(t, Codec{}, &ToolCallStart{ToolCallID: "c"}, confirm, hint, result, end, fail)

	*m.ToolCall("c").SuggestedRules[0].RuleContent = "z"
	BlocksOf[*HintBlock](m)[0].Hint.Blocks[0].(*TextBlock).Text = "z"
	m.ToolResult("x").Output.Blocks[0].(*TextBlock).Text = "z"
	m.ToolResult("x").Metadata["k"].([]any)[0] = 2
	m.Error.Message = "z"
	if content != "x" || hint.Hint.String() != "h" || result.ExecutionResults[0].Output.String() != "o" ||
		end.Metadata["k"].([]any)[0] != 1 || fail.Error.Message != "m" || result.ExecutionResults[0].FinishedAt != nil {
		t.Error("an event changed with the message")
	}
}

func TestDecodeBase64(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", ""},
		{"QUJD", "ABC"},
		{"QQ==", "A"},
		{"QUI=", "AB"},
		{"=", ""},
		{"====", ""},
		{"Q=UJD", "ABC"},    // too early for padding
		{"QQ=Q=", "A\x04"},  // no padding either, as data follows
		{"QQ=\n=", "A"},     // white space inside padding
		{"QQ==QUJD", "A"},   // everything after padding is ignored
		{"QUI=QQ==", "AB"},  //
		{"Q\nU-J_D", "ABC"}, // other ASCII is dropped
		{"Q!U?J*D QUJD", "ABCABC"},
		{"+/+/", "\xfb\xff\xbf"},
		{"QR==", "A"}, // extra bits are dropped
	}
	for _, tt := range tests {
		if got, err := decodeBase64(nil, tt.in); err != nil || string(got) != tt.want {
			t.Errorf("decodeBase64(%q) = %q, %v, want %q", tt.in, got, err, tt.want)
		}
	}
	for _, bad := range []string{"Q", "QQ", "QQ=", "QUJ", "QUJDR", "QUJDRA", "QUJD=Q", "QQ=QQQQ=", "QUé="} {
		if got, err := decodeBase64(nil, bad); !errors.Is(err, ErrNotBase64) {
			t.Errorf("decodeBase64(%q) = %q, %v, want ErrNotBase64", bad, got, err)
		}
	}
}

// Joined chunks have the bytes of the chunks, no matter where they are cut.
func TestJoinBase64(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chunks := rapid.SliceOf(rapid.SliceOf(rapid.Byte())).Draw(t, "chunks")
		joined, want := "", []byte{}
		for _, c := range chunks {
			chunk, err := joinBase64("", encodeBase64(c))
			if err != nil {
				t.Fatal(err)
			}
			if joined, err = joinBase64(joined, chunk); err != nil {
				t.Fatal(err)
			}
			want = append(want, c...)
		}
		if joined != encodeBase64(want) {
			t.Fatalf("joined %q, want %q", joined, encodeBase64(want))
		}
	})
}
