package agui

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fixed makes ids and times that do not change from run to run.
func fixed() message.Codec {
	n := 0
	return message.Codec{
		Now:   func() time.Time { return time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC) },
		NewID: func() string { n++; return fmt.Sprintf("new-%d", n) },
	}
}

// importAll reads AG-UI events, one JSON object a line.
func importAll(t testing.TB, im *Importer, lines ...string) (out []message.Event) {
	t.Helper()
	for _, l := range lines {
		e, err := DecodeEvent([]byte(l))
		if err != nil {
			t.Fatalf("%v in %s", err, l)
		}
		events, err := im.Import(e)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, events...)
	}
	return out
}

// brief writes AgentScope events without what all of them share.
func brief(t testing.TB, events []message.Event) string {
	t.Helper()
	var sb strings.Builder
	for _, e := range events {
		raw, err := e.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(&sb, m["type"])
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !slices.Contains([]string{"type", "id", "created_at", "metadata", "reply_id", "session_id"}, k) {
				v, err := json.Marshal(m[k])
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&sb, " %s=%s", k, v)
			}
		}
		sb.WriteString("\n")
	}
	return sb.String()
}

const started, finished = `{"type":"RUN_STARTED","threadId":"t","runId":"r"}`, `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`

// Streams of other agents, which note nothing beside their events.
func TestImporterRows(t *testing.T) {
	tests := []struct {
		name  string
		lines []string
		want  string
		lost  []Loss
	}{
		{
			"text and reasoning", []string{started, `{"type":"REASONING_START","messageId":"m"}`, `{"type":"REASONING_MESSAGE_START","messageId":"m","role":"reasoning"}`, `{"type":"REASONING_MESSAGE_CONTENT","messageId":"m","delta":"hm"}`, `{"type":"REASONING_MESSAGE_END","messageId":"m"}`, `{"type":"REASONING_END","messageId":"m"}`, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"a","delta":"hi","name":"bot"}`, finished},
			`REPLY_START name="assistant" role="assistant"
THINKING_BLOCK_START block_id="m"
THINKING_BLOCK_DELTA block_id="m" delta="hm"
THINKING_BLOCK_END block_id="m"
TEXT_BLOCK_START block_id="a"
TEXT_BLOCK_DELTA block_id="a" delta="hi"
TEXT_BLOCK_END block_id="a"
REPLY_END error=null finished_reason="completed"
`, []Loss{LossGrouping, LossGrouping, LossGrouping},
		},
		{
			"call and result", []string{started, `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"n","parentMessageId":"p"}`, `{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{}"}`, `{"type":"TOOL_CALL_END","toolCallId":"c"}`, `{"type":"TOOL_CALL_RESULT","messageId":"x","toolCallId":"c","content":[{"type":"text","text":"see"},{"type":"image","id":"i","source":{"type":"data","value":"AA==","mimeType":"image/png"}},{"type":"document","source":{"type":"file","value":"f"}}]}`, finished},
			`REPLY_START name="assistant" role="assistant"
TOOL_CALL_START tool_call_id="c" tool_call_name="n"
TOOL_CALL_DELTA delta="{}" tool_call_id="c"
TOOL_CALL_END tool_call_id="c"
TOOL_RESULT_START tool_call_id="c" tool_call_name="n"
TOOL_RESULT_TEXT_DELTA delta="see" tool_call_id="c"
TOOL_RESULT_DATA_DELTA block_id="i" data="AA==" media_type="image/png" tool_call_id="c" url=null
TOOL_RESULT_TEXT_DELTA delta="{\"type\":\"document\",\"source\":{\"type\":\"file\",\"value\":\"f\"}}" tool_call_id="c"
TOOL_RESULT_END state="success" tool_call_id="c"
REPLY_END error=null finished_reason="completed"
`, []Loss{LossGrouping, LossFile},
		},
		{
			"the client's call, and the next run", []string{started, `{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"n","delta":"{}"}`, finished, `{"type":"RUN_STARTED","threadId":"t","runId":"r2"}`, `{"type":"RUN_FINISHED","threadId":"t","runId":"r2","outcome":{"type":"cancelled"}}`},
			`REPLY_START name="assistant" role="assistant"
TOOL_CALL_START tool_call_id="c" tool_call_name="n"
TOOL_CALL_DELTA delta="{}" tool_call_id="c"
TOOL_CALL_END tool_call_id="c"
REQUIRE_EXTERNAL_EXECUTION tool_calls=[{"created_at":"2026-03-01T09:00:00","finished_at":null,"id":"c","input":"{}","name":"n","state":"submitted","suggested_rules":[],"type":"tool_call"}]
REPLY_END error=null finished_reason="interrupted"
`, nil,
		},
		{
			"questions", []string{started, `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"n"}`, `{"type":"TOOL_CALL_END","toolCallId":"c"}`, `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[{"id":"i1","reason":"tool_call","toolCallId":"c"},{"id":"i2","reason":"input_required","message":"why?"}]}}`},
			`REPLY_START name="assistant" role="assistant"
TOOL_CALL_START tool_call_id="c" tool_call_name="n"
TOOL_CALL_END tool_call_id="c"
REQUIRE_USER_CONFIRM tool_calls=[{"created_at":"2026-03-01T09:00:00","finished_at":null,"id":"c","input":"","name":"n","state":"asking","suggested_rules":[],"type":"tool_call"}]
CUSTOM name="ag-ui.interrupt" value={"id":"i2","message":"why?","reason":"input_required"}
`, []Loss{LossAsEvent},
		},
		{
			"usage and result", []string{started, `{"type":"RUN_FINISHED","threadId":"t","runId":"r","result":[1],"usage":[{"model":"big","provider":"p","inputTokens":7,"outputTokens":2,"cachedInputTokens":3}]}`},
			`REPLY_START name="assistant" role="assistant"
MODEL_CALL_START model_name="big"
MODEL_CALL_END cache_creation_input_tokens=0 cache_input_tokens=3 finished_reason="completed" input_tokens=7 output_tokens=2
CUSTOM name="ag-ui.result" value={"result":[1]}
REPLY_END error=null finished_reason="completed"
`, []Loss{LossUsage, LossAsEvent},
		},
		{
			"error", []string{started, `{"type":"RUN_ERROR","message":"slow down","code":"rate_limit"}`},
			`REPLY_START name="assistant" role="assistant"
REPLY_END error={"message":"slow down","type":"rate_limit"} finished_reason="error"
`, nil,
		},
		{
			"error of its own kind", []string{`{"type":"RUN_ERROR","message":"m","code":"weird"}`},
			`REPLY_END error={"message":"m","type":"unknown"} finished_reason="error"
`, nil,
		},
		{
			"cancelled, by an old peer", []string{`{"type":"RUN_ERROR","message":"m","code":"cancelled"}`},
			`REPLY_END error=null finished_reason="interrupted"
`, nil,
		},
		{
			"no word for it", []string{started, `{"type":"STEP_STARTED","stepName":"s"}`, `{"type":"STEP_FINISHED","stepName":"s"}`, `{"type":"STATE_SNAPSHOT","snapshot":{"a":null}}`, `{"type":"TEXT_MESSAGE_START","messageId":"u","role":"user"}`, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"u","delta":"x"}`, `{"type":"TEXT_MESSAGE_END","messageId":"u"}`, `{"type":"RAW","event":1}`, `{"type":"CUSTOM","name":"x","value":[1]}`, `{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"agentscope.data","content":{}}`, finished},
			`REPLY_START name="assistant" role="assistant"
CUSTOM name="ag-ui.STEP_STARTED" value={"stepName":"s","type":"STEP_STARTED"}
CUSTOM name="ag-ui.STEP_FINISHED" value={"stepName":"s","type":"STEP_FINISHED"}
CUSTOM name="ag-ui.STATE_SNAPSHOT" value={"snapshot":{"a":null},"type":"STATE_SNAPSHOT"}
CUSTOM name="ag-ui.TEXT_MESSAGE_START" value={"messageId":"u","role":"user","type":"TEXT_MESSAGE_START"}
CUSTOM name="ag-ui.TEXT_MESSAGE_CONTENT" value={"delta":"x","messageId":"u","type":"TEXT_MESSAGE_CONTENT"}
CUSTOM name="ag-ui.TEXT_MESSAGE_END" value={"messageId":"u","type":"TEXT_MESSAGE_END"}
CUSTOM name="ag-ui.RAW" value={"event":1,"type":"RAW"}
CUSTOM name="x" value={"value":[1]}
CUSTOM name="ag-ui.ACTIVITY_SNAPSHOT" value={"activityType":"agentscope.data","content":{},"messageId":"a","type":"ACTIVITY_SNAPSHOT"}
REPLY_END error=null finished_reason="completed"
`, slices.Repeat([]Loss{LossAsEvent}, 8),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var lost []Loss
			im := &Importer{Codec: fixed(), OnLoss: func(_ Event, l Loss) { lost = append(lost, l) }}
			got := importAll(t, im, tt.lines...)
			if s := brief(t, got); s != tt.want {
				t.Errorf("got\n%s\nwant\n%s", s, tt.want)
			}
			if !slices.Equal(lost, tt.lost) {
				t.Errorf("lost %v, want %v", lost, tt.lost)
			}
		})
	}
}

func TestImporterRefusesABrokenStream(t *testing.T) {
	im := &Importer{}
	for range 2 {
		if _, err := im.Import(&TextMessageEnd{MessageID: "m"}); !errors.As(err, new(*OrderError)) {
			t.Errorf("got %v, want an OrderError", err)
		}
	}
}

// Whatever stream a client accepts, what it becomes can be written and read by
// AgentScope's codec.
func TestImporterWritesEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		im := &Importer{Codec: fixed()}
		for _, e := range drawStream(t) {
			events, err := im.Import(e)
			if err != nil {
				return
			}
			for _, e := range events {
				raw, err := e.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := message.DecodeEvent(raw); err != nil {
					t.Fatalf("%v in %s", err, raw)
				}
			}
		}
	})
}

// A reply that goes out as AG-UI and comes back builds the same message, apart
// from what the table of losses says: the places of results and media, and the
// ids and borders of a result's text.
func TestThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := drawReply(t)
		m := NewMapper(Run{ThreadID: "t", RunID: "run", Peer: Peer10}, Mapping{})
		im := &Importer{Codec: fixed()}
		var back []message.Event
		carry := func(out []Event) {
			for _, e := range out {
				raw, err := AppendJSON(nil, e)
				if err != nil {
					t.Fatal(err)
				}
				if e, err = DecodeEvent(raw); err != nil {
					t.Fatal(err)
				}
				events, err := im.Import(e)
				if err != nil {
					t.Fatalf("%v at %s", err, raw)
				}
				back = append(back, events...)
			}
		}
		for _, e := range events {
			if _, answered := e.(*message.UserConfirmResult); answered {
				carry(m.Park())
				m = m.Next(Run{ThreadID: "t", RunID: m.run.RunID + "+", Peer: Peer10})
			}
			carry(m.Map(e))
		}
		if d := cmp.Diff(built(t, events), built(t, back)); d != "" {
			t.Fatalf("(-sent +came back)\n%s", d)
		}
		ids := map[string]bool{}
		for _, e := range back {
			ids[e.Header().ID] = true
		}
		for _, e := range events {
			switch e.(type) {
			case *message.TextBlockStart, *message.ToolCallDelta, *message.ToolResultEnd, *message.ModelCallEnd, *message.ReplyEnd:
				if !ids[e.Header().ID] {
					t.Fatalf("the id of %s %s did not come back", e.Type(), e.Header().ID)
				}
			default:
			}
		}
	})
}

// built is what a list of events makes of a message, in words that do not
// depend on the losses.
func built(t *rapid.T, events []message.Event) []string {
	m := &message.Msg{ID: "r", Role: message.RoleAssistant}
	codec := fixed()
	for _, e := range events {
		if err := codec.Append(m, e); err != nil {
			t.Fatalf("%v of %s", err, e.Type())
		}
	}
	var out []string
	for _, b := range m.Content {
		switch b := b.(type) {
		case *message.TextBlock:
			out = append(out, fmt.Sprint("text ", b.ID, b.Text, *b.FinishedAt))
		case *message.ThinkingBlock:
			out = append(out, fmt.Sprint("thinking ", b.ID, b.Thinking, *b.FinishedAt))
		case *message.DataBlock:
			raw, _ := b.Source.MarshalJSON()
			out = append(out, fmt.Sprint("data ", b.ID, string(raw)))
		case *message.HintBlock:
			out = append(out, fmt.Sprint("hint ", b.ID, b.Hint.String(), b.Source == nil))
		case *message.ToolCallBlock:
			out = append(out, fmt.Sprint("call ", b.ID, b.Name, b.Input, b.State))
		case *message.ToolResultBlock:
			media := slices.DeleteFunc(slices.Clone(b.Output.Blocks), func(b message.Block) bool { return b.Type() == message.BlockText })
			out = append(out, fmt.Sprint("result ", b.ID, b.Name, b.Output.String(), len(media), b.State, b.Metadata["k"]))
		default:
			t.Fatalf("a %T", b)
		}
	}
	slices.Sort(out)
	if m.Usage != nil {
		out = append(out, fmt.Sprintf("%+v", *m.Usage))
	}
	return append(out, string(*m.FinishedReason), *m.FinishedAt, fmt.Sprint(m.Error))
}

// drawReply makes a reply as a runtime streams it: rounds of the model, calls
// that are allowed, or asked about and answered in a later run, an end.
func drawReply(t *rapid.T) (out []message.Event) {
	n := 0
	h := func() message.EventHeader {
		n++
		return message.EventHeader{ID: fmt.Sprintf("e%d", n), CreatedAt: fmt.Sprintf("2026-03-01T09:00:00.%03d000", n), Reply: "r"}
	}
	text := rapid.SampledFrom([]string{"", "x", "é\u2028\n", `{"a":1}`})
	add := func(events ...message.Event) { out = append(out, events...) }
	add(&message.ReplyStart{EventHeader: h(), Session: "s", Name: "bot", Role: message.RoleAssistant})
	for round := range rapid.IntRange(0, 3).Draw(t, "rounds") {
		id := func(kind string) string { return fmt.Sprintf("%s%d", kind, round) }
		add(&message.ModelCallStart{EventHeader: h(), ModelName: "big"})
		if rapid.Bool().Draw(t, "thinks") {
			add(&message.ThinkingBlockStart{EventHeader: h(), BlockID: id("b")}, &message.ThinkingBlockDelta{EventHeader: h(), BlockID: id("b"), Delta: text.Draw(t, "thought")}, &message.ThinkingBlockEnd{EventHeader: h(), BlockID: id("b")})
		}
		if rapid.Bool().Draw(t, "says") { // the id is that of the thought: AgentScope allows it
			add(&message.TextBlockStart{EventHeader: h(), BlockID: id("b")}, &message.TextBlockDelta{EventHeader: h(), BlockID: id("b"), Delta: text.Draw(t, "text")}, &message.TextBlockEnd{EventHeader: h(), BlockID: id("b")})
		}
		if rapid.Bool().Draw(t, "shows") {
			add(&message.DataBlockStart{EventHeader: h(), BlockID: id("d"), MediaType: "image/png"}, &message.DataBlockDelta{EventHeader: h(), BlockID: id("d"), Data: "aGk=", MediaType: "image/png"}, &message.DataBlockDelta{EventHeader: h(), BlockID: id("d"), Data: "IQ==", MediaType: "image/png"}, &message.DataBlockEnd{EventHeader: h(), BlockID: id("d")})
		}
		if rapid.Bool().Draw(t, "hints") {
			add(&message.HintBlockEvent{EventHeader: h(), BlockID: id("h"), Hint: message.Content{Text: text.Draw(t, "hint")}, Source: rapid.SampledFrom([]*string{nil, new("team")}).Draw(t, "source")})
		}
		calls := rapid.IntRange(0, 2).Draw(t, "calls")
		for i := range calls {
			call := message.CallID(fmt.Sprintf("c%d-%d", round, i))
			add(&message.ToolCallStart{EventHeader: h(), ToolCallID: call, ToolCallName: "n"}, &message.ToolCallDelta{EventHeader: h(), ToolCallID: call, Delta: `{"a":`}, &message.ToolCallDelta{EventHeader: h(), ToolCallID: call, Delta: `1}`}, &message.ToolCallEnd{EventHeader: h(), ToolCallID: call})
		}
		add(&message.ModelCallEnd{EventHeader: h(), InputTokens: 10, OutputTokens: 2, CacheInputTokens: 20, FinishedReason: message.ModelCompleted})
		for i := range calls {
			call := message.CallID(fmt.Sprintf("c%d-%d", round, i))
			if rapid.Bool().Draw(t, "asks") {
				block := message.ToolCallBlock{ID: call, Name: "n", Input: `{"a":1}`, State: message.ToolCallAsking}
				add(&message.RequireUserConfirm{EventHeader: h(), ToolCalls: []message.ToolCallBlock{block}}, &message.UserConfirmResult{EventHeader: h(), ConfirmResults: []message.ConfirmResult{{Confirmed: true, ToolCall: block}}})
			}
			end := h()
			end.Metadata = map[string]any{"k": text.Draw(t, "metadata")}
			add(&message.ToolResultStart{EventHeader: h(), ToolCallID: call, ToolCallName: "n"}, &message.ToolResultTextDelta{EventHeader: h(), ToolCallID: call, Delta: text.Draw(t, "output")}, &message.ToolResultTextDelta{EventHeader: h(), ToolCallID: call, Delta: "y"})
			if rapid.Bool().Draw(t, "media") {
				add(&message.ToolResultDataDelta{EventHeader: h(), ToolCallID: call, BlockID: "m", MediaType: "image/png", Data: new("AA==")})
			}
			add(&message.ToolResultEnd{EventHeader: end, ToolCallID: call, State: rapid.SampledFrom([]message.ToolResultState{message.ToolResultSuccess, message.ToolResultDenied, message.ToolResultError}).Draw(t, "state")})
		}
	}
	end := &message.ReplyEnd{EventHeader: h(), Session: "s", FinishedReason: rapid.SampledFrom([]message.FinishedReason{message.FinishedCompleted, message.FinishedInterrupted, message.FinishedExceedMaxIters, message.FinishedError}).Draw(t, "reason")}
	if end.FinishedReason == message.FinishedError {
		end.Error = &message.ErrorInfo{Type: message.ErrorUpstream, Message: "down"}
	}
	add(end)
	return out
}
